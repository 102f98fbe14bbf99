"""The gateway's process: until SIGTERM or SIGINT it answers; then it lets requests end, and says what it could not."""

from __future__ import annotations

import socket
from collections.abc import Callable
from types import FrameType

import structlog
import uvicorn

from ..blobs import blobs_of
from ..clock import SystemClock
from ..exits import Exit, Stopped
from ..identity import identity_of
from ..processes import opened_log
from ..settings import Settings
from .api_keys import ApiKeys
from .app import create_app
from .authentication import Authenticator
from .services import Services
from .settings import GatewaySettings

DRAIN_S = 5
"""How long requests may take to end once the gateway is told to."""

UNREAD_MS = 30_000
"""How long a client may leave unread what it was sent: then its connection is cut, and a stuck stream with it."""

logger = structlog.get_logger("wakeful.gateway")


def serve(
    settings: Settings, gateway: GatewaySettings, *, listening: Callable[[str], None]
) -> Exit:
    """Answers until it is signalled; `listening` is told the URL once requests can come."""
    clock = SystemClock()
    with opened_log(settings, f"{settings.namespace}.gateway") as log:
        services = Services(
            settings,
            log,
            authenticator=Authenticator(ApiKeys(gateway.api_keys), clock.now_ms),
            identity=identity_of(settings, log, role="gateway"),
            blobs=blobs_of(settings),
            clock=clock,
        )
        try:
            with _bound(gateway) as listener:
                host, port = listener.getsockname()[:2]
                config = uvicorn.Config(
                    create_app(services),
                    log_config=None,
                    access_log=False,
                    server_header=False,
                    timeout_graceful_shutdown=DRAIN_S,
                )
                listening(f"http://{host}:{port}")
                _Server(config, services.live.end).run(sockets=[listener])
        finally:
            services.close()
    return Exit.DONE


class _Server(uvicorn.Server):
    """Ends live streams when it is told to end, so that the drain is for requests that end by themselves."""

    def __init__(self, config: uvicorn.Config, end_streams: Callable[[], None]) -> None:
        super().__init__(config)
        self._end_streams = end_streams

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """See uvicorn."""
        super().handle_exit(sig, frame)
        self._end_streams()


def _bound(gateway: GatewaySettings) -> socket.socket:
    """A socket that takes connections from now on, so that its address is true when it is told."""
    try:
        listener = socket.create_server((gateway.host, gateway.port), backlog=512)
    except OSError as error:
        raise Stopped(
            Exit.UNAVAILABLE,
            f"cannot listen on {gateway.host}:{gateway.port} ({error.strerror}): set WAKEFUL_HTTP_PORT, 0 for a free one",
        ) from None
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # connections inherit it
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_MS)
    return listener
