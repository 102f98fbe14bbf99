"""Every arrow of the lifecycle's table is walked by a session, and none that is not in it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from tests.processors.desk import KEY, Desk, Hand, find_order, refund
from wakeful import ActivityError, Message, Needs, Turn, Write, activity, workflow
from wakeful.commands.models import (
    CompleteJob,
    EndChild,
    OpenSession,
    ResetSession,
    ResolveActivity,
    SendSignal,
)
from wakeful.events import records as r
from wakeful.events.evolve import evolve
from wakeful.events.payloads import json_payload
from wakeful.events.state import State, Status
from wakeful.events.transitions import MOVERS, ROWS
from wakeful.processors import handler as handler_module

Story = Callable[[Hand, pytest.MonkeyPatch], None]

HOUR_MS = 3_600_000


@activity(contract=Write(), schedule_to_close="10m")
async def wire(cents: int) -> str:
    """Must not run twice."""
    return f"wired {cents}"


@activity(
    contract=Write(idempotent=True),
    approval=Needs("supervisor", expires="1h", quorum=2),
)
async def wire_twice(cents: int, *, key: str) -> str:
    """Two people must approve it."""
    return key


@workflow("board", version=1)
async def board(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Asks two people."""
    await turn.approval(wire_twice.call(500))
    return desk


@workflow("listener", version=1)
async def listener(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Waits for what its message names, one after another."""
    for word in message.text.split():
        match word:
            case "signal":
                await turn.signal("paid")
            case "inbox":
                await turn.inbox()
            case "message":
                await turn.inbox(wait=True)
            case "job":
                with suppress(ActivityError):
                    await turn.job("dig", within="1h")
            case "errand":
                job = turn.job("dig", within="5m")
                await turn.run(find_order.call("x"))
                with suppress(ActivityError):
                    await job
            case "child":
                with suppress(ActivityError):
                    await turn.child("listener", within="1h")
            case "nursery":
                child = turn.child("listener", within="5m")
                await turn.run(find_order.call("x"))
                with suppress(ActivityError):
                    await child
            case "wire":
                with suppress(ActivityError):
                    await turn.run(wire.call(5))
            case _:
                await turn.gather(turn.run(wire.call(5)), turn.run(find_order.call("x")))
    return desk


@activity(contract=Write(idempotent=True), approval=Needs("supervisor", expires="1h"))
async def take_back(cents: int) -> None:
    """Somebody must approve it."""


@workflow("payer", version=1)
async def payer(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Pays, and then does what its message says; what is paid is taken back, once it is approved or at once."""
    undo = take_back.call(5) if "ask" in message.text else wire.call(5)
    await turn.run(refund.call(5), compensate=undo)
    if "child" in message.text:
        await turn.child("listener", within="1h")
    if "sleep" in message.text:
        await turn.sleep("1h")
    if "fail" in message.text:
        await turn.run(find_order.call("x"))
    return desk


def paid(text: str, *then: Callable[[Hand], object]) -> Story:
    """A turn that has paid, goes on so, and what comes."""

    def story(hand: Hand, patch: pytest.MonkeyPatch) -> None:
        hand.redeploy(payer, refund, wire, take_back, find_order)
        hand.workflow = "payer"
        hand.open(text)
        hand.result("1.1", "key")
        if "held" in text:
            fault(hand, patch)
        if "fail" in text:
            hand.failure("1.2", "wrong_arguments")
        else:
            hand.cancel()
        for act in then:
            act(hand)

    return story


def listening(text: str, *then: Callable[[Hand], object]) -> Story:
    """A turn that waits for these, and what comes."""

    def story(hand: Hand, _patch: pytest.MonkeyPatch) -> None:
        hand.redeploy(listener, wire, find_order)
        hand.workflow = "listener"
        hand.open(text)
        for act in then:
            act(hand)

    return story


def pay(hand: Hand) -> None:
    hand.give(SendSignal("paid", json_payload(5, KEY)))


def doubt(hand: Hand) -> None:
    hand.failure("1.1")
    assert hand.session.state.uncertain


def dig(hand: Hand) -> None:
    hand.give(CompleteJob(hand.last(r.JobAwaited).job_id, json_payload("gold", KEY), None))


def dig_in_vain(hand: Hand) -> None:
    failure = r.Failure("job_failed", "", "rock", "")
    hand.give(CompleteJob(hand.last(r.JobAwaited).job_id, None, failure))


def dig_for_ever(hand: Hand) -> None:
    """The job's time is over, and not yet that of an activity beside it."""
    hand.now_ms = hand.last(r.JobAwaited).expires_at_ms
    hand.wake()


def grow(end: str) -> Callable[[Hand], None]:
    """The child ends so."""

    def ends(hand: Hand) -> None:
        child_id = hand.last(r.ChildStarted).child_id
        result = json_payload("grown", KEY) if end == "completed" else None
        failure = r.Failure("child_failed", "", "ill", "") if end == "failed" else None
        hand.give(EndChild(child_id, end, result, failure))

    return ends


def grow_for_ever(hand: Hand) -> None:
    hand.now_ms = hand.last(r.ChildStarted).expires_at_ms
    hand.wake()


CHILDREN: dict[str, Callable[[Hand], None]] = {
    **{f"child {end}": grow(end) for end in ("completed", "failed", "cancelled")},
    "child expired": grow_for_ever,
}


def resolve(hand: Hand) -> None:
    hand.give(ResolveActivity("1.1", "completed", json_payload("wired", KEY), "seen in the books"))


def opened(hand: Hand) -> None:
    hand.give(OpenSession(hand.workflow))


def running(hand: Hand) -> None:
    hand.open()


def waiting(hand: Hand) -> None:
    hand.open()
    hand.result("1.1", 500)


def suspended(hand: Hand) -> None:
    hand.open()
    hand.result("1.1", 50)
    hand.result("1.2", "key")


def fault(hand: Hand, patch: pytest.MonkeyPatch) -> None:
    """An engine fault holds the session, wherever it stands; the command is kept."""
    with patch.context() as broken:
        broken.setattr(handler_module, "decide", lambda *_: 1 / 0)
        hand.say("more")
    assert hand.session.state.status == Status.RECOVERING


def asleep(hand: Hand) -> None:
    hand.workflow = "sleeper"
    hand.open()


def held_while(start: Callable[[Hand], None], *then: Callable[[Hand], object]) -> Story:
    """Held by a fault; then what comes meanwhile, and the release."""

    def story(hand: Hand, patch: pytest.MonkeyPatch) -> None:
        start(hand)
        fault(hand, patch)
        for act in then:
            act(hand)
        hand.release()

    return story


def after(start: Callable[[Hand], None], *then: Callable[[Hand], object]) -> Story:
    def story(hand: Hand, patch: pytest.MonkeyPatch) -> None:
        start(hand)
        for act in then:
            act(hand)

    return story


def days_pass(hand: Hand) -> None:
    hand.now_ms += 24 * HOUR_MS


def cancelled_while_held(hand: Hand, patch: pytest.MonkeyPatch) -> None:
    waiting(hand)
    fault(hand, patch)
    hand.cancel()


def other_code(hand: Hand, patch: pytest.MonkeyPatch) -> None:
    @workflow("desk", version=1)
    async def other(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.run(find_order.call(message.text + "!"))
        return desk

    running(hand)
    hand.redeploy(other, find_order, refund)
    hand.result("1.1", 50)


def edited_by_one_of_two(hand: Hand, _patch: pytest.MonkeyPatch) -> None:
    hand.redeploy(board, wire_twice)
    hand.workflow = "board"
    hand.open()
    hand.decide("edit", data={"cents": 400})


STORIES: dict[str, Story] = {
    **{name: listening("child", end) for name, end in CHILDREN.items()},
    **{f"{name} while another runs": listening("nursery", end) for name, end in CHILDREN.items()},
    **{f"{name} after the stop": paid("child", end) for name, end in CHILDREN.items()},
    "completed": after(
        lambda hand: hand.open(last=True),
        lambda hand: hand.result("1.1", 50),
        lambda hand: hand.result("1.2", "key"),
    ),
    "suspended and told more": after(suspended, lambda hand: hand.say("more")),
    "failed": after(running, lambda hand: hand.failure("1.1")),
    "granted": after(waiting, lambda hand: hand.decide("approve")),
    "answered": after(waiting, lambda hand: hand.decide("respond", data="ask again")),
    "answered while held": held_while(
        waiting, lambda hand: hand.decide("respond", data="ask again")
    ),
    "edited by one of two": edited_by_one_of_two,
    "rejected": after(waiting, lambda hand: hand.decide("reject")),
    "expired": after(waiting, days_pass, lambda hand: hand.wake()),
    "woken": after(asleep, days_pass, lambda hand: hand.wake()),
    "other code": other_code,
    "held when opened": held_while(opened),
    "held when running": held_while(running),
    "held when suspended": held_while(suspended),
    "granted while held": held_while(waiting, lambda hand: hand.decide("approve")),
    "rejected while held": held_while(waiting, lambda hand: hand.decide("reject")),
    "expired while held": held_while(waiting, days_pass),
    "due while held": held_while(asleep, days_pass),
    "cancelled when opened": after(opened, lambda hand: hand.cancel()),
    "cancelled when running": after(running, lambda hand: hand.cancel()),
    "cancelled when waiting": after(waiting, lambda hand: hand.cancel()),
    "cancelled when suspended": after(suspended, lambda hand: hand.cancel()),
    "cancelled when held": cancelled_while_held,
    "signalled": listening("signal", pay),
    "signal kept": listening("signal signal", pay, pay),
    "signal that was there": listening("message signal", pay, lambda hand: hand.say("more")),
    "looked into the inbox": listening("inbox"),
    "told more": listening("message", lambda hand: hand.say("more")),
    "resolved": listening("wire", doubt, resolve),
    "resolved while another runs": listening("both", doubt, resolve),
    "done after all": listening("wire", doubt, lambda hand: hand.result("1.1", "wired")),
    "job done": listening("job", dig),
    "job failed": listening("job", dig_in_vain),
    "job expired": listening("job", dig_for_ever),
    "job done while another runs": listening("errand", dig),
    "job failed while another runs": listening("errand", dig_in_vain),
    "job expired while another runs": listening("errand", dig_for_ever),
    "nothing done after all": listening(
        "wire", doubt, lambda hand: hand.failure("1.1", "nothing_done")
    ),
    "failed and taken back": paid("fail", lambda hand: hand.result("1.3", "wired")),
    "taken back when suspended": paid("", lambda hand: hand.result("1.2", "wired")),
    "taken back when waiting": paid("sleep", lambda hand: hand.result("1.3", "wired")),
    "taken back when held": paid("held", lambda hand: hand.result("1.2", "wired")),
    "taken back again": paid(
        "",
        lambda hand: hand.failure("1.2", "wrong_arguments"),
        lambda hand: hand.release(),
        lambda hand: hand.result("1.2", "wired", 2),
    ),
    "given up": paid(
        "", lambda hand: hand.failure("1.2", "wrong_arguments"), lambda hand: hand.cancel()
    ),
    "taken back by a person": paid(
        "",
        lambda hand: hand.failure("1.2", "raised"),
        lambda hand: hand.give(
            ResolveActivity("1.2", "completed", json_payload("wired", KEY), "by hand")
        ),
    ),
    "taking back approved": paid("ask", lambda hand: hand.decide("approve")),
    "taking back rejected": paid("ask", lambda hand: hand.decide("reject")),
    "taking back expired": paid("ask", days_pass, lambda hand: hand.wake()),
}


def back(hand: Hand) -> None:
    """To before the first turn, and nothing is answered again."""
    hand.give(ResetSession(0, None, False, "mended"))


def held_back(hand: Hand, patch: pytest.MonkeyPatch) -> None:
    running(hand)
    fault(hand, patch)
    back(hand)


STORIES |= {
    "reset while it runs": after(running, back),
    "reset while it waits": after(waiting, back),
    "reset while it rests": after(suspended, back),
    "reset while it is held": held_back,
}


def arrows(hand: Hand) -> set[tuple[str | None, str, str]]:
    """The arrows that the session's history walks."""
    walked: set[tuple[str | None, str, str]] = set()
    state: State | None = None
    for stamped in hand.log:
        before = state.status if state is not None else None
        state = evolve(state, stamped.event)
        if type(stamped.event.body) in MOVERS:
            walked.add((before, type(stamped.event.body).__name__, state.status))
    return walked


def test_every_arrow_is_walked_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    walked: set[tuple[str | None, str, str]] = set()
    for story in STORIES.values():
        hand = Hand()
        story(hand, monkeypatch)
        walked |= arrows(hand)
    table = {(source, event.__name__, to) for source, event, to in ROWS}
    assert walked - table == set()
    assert table - walked == set()
