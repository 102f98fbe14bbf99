"""`doctor`: looks at everything that an installation needs, and says what is wrong and what to do about it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import typer

from ..exits import Exit, Stopped
from ..settings import Settings
from . import context
from .context import AsJson, kafka, settings
from .findings import (
    LETTERS_MAX,
    Finding,
    of_clock,
    of_keys,
    of_lag,
    of_letters,
    of_logins,
    of_policy,
    of_settings,
    of_topics,
    summary,
)

if TYPE_CHECKING:
    from ...events.log.protocol import Log

NEWEST = 20
"""Offsets at a partition's end whose events are read as a proof that this version can."""

Look = Callable[[], list[Finding]]


def doctor(*, as_json: AsJson = False) -> int:
    """Check services, topics, versions, lag, clocks and settings; exits with 1 if something is wrong.

    Nothing of yours is changed. A small topic, wakeful.clock, tells the broker's time.
    """
    from dataclasses import asdict

    from .output import note, write_json

    found = list(_all(settings()))
    wrong = sum(one.verdict in ("wrong", "unknown") for one in found)
    if as_json:
        write_json({"wrong": wrong, "findings": [asdict(one) for one in found]})
    else:
        for one in found:
            typer.echo(f"{one.verdict:<7}  {one.name:<17}  {one.what}")
            if one.to_do:
                typer.echo(f"{'':<7}  {'':<17}  do: {one.to_do}")
        note(summary(found))
    return Exit.REFUSED if wrong else Exit.DONE


def _all(given: Settings) -> Iterator[Finding]:
    """Each look by itself: what fails is a finding of its own, and ends no other."""
    reached = _looked("kafka", lambda: _kafka(given))
    yield from reached
    database = _looked("postgres", lambda: _postgres(given))
    yield from database
    yield from _looked("redis", lambda: _redis(given))
    log_answers = all(one.verdict == "ok" for one in reached)
    views_answer = all(one.verdict == "ok" for one in database)
    if log_answers:
        topics = _looked("topics", lambda: _topics(given))
        yield from topics
        yield from _looked("clock", lambda: _clock(given))
        if not any(one.what.endswith("is missing") for one in topics):
            yield from _looked("stored events", lambda: _schemas(given))
            yield from _looked("dead letters", lambda: _letters(given))
            yield from _looked("policy", lambda: _policy(given))
            if views_answer:
                yield from _looked("lag", lambda: _lag(given))
    if views_answer:
        views = _looked("views", lambda: _views(given))
        yield from views
        if all(one.verdict == "ok" for one in views):
            yield from _looked("tenants", lambda: _tenants(given))
        yield from _looked("logins", lambda: _logins(given))
    yield from of_settings(given)
    yield from _looked("keys", lambda: _keys(given))
    yield from _looked("blobs", lambda: _store(given))


def _looked(name: str, look: Look) -> list[Finding]:
    from .errors import explain

    try:
        return look()
    except Exception as error:
        told, _ = explain(error)
        what, cut, to_do = told.removeprefix("wakeful: ").partition("): ")
        what += cut[:1]
        if not to_do:
            what, _, to_do = told.removeprefix("wakeful: ").rpartition(": ")
        known = isinstance(error, Stopped)
        return [Finding(name, "wrong" if known else "unknown", what or to_do, to_do)]


def _kafka(given: Settings) -> list[Finding]:
    from ...events.log import probe
    from ..processes import check_cluster

    servers = given.kafka_servers
    try:
        found = probe.cluster_id(servers, limit_s=context.KAFKA_LIMIT_S)
    except probe.NotReadyError as error:
        to_do = "see that a broker runs there and this machine reaches it; or start one with 'wakeful up', or set WAKEFUL_KAFKA to another"
        return [Finding("kafka", "wrong", str(error), to_do)]
    check_cluster(given, found)
    return [Finding("kafka", "ok", f"{servers} is cluster {found}")]


def _postgres(given: Settings) -> list[Finding]:
    from ..processes import prove_postgres
    from ..stack.external import without_password

    prove_postgres(given, context.POSTGRES_LIMIT_S)
    return [Finding("postgres", "ok", f"{without_password(given.postgres_url)} answers")]


def _redis(given: Settings) -> list[Finding]:
    """Nothing depends on it: without it a call may be made twice after a rebalance, where its contract allows that."""
    from ..stack.external import without_password

    if given.redis is None:
        to_do = "set WAKEFUL_REDIS, if such calls cost much"
        return [Finding("redis", "advice", "none: calls may be repeated after a rebalance", to_do)]
    address = without_password(given.redis)
    try:
        from ..stack.native_valkey import ping
        from ..stack.waiting import NotReadyYetError

        ping(given.redis, context.POSTGRES_LIMIT_S)
    except (ImportError, NotReadyYetError) as error:
        to_do = "mend it, or unset WAKEFUL_REDIS: calls may be repeated after a rebalance"
        return [Finding("redis", "advice", f"no answer from {address} ({error})", to_do)]
    return [Finding("redis", "ok", f"{address} answers")]


def _keys(given: Settings) -> list[Finding]:
    """Whether commands are signed here, and whether the keyring can be used."""
    from ...commands.keyring import Keyring
    from ..clock import SystemClock
    from ..identity import key_file

    if given.insecure:
        told = "every command is believed, whoever can write to the topic"
        to_do = "unset WAKEFUL_INSECURE, except on your own machine ('wakeful keys new' makes keys)"
        return [Finding("keys", "advice", told, to_do)]
    found = key_file(given)
    ring = found.ring() if found is not None else Keyring()
    return of_keys(ring, str(given.keys), SystemClock().now_ms())


def _topics(given: Settings) -> list[Finding]:
    from ...events.log.kafka_survey import topics_as_they_are

    prefix = f"{given.namespace}."
    found = topics_as_they_are(given.kafka_servers, prefix)
    activities = f"{prefix}activities."
    names = [name.removeprefix(activities) for name in found if name.startswith(activities)]
    queues = {name.removesuffix(".v1").removesuffix(".once") for name in names} or {"default"}
    replicas = given.min_insync_replicas
    wanted = given.topics.specs(queues, given.partitions, min_insync_replicas=replicas)
    return of_topics(wanted, found, given.partitions)


def _clock(given: Settings) -> list[Finding]:
    from ...events.log import probe
    from ..clock import SystemClock

    try:
        seen = probe.clock_between(
            given.kafka_servers, SystemClock().now_ms, limit_s=context.KAFKA_LIMIT_S
        )
    except probe.NotReadyError as error:
        to_do = "allow this client to create and write the topic wakeful.clock, or compare the clocks by hand"
        return [Finding("clock", "advice", str(error), to_do)]
    return [of_clock(*seen)]


def _schemas(given: Settings) -> list[Finding]:
    """Whether this version can read the newest events: what a newer one wrote, it may not."""
    with kafka(given) as log:
        read, unread = _newest_events(log, given)
    if unread:
        to_do = "run this command, and all processes, with the version that wrote them"
        told = f"{len(unread)} of the newest events cannot be read here ({unread[0]})"
        return [Finding("stored events", "wrong", told, to_do)]
    from importlib.metadata import version

    told = f"the newest {read} events can be read by this version, {version('wakeful')}"
    return [Finding("stored events", "ok", told)]


def _newest_events(log: Log, given: Settings) -> tuple[int, list[str]]:
    from ...events.codec import decode_event
    from ...events.errors import Undecodable
    from ...events.log.protocol import Isolation, Place
    from ..telling.reading import to_the_end

    topic = given.topics.events
    places = [Place(topic, number) for number in range(log.partitions(topic))]
    ends = log.ends(places, Isolation.COMMITTED)
    read, unread = 0, []
    starts = {place: max(first, end - NEWEST) for place, (first, end) in ends.items()}
    for record in to_the_end(log, starts):
        try:
            decode_event(record.value, record.headers)
            read += 1
        except Undecodable as error:
            unread.append(f"{record.partition}@{record.offset}: {error}")
    return read, unread


def _letters(given: Settings) -> list[Finding]:
    """Those that nobody has dealt with."""
    from ...events.headers import dead_letter_in
    from ..clock import SystemClock
    from ..telling.dealing import newest_letters

    with kafka(given) as log:
        found = newest_letters(log, given.topics, LETTERS_MAX).records
    causes = ((record, dead_letter_in(record.headers)) for record in found)
    letters = [
        (record.timestamp_ms, "of no known reason" if cause is None else cause.reason)
        for record, cause in causes
    ]
    return [of_letters(letters, SystemClock().now_ms())]


def _policy(given: Settings) -> list[Finding]:
    """Which set is in force, and what else lies there, as the keys of this machine judge it."""
    from ..identity import judge_of
    from ..policies import show

    with kafka(given) as log:
        shown = show(log, given, judge_of(given, log))
    version = shown.published.version if shown.published is not None else None
    return [of_policy(version, shown.damaged or shown.revoked, shown.ignored)]


def _store(given: Settings) -> list[Finding]:
    """A finding only where the store that is named cannot be used."""
    from ..blobs import FOLDER, prove_blobs

    prove_blobs(given)
    if given.blobs is None or not given.blobs.startswith(FOLDER):
        return []
    folder = Path(unquote(given.blobs.removeprefix(FOLDER)))
    there = next(one for one in (folder, *folder.parents) if one.exists())
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return []
    to_do = f"let this user write {folder}, or set WAKEFUL_BLOBS to another place"
    return [Finding("blobs", "wrong", f"nothing can be written below {there}", to_do)]


def _lag(given: Settings) -> list[Finding]:
    from ...events.log.kafka_survey import members
    from ..processes import processors_group
    from .behind import behind

    late = behind()
    lost = [Finding("lag", "unknown", *_split(why)) for why in late.unknown]
    if lost:
        return lost
    return of_lag(late.lags, len(members(given.kafka_servers, processors_group(given))))


def _split(told: str) -> tuple[str, str]:
    what, _, to_do = told.rpartition(": ")
    return (what, to_do) if what else (to_do, "")


def _views(given: Settings) -> list[Finding]:
    from ...projections.database import is_shown, missing_views
    from ...projections.queries import Queries
    from ...projections.schemas import VERSION, Schemas

    to_do = "start 'wakeful run' or 'wakeful projector' of this version, which brings them there"
    missing = missing_views(given.postgres_url, given.namespace)
    if missing and len(missing) < len(Schemas(given.namespace).view_names):
        told = f"views are missing in {given.namespace!r}: {', '.join(missing)}"
        return [Finding("views", "wrong", told, to_do)]
    if not is_shown(given.postgres_url, given.namespace):
        told = f"the views in {given.namespace!r} are missing, or not of this program's version {VERSION}"
        return [Finding("views", "wrong", told, to_do)]
    with Queries(given.postgres_url, given.namespace) as asked:
        gaps = asked.gaps()
    if gaps:
        first = gaps[0]
        told = f"{len(gaps)} events are not, or not wholly, in the views, the first at {first['partition']}@{first['log_offset']}"
        to_do = "see 'wakeful audit verify'; 'wakeful projections rebuild' makes them anew"
        return [Finding("views", "wrong", f"{told} ({first['reason']})", to_do)]
    return [Finding("views", "ok", f"version {VERSION}, without gaps")]


def _tenants(given: Settings) -> list[Finding]:
    """Whether the database keeps tenants apart: the roles are there, and nothing shows rows of all of them."""
    from ...projections.connection import connect
    from ...projections.schemas import Schemas
    from ...projections.tenants import missing_roles, unguarded

    schemas = Schemas(given.namespace)
    with connect(given.postgres_url, access="read") as connection:
        missing = missing_roles(connection, schemas)
        if missing:
            to_do = "start 'wakeful run' or 'wakeful projector' of this version, which makes them or says who may"
            return [Finding("tenants", "wrong", f"role {missing[0]} is missing", to_do)]
        found = unguarded(connection, schemas)
    to_do = "make such a view anew WITH (security_invoker = true), or drop it"
    wrong = [Finding("tenants", "wrong", told, to_do) for told in found]
    return wrong or [Finding("tenants", "ok", "each reader is shown one tenant's rows")]


def _logins(given: Settings) -> list[Finding]:
    """Whether somebody keeps the views from being made, and what logins may do besides reading, where there are any."""
    from ...projections import confining, exclusion
    from ...projections.connection import connect
    from ...projections.database import login_names
    from ...projections.schemas import Schemas

    schemas = Schemas(given.namespace)
    with connect(given.postgres_url, access="read") as connection:
        known = login_names(connection, schemas)
        left = confining.freedoms(connection, schemas) if known else []
        long = {
            work: exclusion.holders(connection, schemas, work, seconds=seconds)
            for work, seconds in exclusion.LONG_S.items()
        }
        lingering = exclusion.lingering(connection, schemas, seconds=exclusion.LINGERING_S)
    return of_logins(len(known), [one.may for one in left], long, lingering)
