"""The watcher on Faust, and the only place that knows Faust. It reads events, and writes rows of its own: no state.

Faust's own ways that are not ours, and what stands here instead:

- it reads what a transaction has aborted, unless it writes in transactions itself: `_CommittedThread`;
- it makes topics where they are missing: forbidden, `wakeful topics apply` makes them;
- an exception in an agent passes over the event: here it ends the process, before the event counts as read;
- a row knows up to which offset it has counted, so that events that come again change nothing (`windows.py`);
- its tables change only while an event is handled, and forget which partition a key was of: `Rows` does not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import faust
import structlog
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer, Transport

from ...events import records as r
from ...events.codec import decode_event
from ...events.errors import Undecodable
from ...events.limits import OVERHEAD_MAX, WATCHED_MAX
from ...events.topics import Topics
from . import rows
from .counting import changes
from .prices import Prices
from .sessions import RESTING
from .stalls import proposals
from .windows import HOUR_MS, KEPT_MS, WindowKey

LOOK_S = 1.0
"""Between two looks for sessions without progress."""

SAY_EVERY_LOOKS = 5

SWEEP_EVERY_LOOKS = 30

CAUGHT_UP_LOOKS = 2
"""Looks in a row that found a partition read to its end, before silence in it is taken for a stall."""

RESTED_MS = HOUR_MS
"""How long a session at rest is remembered: far longer than an event of its last turn can come again."""

LOOKS_FAILED_MAX = 60
"""In a row: a rebalance, or a broker that is away, takes no minute."""

COMMIT_S = 1.0

REBALANCE_S = 30.0

logger = structlog.get_logger("wakeful.watcher")


@dataclass(frozen=True, slots=True)
class WatcherSettings:
    """What one watcher is told. `session_timeout_ms` is how long the group waits for one that died."""

    servers: str
    topics: Topics
    name: str
    folder: Path
    stalled_after_ms: int
    session_timeout_ms: int
    prices: Prices = field(default_factory=Prices)

    @property
    def group(self) -> str:
        """The watchers' own consumer group."""
        return f"{self.topics.namespace}.watchers"


class _CommittedThread(AIOKafkaConsumerThread):  # type: ignore[misc]
    """Reads what was committed, and nothing else."""

    def _create_worker_consumer(self, transport: Any) -> Any:
        consumer = super()._create_worker_consumer(transport)
        if not hasattr(consumer, "_isolation_level"):
            raise RuntimeError(
                "this aiokafka has no isolation level to set: use the locked version"
            )
        consumer._isolation_level = "read_committed"  # noqa: SLF001 Faust has no setting for it
        return consumer


class _CommittedConsumer(Consumer):  # type: ignore[misc]
    """Commits an offset when all that was written until then is acknowledged: Faust's own flush gives up after 0.1 s."""

    def _new_consumer_thread(self) -> AIOKafkaConsumerThread:
        return _CommittedThread(self, loop=self.loop, beacon=self.beacon)

    async def _commit(self, offsets: Any) -> bool:
        unsent = [future for table in self.app.tables.values() for future in table.unsent]
        if unsent:
            await asyncio.wait(unsent)
        if any(future.cancelled() or future.exception() is not None for future in unsent):
            return False
        return bool(await super()._commit(offsets))


class _CommittedTransport(Transport):  # type: ignore[misc]
    Consumer = _CommittedConsumer


class Rows(faust.Table):  # type: ignore[misc]
    """A table that lies in a topic of our table of topics, changes at any time, and never goes back."""

    topic_name = ""

    def _changelog_topic_name(self) -> str:
        return self.topic_name

    def __init__(self, *given: Any, failed: Callable[[Exception], None], **named: Any) -> None:
        super().__init__(*given, **named)
        self._failed = failed
        self._keys: dict[tuple[object, ...], set[rows.RowKey]] = {}
        self.unsent: set[asyncio.Future[Any]] = set()
        """What the brokers have not acknowledged yet."""

    def put(self, partition: int, key: rows.RowKey, row: dict[str, Any]) -> None:
        """Sets a row, here and in the topic."""
        self._keep(partition, key, row)
        self._sent(self.send_changelog(partition, key, row))

    def drop(self, partition: int, key: rows.RowKey) -> None:
        """Removes a row, here and from the topic."""
        self._forget(key)
        self._sent(self.send_changelog(partition, key, None, value_serializer="raw"))

    def _keep(self, partition: int, key: rows.RowKey, row: dict[str, Any]) -> None:
        self.data.data[key] = row
        self.data._key_partition[key] = partition  # noqa: SLF001 by which Faust drops what was revoked
        self._keys.setdefault(key[:2], set()).add(key)

    def _forget(self, key: rows.RowKey) -> None:
        self.data.data.pop(key, None)
        self.data._key_partition.pop(key, None)  # noqa: SLF001
        self._keys.get(key[:2], set()).discard(key)

    def _sent(self, future: asyncio.Future[Any]) -> None:
        self.unsent.add(future)
        future.add_done_callback(self._acknowledged)

    def _acknowledged(self, future: asyncio.Future[Any]) -> None:
        self.unsent.discard(future)
        error = None if future.cancelled() else future.exception()
        if error is not None:
            self._failed(error if isinstance(error, Exception) else RuntimeError(repr(error)))

    def of(self, kind: str, partition: int) -> list[tuple[rows.RowKey, dict[str, Any]]]:
        """All rows of a kind in a partition."""
        kept, keys = self.data.data, self._keys.get((kind, partition), set())
        keys &= kept.keys()  # Faust drops rows of partitions that were revoked
        return [(key, kept[key]) for key in keys]

    def apply_changelog_batch(self, batch: Iterable[Any]) -> None:
        """Takes rows from the topic, but none that a watcher wrote late, when its partition had another."""
        for event in batch:
            key, row = self._to_key(event.key), event.value
            if row is None:
                self._forget(key)
            elif row["position"] >= self.data.data.get(key, row)["position"]:
                self._keep(event.message.partition, key, row)


class Watcher:
    """One watcher. `run` ends when `stop` is called, or raises what went wrong."""

    def __init__(self, settings: WatcherSettings, now_ms: Callable[[], int]) -> None:
        self._settings, self._now_ms = settings, now_ms
        self._looks, self._looks_failed = 0, 0
        self._caught_up: dict[int, int] = {}
        self._spoke_of: dict[int, bool] = {}
        self._read: dict[int, int] = {}
        self._undecodable: dict[int, int] = {}
        self._failed: Exception | None = None
        self._ending: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def stop(self) -> None:
        """Asks it to end; safe from a signal handler."""
        if self._loop is not None and self._ending is not None:
            self._loop.call_soon_threadsafe(self._ending.set)

    async def run(self) -> None:
        """Watches until it is stopped."""
        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        app = self._app = self._new_app()
        events = app.topic(
            self._settings.topics.events, key_type=bytes, value_type=bytes, value_serializer="raw"
        )
        self._windows = self._new_rows("windows", self._settings.topics.watch_windows)
        self._told = self._new_rows("told", self._settings.topics.watch_proposals)
        app.agent(events, name="watcher")(self._watch)
        app.timer(LOOK_S)(self._look_safely)
        app.finalize()
        await app.start()
        logger.info("watcher started", watcher=self._settings.name)
        crashed = asyncio.ensure_future(app._crashed.wait())  # noqa: SLF001 the service's own flag
        ended = asyncio.ensure_future(self._ending.wait())
        try:
            await asyncio.wait((crashed, ended), return_when=asyncio.FIRST_COMPLETED)
        finally:
            crashed.cancel()
            ended.cancel()
            if self._failed is None:
                await app.stop()
        if self._failed is not None or app.crash_reason is not None:
            raise WatcherFailed(f"the watcher gives up: {self._failed or app.crash_reason!r}")
        logger.info("watcher ended", watcher=self._settings.name)

    def _new_app(self) -> faust.App:
        told = self._settings
        timeout_s = told.session_timeout_ms / 1000
        app = faust.App(
            told.group,
            broker=[f"kafka://{server}" for server in told.servers.split(",")],
            store="memory://",
            datadir=told.folder,
            web_enabled=False,
            topic_allow_declare=False,
            topic_disable_leader=True,
            table_standby_replicas=0,
            consumer_auto_offset_reset="earliest",
            broker_session_timeout=timeout_s,
            broker_heartbeat_interval=timeout_s / 4,
            broker_rebalance_timeout=REBALANCE_S,
            broker_commit_interval=COMMIT_S,
            broker_client_id=told.name,
            producer_acks=-1,
            producer_max_request_size=WATCHED_MAX + OVERHEAD_MAX,
        )
        app.transport = _CommittedTransport(app.conf.broker_consumer, app)
        return app

    def _new_rows(self, name: str, topic: str) -> Rows:
        table: Rows = Rows(self._app, name=name, failed=self._fail)
        table.topic_name = topic
        self._app.tables.add(table)
        return table

    async def _watch(self, stream: Any) -> None:
        async for event in stream.events():
            message = event.message
            try:
                self._take(message.partition, message.offset, message)
            except Exception as error:
                logger.exception(
                    "an event cannot be counted", partition=message.partition, offset=message.offset
                )
                self._fail(error)
                await asyncio.Event().wait()  # Faust would take the event for handled

    def _take(self, partition: int, offset: int, message: Any) -> None:
        """Counts one event, unless it was counted before."""
        try:
            event = decode_event(message.value, message.headers or ())
        except Undecodable as error:
            self._undecodable[partition] = self._undecodable.get(partition, 0) + 1
            logger.warning(
                "an event cannot be read", partition=partition, offset=offset, why=str(error)
            )
            return
        self._count(partition, offset, event)
        self._read[partition] = offset

    def _count(self, partition: int, offset: int, event: r.Event) -> None:
        found = changes(
            event,
            partition,
            offset,
            self._windows.data.data,
            prices=self._settings.prices,
            oldest_ms=self._now_ms() - KEPT_MS,
        )
        for key, row in found:
            self._windows.put(partition, key, row)

    async def _look_safely(self) -> None:
        """A look that fails in the middle of a rebalance is no loss; one that always fails ends the process."""
        try:
            await self._look()
        except Exception as error:  # noqa: BLE001 whatever Faust makes of a rebalance; it ends the process if it stays
            self._caught_up.clear()
            self._looks_failed += 1
            logger.debug("a look failed", why=repr(error), looks=self._looks_failed)
            if self._looks_failed >= LOOKS_FAILED_MAX:
                self._fail(error)
        else:
            self._looks_failed = 0

    async def _look(self) -> None:
        """Proposes, withdraws, speaks and sweeps, for the partitions that are read to their ends."""
        mine = self._mine()
        ends = await self._app.consumer.highwaters(*mine) if mine else {}
        positions = {place: await self._app.consumer.position(place) for place in mine}
        if self._mine() != mine:
            self._caught_up.clear()
            return
        numbers = {place.partition for place in mine}
        self._spoke_of = {n: said for n, said in self._spoke_of.items() if n in numbers}
        self._looks += 1  # from here on nothing waits: the partitions stay this watcher's
        for place, position in positions.items():
            number = place.partition
            at_end = position is not None and position >= (ends.get(place) or 0)
            self._caught_up[number] = self._caught_up.get(number, 0) + 1 if at_end else 0
            caught_up = self._caught_up[number] >= CAUGHT_UP_LOOKS
            if caught_up:
                self._propose(number)
            if self._spoke_of.get(number) != caught_up or self._looks % SAY_EVERY_LOOKS == 0:
                self._say(number, caught_up=caught_up)
            if self._looks % SWEEP_EVERY_LOOKS == 0:
                self._sweep(number)

    def _mine(self) -> set[Any]:
        """Partitions of events that are assigned and whose rows are restored."""
        app = self._app
        if app.rebalancing or not app.tables.recovery.completed.is_set():
            return set()
        topic = self._settings.topics.events
        return {place for place in app.consumer.assignment() if place.topic == topic}

    def _propose(self, partition: int) -> None:
        now_ms = self._now_ms()
        before = {key for key, _ in self._told.of(rows.PROPOSAL, partition)}
        found = {
            rows.proposal_key(partition, one): one
            for _, row in self._windows.of(rows.SESSION, partition)
            for one in proposals(row, now_ms, self._settings.stalled_after_ms)
        }
        for key in before - found.keys():
            self._told.drop(partition, key)
        new = [key for key in found if key not in before]
        for key in new:
            self._told.put(partition, key, {**found[key], "proposed_at_ms": now_ms})
        if new:
            first = found[new[0]]
            named = {name: first[name] for name in ("tenant", "session_id", "why")}
            logger.warning("sessions make no progress", new=len(new), **named)

    def _say(self, partition: int, *, caught_up: bool) -> None:
        self._spoke_of[partition] = caught_up
        now_ms = self._now_ms()
        said = {
            "at_ms": now_ms,
            "position": now_ms,  # of two words about a partition the later one counts
            "watcher": self._settings.name,
            "caught_up": caught_up,
            "read": self._read.get(partition, -1),
            "undecodable": self._undecodable.get(partition, 0),
        }
        self._told.put(partition, rows.said_key(partition), said)

    def _sweep(self, partition: int) -> None:
        now_ms = self._now_ms()
        for key, row in self._windows.of(rows.SESSION, partition):
            if row["state"] == RESTING and now_ms - row["at_ms"] > RESTED_MS:
                self._windows.drop(partition, key)
        for key, _ in self._windows.of(rows.WINDOW, partition):
            if WindowKey(*key[1:]).start_ms < now_ms - KEPT_MS:  # type: ignore[arg-type]
                self._windows.drop(partition, key)

    def _fail(self, error: Exception) -> None:
        self._failed = self._failed or error
        if self._ending is not None:
            self._ending.set()


class WatcherFailed(Exception):
    """It met what it cannot go on from; a fresh process may."""
