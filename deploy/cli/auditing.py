"""One audit for whoever asks: of a live namespace, at one moment, or of an export."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from ..exits import Exit, Stopped
from ..settings import Settings
from .context import kafka, queries

if TYPE_CHECKING:
    from ...events.blobs import Blobs
    from ...events.log.protocol import Log
    from ...projections.audit.slices import Aside, Found, Source
    from ...projections.queries import Queries
    from .progress import Bar

    Watch = Callable[[Source], Source]


def audited(
    given: Settings,
    *,
    file: Path | None,
    views: bool,
    quiescent: bool,
    blobs: bool,
    watch: Watch | None = None,
) -> Found:
    """What an audit of the namespace finds, or of the export in `file`; `watch` may look on while it is read."""
    from .progress import Bar

    store = _store(given) if blobs else None
    watch = watch or _unwatched
    bar = Bar()
    try:
        if file is not None:
            return _of_file(given, file, bar, quiescent=quiescent, store=store, watch=watch)
        return _live(given, bar, views=views, quiescent=quiescent, store=store, watch=watch)
    finally:
        bar.close()


def _unwatched(source: Source) -> Source:
    return source


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


def _live(
    given: Settings,
    bar: Bar,
    *,
    views: bool,
    quiescent: bool,
    store: Blobs | None,
    watch: Watch,
) -> Found:
    from ...commands.wire import decode_command
    from ...projections.audit import asked_by
    from ...projections.audit.slices import check_slices

    with TemporaryDirectory(prefix="wakeful-audit-") as folder:
        with kafka(given) as log, ExitStack() as ending:
            asked = ending.enter_context(queries(given)) if views else None
            aside = _aside(given, log, asked, Path(folder), bar, watch, quiescent=quiescent)
        asked_of = asked_by(decode_command)
        return check_slices(aside, asked_of, blobs=store, digest_key=given.digest_key, tell=bar)


def _of_file(
    given: Settings,
    file: Path,
    bar: Bar,
    *,
    quiescent: bool,
    store: Blobs | None,
    watch: Watch,
) -> Found:
    from ...commands.wire import decode_command
    from ...projections.audit import asked_by
    from ...projections.audit.slices import audit_slices
    from ..auditing.exported import open_export

    source = watch(open_export(file).source(quiescent=quiescent))
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
    given: Settings,
    log: Log,
    asked: Queries | None,
    folder: Path,
    bar: Bar,
    watch: Watch,
    *,
    quiescent: bool,
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
        source = watch(live_source(given, log, asked, before, quiescent=quiescent))
        aside = put_aside(source, own, bar)
        if ends_of(log, moving) == before:
            return aside
        rmtree(own)
    raise Stopped(
        Exit.NOT_IN_TIME,
        f"the log moved during each of {READS_MAX} readings: verify while nothing is asked, or stop 'wakeful run' first",
    )
