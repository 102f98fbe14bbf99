"""What must hold of the payment system that honours no key: the contracts say how often it is called, and what counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...events import records as r
from ...events.contracts import LOOKUP, ONCE
from ...events.failures import NOTHING_DONE, RAISED, TIMED_OUT
from ...events.records import Event
from ...processors.simulation.downstream import Bank
from ...processors.simulation.tools import charge, take_back, transfer, wire

Load = Callable[[r.Payload], Any]
"""Reads a payload, whichever way it went."""

PAYMENTS = (charge.name, transfer.name, wire.name)

NOT_DONE = frozenset({NOTHING_DONE, RAISED, TIMED_OUT})
"""Failures of a look-up-able write that its worker tells of only where nothing was found, or can be."""


@dataclass(slots=True)
class Told:
    """What the log says of one payment: its request, how it stands in the end, and what it has ended with."""

    request: r.ActivityRequested
    stands: str = "open"
    end: r.EventBody | None = None
    facts: list[str] = field(default_factory=list)


def told_of(events: Sequence[Event]) -> dict[str, Told]:
    """The payments and undos of all sessions, by idempotency key."""
    found: dict[str, Told] = {}
    by_id: dict[tuple[str, str], Told] = {}
    for event in events:
        body, session = event.body, event.envelope.session_id
        if isinstance(body, r.ActivityRequested) and body.name in (*PAYMENTS, take_back.name):
            by_id[session, body.activity_id] = found[body.idempotency_key] = Told(body)
        elif isinstance(
            body,
            r.ActivityCompleted
            | r.ActivityFailed
            | r.ActivityUncertain
            | r.ActivityResolved
            | r.ActivityCancelled,
        ):
            known = by_id.get((session, body.activity_id))
            if known is not None:
                known.stands, known.end = type(body).__name__, body
                known.facts.append(known.stands)
    return found


def payments(bank: Bank, events: Sequence[Event], load: Load) -> Iterator[str]:
    """Each key by its contract."""
    told = told_of(events)
    for key in bank.calls.keys() | bank.charges.keys():
        if key not in told:
            yield f"{key} was charged, and nobody asked for it"
    for key, payment in told.items():
        if payment.request.name in PAYMENTS:
            yield from _paid(bank, key, payment, load)
    yield from _undone(bank, told, events, load)


def _paid(bank: Bank, key: str, payment: Told, load: Load) -> Iterator[str]:
    request, end = payment.request, payment.end
    charged, calls = len(bank.charges[key]), bank.calls[key]
    name = f"{request.name} {key}"
    if request.contract in ONCE and calls - bank.declined[key] > 1:
        yield f"{name} was called {calls} times, and may be called once, but for calls that are declined"
    if charged > 1:
        yield f"{name} was charged {charged} times"
    if isinstance(end, r.ActivityCompleted):
        if charged != 1:
            yield f"{name} is completed, and was charged {charged} times"
        elif load(end.result) != bank.charges[key][0].receipt:
            yield f"{name} is completed with {load(end.result)!r}, which is not its receipt"
    if isinstance(end, r.ActivityFailed) and charged:
        certain = end.failure.kind == NOTHING_DONE or (
            request.contract == LOOKUP and end.worker and end.failure.kind in NOT_DONE
        )
        if certain:
            yield f"{name} failed for certain ({end.failure.kind}), and was charged"
        elif request.contract in ONCE:
            yield f"{name} is told to have failed ({end.failure.kind}), and was charged: that is uncertain"
        elif not end.worker:
            yield f"{name} is told to have failed ({end.failure.kind}) by the clock, and was charged"


def _undone(
    bank: Bank, told: dict[str, Told], events: Sequence[Event], load: Load
) -> Iterator[str]:
    """A transfer that its workflow waits for is undone where it is uncertain; and no other is."""
    undos: dict[str, list[Told]] = defaultdict(list)
    for payment in told.values():
        if payment.request.name == take_back.name:
            undos[load(payment.request.arguments)["done_key"]].append(payment)
    ended = {e.envelope.session_id for e in events if isinstance(e.body, _ENDS)}
    held = {e.envelope.session_id for e in events if isinstance(e.body, _STOPS)}
    for key, payment in told.items():
        if payment.request.name != transfer.name:
            continue
        uncertain = "ActivityUncertain" in payment.facts
        session = key.split("/")[1]
        if undos[key] and not uncertain:
            yield f"transfer {key} is undone, and was never uncertain"
        if uncertain and not undos[key] and session not in ended | held:
            yield f"transfer {key} is uncertain, and nobody undoes it"
        for undo in undos[key]:
            if undo.stands == "ActivityCompleted" and key not in bank.taken_back:
                yield f"transfer {key} is told to be undone, and was not taken back"
    for key in bank.taken_back:
        if key not in undos:
            yield f"{key} was taken back, and nobody asked for it"


_ENDS = r.SessionCancelled | r.SessionFailed | r.SessionCompleted
_STOPS = r.SessionHeld | r.NondeterminismFound
