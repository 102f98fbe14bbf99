"""Resources in a rehearsal: set up once, held over turns, set up again when their time is over or a tool finds them gone."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.processors.desk import Desk
from tests.testing.boxes import DECLARED, Box, begun, keys, of, restore, run, start, stop
from wakeful import ActivityError, Message, ResourceLost, Turn, Write, activity, workflow
from wakeful.events import records as r
from wakeful.testing import Rehearsal, rehearse


@pytest.fixture
def session() -> Rehearsal:
    """A session that has its sandbox."""
    return begun()


def test_a_resource_is_attached_once_and_held_in_later_turns_without_a_fact(
    session: Rehearsal,
) -> None:
    before = len(session.events)
    session.send("b")
    assert session.replies == ["a in py-1, attached", "b in py-1, held"]
    assert len(keys(session, "start")) == 1
    (attached,) = of(session, r.ResourceAttached)
    assert (attached.kind, attached.resource_id, attached.step) == ("sandbox", "1.1", 2)
    assert (
        attached.expires_at_ms
        == next(
            (t.event.envelope.at_ms for t in session._engine.log if t.event.body is attached), 0
        )
        + 30 * 60_000
    )
    assert not any("Resource" in fact for fact in session.facts[before:])


def test_what_is_held_is_listed_with_its_expiry_when_the_session_rests(session: Rehearsal) -> None:
    (held,) = session.waits
    assert (held.kind, held.name, held.id, held.expiry) == ("resource", "sandbox", "1.1", "expires")
    (ended,) = of(session, r.TurnCompleted)
    assert ended.obligations == (held,)
    assert session.status == "Suspended"


def test_its_time_is_over_on_the_logs_clock_and_it_is_reconstructed_from_its_last_handle(
    session: Rehearsal,
) -> None:
    session.skip("30m")
    assert session.facts[-1] == "ResourceExpired"
    assert session.waits == ()
    session.send("b")
    session.send("c")
    assert session.replies[1:] == ["b in py-1', reattached", "c in py-1', held"]
    assert [len(keys(session, name)) for name in ("start", "restore")] == [1, 1]
    (again,) = of(session, r.ResourceReattached)
    assert again.resource_id == "2.1"


def test_it_expires_for_the_command_that_the_log_has_after_it_though_nothing_ran_meanwhile(
    session: Rehearsal,
) -> None:
    """As when the whole system was down: no wake-up came before the message."""
    session._engine.now_ms += 31 * 60_000
    session.send("b")
    assert session.replies[-1] == "b in py-1', reattached"
    assert session.facts.index("ResourceExpired") < session.facts.index("ResourceReattached")


def test_given_no_way_to_reconstruct_it_then_it_is_attached_anew() -> None:
    @workflow("simple", version=1)
    async def simple(turn: Turn, desk: Desk, message: Message) -> Desk:
        box = await turn.resource("sandbox", attach=start.call("py"), ttl="1h")
        await turn.say(box.how)
        return desk

    session = rehearse(simple, start)
    session.send("a")
    session.skip("1h")
    session.send("b")
    assert session.replies == ["attached", "attached"]
    assert "ResourceReattached" not in session.facts


def test_a_wait_never_ends_by_an_expiry() -> None:
    @workflow("patient", version=1)
    async def patient(turn: Turn, desk: Desk, message: Message) -> Desk:
        first = await turn.resource("sandbox", attach=start.call("py"), ttl="10m")
        await turn.sleep("1h")
        second = await turn.resource(
            "sandbox", attach=start.call("py"), ttl="10m", reconstruct=restore
        )
        await turn.say(f"{first.how} {second.how} {second.handle.address}")
        return desk

    session = rehearse(patient, start, restore)
    session.crash_everywhere()
    session.send("go")
    session.skip("30m")
    assert (session.status, session.facts[-1]) == ("Waiting", "ResourceExpired")
    session.skip("30m")
    assert session.replies == ["attached reattached py-1'"]


def test_a_tool_that_finds_it_gone_is_not_tried_again_and_the_workflow_sets_it_up_again(
    session: Rehearsal,
) -> None:
    answers: list[Any] = [ResourceLost("sandbox"), "done"]
    session.fake("run", answers)
    session.send("b")
    assert session.replies[1:] == ["resource_lost sandbox", "done, reattached"]
    (expired,) = of(session, r.ResourceExpired)
    assert (expired.reason, expired.failure.kind) == ("lost", "resource_lost")
    at = session.facts.index("ResourceExpired")
    assert session.facts[at : at + 2] == ["ResourceExpired", "ActivityFailed"]
    assert "ActivityRetryScheduled" not in session.facts


def test_what_is_lost_and_not_held_is_a_failure_and_nothing_more(session: Rehearsal) -> None:
    session.fake("run", ResourceLost("browser", "no such tab"))
    session.send("b")
    assert session.replies[1:] == ["resource_lost browser"] * 2
    assert "ResourceExpired" not in session.facts
    session.fake("run", "done")
    session.send("c")
    assert session.replies[-1] == "done, held"


def test_a_tool_that_looked_before_it_was_set_up_again_takes_nothing_from_the_session() -> None:
    @workflow("two", version=1)
    async def two(turn: Turn, desk: Desk, message: Message) -> Desk:
        async def one(code: str) -> str:
            box = await turn.resource(
                "sandbox", attach=start.call("py"), ttl="1h", reconstruct=restore
            )
            try:
                return await turn.run(run.call(box.handle, code))
            except ActivityError:
                box = await turn.resource(
                    "sandbox", attach=start.call("py"), ttl="1h", reconstruct=restore
                )
                return f"{code} {box.handle.address} {box.how}"

        await turn.resource("sandbox", attach=start.call("py"), ttl="1h")
        a, b = await turn.gather(one("a"), one("b"))
        await turn.say(f"{a}, {b}")
        return desk

    session = rehearse(two, *DECLARED)
    session.crash_everywhere()
    session.fake("run", [ResourceLost("sandbox")] * 2)
    session.send("go")
    assert session.replies == ["a py-1' reattached, b py-1' held"]
    assert session.facts.count("ResourceExpired") == 1


def test_released_it_is_given_back_once_and_attached_anew_when_it_is_asked_for(
    session: Rehearsal,
) -> None:
    session.send("stop")
    assert len(keys(session, "stop")) == 1
    assert session.calls("stop")[0].arguments == {"box": {"address": "py-1"}}
    assert (session.facts.count("ResourceReleased"), session.waits) == (1, ())
    session.send("b")
    assert session.replies[-1] == "b in py-1, attached"
    assert session.calls("restore") == []


def test_a_release_that_finds_it_gone_has_released_it(session: Rehearsal) -> None:
    session.fake("stop", ResourceLost("sandbox"))
    session.send("stop")
    assert (session.status, session.hold) == ("Suspended", None)
    assert [one.reason for one in of(session, r.ResourceExpired)] == ["lost"]
    assert "ResourceReleased" not in session.facts


def cancel(session: Rehearsal) -> None:
    session.cancel()


def fail(session: Rehearsal) -> None:
    session.fake("run", RuntimeError("no"))
    session.send("b")
    session.skip("1m")


@pytest.mark.parametrize(("end", "status"), [(cancel, "Cancelled"), (fail, "Failed")])
def test_a_session_that_does_not_complete_gives_back_what_it_holds(
    session: Rehearsal, end: Callable[[Rehearsal], None], status: str
) -> None:
    end(session)
    assert session.status == status
    assert len(keys(session, "stop")) == 1
    assert [one.reason for one in of(session, r.ResourceExpired)] == ["the session ended"]
    (started,) = of(session, r.CompensationStarted)
    assert started.compensating == ("1.1",)
    last = of(session, r.SessionCancelled if end is cancel else r.SessionFailed)[0]
    assert last.compensated == ("1.1",)


def test_what_is_lost_or_expired_is_not_given_back(session: Rehearsal) -> None:
    session.skip("30m")
    session.cancel()
    assert (session.status, session.calls("stop")) == ("Cancelled", [])


def test_what_stands_leaves_a_resource_to_be_given_back_and_effects_are_taken_back_in_it() -> None:
    @activity(contract=Write(idempotent=True))
    async def write(box: Box) -> str:
        return "written"

    @activity(contract=Write(idempotent=True))
    async def erase(box: Box) -> None:
        """Takes it back, in the sandbox."""

    @workflow("careful", version=1)
    async def careful(turn: Turn, desk: Desk, message: Message) -> Desk:
        box = await turn.resource("sandbox", attach=start.call("py"), ttl="30m", release=stop.call)
        if message.text == "stand":
            await turn.committed()
        else:
            await turn.run(write.call(box.handle), compensate=erase.call(box.handle))
        return desk

    session = rehearse(careful, *DECLARED, write, erase)
    session.send("stand")
    session.send("write")
    session.cancel()
    done = [c.name for c in session._stage.calls if c.name in ("erase", "stop")]
    assert (session.status, done) == ("Cancelled", ["erase", "stop"])


def test_a_session_that_completes_leaves_it_to_its_time_at_whoever_provides_it() -> None:
    @workflow("ends", version=1)
    async def ends(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.resource("sandbox", attach=start.call("py"), ttl="30m", release=stop)
        await turn.complete("done")
        return desk

    session = rehearse(ends, *DECLARED)
    session.send("go")
    assert session.facts[-2:] == ["ResourceExpired", "SessionCompleted"]
    assert session.calls("stop") == []
