"""External jobs in a rehearsal: begun before they are told of, ended once by whoever does them, in the log's order."""

from typing import Any

import pytest
from pydantic import BaseModel

from tests.processors.desk import Desk
from wakeful import ActivityError, JobError, Message, Read, Turn, WrongResult, activity, workflow
from wakeful.events import records as r
from wakeful.events.keys import session_of_job
from wakeful.testing import Held, Misuse, Refused, Rehearsal, rehearse


class Film(BaseModel):
    """What a renderer gives."""

    frames: int


@activity(contract=Read())
async def start_render(job_id: str) -> bool:
    """Tells the renderer."""
    return bool(job_id)


@workflow("studio", version=1)
async def studio(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Has a film rendered elsewhere."""
    job = turn.job("render", within="2d", expect=Film)
    await turn.run(start_render.call(job.id))
    try:
        film = await job
    except JobError as error:
        await turn.say(f"{error.failure.kind}: {error}")
    else:
        await turn.say(f"{film.frames} frames")
    return desk


@pytest.fixture
def session() -> Rehearsal:
    """A session that waits for its film."""
    opened = rehearse(studio, start_render)
    opened.send("go")
    return opened


def id_of(session: Rehearsal) -> str:
    return next(b.job_id for b in session.events if isinstance(b, r.JobAwaited))


def refusal(session: Rehearsal, *given: Any) -> str:
    with pytest.raises(Refused) as refused:
        session.complete_job(*given)
    return refused.value.reason


def test_given_a_job_when_it_is_completed_then_the_turn_goes_on_with_its_result(
    session: Rehearsal,
) -> None:
    (wait,) = session.waits
    assert (wait.kind, wait.name, wait.expiry) == ("job", "render", "expires")
    assert session_of_job(wait.id) == "session-1"
    (call,) = session.calls("start_render")
    assert call.arguments == {"job_id": wait.id}
    session.complete_job("render", {"frames": 24})
    assert session.replies == ["24 frames"]
    assert session.facts[-4:] == ["SessionWaiting", "JobCompleted", "ReplySent", "TurnCompleted"]


def test_a_job_is_awaited_in_the_history_before_whoever_does_it_is_told(
    session: Rehearsal,
) -> None:
    assert session.facts[3:5] == ["JobAwaited", "ActivityRequested"]


def test_a_completion_that_comes_before_the_workflow_awaits_it_is_there_when_it_does() -> None:
    @workflow("eager", version=1)
    async def eager(turn: Turn, desk: Desk, message: Message) -> Desk:
        job = turn.job("render", within="2d", expect=Film)
        await turn.sleep("1h")
        await turn.say(f"{(await job).frames} frames, {(await job).frames} again")
        return desk

    session = rehearse(eager)
    session.crash_everywhere()
    session.send("go")
    session.complete_job(None, {"frames": 24})
    assert session.replies == []
    session.skip("1h")
    assert session.replies == ["24 frames, 24 again"]


def test_given_a_job_when_it_fails_then_the_workflow_is_told_why_by_whom(
    session: Rehearsal,
) -> None:
    session.fail_job("render", "no disk left", by="renderer")
    assert session.replies == ["job_failed: job render failed: no disk left"]


def test_given_a_job_when_nobody_says_anything_in_time_then_it_expires(session: Rehearsal) -> None:
    session.skip("2d")
    assert session.replies == [
        "job_expired: job render expired: nobody said in time what became of it"
    ]
    assert refusal(session, id_of(session), {"frames": 24}) == "job_expired"


def test_a_completion_that_the_log_has_after_the_expiry_loses_though_nobody_fired_it(
    session: Rehearsal,
) -> None:
    """As when the whole system was down: the clock of the log has passed, and no wake-up came before it."""
    job_id = id_of(session)
    session._engine.now_ms += 2 * 86_400_000 + 1
    assert refusal(session, job_id, {"frames": 24}) == "job_expired"
    assert session.facts.count("JobExpired") == 1


@pytest.mark.parametrize("again", [{"frames": 24}, {"frames": 25}])
def test_a_second_completion_changes_nothing_and_says_that_there_was_one(
    session: Rehearsal, again: object
) -> None:
    job_id = id_of(session)
    session.complete_job(None, {"frames": 24}, by="renderer")
    with pytest.raises(Refused, match="was completed by renderer, and that stands") as refused:
        session.complete_job(job_id, again)
    assert refused.value.reason == "job_completed"
    assert session.replies == ["24 frames"]


def test_what_is_no_job_of_this_session_is_refused_without_telling_of_any(
    session: Rehearsal,
) -> None:
    other = rehearse(studio, start_render, session_id="session-2")
    other.send("go")
    with pytest.raises(Refused) as refused:
        session.complete_job(id_of(other), {"frames": 24})
    assert refused.value.reason == "unknown_job"
    assert id_of(session) not in str(refused.value)
    assert refusal(session, "1.1", None) == "unknown_job"


def test_nobody_can_guess_the_id_of_a_job(session: Rehearsal) -> None:
    ids = {id_of(session)}
    for name in ("session-2", "session-3"):
        other = rehearse(studio, start_render, session_id=name)
        other.send("go")
        ids.add(id_of(other))
    assert len({one.rpartition("-")[2] for one in ids}) == 3


def test_a_cancelled_session_withdraws_its_job_and_a_late_completion_is_told_so(
    session: Rehearsal,
) -> None:
    session.cancel()
    assert "JobWithdrawn" in session.facts
    assert refusal(session, id_of(session), {"frames": 24}) == "session_ended"


def test_of_two_jobs_the_first_that_ends_counts_and_the_other_is_withdrawn() -> None:
    @workflow("two", version=1)
    async def two(turn: Turn, desk: Desk, message: Message) -> Desk:
        one, other = turn.job("one", within="1d"), turn.job("other", within="1d")
        won = await turn.first(one, other)
        await turn.say(f"{won.index}: {won.value}")
        if message.text == "again":
            await (one if won.index else other)
        return desk

    session = rehearse(two)
    session.send("go")
    session.complete_job("other", "gold")
    assert session.replies == ["1: gold"]
    ids = [b.job_id for b in session.events if isinstance(b, r.JobAwaited)]
    assert refusal(session, ids[0], "silver") == "job_withdrawn"
    session.send("again")
    with pytest.raises(Held, match=r"job 'one' .* is not awaited any more: it lost in turn.first"):
        session.complete_job("other", "gold")


def test_several_jobs_are_gathered_in_any_order() -> None:
    @workflow("three", version=1)
    async def three(turn: Turn, desk: Desk, message: Message) -> Desk:
        jobs = [turn.job(name, within="1d", expect=int) for name in ("a", "b", "c")]
        await turn.say(f"{sum(await turn.gather(*jobs))}")
        return desk

    session = rehearse(three)
    session.send("go")
    with pytest.raises(Misuse, match="several jobs are awaited"):
        session.complete_job(None, 1)
    for name in ("c", "a", "b"):
        session.complete_job(name, 2)
    assert session.replies == ["6"]


def test_a_job_ends_with_the_turn_that_does_not_wait_for_it() -> None:
    @workflow("careless", version=1)
    async def careless(turn: Turn, desk: Desk, message: Message) -> Desk:
        turn.job("render", within="1d")
        if message.text == "again":
            return turn.again(desk)
        return desk

    session = rehearse(careless)
    session.send("go")
    assert session.facts[-2:] == ["JobWithdrawn", "TurnCompleted"]
    with pytest.raises(Held, match=r"turn.again while it still waits for job 'render'"):
        session.send("again")


def test_a_failed_job_that_nobody_catches_fails_the_session() -> None:
    @workflow("trusting", version=1)
    async def trusting(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.job("render", within="1d")
        return desk

    session = rehearse(trusting)
    session.send("go")
    session.fail_job(None, "no disk left")
    assert session.failure is not None
    assert (session.status, session.failure.kind) == ("Failed", "job_failed")
    assert issubclass(JobError, ActivityError)


def test_a_result_that_does_not_fit_is_told_or_holds_and_is_not_lost() -> None:
    @workflow("strict", version=1)
    async def strict(turn: Turn, desk: Desk, message: Message) -> Desk:
        try:
            await turn.job("render", within="1d", expect=Film)
        except WrongResult as wrong:
            if message.text == "catch":
                await turn.say(str(wrong))
                return desk
            raise
        return desk

    @workflow("strict", version=1)
    async def mended(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.say(f"{await turn.job('render', within='1d')}")
        return desk

    session = rehearse(strict)
    session.send("catch")
    session.complete_job(None, {"frames": "many"})
    assert session.replies[0].startswith("the result of job 'render' does not fit: frames: Input")
    session.send("raise")
    with pytest.raises(Held, match="wrong_result"):
        session.complete_job(None, {"frames": "many"})
    session.redeploy(mended)
    session.release()
    assert session.replies[-1] == "{'frames': 'many'}"


def test_a_completion_that_comes_while_the_session_is_held_is_kept_and_counts_after() -> None:
    broken = {"is": True}

    @workflow("held", version=1)
    async def held(turn: Turn, desk: Desk, message: Message) -> Desk:
        job = turn.job("render", within="1d")
        await turn.sleep("1h")
        if broken["is"]:
            raise ValueError("mend me")
        await turn.say(await job)
        return desk

    session = rehearse(held, always_replay=False)
    session.send("go")
    with pytest.raises(Held):
        session.skip("1h")
    session.complete_job(None, "gold")
    session.skip("2d")  # nothing expires while it is held
    broken["is"] = False
    session.release()
    assert session.replies == ["gold"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"name": ""}, "job name '' is not allowed"),
        ({"within": "soon"}, "turn.job: 'soon' is not a duration"),
        ({"expect": 7}, "turn.job was given the type 7, which cannot be read from JSON"),
    ],
)
def test_what_no_job_can_be_holds_the_session_and_names_it(
    given: dict[str, Any], told: str
) -> None:
    @workflow("wrong", version=1)
    async def wrong(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.job(**{"name": "render", "within": "1d", **given})
        return desk

    session = rehearse(wrong)
    with pytest.raises(Held) as held:
        session.send("go")
    assert (held.value.reason, told in held.value.detail) == ("workflow_misuse", True)
