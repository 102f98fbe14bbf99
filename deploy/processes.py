"""The composition root: each process with its real clock, log, files and signals.

Names are stable, so that a restarted process takes its own place again: the processors' group is
`<namespace>.processors`, and ordinal `i` is the group instance and transactional id `<namespace>.processors.<i>`.

Crash points (`WAKEFUL_FAILPOINT`): `p.*` of a processor, `w.*` of a worker, `j.*` of a projector. Each is passed
between two calls; `p.commit_sent` alone kills a millisecond later, inside the call that commits.

The database's driver is imported where it is used: processors and workers start, and start again, without it.
"""

from __future__ import annotations

import gc
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import structlog

from ..commands.check import Facts
from ..events.blob_patience import TRANSACTION_LIMIT_MS
from ..events.codec import decode_event
from ..events.log.kafka import KafkaLog
from ..events.log.protocol import Fatal, Isolation, Log, LogFault, Place
from ..events.log.watchdog import Watchdog
from ..processors.activities.hung import Broken, Hung
from ..processors.activities.killers import Killers, NoKillers, noted
from ..processors.activities.worker import (
    CONCURRENCY_DEFAULT,
    SYNC_CONCURRENCY_DEFAULT,
    Worker,
    run_until_signalled,
)
from ..processors.app import App
from ..processors.handler import CommandHandler
from ..processors.in_hand import NotedInHand
from ..processors.loop import Loop, LoopFailed, LoopSettings
from ..processors.time_limit import LAST_WORDS_S, TimeLimit
from .blobs import blobs_of, prove_blobs
from .clock import SystemClock
from .crash_points import crash_points
from .exits import Exit, Stopped
from .hints import opened_leases, opened_tokens
from .identity import identity_of
from .own_name import own_name
from .policies import opened_control
from .settings import Settings

POSTGRES_LIMIT_S = 10.0
"""How long a projector waits for its database before its supervisor tries again."""

FAULT_PAUSES_S = (0.1, 0.5, 2.0, 5.0)
"""Waits of a projector between faults in a row."""

GC_THRESHOLDS = (50_000, 20, 100)
"""Our records are trees and die by reference count; the default of 700 objects cost a seventh of a processor's time."""

logger = structlog.get_logger("wakeful.process")


def processors_group(settings: Settings) -> str:
    """The consumer group of the processors, whose offsets say what was decided."""
    return f"{settings.namespace}.processors"


def apply_topics(log: Log, settings: Settings, queues: Iterable[str]) -> list[str]:
    """Creates what is missing of the namespace's topics, and returns those names.

    `Stopped`, before anything is created, where the namespace has another number of partitions.
    """
    found = existing_partitions(log, settings)
    if found not in (None, settings.partitions):
        raise Stopped(
            Exit.USAGE,
            f"namespace {settings.namespace} has {found} partitions, WAKEFUL_PARTITIONS is {settings.partitions}: "
            f"sessions would move away from their history; set it to {found}, or use another WAKEFUL_NAMESPACE",
        )
    replicas = settings.min_insync_replicas
    return log.create_topics(
        settings.topics.specs(queues, settings.partitions, min_insync_replicas=replicas)
    )


@contextmanager
def opened_log(settings: Settings, name: str) -> Iterator[KafkaLog]:
    """The log under a watchdog, once the broker has proved to be of the cluster that is meant."""
    with Watchdog() as watch, KafkaLog(settings.kafka_servers, client_id=name, watch=watch) as log:
        try:
            check_cluster(settings, log.cluster_id())
        except LogFault as fault:
            raise Stopped(
                Exit.UNAVAILABLE,
                f"no answer from kafka at {settings.kafka_servers} ({fault}): "
                "check that it runs ('wakeful status'), or set WAKEFUL_KAFKA",
            ) from fault
        yield log


def existing_partitions(log: Log, settings: Settings) -> int | None:
    """How many partitions this namespace has; null where it has no topics yet."""
    try:
        return log.partitions(settings.topics.events)
    except Fatal:
        return None


def check_cluster(settings: Settings, found: str) -> None:
    """Refuses a broker of another cluster: on this address there may be a stranger by now."""
    if settings.cluster_id is not None and found != settings.cluster_id:
        raise Stopped(
            Exit.UNAVAILABLE,
            f"the broker at {settings.kafka_servers} is cluster {found}, expected {settings.cluster_id}: another "
            "broker has taken its address; run 'wakeful up', or set WAKEFUL_KAFKA to the one that is meant",
        )


def run_processor(settings: Settings, app: App, ordinal: int) -> Exit:
    """Decides commands until SIGTERM or SIGINT; `FAULT` asks for a fresh process under the same ordinal."""
    group = processors_group(settings)
    name = f"{group}.{ordinal}"
    hit = crash_points(settings)
    prove_blobs(settings)
    with opened_log(settings, name) as log, own_name(settings, name):
        folder = _store_folder(settings, log.cluster_id(), ordinal)
        blobs = blobs_of(settings, limit_ms=TRANSACTION_LIMIT_MS)
        facts = Facts(digest_key=settings.digest_key, blobs=blobs)
        handler = CommandHandler(
            app,
            facts,
            always_replay=settings.always_replay,
            limit=TimeLimit(give_up=_stubborn),
            last_words=TimeLimit(LAST_WORDS_S),
            in_hand=NotedInHand(folder / f"{settings.namespace}.in-hand"),
        )
        identity = identity_of(settings, log, role="processor")
        loop_settings = LoopSettings(group=group, name=name, folder=folder)
        loop = Loop(
            log,
            settings.topics,
            handler,
            loop_settings,
            SystemClock(),
            identity=identity,
            quotas=settings.quotas,
            pause=lambda ms: time.sleep(ms / 1000),
            control=opened_control(log, settings, name, identity, app.loaded),
        )

        def stop() -> None:
            loop.stopping = True

        with on_signal(stop):
            _spare_collections()
            logger.info("processor started", ordinal=ordinal, workflows=sorted(app.workflows))
            for point in loop.steps():
                hit(point)
                if point == "p.restored":
                    logger.info("partition restored", ordinal=ordinal)
    logger.info("processor ended", ordinal=ordinal)
    return Exit.DONE


def run_worker(
    settings: Settings,
    app: App,
    queues: Sequence[str] | None = None,
    *,
    name: str | None = None,
    instance: str | None = None,
    concurrency: int = CONCURRENCY_DEFAULT,
    sync_concurrency: int = SYNC_CONCURRENCY_DEFAULT,
) -> Exit:
    """Runs activities of these queues (all of the app's by default) until SIGTERM or SIGINT, then drains."""
    worker_id = name or f"{_host()}-{os.getpid()}"
    prove_blobs(settings)
    client = f"{settings.namespace}.worker.{worker_id}"
    with (
        opened_log(settings, client) as log,
        opened_leases(settings, worker_id) as leases,
        opened_tokens(settings) as tokens,
    ):
        worker = Worker(
            log,
            settings.topics,
            app,
            worker_id=worker_id,
            digest_key=settings.digest_key,
            blobs=blobs_of(settings),
            now_ms=SystemClock().now_ms,
            identity=identity_of(settings, log, role="worker"),
            queues=queues,
            instance=instance,
            concurrency=concurrency,
            sync_concurrency=sync_concurrency,
            leases=leases,
            tokens=tokens,
            killers=_killers(settings, name),
            hit=crash_points(settings),
        )
        _spare_collections()
        logger.info("worker started", worker=worker_id, queues=queues or app.queues)
        run_until_signalled(worker)
    logger.info("worker ended", worker=worker_id)
    return Exit.DONE


def run_projector(settings: Settings) -> Exit:
    """Keeps the views until SIGTERM or SIGINT; `BUSY` when another projector has taken over."""
    from ..projections.postgres import PostgresViews
    from ..projections.projector import Projector
    from ..projections.upkeep import Upkeep
    from ..projections.views import Superseded

    hit = crash_points(settings)
    stopped = threading.Event()
    prepare_views(settings)
    topics = settings.topics
    with opened_log(settings, f"{settings.namespace}.projector") as log:
        places = [Place(topics.events, n) for n in range(log.partitions(topics.events))]
        reader = log.reader(Isolation.COMMITTED)
        views = PostgresViews(settings.postgres_url, settings.namespace)
        projector = Projector(
            reader,
            views,
            places,
            lambda r: decode_event(r.value, r.headers),
            pause=lambda ms: stopped.wait(ms / 1000),
        )
        upkeep = Upkeep(
            settings.postgres_url, settings.namespace, lambda: _ends(log, places), time.monotonic
        )
        try:
            with on_signal(stopped.set):
                _spare_collections()
                logger.info("projector started", partitions=len(places))
                for point in projector.steps():
                    hit(point)
                    if point == "j.faulted":
                        _pause(stopped, projector.faults)
                    upkeep.look(projector.positions)
                    if stopped.is_set():
                        break
        except Superseded as taken:
            raise Stopped(Exit.BUSY, str(taken)) from taken
        finally:
            upkeep.close()
            views.close()
            reader.close()
    logger.info("projector ended")
    return Exit.DONE


def _ends(log: Log, places: Sequence[Place]) -> dict[Place, int]:
    return {place: end for place, (_, end) in log.ends(places, Isolation.COMMITTED).items()}


def prepare_views(settings: Settings, limit_s: float = POSTGRES_LIMIT_S) -> None:
    """Waits for the database and makes the views of this namespace where they are missing."""
    from ..projections.database import install

    prove_postgres(settings, limit_s)
    install(settings.postgres_url, settings.namespace)


def prove_postgres(settings: Settings, limit_s: float) -> None:
    """Returns once the database answers; `Stopped` names its address, without the password, after `limit_s`."""
    from ..projections import probe
    from .stack.external import without_password

    url = settings.postgres_url
    try:
        probe.prove_ready(url, limit_s=limit_s)
    except probe.NotReadyError as error:
        raise Stopped(
            Exit.UNAVAILABLE,
            f"no answer from postgres at {without_password(url)} ({_brief(error)}): check it with 'wakeful status', "
            "start it with 'wakeful up', or set WAKEFUL_POSTGRES",
        ) from None


def ending(run: Callable[[], Exit]) -> Exit:
    """Runs a process to its end; a fault becomes `FAULT`, with a line in the log, and so does an exit from inside."""
    try:
        return run()
    except (Stopped, KeyboardInterrupt):
        raise
    except (LogFault, LoopFailed, Hung, Broken) as fault:
        logger.error("the process gives up, to be started again", cause=str(fault))  # noqa: TRY400
        return Exit.FAULT
    except BaseException:
        logger.exception("the process met a fault of its own, to be started again")
        return Exit.FAULT


def _spare_collections() -> None:
    """Keeps the cycle collector away from what was loaded, and lets it look seldom."""
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


@contextmanager
def on_signal(stop: Callable[[], None]) -> Iterator[None]:
    """Calls `stop` for SIGTERM and SIGINT, instead of what they do otherwise."""

    def handle(_number: int, _frame: FrameType | None) -> None:
        stop()

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stubborn() -> None:
    """Ends a process whose workflow swallows every interruption: the third death of one command holds its session."""
    logger.error("the process gives up: a workflow catches its own interruption, again and again")
    os._exit(Exit.FAULT)


def _pause(stopped: threading.Event, faults: int) -> None:
    stopped.wait(FAULT_PAUSES_S[min(faults, len(FAULT_PAUSES_S)) - 1])


def _killers(settings: Settings, name: str | None) -> Killers:
    """Kept under a name that comes back: that of a process id does not."""
    if name is None:
        return NoKillers()
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", f"{settings.namespace}.{name}")
    return noted(settings.home.absolute() / "workers" / f"{safe}.running")


def _store_folder(settings: Settings, cluster_id: str, ordinal: int) -> Path:
    """One folder per cluster and ordinal: a file has one owner, and never outlives its log unnoticed."""
    cluster = re.sub(r"[^A-Za-z0-9_-]", "_", cluster_id)
    folder = settings.home.absolute() / "processors" / cluster / str(ordinal)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _brief(error: Exception) -> str:
    """Without the question that libpq asks back."""
    return str(error).partition(" Is the server running")[0]


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())
