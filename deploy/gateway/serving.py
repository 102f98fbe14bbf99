"""The gateway's process: until SIGTERM or SIGINT it answers; then it lets requests end, and says what it could not."""

from __future__ import annotations

import socket
from collections.abc import Callable

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
from .console import app as console
from .services import Services
from .settings import GatewaySettings

DRAIN_S = 5
"""How long requests may take to end once the gateway is told to."""

logger = structlog.get_logger("wakeful.gateway")


def serve(
    settings: Settings, gateway: GatewaySettings, *, listening: Callable[[str], None]
) -> Exit:
    """Answers until it is signalled; `listening` is told the URL once requests can come."""
    clock = SystemClock()
    api_keys = ApiKeys(gateway.api_keys)
    with opened_log(settings, f"{settings.namespace}.gateway") as log:
        services = Services(
            settings,
            log,
            authenticator=Authenticator(api_keys, clock.now_ms),
            identity=identity_of(settings, log, role="gateway"),
            blobs=blobs_of(settings),
            clock=clock,
        )
        try:
            with _bound(gateway) as listener:
                host, port = listener.getsockname()[:2]
                app = create_app(services)
                console.mount(app, services, api_keys)
                config = uvicorn.Config(
                    app,
                    log_config=None,
                    access_log=False,
                    server_header=False,
                    timeout_graceful_shutdown=DRAIN_S,
                )
                listening(f"http://{host}:{port}")
                uvicorn.Server(config).run(sockets=[listener])
        finally:
            services.close()
    return Exit.DONE


def _bound(gateway: GatewaySettings) -> socket.socket:
    """A socket that takes connections from now on, so that its address is true when it is told."""
    try:
        return socket.create_server((gateway.host, gateway.port), backlog=512)
    except OSError as error:
        raise Stopped(
            Exit.UNAVAILABLE,
            f"cannot listen on {gateway.host}:{gateway.port} ({error.strerror}): set WAKEFUL_HTTP_PORT, 0 for a free one",
        ) from None
