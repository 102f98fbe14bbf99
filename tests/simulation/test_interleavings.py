"""Events, timers and results in any order: the history folds to the same state and replays to the same facts."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.processors.desk import KEY, Hand
from wakeful import ActivityError, Message, Turn, workflow
from wakeful.commands.models import CompleteActivity, FailActivity
from wakeful.events import records as r
from wakeful.events.payloads import json_payload
from wakeful.processors.session import Session
from wakeful.processors.simulation.player import Memory
from wakeful.processors.simulation.tools import pay, refund, think


@workflow("race", version=1)
async def race(turn: Turn, memory: Memory, message: Message) -> Memory:
    """Waits for one of each kind, and says what came and when."""
    answer = 0
    try:
        answer = await turn.run(think.call(message.text))
    except ActivityError as error:
        await turn.say(error.failure.kind)
    action = refund.call(200 + answer)
    decided = await turn.approval(action)
    await turn.say(f"{decided.decision} {turn.now():%S.%f} {turn.uuid()}")
    await turn.sleep(1)
    if decided.granted:
        await turn.run(action)
    await turn.run(pay.call(answer))
    return Memory(turns=memory.turns + 1, cents=memory.cents + answer)


@dataclass(frozen=True)
class Move:
    """One thing that arrives, how long after the one before, and whether the owner lost its memory first."""

    kind: str
    after_ms: int
    restarted: bool


MOVES = st.lists(
    st.builds(
        Move,
        st.sampled_from(
            [
                "say",
                "result",
                "result",
                "late",
                "fail",
                "approve",
                "approve",
                "reject",
                "again",
                "wake",
            ]
        ),
        st.sampled_from([0, 1, 500, 1_000, 4_000, 6_000]),
        st.booleans(),
    ),
    min_size=3,
    max_size=16,
)


def arrive(hand: Hand, move: Move) -> None:
    """Gives the session what this move means right now; what makes no sense now is a stray."""
    hand.now_ms += move.after_ms
    state = hand.session.state
    assert state is not None
    newest = state.activities[-1].activity_id if state.activities else "1.1"
    proposals = [s.event.body for s in hand.log if isinstance(s.event.body, r.ApprovalRequested)]
    match move.kind:
        case "say":
            hand.say("more")
        case "result" | "late":
            activity_id = newest if move.kind == "result" else "1.1"
            value = "receipt" if "refund" in str(state.activities) else len(hand.log)
            result = json_payload(value, KEY)
            hand.attempt(CompleteActivity(activity_id, 1, result, "w"), actor="worker:w")
        case "fail":
            failure = r.Failure("raised", "ValueError", "no", "")
            hand.attempt(FailActivity(newest, 1, failure, "w"), actor="worker:w")
        case "wake":
            hand.wake()
        case _ if proposals:
            proposal = proposals[0] if move.kind == "again" else proposals[-1]
            hand.decide("reject" if move.kind == "reject" else "approve", proposal=proposal)
        case _:
            hand.wake()


def raced(moves: list[Move], *, always_replay: bool, restarts: bool) -> tuple[Hand, list[Session]]:
    """A session after these moves, and a copy of it after each."""
    hand = Hand(race, think, pay, refund, workflow="race", always_replay=always_replay)
    hand.open()
    after = [hand.session.copy()]
    for move in moves:
        if restarts and move.restarted:
            hand.session.drop()
            hand.session = hand.refold()
        arrive(hand, move)
        after.append(hand.session.copy())
    return hand, after


def stored(hand: Hand) -> list[bytes]:
    return [s.encoded.body for s in hand.log]


def same(one: Session, other: Session) -> bool:
    return (one.head, one.state, one.journal) == (other.head, other.state, other.journal)


@pytest.mark.case("U7")
@pytest.mark.case("L29")
@settings(max_examples=150, deadline=None)
@given(MOVES)
def test_any_interleaving_replays_to_the_same_log_and_folds_to_the_same_state(
    moves: list[Move],
) -> None:
    kept, after = raced(moves, always_replay=False, restarts=False)
    replayed, _ = raced(moves, always_replay=True, restarts=False)
    restarted, _ = raced(moves, always_replay=False, restarts=True)
    assert stored(kept) == stored(replayed) == stored(restarted)
    assert not any(isinstance(s.event.body, r.NondeterminismFound) for s in kept.log)
    for session in after:
        assert same(kept.refold(session.head.seq), session)


@pytest.mark.case("U7")
def test_a_thousand_refolds_are_one() -> None:
    moves = [Move("result", 500, False), Move("approve", 500, False), Move("wake", 1_000, False)]
    hand, _ = raced(moves, always_replay=False, restarts=False)
    assert len(hand.log) > 8
    first = hand.refold()
    assert all(same(hand.refold(), first) for _ in range(1_000))
    assert same(hand.session, first)
