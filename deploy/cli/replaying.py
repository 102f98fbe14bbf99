"""`audit replay`: a session folded again up to any of its events, and compared with what was kept of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..exits import Exit, Stopped
from ..settings import Settings
from .asking import SessionId
from .context import AsJson, kafka, queries, settings

if TYPE_CHECKING:
    from ..auditing.replaying import Range, Replayed


def replay(
    session_id: SessionId,
    *,
    first: Annotated[
        int, typer.Option("--from", min=1, help="Tell the events from this number on.")
    ] = 1,
    last: Annotated[
        int | None, typer.Option("--to", min=1, help="Fold up to this event, and no further.")
    ] = None,
    turn: Annotated[
        int | None, typer.Option(min=1, help="Fold to the end of this turn, and tell its events.")
    ] = None,
    views: Annotated[bool, typer.Option(help="Compare with the views in Postgres as well.")] = True,
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="Replay from what 'audit export' wrote."),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Fold a session's events again, show its state there, and compare it with what was kept; exits with 1 if it differs.

    The fold always begins with the first event. Of each snapshot up to there, and of the views where the fold goes as
    far as they do, the first field that differs is named, with what it should be.
    """
    from ..auditing.replaying import Range

    if turn is not None and (last is not None or first != 1):
        raise Stopped(Exit.USAGE, "--turn names a range by itself: omit --from and --to")
    if last is not None and first > last:
        raise Stopped(Exit.USAGE, f"--from {first} is behind --to {last}: give a range")
    wanted = Range(first, last, turn)
    given = settings()
    if file is not None:
        replayed = _replayed_file(given, file, session_id, wanted)
    else:
        replayed = _replayed(given, session_id, wanted, views=views)
    _check_range(session_id, replayed, wanted)
    _show(session_id, replayed, wanted, as_json=as_json)
    return Exit.REFUSED if replayed.differences else Exit.DONE


def _replayed(given: Settings, session_id: str, wanted: Range, *, views: bool) -> Replayed:
    from ...projections.stored import stream_rows
    from ..auditing.replaying import compare_rows, replay
    from ..auditing.sessions import of_session
    from .progress import Bar

    session, bar = (given.tenant, session_id), Bar()
    try:
        with kafka(given) as log:
            events, snapshots = of_session(log, given.topics, session, bar)
    finally:
        bar.close()
    replayed = replay(events, snapshots, wanted)
    if views and replayed.taken and not replayed.differences:
        with queries(given):
            compare_rows(replayed, stream_rows(given.postgres_url, given.namespace, session))
    return replayed


def _replayed_file(given: Settings, file: Path, session_id: str, wanted: Range) -> Replayed:
    from ..auditing.exported import open_export
    from ..auditing.replaying import replay

    export = open_export(file)
    whose = export.about.session
    tenant = given.tenant if whose is None else whose[0]  # one session's file says whose it is
    events, snapshots = export.of_session((tenant, session_id))
    return replay(events, snapshots, wanted)


def _check_range(session_id: str, replayed: Replayed, wanted: Range) -> None:
    from ..telling.text import counted

    if not replayed.events:
        raise Stopped(
            Exit.NOT_FOUND, f"no event of a session {session_id}: see 'wakeful session list'"
        )
    if replayed.differences:
        return
    has = counted(replayed.events, "event")
    for seq in (wanted.first, wanted.last):
        if seq is not None and seq > replayed.events:
            raise Stopped(Exit.NOT_FOUND, f"session {session_id} has {has}, and none is {seq}")
    turns = 0 if replayed.state is None else replayed.state.turn
    if wanted.turn is not None and turns != wanted.turn:
        raise Stopped(
            Exit.NOT_FOUND, f"session {session_id} has {counted(turns, 'turn')}, not {wanted.turn}"
        )


def _show(session_id: str, replayed: Replayed, wanted: Range, *, as_json: bool) -> None:
    from ..auditing.replaying import replayed_json, told
    from ..telling.words import event_json, event_line
    from .output import note, write_json

    range_ = list(told(replayed, wanted))
    if as_json:
        shown = [event_json(e, partition=at.partition, offset=at.offset) for e, at in range_]
        write_json({"session_id": session_id, **replayed_json(replayed), "range": shown})
    else:
        for event, _ in range_:
            typer.echo(event_line(event))
        _show_state(session_id, replayed)
    for difference in replayed.differences:
        note(f"differs: {difference}")
    if not replayed.differences:
        note(_compared(replayed))


def _show_state(session_id: str, replayed: Replayed) -> None:
    from ..telling.text import counted, printable, shown_text, when
    from ..telling.words import as_json
    from .output import facts

    head, state = replayed.head, replayed.state
    if state is None:
        return
    typer.echo("")
    open_ = [f"activity {a.name} ({a.activity_id})" for a in state.activities]
    open_ += [f"in doubt: {u.name} ({u.activity_id})" for u in state.uncertain]
    open_ += [f"approval {a.name} ({a.proposal_id})" for a in state.approvals]
    open_ += [f"timer {t.timer_id}, due {when(t.due_ms)}" for t in state.timers]
    open_ += [f"{one.kind} {one.name}".rstrip() for one in state.receives]
    facts(
        (
            ("session", session_id),
            ("at", f"event {head.seq} of {replayed.events}, {when(head.now_ms)}"),
            ("hash", head.hash.hex()),
            ("workflow", f"{state.workflow} v{state.workflow_version or '-'}"),
            ("status", state.status),
            ("turn", f"{state.turn}, {counted(state.steps, 'step')}" if state.turn else None),
            ("state", None if state.data is None else shown_text(as_json(state.data), 2_000)),
            ("held", None if state.hold is None else printable(state.hold.detail, 300)),
            ("open", "; ".join(open_)),
            ("queued", "; ".join(shown_text(as_json(q.message), 100) for q in state.queue)),
            ("untrusted", ", ".join(state.tainted_by)),
        )
    )


def _compared(replayed: Replayed) -> str:
    from ..telling.text import counted

    told = [counted(replayed.snapshots, "snapshot")] if replayed.snapshots else []
    if replayed.views_at is not None:
        told.append(f"the views up to event {replayed.views_at}")
    return f"the same as {' and '.join(told)}" if told else "nothing was kept of it up to there"
