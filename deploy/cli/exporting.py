"""`audit export` and `audit import`: a history as a file that needs nothing else, and as a database to be asked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..exits import Exit, Stopped
from .context import AsJson, kafka, settings


def export(
    what: Annotated[
        list[str],
        typer.Argument(metavar="[SESSION] FILE", help="The session, or --all; and the new file."),
    ],
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="All sessions of the namespace, of every tenant.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a session's records, or all of the namespace, into one file that can be checked anywhere.

    It holds what the topics hold: commands, events, tasks, outcomes, snapshots, dead letters, with the schemas they were
    written by. The chain that is printed stands for the whole file: note it where nobody who has the file can change it.
    """
    from ..auditing import exporting
    from ..telling.text import counted
    from .output import note, write_json
    from .progress import Bar

    if len(what) != (1 if everything else 2):
        told = "give a session and a file, or --all and a file"
        raise Stopped(Exit.USAGE, f"{told}: 'wakeful audit export desk-1 desk-1.jsonl'")
    session_id, to = None if everything else what[0], Path(what[-1])
    _check_new(to)
    given = settings()
    session = None if session_id is None else (given.tenant, session_id)
    bar = Bar()
    try:
        with kafka(given) as log:
            records, chain = exporting.export(given, log, session, to, bar)
    finally:
        bar.close()
    if session_id is not None and not records:
        to.unlink()
        raise Stopped(
            Exit.NOT_FOUND, f"no record of a session {session_id}: see 'wakeful session list'"
        )
    if as_json:
        write_json({"file": str(to), "records": records, "chain": chain})
    else:
        typer.echo(chain)
    note(f"{counted(records, 'record')} in {to}; its chain is {chain}", quiet=as_json)


def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What 'audit export' wrote.")],
    to: Annotated[Path, typer.Argument(metavar="DATABASE", help="The SQLite database to be made.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Make an SQLite database of an export, to be asked: every record decoded, and the views as its events give them.

    It is a database and no namespace, so that nothing in it happens again: no timer fires, no activity is handed out.
    """
    from ..auditing.exported import open_export
    from ..auditing.imported import make_database
    from .output import note, table, write_json
    from .progress import Bar

    _check_new(to)
    export = open_export(file)
    bar = Bar()
    try:
        counts = make_database(export, to, bar)
    finally:
        bar.close()
    if as_json:
        write_json({"database": str(to), "rows": counts})
        return
    table(("table", "rows"), counts.items())
    note(f"{export.about.whose} in {to}: ask it with 'sqlite3 {to}'")


def _check_new(path: Path) -> None:
    if path.exists():
        raise Stopped(Exit.USAGE, f"{path} is there already: name a file that is not")
    if not path.parent.is_dir():
        raise Stopped(Exit.USAGE, f"there is no folder {path.parent}: make it, or name another")
