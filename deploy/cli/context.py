"""What commands need, opened from the settings: each connection is checked before it is used."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from ..exits import Exit, Stopped
from ..settings import Settings, load_settings

if TYPE_CHECKING:
    from ...commands.client import Client
    from ...events.log.protocol import Log
    from ...processors.app import App
    from ...projections.queries import Queries

KAFKA_LIMIT_S = 4.0
POSTGRES_LIMIT_S = 2.0

AsJson = Annotated[bool, typer.Option("--json", help="JSON on stdout and nothing else.")]

AppTarget = Annotated[
    str,
    typer.Argument(
        metavar="APP", help="A module such as desk.workflows, or a file such as desk.py."
    ),
]

CHANNEL = "cli"


def settings() -> Settings:
    """The settings of a command that asks or reads: what it logs is warnings, and never on stdout."""
    from .. import logs

    given = load_settings(os.environ)
    quiet = given.log if given.log in ("debug", "error") else "warning"
    logs.configure(quiet, given.log_format)
    return given


@contextmanager
def kafka(given: Settings, *, may_be_empty: bool = False) -> Iterator[Log]:
    """The log, after its broker has answered and proved to be the one that is meant, with this namespace's topics."""
    from ...events.log import probe
    from ...events.log.kafka import KafkaLog
    from ..processes import check_cluster, existing_partitions

    servers = given.kafka_servers
    try:
        check_cluster(given, probe.cluster_id(servers, limit_s=KAFKA_LIMIT_S))
    except probe.NotReadyError:
        raise Stopped(
            Exit.UNAVAILABLE,
            f"no answer from kafka at {servers} within {KAFKA_LIMIT_S:.0f} s: check it with 'wakeful status', "
            "start it with 'wakeful up', or set WAKEFUL_KAFKA",
        ) from None
    with KafkaLog(servers, client_id=f"{given.namespace}.cli") as log:
        if not may_be_empty and existing_partitions(log, given) is None:
            raise Stopped(
                Exit.NOT_FOUND,
                f"namespace {given.namespace} has no topics at {servers}: 'wakeful run APP' or 'wakeful topics apply' "
                "makes them, or WAKEFUL_NAMESPACE names another",
            )
        yield log


@contextmanager
def client(
    given: Settings, log: Log, *, actor: str | None = None, channel: str = CHANNEL
) -> Iterator[Client]:
    """A client that speaks for the user; `channel` is how the commands came in, in the record."""
    from ...commands.client import Client
    from ..blobs import blobs_of
    from ..clock import SystemClock
    from ..identity import identity_of

    with Client(
        log,
        given.topics,
        tenant=given.tenant,
        actor=actor or given.actor,
        channel=channel,
        digest_key=given.digest_key,
        blobs=blobs_of(given),
        identity=identity_of(given, log),
        now_ms=SystemClock().now_ms,
    ) as opened:
        yield opened


@contextmanager
def queries(given: Settings) -> Iterator[Queries]:
    """The views as this tenant is shown them, after their database has answered."""
    from ...projections.queries import Queries
    from ..processes import prove_postgres

    url = given.postgres_url
    prove_postgres(given, POSTGRES_LIMIT_S)
    with Queries(url, given.namespace, tenant=given.tenant) as opened:
        yield opened


def load(target: str) -> App:
    """The app of this name; `Stopped` with the user's own line where its import fails."""
    from ..loading import load_user_app

    return load_user_app(target)


def check_limit(value: int, *, most: int) -> int:
    """A number of rows that can be asked for."""
    if not 1 <= value <= most:
        raise Stopped(Exit.USAGE, f"--limit is {value}: give a number from 1 to {most}")
    return value


def check_session(given: Settings, views: Queries, session_id: str) -> None:
    """Refuses a session that the views do not know: an empty answer about it would say less than that."""
    if not views.session(session_id, tenant=given.tenant):
        raise Stopped(
            Exit.NOT_FOUND,
            f"no session {session_id!r} of tenant {given.tenant}: see 'wakeful session list'",
        )
