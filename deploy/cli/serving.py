"""`serve` and `apikeys`: the gateway, and who may speak to it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ..exits import Exit, Stopped
from ..settings import Settings
from .context import AsJson, settings

app = typer.Typer(help="API keys of the gateway: make, list and revoke them.", no_args_is_help=True)

KeyId = Annotated[
    str, typer.Argument(metavar="KEY", help="A key's id, as 'apikeys list' shows it.")
]


def serve(
    *,
    console_link: Annotated[
        bool,
        typer.Option(
            "--console-link",
            help="Print a link that signs you in to the console, once, as operator.",
        ),
    ] = False,
) -> int:
    """Serve HTTP: commands, queries, the live stream, the console. WAKEFUL_HTTP_PORT=8400. Ends with SIGTERM or Ctrl-C."""
    from .output import note

    given = settings()
    try:
        from ..gateway.serving import serve as serve_until_signalled
        from ..gateway.settings import load_gateway_settings
    except ImportError as error:
        raise Stopped(
            Exit.USAGE,
            f"the gateway needs {error.name}, which is not installed: pip install 'wakeful[gateway]'",
        ) from None
    gateway = load_gateway_settings(os.environ, given.home)

    def listening(url: str) -> None:
        note(f"listening on {url}; the console is {url}/console/")
        if console_link:
            note(f"sign in once, within ten minutes: {sign_in_link(given, gateway.api_keys, url)}")

    return serve_until_signalled(given, gateway, listening=listening)


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
    as_json: AsJson = False,
) -> None:
    """Make an API key, and show it this once: only its hash is kept."""
    from ...events.errors import InvalidKey
    from ..gateway.api_keys import changing, new_key
    from .output import note, write_json

    given = settings()
    try:
        text, kept = new_key(tenant or given.tenant, actor or given.actor, tuple(role))
    except (ValueError, InvalidKey) as error:
        raise Stopped(Exit.USAGE, str(error)) from None
    with changing(_path()) as keys:
        keys.append(kept)
    if as_json:
        write_json({"id": kept.id, "key": text, "tenant": kept.tenant, "actor": kept.actor})
        return
    typer.echo(text)
    note(f"it speaks for {kept.actor} of tenant {kept.tenant}; it is not shown again")


@app.command("list")
def list_(*, as_json: AsJson = False) -> None:
    """Show the API keys, without their secrets."""
    from ..gateway.api_keys import read_keys
    from .output import table, write_json

    found = read_keys(_path()) if _path().exists() else []
    rows = [
        {
            "id": k.id,
            "status": k.status,
            "tenant": k.tenant,
            "actor": k.actor,
            "roles": list(k.roles),
        }
        for k in found
    ]
    if as_json:
        write_json(rows)
        return
    table(
        ("key", "status", "tenant", "actor", "roles"),
        [(r["id"], r["status"], r["tenant"], r["actor"], ", ".join(r["roles"])) for r in rows],
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
        keys[found] = revoked(keys[found])
    note(f"API key {key} is revoked")


def _path() -> Path:
    named = os.environ.get("WAKEFUL_API_KEYS")
    return Path(named) if named else settings().home / "api_keys.json"
