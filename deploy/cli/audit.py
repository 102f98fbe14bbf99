"""`audit verify`: whether the history, and the views made from it, keep their promises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..exits import Exit, Stopped
from ..settings import Settings
from .context import AsJson, kafka, queries, settings

if TYPE_CHECKING:
    from ...events.blobs import Blobs
    from ...events.log.protocol import Log, Place
    from ...projections.audit import Evidence
    from ...projections.queries import Queries
    from ...projections.rows import Rows
    from ...projections.views import Gap

app = typer.Typer(help="Check the history itself.", no_args_is_help=True)

READS_MAX = 5
"""Times the topics are read again because they moved meanwhile."""

VIEWS_MS = 10_000


@app.callback()
def _group() -> None:
    """A group, even with one command."""


@app.command("verify")
def verify(
    *,
    views: Annotated[bool, typer.Option(help="Check the views in Postgres as well.")] = True,
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
    the views equal a rebuild from the events.
    """
    from ...commands.wire import decode_command
    from ...projections.audit import asked_by, audit
    from ..telling.text import counted
    from .output import note, table, write_json

    given = settings()
    store = _store(given) if blobs else None
    with kafka(given) as log:
        if views:
            with queries(given) as asked:
                evidence = _evidence(given, log, asked, quiescent=quiescent)
        else:
            evidence = _evidence(given, log, None, quiescent=quiescent)
    asked_of = asked_by(decode_command)
    broken = audit(evidence, asked_of, blobs=store, digest_key=given.digest_key)
    counts = {
        "events": len(evidence.events),
        "commands": len(evidence.commands),
        "activities": len(evidence.activities),
        "outcomes": len(evidence.outcomes),
        "dead_letters": len(evidence.dead_letters),
        "views": evidence.rows is not None,
    }
    if as_json:
        found = [
            {"invariant": v.invariant, "session": v.session, "offset": v.offset, "what": v.sentence}
            for v in broken
        ]
        write_json({**counts, "violations": found})
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


def _evidence(given: Settings, log: Log, asked: Queries | None, *, quiescent: bool) -> Evidence:
    """Everything at one moment: read again where something was appended while it was read."""
    from ...events.log.kafka_survey import committed_offsets
    from ...events.log.protocol import Place
    from ...projections.archive import archived_sessions
    from ...projections.audit import evidence_from_log
    from ...projections.postgres import stored_gaps, stored_rows
    from ..processes import processors_group

    topics = given.topics
    count = log.partitions(topics.events)
    commands = [Place(topics.commands, number) for number in range(count)]
    for _ in range(READS_MAX):
        before = _ends(given, log, count)
        rows: Rows | None = None
        positions = None
        gaps: list[Gap] = []
        archived: frozenset[tuple[str, ...]] = frozenset()
        if asked is not None:
            asked.wait_for(
                {place: end for place, end in before.items() if place.topic == topics.events},
                timeout_ms=VIEWS_MS,
            )
            rows = stored_rows(given.postgres_url, given.namespace)
            positions = asked.positions()
            gaps = stored_gaps(given.postgres_url, given.namespace)
            archived = archived_sessions(given.postgres_url, given.namespace)
        committed = committed_offsets(given.kafka_servers, processors_group(given), commands)
        found = evidence_from_log(
            log,
            topics,
            _queues(given),
            committed=committed or None,
            rows=rows,
            positions=positions,
            gaps=gaps,
            archived=archived,
            quiescent=quiescent,
        )
        if _ends(given, log, count) == before:
            return found
        del found
    raise Stopped(
        Exit.NOT_IN_TIME,
        f"the log moved during each of {READS_MAX} readings: verify while nothing is asked, or stop 'wakeful run' first",
    )


def _ends(given: Settings, log: Log, count: int) -> dict[Place, int]:
    from ...events.log.protocol import Isolation, Place

    topics = given.topics
    kinds = (topics.commands, topics.events, topics.outcomes)
    places = [Place(topic, number) for topic in kinds for number in range(count)]
    return {place: end for place, (_, end) in log.ends(places, Isolation.COMMITTED).items()}


def _queues(given: Settings) -> list[str]:
    """The queues whose topics are there: an audit needs no app."""
    from ...events.log.kafka_survey import topic_names

    prefix = f"{given.namespace}.activities."
    names = topic_names(given.kafka_servers, prefix)
    found = {name.removeprefix(prefix).removesuffix(".v1").removesuffix(".once") for name in names}
    return sorted(found)
