"""Contracts, look-ups and undos that cannot work are declined where they are declared, and name both functions."""

from decimal import Decimal
from typing import Any, Optional

import pytest

from wakeful import NothingDone
from wakeful.processors.activities.contracts import Read, Write
from wakeful.processors.activities.definitions import Activity, Declined, activity
from wakeful.processors.activities.rules import Needs


async def refund(order_id: str, cents: int = 5, *, key: str) -> str:
    return key


async def find(key: str, order_id: str) -> str | None:
    return key


@activity(contract=Write(idempotent=True))
async def take_back(order_id: str, cents: int, done_key: str) -> None: ...


def declared(function=refund, **options) -> Activity:
    return activity(**options)(function)


def looked_up(look_up, function=refund, **options) -> Activity:
    return declared(function, contract=Write(lookup=look_up), **options)


@pytest.mark.parametrize(
    ("contract", "word"),
    [
        (Read(), "read"),
        (Write(idempotent=True), "write_idempotent"),
        (Write(lookup=find), "write_lookup"),
        (Write(undo=take_back), "write_undo"),
        (Write(), "write_once"),
    ],
)
def test_each_contract_has_its_word_and_its_time(contract, word):
    made = declared(contract=contract)
    assert made.contract.word == word
    once = word in ("write_undo", "write_once")
    assert made.schedule_to_close_ms == (3_600_000 if once else 24 * 3_600_000)
    assert made.settle_ms == (10_000 if word == "write_lookup" else None)
    assert (made.look_up is not None, made.undo is not None) == (
        word == "write_lookup",
        word == "write_undo",
    )
    assert declared(contract=contract, schedule_to_close="5m").schedule_to_close_ms == 300_000


def test_a_heartbeat_is_kept_in_milliseconds_and_none_is_none():
    assert declared(contract=Read(), heartbeat="30s").heartbeat_ms == 30_000
    assert declared(contract=Read()).heartbeat_ms is None
    with pytest.raises(Declined, match="heartbeat"):
        declared(contract=Read(), heartbeat="0s")


@pytest.mark.parametrize(
    "two",
    [
        {"idempotent": True, "lookup": find},
        {"idempotent": True, "undo": take_back},
        {"lookup": find, "undo": take_back},
    ],
)
def test_a_write_has_one_way_to_go_on(two):
    with pytest.raises(ValueError, match="it is one of idempotent, lookup and undo"):
        Write(**two)


@pytest.mark.parametrize("odd", [{"idempotent": 1}, {"lookup": "find"}, {"undo": 7}])
def test_a_write_of_odd_things_is_refused(odd):
    with pytest.raises(TypeError, match=next(iter(odd))):
        Write(**odd)


def test_a_settle_without_a_look_up_is_refused_and_so_is_one_that_is_no_duration():
    with pytest.raises(ValueError, match="no lookup waits for it"):
        Write(settle="30s")
    with pytest.raises(ValueError, match="soon"):
        Write(lookup=find, settle="soon")


def test_a_settle_beyond_the_activitys_end_is_refused():
    with pytest.raises(Declined, match=r"'refund' has settle='10s'.*'find'.*schedule_to_close"):
        looked_up(find, schedule_to_close="10s")


def test_a_look_up_takes_the_key_and_any_of_the_parameters():
    def all_of_them(*, cents: int, key: str, order_id: Any) -> Optional[str]:  # noqa: UP045
        return None

    made = looked_up(all_of_them)
    assert (made.look_up.name, made.look_up.is_sync) == ("all_of_them", True)
    assert made.look_up.takes == {"cents", "key", "order_id"}
    assert not looked_up(find).look_up.is_sync


def cannot_look_up():
    def no_key(order_id: str) -> str | None: ...
    def unknown(key: str, customer: str = "ann") -> str | None: ...
    def wrong_type(key: str, cents: str) -> str | None: ...
    def wrong_key(key: int) -> str | None: ...
    def stars(key: str, *more: str) -> str | None: ...
    def by_position(key: str, /) -> str | None: ...
    def untold(key: str): ...
    def never_nothing(key: str) -> str: ...
    def other_result(key: str) -> int | None: ...
    def yields(key: str) -> str | None:
        yield key

    return {
        no_key: "does not take the key",
        unknown: "takes 'customer': it can be given 'order_id', 'cents', 'key'",
        wrong_type: "takes 'cents' as str, and would be given int",
        wrong_key: "takes 'key' as int, and would be given str",
        stars: r"takes \*more",
        by_position: "positional-only",
        untold: r"does not say what it returns: write '-> str \| None'",
        never_nothing: r"returns str: write '-> str \| None'",
        other_result: r"returns int \| None: write '-> str \| None'",
        yields: "yields",
    }


@pytest.mark.parametrize(("look_up", "why"), cannot_look_up().items())
def test_a_look_up_that_cannot_work_is_declined(look_up, why):
    with pytest.raises(Declined, match=why) as declined:
        looked_up(look_up)
    assert look_up.__name__ in str(declined.value)
    assert "refund" in str(declined.value)


def test_a_look_up_that_is_an_activity_or_no_function_is_declined():
    with pytest.raises(Declined, match="activity 'take_back': give a plain function"):
        looked_up(take_back)
    with pytest.raises(Declined, match="is not a function"):
        looked_up(type("Finder", (), {"__call__": lambda self, key: None})())


@pytest.mark.parametrize("result", [None, str | None, Any])
def test_a_result_that_may_be_none_cannot_be_looked_up(result):
    async def send(to: str) -> Any: ...

    send.__annotations__["return"] = result
    with pytest.raises(Declined, match="from a result that is None"):
        looked_up(lambda key: None, send)


def test_an_undo_gets_the_arguments_by_name_and_the_key_of_what_it_undoes():
    made = declared(contract=Write(undo=take_back))
    action = made.undo_action({"order_id": "A1", "cents": 7}, "t/s/1/3")
    assert action.activity is take_back
    assert action.arguments == {"order_id": "A1", "cents": 7, "done_key": "t/s/1/3"}


def test_an_undo_takes_what_it_needs_in_the_types_of_the_original():
    @activity(contract=Write(idempotent=True))
    async def check(amount: Decimal, note: str = "undone", *, key: str) -> None: ...

    async def pay(to: str, amount: Decimal) -> str: ...

    made = declared(pay, contract=Write(undo=check))
    stored = made.call("ann", Decimal("1.10")).arguments
    assert made.undo_action(stored, "k").arguments == {"amount": "1.10", "note": "undone"}


def test_a_contract_without_undo_has_no_undo_action():
    with pytest.raises(TypeError, match="'refund' has no undo"):
        declared(contract=Write()).undo_action({"order_id": "A"}, "k")


def cannot_undo():
    def plain(order_id: str) -> None: ...

    @activity(contract=Write())
    async def once(order_id: str) -> None: ...

    @activity(contract=Write(idempotent=True))
    async def needs_more(order_id: str, receipt: str) -> None: ...

    @activity(contract=Write(idempotent=True))
    async def wrong_type(cents: str) -> None: ...

    @activity(contract=Write(idempotent=True))
    async def wrong_key(done_key: int) -> None: ...

    @activity(contract=Read())
    async def reads(order_id: str) -> None: ...

    @activity(contract=Write(idempotent=True), approval=Needs("supervisor"))
    async def gated(order_id: str) -> None: ...

    return {
        reads: r"'reads', is a Read\(\), which changes nothing and so undoes nothing",
        gated: "'gated', needs the approval of 'supervisor', and nobody is asked",
        plain: "'plain', is not an activity",
        once: "'once', is itself called at most once",
        needs_more: "'needs_more' of activity 'refund' needs 'receipt'",
        wrong_type: "'wrong_type' of activity 'refund' takes 'cents' as str",
        wrong_key: "'wrong_key' of activity 'refund' takes 'done_key' as int",
    }


@pytest.mark.parametrize(("undo", "why"), cannot_undo().items())
def test_an_undo_that_cannot_work_is_declined(undo, why):
    with pytest.raises(Declined, match=why) as declined:
        declared(contract=Write(undo=undo))
    assert "refund" in str(declined.value)


def test_a_parameter_of_the_name_of_the_undone_key_is_declined():
    async def pay(done_key: str) -> str: ...

    with pytest.raises(Declined, match="takes 'done_key', and its undo 'take_back'"):
        declared(pay, contract=Write(undo=take_back))


def test_nothing_done_is_there_to_be_derived_from():
    class CardDeclined(NothingDone):
        pass

    assert issubclass(CardDeclined, Exception)
