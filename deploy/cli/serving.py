"""`serve` and `apikeys`: the gateway, and who may speak to it."""

from __future__ import annotations

import os
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..exits import Exit, Stopped
from ..settings import Settings
from .context import AsJson, settings

if TYPE_CHECKING:
    from ..gateway.api_keys import ApiKey
    from ..kept import Works

app = typer.Typer(help="API keys of the gateway: make, list and revoke them.", no_args_is_help=True)

KeyId = Annotated[
    str, typer.Argument(metavar="KEY", help="A key's id, as 'apikeys list' shows it.")
]


DAY_MS = 24 * 3_600_000

DAYS_MAX = 36_500
"""A key that is to count longer needs no end."""


def serve(
    *,
    console_link: Annotated[
        bool,
        typer.Option(
            "--console-link",
            help="Print a link that signs you in to the console, once, as operator.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Serve HTTP: commands, queries, the live stream, the console.

    Ends with SIGTERM or Ctrl-C, once open requests are answered. Its work is done in a process of its own, which is
    started again where it dies, on the same port.

    WAKEFUL_HTTP_HOST and WAKEFUL_HTTP_PORT say where; any number of gateways may run side by side. With --json the
    address is told on stdout as soon as requests can come.
    """
    from ..kept import Kept
    from .errors import explain
    from .output import note, write_json
    from .run import with_logs

    given = with_logs("gateway")
    try:
        from ..gateway.serving import bound
        from ..gateway.serving import serve as serve_until_signalled
        from ..gateway.settings import load_gateway_settings
    except ImportError as error:
        raise Stopped(
            Exit.USAGE,
            f"the gateway needs {error.name}, which is not installed: pip install 'wakeful[gateway]'",
        ) from None
    gateway = load_gateway_settings(os.environ, given.home)
    pid = os.getpid()

    def told(url: str) -> None:
        link = sign_in_link(given, gateway.api_keys, url) if console_link else None
        if as_json:
            write_json({"url": url, "pid": pid, "console_link": link})
        note(f"listening on {url}; the console is {url}/console/")
        if link is not None:
            note(f"sign in to the console once, within ten minutes: {link}")
        elif not gateway.can_sign_in:
            note(
                "nobody can sign in yet: make a key with 'wakeful apikeys new --role operator', or set WAKEFUL_OIDC_ISSUER"
            )
        if not gateway.is_local:
            note("it speaks plain HTTP, also to other machines: put TLS in front of it")

    with bound(gateway) as listener:

        def work(works: Works) -> int:
            def listening(url: str) -> None:
                if works.say():
                    told(url)

            try:
                return serve_until_signalled(given, gateway, listener, listening=listening)
            except Exception as error:
                why, code = explain(error)
                note(why)
                return code

        code = Kept(work).run()
    if code == Exit.DONE:
        note("ended")
    return code


def sign_in_link(given: Settings, api_keys: Path, base_url: str) -> str:
    """A link by which whoever runs this signs in to the console once, as an operator."""
    from ..clock import SystemClock
    from ..gateway.console.one_time import new_link
    from ..gateway.console.signing import signer_in

    return new_link(
        signer_in(given.home),
        api_keys,
        base_url=base_url.replace("://0.0.0.0", "://127.0.0.1").replace("://[::]", "://[::1]"),
        tenant=given.tenant,
        actor=given.actor,
        roles=("operator",),
        now_ms=SystemClock().now_ms(),
    )


@app.command()
def new(
    *,
    role: Annotated[
        list[str], typer.Option(help="viewer, user, approver, operator or hook; repeat.")
    ],
    actor: Annotated[
        str | None, typer.Option(help="Whom it speaks for. (default: WAKEFUL_ACTOR)")
    ] = None,
    tenant: Annotated[
        str | None, typer.Option(help="Whose sessions. (default: WAKEFUL_TENANT)")
    ] = None,
    days: Annotated[
        int | None,
        typer.Option(min=1, max=DAYS_MAX, help="For how long it counts. (default: no end)"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make an API key, and show it this once: only its hash is kept."""
    from ...events.errors import InvalidKey
    from ..clock import SystemClock
    from ..gateway.api_keys import changing, new_key
    from .output import note, write_json

    given = settings()
    not_after_ms = None if days is None else SystemClock().now_ms() + days * DAY_MS
    roles = tuple(dict.fromkeys(role))
    try:
        text, kept = new_key(
            tenant or given.tenant, actor or given.actor, roles, not_after_ms=not_after_ms
        )
    except (ValueError, InvalidKey) as error:
        raise Stopped(Exit.USAGE, str(error)) from None
    with changing(_path()) as keys:
        keys.append(kept)
    if as_json:
        write_json({"key": text, **_shown(kept)})
        return
    typer.echo(text)
    until = "" if kept.not_after_ms is None else f" until {_day(kept.not_after_ms)}"
    note(
        f"key {kept.id} speaks for {kept.actor} of tenant {kept.tenant}{until}; it is not shown again"
    )


@app.command("list")
def list_(*, as_json: AsJson = False) -> None:
    """Show the API keys, without their secrets."""
    from ..gateway.api_keys import read_keys
    from .output import table, write_json

    found = read_keys(_path()) if _path().exists() else []
    if as_json:
        write_json([_shown(key) for key in found])
        return
    table(
        ("key", "status", "tenant", "actor", "roles", "until"),
        [
            (k.id, k.status, k.tenant, k.actor, ", ".join(k.roles), _day(k.not_after_ms))
            for k in found
        ],
    )


@app.command()
def revoke(key: KeyId) -> None:
    """Believe this key no more; gateways that run see it at once."""
    from ..gateway.api_keys import changing, revoked
    from .output import note

    with changing(_path()) as keys:
        found = next((n for n, one in enumerate(keys) if one.id == key), None)
        if found is None:
            raise Stopped(
                Exit.NOT_FOUND, f"no API key {key!r} in {_path()}: see 'wakeful apikeys list'"
            )
        keys[found] = revoked(keys[found])  # once more changes nothing
    note(f"API key {key} is revoked")


def _shown(key: ApiKey) -> dict[str, Any]:
    """What may be told of a key: all but its hash."""
    return {name: value for name, value in asdict(key).items() if name != "sha256"}


def _day(at_ms: int | None) -> str:
    if at_ms is None:
        return ""
    return datetime.fromtimestamp(at_ms / 1000, tz=UTC).date().isoformat()


def _path() -> Path:
    named = os.environ.get("WAKEFUL_API_KEYS")
    return Path(named) if named else settings().home / "api_keys.json"
