"""What requests share: the log, one producer for all who ask, and connections to the views."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...commands.client import Client
from ...commands.identity import Identity
from ...commands.sending import Outlets
from ...events.blobs import Blobs
from ...events.log.protocol import Log
from ...projections.pool import Pool
from ...projections.queries import Queries
from ..clock import SystemClock
from ..settings import Settings
from .authentication import Authenticator
from .live.live import Live
from .principals import Principal

CONFIRM_MS = 10_000
"""How long a request waits until the log has its command; after that it is told to ask again under the same id."""


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
    ) -> None:
        self.settings, self.log = settings, log
        self.topics = settings.topics
        self.authenticator = authenticator
        self.clock = clock or SystemClock()
        self._identity, self._blobs = identity, blobs
        self._outlets = Outlets(log, confirm_ms=CONFIRM_MS)
        self.live = Live(log, settings.topics, redis=settings.redis)
        self._pool = Pool(settings.postgres_url, settings.namespace)

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
        """Frees producers and connections."""
        self.live.close()
        self._outlets.close()
        self._pool.close()
