"""Every arrow of the lifecycle's table is walked by a session, and none that is not in it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.processors.desk import Desk, Hand, find_order, refund
from wakeful import Message, Turn, workflow
from wakeful.commands.models import OpenSession
from wakeful.events.evolve import evolve
from wakeful.events.state import State, Status
from wakeful.events.transitions import MOVERS, ROWS
from wakeful.processors import handler as handler_module

Story = Callable[[Hand, pytest.MonkeyPatch], None]

HOUR_MS = 3_600_000

LATER: dict[tuple[str | None, str, str], str] = {
    (source, event, Status.RUNNING): "workflows do not wait for it yet"
    for source, event in (
        *((s, e) for s in ("Running", "Waiting") for e in ("SignalDelivered", "InboxTaken")),
        *((s, "ActivityResolved") for s in ("Running", "Waiting")),
        *(("Waiting", e) for e in ("ActivityCompleted", "ActivityFailed")),
    )
}
"""Arrows that nothing can walk yet, each with the reason."""


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


STORIES: dict[str, Story] = {
    "completed": after(
        lambda hand: hand.open(last=True),
        lambda hand: hand.result("1.1", 50),
        lambda hand: hand.result("1.2", "key"),
    ),
    "suspended and told more": after(suspended, lambda hand: hand.say("more")),
    "failed": after(running, lambda hand: hand.failure("1.1")),
    "granted": after(waiting, lambda hand: hand.decide("approve")),
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
    assert table - walked == set(LATER)
