"""Retries: the policy is in the request, the back-off in the log, and the attempt's number is the fence."""

import pytest

from tests.processors.desk import KEY, Desk, Hand, kinds
from wakeful import ActivityError, Message, Read, Retry, Turn, Write, activity, workflow
from wakeful.commands.models import CompleteActivity
from wakeful.commands.next_valid import obligations
from wakeful.events import records as r
from wakeful.events.payloads import json_payload
from wakeful.events.retries import backoff_ms, may_retry, retry_due_ms
from wakeful.events.state import Status

SECOND_MS = 1_000
POLICY = r.RetryPolicy(4, 1_000, 2_000, 60_000, ("LookupError",))


@activity(
    contract=Read(),
    schedule_to_close="1m",
    retry=Retry(attempts=4, initial="1s", factor=2, cap="1m", never=("LookupError",)),
)
async def ask(text: str) -> int:
    """A tool that is sometimes down."""
    return len(text)


async def find_charge(key: str) -> int | None:
    """What was paid under the key."""
    return None


@workflow("desk", version=1)
async def patient(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Sees one wait and its end, whatever was in between."""
    try:
        answer = await turn.run(ask.call(message.text))
    except ActivityError as error:
        await turn.say(f"{error.failure.type} at {turn.now():%M:%S}")
    else:
        await turn.say(f"{answer} at {turn.now():%M:%S}")
    return desk


@workflow("desk", version=1)
async def hurried(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Waits for a while only."""
    await turn.first(turn.run(ask.call("a")), turn.sleep("500ms"), cancel=True)
    return desk


@pytest.fixture(params=[False, True], ids=["cached", "always-replay"])
def hand(request: pytest.FixtureRequest) -> Hand:
    hand = Hand(patient, ask, always_replay=request.param)
    hand.open()
    return hand


def wake_at(hand: Hand, ms: int) -> list[str]:
    hand.now_ms = ms
    return kinds(hand.wake())


def fail_and_wait(hand: Hand, attempt: int) -> None:
    assert kinds(hand.failure("1.1", attempt=attempt)) == ["ActivityRetryScheduled"]
    assert wake_at(hand, hand.last(r.ActivityRetryScheduled).due_ms) == ["ActivityRetried"]


def test_the_policy_is_recorded_in_the_request(hand: Hand) -> None:
    assert hand.last(r.ActivityRequested).retry == POLICY
    assert hand.session.state.activities[0].retry == POLICY


def test_a_failure_with_attempts_left_schedules_the_next_and_nothing_more(hand: Hand) -> None:
    [scheduled] = hand.failure("1.1")
    assert isinstance(scheduled, r.ActivityRetryScheduled)
    assert (scheduled.attempt, scheduled.failure.type) == (2, "ValueError")
    assert 750 <= scheduled.due_ms - hand.now_ms <= SECOND_MS
    assert hand.session.state.status == Status.RUNNING
    assert hand.session.next_due() == (scheduled.due_ms, "1.1")
    assert len(hand.tasks()) == 1


def test_the_next_attempt_goes_out_when_the_logs_clock_passes_its_due_time(hand: Hand) -> None:
    [scheduled] = hand.failure("1.1")
    assert wake_at(hand, scheduled.due_ms - 1) == []
    assert wake_at(hand, scheduled.due_ms) == ["ActivityRetried"]
    first, second = hand.tasks()
    assert (first.attempt, second.attempt) == (1, 2)
    assert first.idempotency_key == second.idempotency_key == "acme/s1/1/1"
    assert (first.arguments, first.deadline_ms) == (second.arguments, second.deadline_ms)
    assert (first.actor, first.on_behalf_of) == (second.actor, second.on_behalf_of)
    assert hand.log[-1].event.envelope.on_behalf_of == "ann"
    assert second.event_seq == hand.session.head.seq
    assert wake_at(hand, scheduled.due_ms + 1) == []


def test_the_result_of_a_later_attempt_is_the_result(hand: Hand) -> None:
    fail_and_wait(hand, 1)
    fail_and_wait(hand, 2)
    out = hand.result("1.1", 7, attempt=3)
    assert kinds(out) == ["ActivityCompleted", "ReplySent", "TurnCompleted"]
    assert out[0].attempt == 3
    assert out[1].message.inline.startswith(b'{"text":"7 at ')


def test_delays_grow_by_the_factor_and_stop_at_the_cap() -> None:
    policy = r.RetryPolicy(50, 1_000, 1_500, 5_000, ())
    delays = [backoff_ms(policy, attempt) for attempt in range(1, 8)]
    assert delays == [1_000, 1_500, 2_250, 3_375, 5_000, 5_000, 5_000]


def test_jitter_takes_up_to_a_quarter_and_is_the_same_each_time() -> None:
    failure = r.Failure("raised", "E", "", "")
    drawn = [
        retry_due_ms(POLICY, 1, failure, now_ms=0, name=f"acme/s{n}/1.1#1") for n in range(200)
    ]
    assert drawn == [
        retry_due_ms(POLICY, 1, failure, now_ms=0, name=f"acme/s{n}/1.1#1") for n in range(200)
    ]
    assert 750 <= min(drawn) < 770
    assert 980 < max(drawn) <= 1_000


def test_the_last_attempt_fails_the_activity_with_the_last_failure(hand: Hand) -> None:
    for attempt in (1, 2, 3):
        fail_and_wait(hand, attempt)
    out = hand.failure("1.1", attempt=4, type_="IOError")
    assert kinds(out) == ["ActivityFailed", "ReplySent", "TurnCompleted"]
    assert (out[0].attempt, out[0].failure.type) == (4, "IOError")


@pytest.mark.parametrize("type_", ["LookupError", "shop.tools.LookupError"])
def test_what_is_never_retried_fails_at_once(hand: Hand, type_: str) -> None:
    out = hand.failure("1.1", type_=type_)
    assert kinds(out) == ["ActivityFailed", "ReplySent", "TurnCompleted"]


@activity(contract=Write(lookup=find_charge), retry=Retry(attempts=2))
async def charge(text: str, *, key: str) -> int:
    """Looks before it pays again."""
    return len(text)


@activity(contract=Write(), retry=Retry(attempts=2))
async def charge_once(text: str) -> int:
    """Never pays again."""
    return len(text)


@workflow("payer", version=1)
async def payer(turn: Turn, desk: Desk, message: Message) -> Desk:
    await turn.run((charge if message.text == "looks" else charge_once).call("x"))
    return desk


@pytest.mark.parametrize(
    ("how", "then"), [("looks", "ActivityRetryScheduled"), ("once", "ActivityUncertain")]
)
def test_one_whose_workers_died_is_tried_again_where_it_may_be(how: str, then: str) -> None:
    hand = Hand(payer, charge, charge_once, workflow="payer")
    hand.open(how)
    assert kinds(hand.failure("1.1", "cut_off"))[0] == then


@pytest.mark.parametrize("kind", ["wrong_arguments", "unserialisable_result", "result_too_large"])
def test_what_cannot_pass_by_itself_fails_at_once(hand: Hand, kind: str) -> None:
    assert kinds(hand.failure("1.1", kind))[0] == "ActivityFailed"


@pytest.mark.parametrize("kind", ["raised", "timed_out", "cut_off", "unknown_activity"])
def test_what_may_pass_is_tried_again(kind: str) -> None:
    assert may_retry(POLICY, 1, r.Failure(kind, "start_to_close", "", ""))
    assert not may_retry(None, 1, r.Failure(kind, "start_to_close", "", ""))


def test_retry_after_raises_the_delay_and_is_never_undercut(hand: Hand) -> None:
    [scheduled] = hand.failure("1.1", after_ms=30 * SECOND_MS)
    assert 30_000 <= scheduled.due_ms - hand.now_ms <= 30_250
    hand.now_ms = scheduled.due_ms
    hand.wake()
    [scheduled] = hand.failure("1.1", attempt=2, after_ms=1)
    assert 1_500 <= scheduled.due_ms - hand.now_ms <= 2_000


def test_an_attempt_that_would_begin_at_the_deadline_is_not_scheduled(hand: Hand) -> None:
    out = hand.failure("1.1", after_ms=60 * SECOND_MS)
    assert kinds(out) == ["ActivityFailed", "ReplySent", "TurnCompleted"]
    assert out[0].failure.retry_after_ms == 60 * SECOND_MS


@pytest.mark.parametrize(
    ("early_ms", "fact"), [(0, "ActivityFailed"), (1, "ActivityRetryScheduled")]
)
def test_the_deadline_itself_is_too_late(hand: Hand, early_ms: int, fact: str) -> None:
    asked = r.Failure("raised", "E", "", "", retry_after_ms=10 * SECOND_MS)
    jitter_ms = retry_due_ms(POLICY, 1, asked, now_ms=0, name="acme/s1/1.1#1") - 10 * SECOND_MS
    out = hand.failure("1.1", after_ms=60 * SECOND_MS - jitter_ms - early_ms)
    assert kinds(out)[0] == fact


def test_a_clock_that_jumps_past_the_deadline_dispatches_nothing(hand: Hand) -> None:
    hand.failure("1.1")
    assert wake_at(hand, hand.now_ms + 60 * SECOND_MS)[0] == "ActivityFailed"
    failed = hand.last(r.ActivityFailed)
    assert (failed.attempt, failed.failure.kind) == (1, "timed_out")
    assert len(hand.tasks()) == 1


def test_a_running_later_attempt_still_ends_at_the_deadline(hand: Hand) -> None:
    fail_and_wait(hand, 1)
    assert wake_at(hand, hand.now_ms + 60 * SECOND_MS)[0] == "ActivityFailed"
    assert hand.last(r.ActivityFailed).attempt == 2


@pytest.mark.case("U15")
def test_a_result_of_an_older_attempt_is_late(hand: Hand) -> None:
    fail_and_wait(hand, 1)
    assert kinds(hand.result("1.1", 7)) == ["LateResultRecorded"]
    assert kinds(hand.result("1.1", 8, attempt=2))[0] == "ActivityCompleted"


@pytest.mark.parametrize("attempt", [1, 2])
def test_while_a_retry_is_pending_every_result_is_late(hand: Hand, attempt: int) -> None:
    hand.failure("1.1")
    assert kinds(hand.result("1.1", 7, attempt=attempt)) == ["LateResultRecorded"]
    assert wake_at(hand, hand.last(r.ActivityRetryScheduled).due_ms) == ["ActivityRetried"]


def test_a_result_of_an_attempt_that_was_never_scheduled_leaves_no_event(hand: Hand) -> None:
    hand.failure("1.1")
    out, refusal = hand.attempt(CompleteActivity("1.1", 3, json_payload(1, KEY), "w"))
    assert (out, refusal.reason) == ([], "unknown_activity")


def test_a_failure_told_twice_changes_nothing(hand: Hand) -> None:
    hand.failure("1.1")
    assert hand.failure("1.1") == []
    assert wake_at(hand, hand.last(r.ActivityRetryScheduled).due_ms) == ["ActivityRetried"]
    assert hand.failure("1.1") == []
    assert kinds(hand.failure("1.1", type_="IOError")) == ["LateResultRecorded"]


def test_a_cancelled_session_has_no_other_attempt(hand: Hand) -> None:
    [scheduled] = hand.failure("1.1")
    out = hand.cancel()
    assert kinds(out) == ["CancellationRequested", "ActivityCancelled", "SessionCancelled"]
    assert out[1].attempt == 1
    assert wake_at(hand, scheduled.due_ms) == []


def test_a_pending_retry_that_lost_is_cancelled() -> None:
    hand = Hand(hurried, ask)
    hand.open()
    [scheduled] = hand.failure("1.1")
    assert wake_at(hand, hand.now_ms + 500) == ["TimerFired", "ActivityCancelled", "TurnCompleted"]
    assert wake_at(hand, scheduled.due_ms) == []


def test_obligations_tell_the_attempt_and_when_it_comes(hand: Hand) -> None:
    [running] = obligations(hand.session.state)
    assert (running.expiry, running.expires_at_ms) == ("fails", hand.now_ms + 60 * SECOND_MS)
    [scheduled] = hand.failure("1.1")
    [resting] = obligations(hand.session.state)
    assert (resting.expiry, resting.expires_at_ms) == ("runs as attempt 2 of 4", scheduled.due_ms)


def test_the_recorded_policy_counts_and_not_the_code_of_the_day(hand: Hand) -> None:
    @activity(contract=Read(), name="ask", schedule_to_close="1m")
    async def ask_once(text: str) -> int:
        """The same activity after a deploy without retries."""
        return len(text)

    fail_and_wait(hand, 1)
    hand.redeploy(patient, ask_once)
    fail_and_wait(hand, 2)
    assert hand.session.state.activities[0].attempt == 3


def test_replay_never_sees_a_retry(hand: Hand) -> None:
    fail_and_wait(hand, 1)
    hand.failure("1.1", attempt=2)
    hand.session.drop()
    assert hand.refold().state == hand.session.state
    wake_at(hand, hand.last(r.ActivityRetryScheduled).due_ms)
    assert kinds(hand.result("1.1", 7, attempt=3))[1:] == ["ReplySent", "TurnCompleted"]


def test_a_held_session_dispatches_nothing_and_goes_on_after_its_release() -> None:
    hand = Hand(broken, ask)
    hand.open()
    hand.failure("1.1")
    hand.result("1.2", 1)
    assert hand.session.state.status == Status.RECOVERING
    assert wake_at(hand, hand.now_ms + 5 * SECOND_MS) == []
    hand.redeploy(mended, ask)
    assert kinds(hand.release()) == ["SessionReleased", "ReplySent", "ActivityRetried"]


def test_a_failure_that_was_kept_rests_from_when_it_came() -> None:
    hand = Hand(broken, ask)
    hand.open()
    hand.result("1.2", 1)
    assert kinds(hand.failure("1.1")) == ["CommandParked"]
    came_ms = hand.now_ms
    hand.now_ms += 5 * SECOND_MS
    hand.redeploy(mended, ask)
    out = hand.release()
    assert kinds(out) == [
        "SessionReleased",
        "ReplySent",
        "ActivityRetryScheduled",
        "ActivityRetried",
    ]
    assert out[2].due_ms <= came_ms + SECOND_MS


@workflow("desk", version=1)
async def broken(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Has a bug after its second answer."""

    async def second() -> None:
        await turn.run(ask.call("b"))
        raise SystemExit("a bug")  # what `gather` keeps for its end would hold nothing yet

    await turn.gather(turn.run(ask.call("a")), second())
    return desk


@workflow("desk", version=1)
async def mended(turn: Turn, desk: Desk, message: Message) -> Desk:
    """The same without it."""

    async def second() -> None:
        await turn.run(ask.call("b"))
        await turn.say("b")

    await turn.gather(turn.run(ask.call("a")), second())
    return desk


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 0},
        {"attempts": 1_001},
        {"attempts": 2.5},
        {"factor": 0.5},
        {"initial": 0},
        {"initial": "2m"},
        {"never": "ValueError"},
        {"never": (ValueError,)},
        {"cap": "soon"},
        {"attempts": "2"},
        {"factor": "2"},
        {"factor": None},
        {"factor": True},
        {"factor": float("nan")},
        {"initial": None},
        {"initial": True},
        {"cap": ["1m"]},
        {"never": None},
        {"never": ValueError},
        {
            "never": {"ValueError"}
        },  # a set: with one name, since the order of two is another in each process
    ],
    ids=str,
)
def test_a_policy_that_cannot_work_fails_where_it_is_written_and_names_what_it_was(
    wrong: dict,
) -> None:
    ((field, value),) = wrong.items()
    with pytest.raises(
        (ValueError, TypeError), match=rf"{field}\b.*(it|initial) (is|must)|{field}: .* write it"
    ) as told:
        Retry(**wrong)
    assert repr(value) in str(told.value)


def test_one_attempt_is_no_policy() -> None:
    assert Retry(attempts=1).policy is None
    assert Retry(attempts=4, never=("LookupError",)).policy == POLICY
