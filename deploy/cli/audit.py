"""`audit`: whether the history, and the views made from it, keep their promises."""

from __future__ import annotations

from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from ..exits import Exit, Stopped
from ..settings import Settings
from . import differing, exporting, replaying
from .context import AsJson, kafka, queries, settings

if TYPE_CHECKING:
    from ...events.blobs import Blobs
    from ...events.log.protocol import Log
    from ...projections.audit.slices import Aside, Found
    from ...projections.queries import Queries
    from .progress import Bar

app = typer.Typer(help="Check the history itself.", no_args_is_help=True)

app.command("replay")(replaying.replay)
app.command("export")(exporting.export)
app.command("import")(exporting.import_)
app.command("diff")(differing.diff)


@app.command("verify")
def verify(
    *,
    views: Annotated[bool, typer.Option(help="Check the views in Postgres as well.")] = True,
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="Check what 'audit export' wrote instead."),
    ] = None,
    quiescent: Annotated[
        bool,
        typer.Option(
            "--quiescent", help="Nothing runs and nothing is due: find what was left undone, too."
        ),
    ] = False,
    blobs: Annotated[
        bool,
        typer.Option("--blobs", help="Read every payload that lies in the store of blobs, too."),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Read all topics of the namespace and check every promise; exits with 1 if one is broken.

    Sequence and hash chain, one outcome per activity, no second run of writes that must not have one, timers,
    approvals and their digests, messages and signals taken once and in order, commands disposed of once, and that
    the views equal a rebuild from the events. Of an export (`--file`) there are no views, and of the export of one session
    nothing is said of transactions, and of commands that left nothing, since others' records may belong to them.
    """
    from ..telling.text import counted
    from .output import note, table, write_json
    from .progress import Bar

    given = settings()
    store = _store(given) if blobs else None
    bar = Bar()
    try:
        if file is not None:
            found = _verified_file(given, file, bar, quiescent=quiescent, store=store)
        else:
            found = _verified(given, bar, views=views, quiescent=quiescent, store=store)
    finally:
        bar.close()
    broken = sorted(found.violations, key=lambda one: one.order)
    told = ("events", "commands", "activities", "outcomes", "dead_letters")
    counts = {**{name: found.counts.get(name, 0) for name in told}, "views": views and file is None}
    if as_json:
        listed = [
            {
                "invariant": v.invariant,
                "session": v.session,
                "seq": v.seq,
                "offset": v.offset,
                "what": v.sentence,
            }
            for v in broken
        ]
        write_json({**counts, "violations": listed})
        return Exit.REFUSED if broken else Exit.DONE
    table(
        ("invariant", "session", "offset", "what"),
        [(v.promise, v.session, v.offset, v.sentence) for v in broken],
    )
    read = f"{counts['events']} events of {counts['commands']} commands"
    if broken:
        raise Stopped(Exit.REFUSED, f"{counted(len(broken), 'violation')} in {read}")
    also = " and the views" if counts["views"] else ""
    note(f"{read}{also}: every promise is kept")
    return Exit.DONE


def _store(given: Settings) -> Blobs:
    from ..blobs import blobs_of, prove_blobs

    store = blobs_of(given)
    if store is None:
        raise Stopped(
            Exit.USAGE,
            "there is no store of blobs to look into: set WAKEFUL_BLOBS, or omit --blobs",
        )
    prove_blobs(given)
    return store


def _verified(
    given: Settings,
    bar: Bar,
    *,
    views: bool,
    quiescent: bool,
    store: Blobs | None,
) -> Found:
    from ...commands.wire import decode_command
    from ...projections.audit import asked_by
    from ...projections.audit.slices import check_slices

    with TemporaryDirectory(prefix="wakeful-audit-") as folder:
        with kafka(given) as log:
            if views:
                with queries(given) as asked:
                    aside = _aside(given, log, asked, Path(folder), bar, quiescent=quiescent)
            else:
                aside = _aside(given, log, None, Path(folder), bar, quiescent=quiescent)
        asked_of = asked_by(decode_command)
        return check_slices(aside, asked_of, blobs=store, digest_key=given.digest_key, tell=bar)


def _verified_file(
    given: Settings, file: Path, bar: Bar, *, quiescent: bool, store: Blobs | None
) -> Found:
    from ...commands.wire import decode_command
    from ...projections.audit import asked_by
    from ...projections.audit.slices import audit_slices
    from ..auditing.exported import open_export

    source = open_export(file).source(quiescent=quiescent)
    with TemporaryDirectory(prefix="wakeful-audit-") as folder:
        return audit_slices(
            source,
            asked_by(decode_command),
            Path(folder),
            blobs=store,
            digest_key=given.digest_key,
            tell=bar,
        )


def _aside(
    given: Settings, log: Log, asked: Queries | None, folder: Path, bar: Bar, *, quiescent: bool
) -> Aside:
    """Everything at one moment: read again where something was appended while it was read."""
    from ...projections.audit.slices import put_aside
    from ..auditing.live import READS_MAX, ends_of, live_source

    topics = given.topics
    moving = (topics.commands, topics.events, topics.outcomes)
    for number in range(READS_MAX):
        own = folder / f"{number}"
        own.mkdir()
        before = ends_of(log, moving)
        source = live_source(given, log, asked, before, quiescent=quiescent)
        aside = put_aside(source, own, bar)
        if ends_of(log, moving) == before:
            return aside
        rmtree(own)
    raise Stopped(
        Exit.NOT_IN_TIME,
        f"the log moved during each of {READS_MAX} readings: verify while nothing is asked, or stop 'wakeful run' first",
    )
