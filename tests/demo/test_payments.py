"""The payment service as a real process: what it charges, what it forgets, and how it fails when it is told to."""

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
import time

import pytest

from wakeful.deploy.demo.payments import (
    Charge,
    PaymentRefused,
    Payments,
    PaymentsUnavailable,
    PaymentUnknown,
    Service,
    SeveralCharges,
    read_book,
)
from wakeful.deploy.demo.payments.book import OpenBook
from wakeful.deploy.demo.payments.faults import FAULTS, Plan

from .paying import LIMIT_S, port, refund, summary


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One service for the tests that use keys of their own."""
    file = tmp_path_factory.mktemp("payments") / "book.ndjson"
    with Service(file, "--late-ms", "1", "--hang-ms", "50") as service:
        yield service


@pytest.fixture
def key(request) -> str:
    """A key of this test's own, with what needs quoting in it."""
    return f"t/{request.node.name}/1&2=é +#"


def charged(service: Service, key: str) -> int:
    """How many charges of a key are on the disk."""
    return len(read_book(service.file).charges_by_key.get(key, []))


async def until_charged(payments: Payments, key: str) -> Charge:
    """Asks, each time over the loopback, until there is a charge."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            if found := await payments.find(key):
                return found


def test_the_same_key_twice_is_two_charges(shared: Service, key: str) -> None:
    async def story():
        payments = Payments(shared.url)
        assert await payments.find(key) is None
        first = await payments.refund("order-7", 2_500, key=key)
        assert await payments.find(key) == first
        second = await payments.refund("order-7", 2_500, key=key)
        assert first.id != second.id
        with pytest.raises(SeveralCharges, match=f"2 times: {first.id}, {second.id}") as several:
            await payments.find(key)
        return [first, second], several.value.charges

    made, found = asyncio.run(story())
    book = read_book(shared.file)
    assert made == found == book.charges_by_key[key] == book.duplicates()[key]
    assert made[0] == Charge(id=made[0].id, key=key, order_id="order-7", cents=2_500)


def test_an_undo_takes_back_all_that_stands_and_a_repeat_changes_nothing(
    shared: Service, key: str
) -> None:
    async def story():
        payments = Payments(shared.url)
        for _ in range(2):
            await payments.refund("order-7", 2_500, key=key)
        undone = await payments.undo(key, key="undo-1")
        before = shared.file.read_bytes()
        assert await payments.undo(key, key="undo-2") == undone
        assert await payments.undo("never charged", key="undo-3") == []
        assert shared.file.read_bytes() == before
        return undone

    undone = asyncio.run(story())
    book = read_book(shared.file)
    assert [charge.undone for charge in undone] == [True, True]
    assert book.charges_by_key[key] == undone
    assert key not in book.duplicates()
    told = [(undo.key, undo.charges) for undo in book.undos if undo.of == key]
    assert told == [("undo-1", tuple(charge.id for charge in undone))]


def test_a_charge_that_comes_after_the_undo_stands(shared: Service, key: str) -> None:
    async def story():
        payments = Payments(shared.url)
        await payments.refund("order-7", 1, key=key)
        await payments.undo(key, key="undo")
        await payments.refund("order-7", 1, key=key)

    asyncio.run(story())
    assert [charge.undone for charge in read_book(shared.file).charges_by_key[key]] == [True, False]
    assert key not in read_book(shared.file).duplicates()


@pytest.mark.parametrize(
    ("fault", "raised", "said", "charges"),
    [
        ("error", PaymentsUnavailable, "nothing was done", 0),
        ("error-after", PaymentUnknown, "answered 500", 1),
        ("drop", PaymentUnknown, "no answer", 1),
        ("hang", PaymentUnknown, "no answer", 0),  # which gives up after --hang-ms
    ],
)
def test_a_fault_can_be_asked_for(fault, raised, said, charges, shared: Service, key: str) -> None:
    with pytest.raises(raised, match=said):
        asyncio.run(Payments(shared.url).refund("order-7", 1, key=key, fault=fault))
    assert charged(shared, key) == charges


def test_a_late_charge_comes_in_the_end(shared: Service, key: str) -> None:
    async def story():
        payments = Payments(shared.url)
        with pytest.raises(PaymentUnknown):
            await payments.refund("order-7", 1, key=key, fault="late")
        return await until_charged(payments, key)

    assert asyncio.run(story()) == read_book(shared.file).charges_by_key[key][0]


def test_a_late_charge_closes_the_connection_long_before(tmp_path, key: str) -> None:
    async def story():
        payments = Payments(service.url)
        with pytest.raises(PaymentUnknown, match="the connection was closed"):
            await payments.refund("order-7", 1, key=key)
        assert await payments.find(key) is None

    with Service(tmp_path / "book", "--late", "1", "--late-ms", "600000") as service:
        asyncio.run(story())
        assert summary(service)["faults"]["late"] == 1
        assert service.stop() == 0, "what is late keeps nobody from ending"
    assert read_book(service.file).charges == []


def test_a_fault_hits_undos_and_look_ups_that_ask_for_it(shared: Service, key: str) -> None:
    async def story():
        payments = Payments(shared.url)
        await payments.refund("order-7", 1, key=key)
        with pytest.raises(PaymentUnknown):
            await payments.undo(key, key="undo", fault="drop")
        with pytest.raises(PaymentsUnavailable):
            await payments.find(key, fault="error")
        return await payments.find(key)

    assert asyncio.run(story()).undone


def test_who_waits_no_longer_leaves_a_hanging_service(tmp_path, key: str) -> None:
    async def story():
        hurried = Payments(service.url, answer_limit_s=0.05)
        with pytest.raises(PaymentUnknown, match="TimeoutError"):
            await hurried.refund("order-7", 1, key=key, fault="hang")

    with Service(tmp_path / "book", "--hang-ms", "600000") as service:
        asyncio.run(story())
        with socket.create_connection(("127.0.0.1", port(service)), timeout=LIMIT_S) as patient:
            body = refund(key)
            patient.sendall(
                b"POST /refunds HTTP/1.1\r\nX-Fault: hang\r\n"
                b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
            )
            patient.shutdown(socket.SHUT_WR)  # the client goes away, and hears that it was noticed
            assert patient.recv(1) == b""
        assert summary(service)["faults"]["hang"] == 2
        assert service.stop() == 0
    assert read_book(service.file).charges == []


def test_a_slow_refund_is_charged_before_it_is_answered(tmp_path, key: str) -> None:
    async def story():
        payments = Payments(service.url)
        asked = asyncio.create_task(payments.refund("order-7", 1, key=key))
        found = await until_charged(payments, key)
        early = not asked.done()
        asked.cancel()
        return found, early

    with Service(tmp_path / "book", "--slow", "60000") as service:
        found, early = asyncio.run(story())
        assert (found.key, early) == (key, True)


def outcomes(service: Service, refunds: int) -> tuple[list[str], int]:
    """How each of so many refunds ended, one after the other, and how many were charged at the end."""

    async def one(payments: Payments, number: int) -> str:
        try:
            return type(await payments.refund("order-7", 1, key=f"k{number}")).__name__
        except (PaymentUnknown, PaymentsUnavailable) as error:
            return type(error).__name__

    async def story():
        payments = Payments(service.url)
        return [await one(payments, number) for number in range(refunds)]

    return asyncio.run(story()), summary(service)["charges"]


def test_a_seed_hits_the_same_requests_of_every_process(tmp_path) -> None:
    shares = ["--errors", ".2", "--errors-after", ".1", "--drop", ".2", "--seed", "7"]
    with Service(tmp_path / "one", *shares) as one:
        first, charges = outcomes(one, 40)
        faults = summary(one)["faults"]
        assert summary(one)["requests"] == {"refunds": 40, "look_ups": 0, "undo_requests": 0}
    with Service(tmp_path / "two", *shares) as two:
        assert outcomes(two, 40) == (first, charges)
    assert first.count("PaymentsUnavailable") == faults["error"] > 0
    assert first.count("PaymentUnknown") == faults["error-after"] + faults["drop"]
    assert min(faults["error-after"], faults["drop"]) > 0
    assert charges == 40 - faults["error"]


def test_a_plan_hits_the_share_it_was_given() -> None:
    shares = dict(zip(FAULTS, (0.05, 0.1, 0.15, 0.2, 0.25), strict=True))
    plan = Plan(seed=3, shares=shares, look_up_errors=0.5)
    hits = [plan.for_refund(number) for number in range(20_000)]
    for fault, share in shares.items():
        assert hits.count(fault) / 20_000 == pytest.approx(share, abs=0.01)
    look_ups = [plan.for_look_up(number) for number in range(20_000)]
    assert look_ups.count("error") / 20_000 == pytest.approx(0.5, abs=0.01)
    other = Plan(seed=4, shares=shares)
    assert [other.for_refund(number) for number in range(20_000)] != hits


def test_look_ups_fail_by_their_own_share_only(tmp_path) -> None:
    async def story():
        payments = Payments(service.url)
        made = await payments.refund("order-7", 1, key="k")
        with pytest.raises(PaymentsUnavailable):
            await payments.find("k")
        return made

    with Service(tmp_path / "book", "--look-up-errors", "1") as service:
        assert asyncio.run(story()).id == "ch_1"


def test_with_dedupe_a_key_is_charged_once_and_means_one_refund(tmp_path) -> None:
    async def story():
        payments = Payments(service.url)
        first = await payments.refund("order-7", 5, key="k")
        with pytest.raises(PaymentUnknown):
            await payments.refund("order-7", 5, key="k", fault="drop")
        assert await payments.refund("order-7", 5, key="k") == first
        with pytest.raises(PaymentRefused, match="ch_1, 5 cents for order-7") as refused:
            await payments.refund("order-7", 6, key="k")
        return refused.value.status

    with Service(tmp_path / "book", "--dedupe") as service:
        assert asyncio.run(story()) == 409
        assert summary(service)["charges"] == 1


def test_what_was_acknowledged_survives_a_kill_among_200_refunds(tmp_path) -> None:
    acknowledged: list[Charge] = []

    async def customer(payments: Payments, name: int) -> None:
        for number in range(1_000):
            charge = await payments.refund("order-7", 1 + number, key=f"{name}/{number}")
            acknowledged.append(charge)
            if len(acknowledged) == 300:
                service.kill()

    async def crowd() -> list[BaseException | None]:
        payments = Payments(service.url)
        crowd = [customer(payments, name) for name in range(200)]
        async with asyncio.timeout(LIMIT_S):
            return await asyncio.gather(*crowd, return_exceptions=True)

    with Service(tmp_path / "book") as service:
        url, ends = service.url, asyncio.run(crowd())
        assert {type(end) for end in ends} <= {PaymentUnknown, PaymentsUnavailable}
        assert len(ends) == 200
        assert service.pid is None
        service.start()
        assert service.url == url
        book = read_book(service.file)
        assert set(acknowledged) <= set(book.charges)
        assert len({charge.id for charge in book.charges}) == len(book.charges)
        counts = summary(service)
        assert counts["charges"] == counts["keys"] == len(book.charges) >= len(acknowledged)
        found = asyncio.run(Payments(url).find(acknowledged[-1].key))
        assert found == acknowledged[-1]
        fresh = asyncio.run(Payments(url).refund("order-8", 1, key="after"))
        assert fresh not in book.charges
        assert fresh.id == f"ch_{len(book.charges) + 1}"


def test_it_says_one_line_and_ends_on_sigterm(tmp_path) -> None:
    program = [sys.executable, "-m", "wakeful.deploy.demo.payments", "--file", "book"]
    with subprocess.Popen(
        program, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        line = process.stdout.readline()
        payments = Payments(line.strip())
        assert asyncio.run(payments.refund("order-7", 1, key="k")).id == "ch_1"
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=LIMIT_S) == ("", "")
    assert process.returncode == 0
    with pytest.raises(PaymentsUnavailable, match="no payment service at 127"):
        asyncio.run(payments.find("k"))


STARTS = {
    "by Service": "from wakeful.deploy.demo.payments import Service; from pathlib import Path\n"
    "service = Service(Path('book')); service.start(); print(service.url, flush=True); input()",
    "by hand": "import subprocess, sys\n"
    "subprocess.Popen([sys.executable, '-m', 'wakeful.deploy.demo.payments', '--file', 'book'])\n"
    "input()",
}


@pytest.mark.parametrize("how", STARTS)
def test_it_ends_with_the_process_that_started_it(how: str, tmp_path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", STARTS[how]],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,  # held by both, so its end is the end of both
    )
    with parent:
        url = parent.stdout.readline().decode().strip()
        assert asyncio.run(Payments(url).find("k")) is None
        parent.kill()
        said, until = b"", time.monotonic() + LIMIT_S
        while select.select([parent.stderr], [], [], until - time.monotonic())[0]:
            if not (read := os.read(parent.stderr.fileno(), 1_000)):
                break
            said += read
        else:
            pytest.fail("the service outlives who started it")
    assert said in (b"", b"the supervisor is gone: ending\n")
    OpenBook(tmp_path / "book").close()  # nobody holds it any more


def test_a_service_that_never_started_has_no_url(tmp_path) -> None:
    service = Service(tmp_path / "book")
    with pytest.raises(RuntimeError, match="was not started yet"):
        _ = service.url
    assert service.stop() is None


def test_a_service_that_runs_is_not_started_again(shared: Service) -> None:
    with pytest.raises(RuntimeError, match=f"runs already, as process {shared.pid}"):
        shared.start()


def test_a_url_that_is_none_is_named() -> None:
    for url in (
        "",
        "localhost:80",
        "https://127.0.0.1:1",
        "http://127.0.0.1",
        "http://h:1/refunds",
    ):
        with pytest.raises(ValueError, match="is no payment service"):
            Payments(url)
