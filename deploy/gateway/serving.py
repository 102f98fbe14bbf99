"""The gateway's process: until SIGTERM or SIGINT it answers; then it lets requests end, and says what it could not."""

from __future__ import annotations

import socket
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import structlog
import uvicorn
from joserfc.errors import SecurityWarning

from ...events.log.protocol import Log
from ..blobs import blobs_of
from ..clock import SystemClock
from ..exits import Exit, Stopped
from ..identity import identity_of
from ..processes import existing_partitions, on_signal, opened_log
from ..settings import Settings
from .api_keys import ApiKeys
from .app import create_app
from .authentication import Authenticator
from .console import app as console
from .hooks import Hooks
from .oidc import Oidc, Provider
from .oidc_sign_in import OidcClient, SignIns
from .services import Services
from .settings import GatewaySettings

DRAIN_S = 5
"""How long requests may take to end once the gateway is told to."""

KEEP_ALIVE_S = 75
"""How long a connection may be idle: longer than the 60 s of common proxies, which must be the ones to close it."""

HEAD_BYTES_MAX = 64 * 1024
"""Request line and headers."""

logger = structlog.get_logger("wakeful.gateway")


def serve(
    settings: Settings,
    gateway: GatewaySettings,
    listener: socket.socket,
    *,
    listening: Callable[[str], None],
) -> Exit:
    """Answers until it is signalled; `listening` is told the URL once requests can come. The socket is left open."""
    warnings.simplefilter(
        "ignore", SecurityWarning
    )  # that EdDSA has another name by now (RFC 9864)
    with (
        opened_log(settings, f"{settings.namespace}.gateway") as log,
        opened_services(settings, gateway, log) as services,
    ):
        host, port = listener.getsockname()[:2]
        app = create_app(services)
        console.mount(app, services, ApiKeys(gateway.api_keys))
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=DRAIN_S,
            h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        )
        services.backlog.start()
        url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        server = _Server(config, services.live.end)

        def stop() -> None:
            server.should_exit = True
            services.live.end()

        with on_signal(
            stop
        ):  # before it listens to signals itself; and after, when it raises them again
            logger.info("gateway started", url=url)
            listening(url)
            server.run(sockets=[listener])
    logger.info("gateway ended")
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


@contextmanager
def opened_services(settings: Settings, gateway: GatewaySettings, log: Log) -> Iterator[Services]:
    """What requests share, as these settings say; closed at the end. `Stopped` names what is missing."""
    if existing_partitions(log, settings) is None:
        raise Stopped(
            Exit.NOT_FOUND,
            f"namespace {settings.namespace} has no topics: 'wakeful run APP' or 'wakeful topics apply' makes them, "
            "or WAKEFUL_NAMESPACE names another",
        )
    clock = SystemClock()
    oidc = _oidc(gateway, clock)
    services = Services(
        settings,
        log,
        authenticator=Authenticator(ApiKeys(gateway.api_keys), clock.now_ms, oidc=oidc),
        identity=identity_of(settings, log, role="gateway"),
        blobs=blobs_of(settings),
        clock=clock,
        hooks=Hooks(gateway.hooks),
        sign_ins=None if oidc is None else _sign_ins(gateway, oidc, clock),
        behind_max_s=gateway.lag_max_s,
        body_max=gateway.body_max,
    )
    try:
        yield services
    finally:
        services.close()
        if oidc is not None:
            oidc.close()


def _oidc(gateway: GatewaySettings, clock: SystemClock) -> Oidc | None:
    if gateway.oidc_issuer is None or gateway.oidc_audience is None:
        return None
    provider = Provider(
        gateway.oidc_issuer,
        gateway.oidc_audience,
        gateway.oidc_tenant_claim,
        gateway.oidc_actor_claim,
        gateway.oidc_roles_claim,
    )
    return Oidc(provider, clock.now_ms, lambda: clock.steady_ms() / 1000)


def _sign_ins(gateway: GatewaySettings, oidc: Oidc, clock: SystemClock) -> SignIns | None:
    if gateway.oidc_client_id is None:
        return None
    secret = gateway.oidc_client_secret
    client = OidcClient(
        gateway.oidc_client_id,
        None if secret is None else secret.get_secret_value(),
        gateway.oidc_scopes,
    )
    return SignIns(oidc, client, clock.now_ms, base_url=gateway.http_url)


@contextmanager
def bound(gateway: GatewaySettings) -> Iterator[socket.socket]:
    """A socket that takes connections from now on, so that its address is true when it is told."""
    family = socket.AF_INET6 if ":" in gateway.host else socket.AF_INET
    try:
        listener = socket.create_server((gateway.host, gateway.port), family=family, backlog=512)
    except OSError as error:
        raise Stopped(
            Exit.UNAVAILABLE,
            f"cannot listen on {gateway.host}:{gateway.port} ({error.strerror or error}): set WAKEFUL_HTTP_PORT, 0 for a "
            "free one, and WAKEFUL_HTTP_HOST to an address of this machine",
        ) from None
    with listener:
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            # Connections inherit it: what a client leaves unread for so long is cut off, and a stuck stream with it.
            unread_ms = round(gateway.unread_s * 1_000)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, unread_ms)
        yield listener
