"""What stands around a fact: its place in the session's history, when it holds, whose doing it is, and what it comes of."""

from __future__ import annotations

from ..commands import models as m
from ..events import records as r
from .session import Received, Session
from .workflow.facts import is_asked

_ITS_OWN = r.ApprovalRequested | r.ActivityRetried | r.ActivityReturned
"""Facts for the message of the turn, whoever's command brought them up, besides what its workflow asks for."""


def envelope_of(
    session: Session,
    received: Received,
    body: r.EventBody,
    *,
    actor: str,
    at_ms: int,
    control_offset: int | None,
    disposes: bool,
) -> r.Envelope:
    """The envelope of the session's next fact. `disposes`: it is what became of the command, which is remembered then."""
    head, header = session.head, received.command.header
    seq = head.seq + 1
    remembered = received.command_hash if disposes else None
    return r.Envelope(
        tenant=session.tenant,
        session_id=session.session_id,
        seq=seq,
        at_ms=at_ms,
        actor=actor,
        on_behalf_of=_on_behalf_of(session, body, header),
        channel=header.channel,
        cause=r.Cause(
            received.topic,
            received.partition,
            received.offset,
            header.command_id,
            remembered,
            None if remembered is None else header.issued_at_ms,
        ),
        control_offset=control_offset,
        versions_seq=seq if isinstance(body, r.TurnStarted) else head.versions_seq,
        prev_hash=head.hash,
        vouched_by=received.vouched_by,
    )


def _on_behalf_of(session: Session, body: r.EventBody, header: m.CommandHeader) -> str | None:
    """Whoever's message this turn answers, for what the workflow asks for; else what the command says.

    Told by the fact and not by its author's name: a stranger may call himself as he likes.
    """
    message = session.state.message if session.state is not None else None
    own = is_asked(body) or isinstance(body, _ITS_OWN)
    state = session.state
    if own and state is not None and state.undoing is not None and state.registered:
        return state.registered[-1].on_behalf_of  # of whoever the effect was for
    return message.actor if message and own else header.on_behalf_of
