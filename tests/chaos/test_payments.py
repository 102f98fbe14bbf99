"""A payment service that does not dedupe, faults in every call, kill -9 all the while: each refund is paid once.

`make test` runs the short form. `make chaos-tests` runs the long one: KILLS=200, SEED=… to repeat a schedule.
"""

import json
import os
import secrets
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

from tests.chaos.accounts import LOOKED_UP, ONCE, PaymentsRig
from tests.chaos.killer import Killer
from wakeful.deploy.demo.payments import Book, Service, read_book
from wakeful.deploy.supervisor import Supervisor

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

KILLS = int(os.environ.get("WAKEFUL_CHAOS_KILLS", "6"))
SEED = int(os.environ.get("WAKEFUL_CHAOS_SEED") or secrets.randbelow(1_000_000))
MANY = 12
"""Kills that meet everything that can happen; fewer may miss a lost answer."""

SESSIONS_PER_KILL = 1.5

FAULTS = {
    "--slow": "150",
    "--errors": "0.06",
    "--errors-after": "0.04",
    "--hang": "0.02",
    "--drop": "0.06",
    "--late": "0.05",
    "--late-ms": "150",
    "--look-up-errors": "0.05",
}
"""All that the service knows to do badly: of ten calls, about eight are answered, and those slowly."""

LAST_CALL_S = 3.0
"""After this nothing is in flight: a call's limit, and what the service does late."""

KILLING_LIMIT_S = 15.0
"""Per kill, with all that has to come up again: about a second on a machine with nothing else to do."""

SETTLE_LIMIT_S = 60.0


@pytest.fixture
def rig(kafka: str, postgres_url: str, namespace: str, tmp_path: Path) -> Iterator[PaymentsRig]:
    one = PaymentsRig(kafka=kafka, postgres=postgres_url, namespace=namespace, home=tmp_path)
    yield one
    one.close()


def test_each_refund_is_paid_once_whoever_is_killed(
    rig: PaymentsRig, capsys: pytest.CaptureFixture[str]
) -> None:
    print(f"to repeat: WAKEFUL_CHAOS_SEED={SEED} WAKEFUL_CHAOS_KILLS={KILLS}")
    path, killer = rig.folder / "book.ndjson", Killer(seed=SEED, kills=KILLS)
    flags = [word for flag in FAULTS.items() for word in flag]
    with Service(path, "--seed", str(SEED), *flags) as service:
        running = rig.running(
            processors=2,
            workers=2,
            backoff_max_s=0.1,
            echo=killer.hear,
            environ={"WAKEFUL_CHAOS_PAYMENTS": service.url},
        )
        with running:
            began_s = monotonic()
            kill_while_sessions_pay(rig, killer, running)
            killed_s = monotonic()
            settle(rig)
            book = read_book(path)
            told = story(rig, killer, book)
            told |= {
                "killing_s": round(killed_s - began_s),
                "settling_s": round(monotonic() - killed_s),
            }
            with capsys.disabled():
                print(json.dumps(told))
            assert_paid_once(rig, book)
            if KILLS >= MANY:
                assert sum(one.recovered for one in rig.of(LOOKED_UP)) > 0
            assert rig.resolve(book) == len(rig.waiting)
            rig.drive()
            # Outcomes and events are two topics: the last session's events may be read after its end.
            rig.drive(lambda: rig.of(ONCE, "uncertain", "open") == [])
            assert rig.violations() == []
    assert {outcome.kind for outcome in rig.done.values()} == {"completed"}
    assert [place for place, times in rig.seen.items() if times > 1] == []
    assert len(read_book(path)) == len(book)


def kill_while_sessions_pay(rig: PaymentsRig, killer: Killer, running: Supervisor) -> None:
    """Sessions come in step with the kills, so that there is work in flight to the last of them."""

    def go_on() -> bool:
        while len(rig.sessions) < (killer.kills + 2) * SESSIONS_PER_KILL:
            rig.open_next()
        killer.step(running)
        return killer.done

    rig.drive(go_on, deadline_s=KILLS * KILLING_LIMIT_S)


def settle(rig: PaymentsRig) -> None:
    """All is healed: what can end ends, and no call is in flight any more."""
    rig.drive(rig.settled, deadline_s=SETTLE_LIMIT_S)
    rig.drive(lambda: not rig.has_tasks_left(), deadline_s=SETTLE_LIMIT_S)
    rig.wait(LAST_CALL_S)
    rig.drive(rig.settled, deadline_s=SETTLE_LIMIT_S)


def assert_paid_once(rig: PaymentsRig, book: Book) -> None:
    """The log's accounts against the service's own book."""
    paid = {key: [charge.id for charge in charges] for key, charges in book.charges_by_key.items()}
    looked_up, once = rig.of(LOOKED_UP), rig.of(ONCE)
    assert len(looked_up) == len(once) == len(rig.sessions)
    assert {one.key for one in (*looked_up, *once)} >= set(paid)
    assert [
        (one, paid.get(one.key)) for one in looked_up if paid.get(one.key) != [one.receipt]
    ] == []
    assert [(one, paid[one.key]) for one in once if len(paid.get(one.key, ())) > 1] == []
    assert {one.end for one in once} <= {"completed", "uncertain", "failed"}
    completed, failed = rig.of(ONCE, "completed"), rig.of(ONCE, "failed")
    assert [one for one in completed if paid.get(one.key) != [one.receipt]] == []
    assert [one for one in failed if one.key in paid] == []
    owed = {(s, o.id) for s, obligations in rig.waiting.items() for o in obligations}
    doubtful = {(one.session_id, one.activity_id) for one in rig.of(ONCE, "uncertain")}
    assert owed == doubtful


def story(rig: PaymentsRig, killer: Killer, book: Book) -> dict[str, object]:
    """The numbers, for whoever reads the output."""
    once, ends = rig.of(ONCE), Counter(one.end for one in rig.of(ONCE))
    return {
        "seed": SEED,
        "kills": dict(killer.killed),
        "sessions": len(rig.sessions),
        "refunds": len(rig.accounts),
        "charges": len(book),
        "recovered": sum(one.recovered for one in rig.of(LOOKED_UP)),
        "looked_up_attempts_max": max(one.attempts for one in rig.of(LOOKED_UP)),
        "once_completed": ends["completed"],
        "once_failed_for_certain": ends["failed"],
        "uncertain": ends["uncertain"],
        "uncertain_charged": sum(one.end == "uncertain" and bool(book.of(one.key)) for one in once),
        "doubts_ended_by_late_results": sum(o.doubted and o.end == "completed" for o in once),
    }
