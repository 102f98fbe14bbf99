"""`audit diff`: recorded sessions on the code that is given, and the decisions that would be others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from ..exits import Exit, Stopped
from ..settings import Settings
from .context import AsJson, kafka, load, settings

if TYPE_CHECKING:
    from ...events.log.protocol import Record
    from ...events.records import Event
    from ...projections.audit.slices import Source
    from ..auditing.differing import Changed, Driver
    from .progress import Bar


def diff(
    session_id: Annotated[
        str | None,
        typer.Argument(metavar="[SESSION]", help="The session; by default all of the tenant."),
    ] = None,
    *,
    against: Annotated[
        str,
        typer.Option(metavar="APP", help="The code: a module such as desk.workflows, or a file."),
    ],
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="Take what 'audit export' wrote instead."),
    ] = None,
    newest: Annotated[
        bool,
        typer.Option(
            "--newest", help="Drive each turn on the newest version, not on the one it ran on."
        ),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Drive recorded sessions again on this code, and list the decisions that would be others; exits with 1 if there are.

    No activity is called and nothing is written: what came back then is what comes back now. Of each turn that differs
    the first step is told, as the history holds it, and as the code asks for it.
    """
    from ...commands.check import Facts
    from ..auditing.differing import Driver, of_newest, of_version
    from ..blobs import blobs_of
    from .progress import Bar

    app = load(against)
    given = settings()
    choose = of_newest(app) if newest else of_version(app)
    driver = Driver(choose, Facts(given.digest_key, blobs=blobs_of(given)))
    bar = Bar()
    try:
        found = list(_changed(given, driver, session_id, file, bar))
    finally:
        bar.close()
    if not driver.sessions:
        whose = "of the tenant" if session_id is None else session_id
        raise Stopped(
            Exit.NOT_FOUND, f"no event of a session {whose} is there: see 'wakeful session list'"
        )
    _show(driver, found, as_json=as_json)
    return Exit.REFUSED if found else Exit.DONE


def _changed(
    given: Settings, driver: Driver, session_id: str | None, file: Path | None, bar: Bar
) -> Iterator[Changed]:
    from ..auditing.exported import open_export
    from ..auditing.live import events_source
    from ..auditing.sessions import of_session

    if file is not None:
        export = open_export(file)
        whose = export.about.session
        tenant = given.tenant if whose is None else whose[0]
        yield from _in_slices(driver, export.source(), (tenant, session_id), bar)
        return
    with kafka(given) as log:
        if session_id is None:
            source = events_source(given, log)
            yield from _in_slices(driver, source, (given.tenant, None), bar)
            return
        records, _ = of_session(log, given.topics, (given.tenant, session_id), bar)
    events = list(_decoded(records))
    if events:
        yield from driver.changed(events)


def _in_slices(
    driver: Driver, source: Source, wanted: tuple[str, str | None], bar: Bar
) -> Iterator[Changed]:
    from ...projections.audit.history import History
    from ...projections.audit.slices import put_aside, slices_of

    tenant, session_id = wanted
    with TemporaryDirectory(prefix="wakeful-audit-") as folder:
        aside = put_aside(source, Path(folder), bar)
        for number, evidence in enumerate(slices_of(aside)):
            bar("driving", number, aside.slices)
            history = History.read(evidence, None)
            for (whose, name), facts in sorted(history.sessions.items()):
                if whose == tenant and session_id in (None, name):
                    yield from driver.changed(fact.event for fact in facts)


def _decoded(records: list[Record]) -> Iterator[Event]:
    from ...events.codec import decode_event

    for record in records:
        yield decode_event(record.value, record.headers)


def _show(driver: Driver, found: list[Changed], *, as_json: bool) -> None:
    from dataclasses import asdict

    from ..telling.text import counted
    from .output import note, table, write_json

    driven = f"{counted(driver.turns, 'turn')} of {counted(driver.sessions, 'session')}"
    if as_json:
        changed = [asdict(one) for one in found]
        write_json({"sessions": driver.sessions, "turns": driver.turns, "changed": changed})
        return
    table(
        ("session", "turn", "seq", "history holds", "this code asks for"),
        [(one.session_id, one.turn, one.seq, one.expected, one.actual) for one in found],
    )
    told = f"{counted(len(found), 'changed decision')} in" if found else "no changed decision in"
    note(f"{told} {driven}")
