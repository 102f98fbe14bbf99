"""What requests share: the log, one producer for all who ask, and connections to the views."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import BoundedSemaphore
from typing import Any

from ...commands.client import Client
from ...commands.identity import Identity
from ...commands.sending import Outlets
from ...events.blobs import Blobs
from ...events.log.kafka_survey import committed_offsets
from ...events.log.protocol import Log, Place
from ...projections.pool import NOBODY, Pool
from ...projections.queries import Queries
from ..clock import SystemClock
from ..processes import processors_group
from ..settings import Settings
from ..telling.stretches import Readers
from ..telling.watched import Watched
from .authentication import Authenticator
from .backlog import Backlog
from .hooks import Hooks
from .live.live import Live
from .measured import Committed, Measured, readers_lag
from .oidc_sign_in import SignIns
from .principals import Principal
from .recent import Recent
from .settings import MIB

CONFIRM_MS = 10_000
"""How long a request waits until the log has its command; after that it is told to ask again under the same id."""

WAITS_MAX = 16
"""Requests that wait for a verdict at once: each reads for itself. Others are answered without it."""

BEHIND_MAX_S = 60.0


class Services:
    """Safe to use from several threads."""

    def __init__(
        self,
        settings: Settings,
        log: Log,
        *,
        authenticator: Authenticator,
        identity: Identity,
        blobs: Blobs | None = None,
        clock: SystemClock | None = None,
        hooks: Hooks | None = None,
        committed: Committed | None = None,
        sign_ins: SignIns | None = None,
        behind_max_s: float = BEHIND_MAX_S,
        body_max: int = MIB,
    ) -> None:
        """`committed` tells where the processors are; without it the group on the brokers is asked."""
        self.settings, self.log = settings, log
        self.topics = settings.topics
        self.authenticator = authenticator
        self.sign_ins = sign_ins
        """How people sign in to the console through the OIDC provider; null where they do not."""
        self.hooks = hooks or Hooks(None)
        self.body_max = body_max
        self.clock = clock or SystemClock()
        self._identity, self._blobs = identity, blobs
        self.waits = BoundedSemaphore(WAITS_MAX)
        self.recent = Recent(log, self.topics.commands, identity, self.clock.now_ms)
        self.backlog = Backlog(
            log,
            self.topics.commands,
            committed or self._committed,
            self.clock.now_ms,
            behind_max_s=behind_max_s,
        )
        self.watched = Watched(log, (self.topics.watch_proposals,))
        """What watchers propose, and when they spoke."""
        self._outlets = Outlets(log, confirm_ms=CONFIRM_MS)
        self._pool = Pool(settings.postgres_url, settings.namespace)
        self.views_lag = Measured(self._behind, self.clock.now_ms)
        """How far the views are behind the events, measured here: a projector that is stopped tells nothing."""
        self.readers = Readers(log)
        self.live = Live(log, settings.topics, self.readers, redis=settings.redis)

    def client(self, principal: Principal) -> Client:
        """What speaks for this actor; it shares the producer, and needs no closing."""
        return Client(
            self.log,
            self.topics,
            tenant=principal.tenant,
            actor=principal.actor,
            channel=principal.channel,
            digest_key=self.settings.digest_key,
            blobs=self._blobs,
            identity=self._identity,
            now_ms=self.clock.now_ms,
            outlets=self._outlets,
        )

    @contextmanager
    def queries(self, principal: Principal) -> Iterator[Queries]:
        """The views as this actor's tenant is shown them."""
        with self._pool.queries(principal.tenant) as found:
            yield found

    def close(self) -> None:
        """Frees producers, readers and connections."""
        self.live.close()
        self.backlog.close()
        self.recent.close()
        self._outlets.close()
        self.readers.close()
        self._pool.close()

    def _behind(self) -> list[dict[str, Any]]:
        with self._pool.queries(NOBODY) as views:
            positions = views.positions()
        return readers_lag(self.log, self.topics.events, positions, self.clock.now_ms())

    def _committed(self, places: Sequence[Place]) -> Mapping[Place, int]:
        given = self.settings
        return committed_offsets(given.kafka_servers, processors_group(given), places)
