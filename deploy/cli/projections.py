"""`projections`: `rebuild` makes the views again from the start of the log; `archive` takes out what ended long ago."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from ..exits import Exit, Stopped
from .context import POSTGRES_LIMIT_S, AsJson, kafka, settings

if TYPE_CHECKING:
    from ...projections.rebuild import Progress, Rebuild

app = typer.Typer(help="The views in Postgres.", no_args_is_help=True)

TELL_EVERY_S = 1.0

REST_S = 1.0
"""After some thousand sessions were claimed, so that the projector gets on."""


@app.callback()
def _group() -> None:
    """A group, even with one command."""


@app.command("rebuild")
def rebuild(
    *,
    accept_differences: Annotated[
        bool,
        typer.Option(
            "--accept-differences", help="Put the rebuilt rows in place even where they differ."
        ),
    ] = False,
    discard: Annotated[
        bool, typer.Option("--discard", help="Drop what an earlier rebuild left, and do no more.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Build the views again from the events while everything runs, compare, and switch in one moment.

    Rows that differ from the live ones are shown, and nothing is switched; exits with 1 then, and where Postgres refused
    what a record holds, so that the rows lack it. Stopped at any point, run it again: it goes on from there.
    """
    from ...events.codec import decode_event
    from ...events.log.protocol import Isolation, Place
    from ...projections.rebuild import AnotherRebuild, Differs, Rebuild, discard_rebuilt
    from ...projections.views import Superseded
    from ..processes import prove_postgres
    from .output import note

    given = settings()
    prove_postgres(given, POSTGRES_LIMIT_S)
    if discard:
        dropped = discard_rebuilt(given.postgres_url, given.namespace)
        note("the rebuilt rows are dropped" if dropped else "there are no rebuilt rows")
        return Exit.DONE
    with kafka(given) as log:
        topic = given.topics.events
        places = [Place(topic, number) for number in range(log.partitions(topic))]
        reader = log.reader(Isolation.COMMITTED)
        run = Rebuild(
            given.postgres_url,
            given.namespace,
            reader,
            places,
            lambda record: decode_event(record.value, record.headers),
            ends=lambda: {p: end for p, (_, end) in log.ends(places, Isolation.COMMITTED).items()},
            rest=time.sleep,
            accept_differences=accept_differences,
        )
        try:
            _follow(run)
        except (AnotherRebuild, Superseded) as other:
            raise Stopped(Exit.BUSY, str(other)) from other
        except Differs as differs:
            _report(run.progress, switched=False, as_json=as_json)
            raise Stopped(Exit.REFUSED, differs.message) from differs
        finally:
            run.close()
            reader.close()
    _report(run.progress, switched=True, as_json=as_json)
    if run.progress.refused:
        raise Stopped(
            Exit.REFUSED,
            f"the rebuilt rows are in place, but the database refused what {run.progress.refused} records hold: they are "
            "in the view gaps, with the reason; report it, then rebuild with a version that mends it",
        )
    return Exit.DONE


@app.command("archive")
def archive(
    *,
    finished_before: Annotated[
        str, typer.Option("--finished-before", help="What ended so long ago: 90d, 12h.")
    ],
    to: Annotated[
        str, typer.Option("--to", help="A folder, or a URL such as s3://bucket/archive.")
    ],
    as_json: AsJson = False,
) -> int:
    """Take finished sessions out of the views and into files, of all tenants, while everything runs.

    Each tenant's sessions go below its name as gzip files of JSON lines, with a manifest that names them and their
    digests. Topics are untouched, but a rebuild leaves archived sessions out. Ended in the middle, run it again.
    """
    from pathlib import Path

    from ...events.blob_store import FsspecBlobs
    from ...projections.archive import AnotherRuns, Archive
    from ...projections.database import is_shown
    from ..clock import SystemClock
    from ..telling.text import counted
    from .output import note, write_json
    from .typed import ago_ms

    given = settings()
    before_ms = SystemClock().now_ms() - ago_ms("--finished-before", finished_before)
    if not is_shown(given.postgres_url, given.namespace):
        raise Stopped(
            Exit.UNAVAILABLE,
            "the views do not show this version's rows yet: start 'wakeful projector', and wait until it has caught up",
        )
    store = FsspecBlobs(to if "://" in to else Path(to).absolute().as_uri())
    run = Archive(
        given.postgres_url,
        given.namespace,
        store,
        before_ms=before_ms,
        rest=lambda: time.sleep(REST_S),
    )
    try:
        for point in run.steps():
            if point == "a.taken_out":
                note(f"{run.told.tenant}: {counted(run.told.sessions, 'session')} so far")
    except AnotherRuns as other:
        raise Stopped(Exit.BUSY, str(other)) from other
    told = run.told
    if as_json:
        write_json({"sessions": told.sessions, "parts": told.parts, "to": store.url})
    else:
        note(f"{counted(told.sessions, 'session')} archived in {counted(told.parts, 'part')}")
    return Exit.DONE


def _follow(run: Rebuild) -> None:
    """Tells once in a while how far it is."""
    from .output import note

    told, next_s = "", time.monotonic()
    for _ in run.steps():
        progress = run.progress
        if progress.doing != told or time.monotonic() >= next_s:
            told, next_s = progress.doing, time.monotonic() + TELL_EVERY_S
            note(told_of(progress))


def told_of(progress: Progress) -> str:
    """One line: what it does, and how far that is where it can be said."""
    of = f"{progress.done} of {progress.wanted}" if progress.wanted else ""
    return f"{progress.doing:10}{of}".rstrip()


def _report(progress: Progress, *, switched: bool, as_json: bool) -> None:
    from ..telling.text import counted
    from .output import note, table, write_json

    if as_json:
        shown = [{"table": d.table, "key": d.key, "what": d.told} for d in progress.shown]
        answer = {"switched": switched, "differing": progress.differing, "differences": shown}
        refusals = [{"key": d.key, "what": d.told} for d in progress.refusals]
        write_json({**answer, "refused": progress.refused, "refusals": refusals})
        return
    table(
        ("table", "key", "what"),
        [
            (d.table, "/".join(map(str, d.key)), d.told)
            for d in (*progress.shown, *progress.refusals)
        ],
    )
    if switched:
        were = f"{counted(progress.differing, 'row')} {'was another' if progress.differing == 1 else 'were others'} before"
        also = f"; {were}" if progress.differing else ""
        note(f"the views show the rebuilt rows{also}")
