"""Blue and green: the views again from the start of the log, beside the live ones, compared, and put in their place.

A generator of places to stop, like the projector's: killed at any of them and run again, nothing is lost, and nothing is
left over. Until the switch all work is in tables of its own, whose position says how far it is; the switch is one
transaction. Live rows stay in view, and are kept, all the while. Rules:

- Rows are compared at one position: first all of them, in a snapshot of the live ones; then, while whoever fills these
  waits for a moment, those of the sessions that moved since.
- A rebuild that differs does not take over, unless that was asked for. It is computed from the log by the code that
  runs here, so the live rows are the ones to doubt.
- What was begun by other code, or is ahead of the live rows, begins anew.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg

from ..events.errors import Corrupt, Rejected, Transient
from ..events.log.protocol import Place, Reader, Record
from ..events.records import Event
from . import rebuild_tables as tables
from .archive import check_none_begun
from .connection import connect
from .exclusion import Seen, check_holding, cleared, hold, told
from .postgres import PostgresViews
from .projector import Projector
from .rebuild_ports import Bounded, Noting
from .rebuild_tables import Difference
from .schemas import Schemas
from .tenants import prepare

NEAR = 2_000
"""Offsets that the rebuilt rows may be behind when the live ones are made to wait: a fraction of a second."""

SHOWN_MAX = 20
"""Differences that are told one by one; the others are counted."""

SWITCHES_MAX = 60
"""Times a switch steps back because somebody reads the views, before it gives up."""

POLITE_MAX = 20
"""Of these, how often a tenant's login is left alone: then it loses its connection where it stands in the way."""

FIRM_MS = 3_000
"""How long a lock is waited for then: whoever comes later waits behind us, so none of them takes its place."""

REST_S = 1.0


class AnotherRebuild(Rejected):
    """A rebuild of these views runs already."""


class Differs(Rejected):
    """The rebuilt rows are not those that are live, and it was not asked that they take over all the same."""


@dataclass(slots=True)
class Progress:
    """How far it is: what it does, offsets (or tables, while it compares) done and wanted, and what differs.

    `refused` counts the records that the database refused for the rebuilt rows, wholly or a value of theirs; the first
    are in `refusals`. They are known once it is done, and the rows are in place all the same: live ones lack them too,
    or else they differ.
    """

    doing: str = "begins"
    done: int = 0
    wanted: int = 0
    differing: int = 0
    shown: list[Difference] = field(default_factory=list)
    refused: int = 0
    refusals: list[Difference] = field(default_factory=list)


class Rebuild:
    """One run. `ends` asks for the log's ends, which are the aim where there are no live rows; `rest` waits, in seconds."""

    def __init__(
        self,
        url: str,
        namespace: str,
        reader: Reader,
        places: Collection[Place],
        decode: Callable[[Record], Event],
        *,
        ends: Callable[[], Mapping[Place, int]],
        rest: Callable[[float], object],
        accept_differences: bool = False,
    ) -> None:
        self._url = url
        self._namespace = namespace
        self._schemas = Schemas(namespace)
        self._beside = Schemas(namespace, beside=True)
        self._places = tuple(places)
        self._ends = ends
        self._rest = rest
        self._accept = accept_differences
        self._bounded = Bounded(reader)
        self._views = Noting(PostgresViews(url, namespace, beside=True))
        self._projector = Projector(self._bounded, self._views, self._places, decode)
        self._steps = self._projector.steps()
        self._holding: psycopg.Connection[Any] | None = None
        self.progress = Progress()

    def steps(self) -> Iterator[str]:
        """Runs to the switch; each name is a place to stop, and `progress` says how far it is.

        Raises `AnotherRebuild`, `Differs`, `Superseded` where another rebuild took over, `Transient` where somebody
        reads the views without a pause, and what the reader raises.
        """
        with self._only_one() as connection:
            self._prepare(connection)
            yield "r.prepared"
            while self._far(aim := self._aim(connection)):
                yield from self._build(aim)
            if tables.exists(connection, self._schemas.live):
                yield from self._compare_all()
            yield "r.compared"
            yield from self._switch(connection)
            self.progress.doing, self.progress.wanted = "done", 0
            yield "r.switched"

    def close(self) -> None:
        """Frees the connection of its projector; the reader is its owner's."""
        self._views.close()

    @contextmanager
    def _only_one(self) -> Iterator[psycopg.Connection[Any]]:
        """What excludes another run is held by a transaction of its own, which lasts as long and reads nothing."""
        with (
            closing(connect(self._url)) as connection,
            closing(connect(self._url)) as holding,
        ):
            prepare(connection, self._schemas)
            connection.execute(self._schemas.fill("SET ROLE {owner}"))
            hold(holding, connection, self._schemas, AnotherRebuild)
            self._holding = holding
            yield connection

    def _still_alone(self) -> None:
        if self._holding is None:
            raise Corrupt("a rebuild switches views without having excluded others")
        check_holding(self._holding, "nothing was switched")

    def _connect(self, **options: Any) -> psycopg.Connection[Any]:
        return connect(self._url, role=self._schemas.owner, **options)

    def _prepare(self, connection: psycopg.Connection[Any]) -> None:
        """Goes on with what an earlier run began, if that is of any use."""
        check_none_begun(connection, self._schemas)
        if tables.made_by(connection, self._schemas) == tables.fingerprint():
            aim, found = self._aim(connection), tables.positions(connection, self._beside)
            if all(at <= aim.get(place, 0) for place, at in found.items()):
                return
        tables.make(self._url, connection, self._namespace)

    def _aim(self, connection: psycopg.Connection[Any]) -> dict[Place, int]:
        """Where the live rows are; where there are none, the end of the log."""
        if not tables.exists(connection, self._schemas.live):
            return dict(self._ends())
        found = tables.positions(connection, self._schemas)
        return {place: found.get(place, 0) for place in self._places}

    def _behind(self, aim: Mapping[Place, int]) -> int:
        stored = self._projector.positions
        return sum(max(0, at - stored.get(place, 0)) for place, at in aim.items())

    def _ahead(self, aim: Mapping[Place, int]) -> bool:
        """Whether live rows came up meanwhile that have less of the log: there is nothing of theirs to lose."""
        return any(at > aim.get(place, 0) for place, at in self._projector.positions.items())

    def _far(self, aim: Mapping[Place, int]) -> bool:
        return not self._projector.positions or self._behind(aim) > NEAR

    def _build(self, aim: Mapping[Place, int], doing: str = "builds") -> Iterator[str]:
        """Fills the rebuilt tables exactly up to here."""
        self._bounded.limit(aim)
        self.progress.doing, self.progress.wanted = doing, sum(aim.values())
        self.progress.done = sum(self._projector.positions.values())
        while not self._projector.positions or self._behind(aim):
            point = next(self._steps)
            if point == "j.faulted":
                self._rest(REST_S)
            self.progress.done = sum(self._projector.positions.values())
            yield point

    def _compare_all(self) -> Iterator[str]:
        """All rows, at the live position of one moment."""
        with closing(self._connect(limit_ms=0)) as live, live.transaction():
            live.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield from self._build(self._aim(live))
            self._views.take()
            self.progress.doing, self.progress.done = "compares", 0
            self.progress.wanted = len(tables.COMPARED)
            for _ in self._compare(live, None):
                yield "r.comparing"
        self.progress.wanted = 0  # what is told from here on is no share of the tables
        self._judge()

    def _compare(
        self, live: psycopg.Connection[Any], sessions: Collection[tuple[str, str]] | None
    ) -> Iterator[str]:
        with closing(self._connect(limit_ms=0)) as beside:
            for found in tables.differences(live, beside, self._namespace, sessions):
                if isinstance(found, str):
                    self.progress.done += 1
                    yield found
                    continue
                self.progress.differing += 1
                if len(self.progress.shown) < SHOWN_MAX:
                    self.progress.shown.append(found)

    def _judge(self) -> None:
        if self.progress.differing and not self._accept:
            count = self.progress.differing
            rows = "1 row differs" if count == 1 else f"{count} rows differ"
            raise Differs(
                f"{rows} from what the log gives; nothing was switched. The rebuilt rows "
                f"are kept in {self._beside.beside!r}: run it again with --accept-differences to put them in place, "
                "or with --discard to drop them"
            )

    def _switch(self, connection: psycopg.Connection[Any]) -> Iterator[str]:
        """Catches up, and takes the place of the live rows in one transaction; again, where a lock is not to be had."""
        moved: set[tuple[Any, ...]] = set()
        seen = Seen()
        for number in range(SWITCHES_MAX):
            self.progress.doing, self.progress.wanted = "switches", 0
            firm = number >= POLITE_MAX and any(one.tenants for one in seen.blockers)
            grace_s = 0.0 if firm else float("inf")
            try:
                with (
                    cleared(self._url, connection, self._schemas, grace_s=grace_s) as seen,
                    connection.transaction(),
                ):
                    live = tables.lock(
                        connection, self._schemas, wait_ms=FIRM_MS if firm else tables.LOCK_MAX_MS
                    )
                    if not self._far(self._aim(connection)):
                        yield from self._put_in_place(connection, moved, live=live)
                        return
            except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
                self._rest(REST_S)
            except psycopg.errors.DependentObjectsStillExist as error:
                raise Rejected(
                    f"something was built on the rows in {self._schemas.live!r} instead of the views, and would be lost "
                    f"({error.diag.message_detail}): drop it, then run it again"
                ) from error
            yield "r.stepped_back"
            yield from self._build(self._aim(connection))
        raise Transient(
            f"the views are read without a pause: after {SWITCHES_MAX} tries the rebuilt rows are not in place, and are "
            f"kept; {told(seen)}"
        )

    def _put_in_place(
        self, connection: psycopg.Connection[Any], moved: set[tuple[Any, ...]], *, live: bool
    ) -> Iterator[str]:
        aim = self._aim(connection)
        yield from self._build(aim, "switches")
        moved |= self._views.take()
        if live and not self._ahead(aim):
            yield from self._compare_moved(moved)
        progress = self.progress
        progress.refused, progress.refusals = tables.refused(connection, self._beside, SHOWN_MAX)
        self._still_alone()
        tables.switch(connection, self._namespace, live=live)
        yield "r.switching"

    def _compare_moved(self, moved: Collection[tuple[Any, ...]]) -> Iterator[str]:
        before = self.progress.differing
        self.progress.wanted = 0  # a few rows: no share is told
        with closing(self._connect(access="read")) as live:
            for _ in self._compare(live, [(tenant, session) for tenant, session in moved]):
                pass
        if self.progress.differing > before:
            self._judge()
        yield "r.compared_again"


def discard_rebuilt(url: str, namespace: str) -> bool:
    """Drops what a rebuild left beside the live rows; whether there was anything. A rebuild that runs ends with a fault."""
    schemas = Schemas(namespace)
    with closing(connect(url, role=schemas.owner)) as connection:
        found = tables.exists(connection, schemas.beside)
        tables.discard(connection, schemas)
    return found
