"""`audit`: whether the history, and the views made from it, keep their promises."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..exits import Exit, Stopped
from . import differing, exporting, invariants, replaying
from .auditing import audited
from .context import AsJson, settings

app = typer.Typer(help="Check the history itself.", no_args_is_help=True)

app.command("replay")(replaying.replay)
app.command("export")(exporting.export)
app.command("import")(exporting.import_)
app.command("diff")(differing.diff)
app.command("invariants")(invariants.invariants)


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

    found = audited(settings(), file=file, views=views, quiescent=quiescent, blobs=blobs)
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
