"""`keys`: whom this installation believes: new keys, a list without secrets, and the end of old ones."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..exits import Exit, Stopped
from .context import AsJson

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...commands.keyring import Key

app = typer.Typer(
    help="The keys that commands and policies are signed with: make, list, export, add, retire and revoke them.",
    no_args_is_help=True,
)

KeyId = Annotated[str, typer.Argument(metavar="KEY", help="A key's id, as 'keys list' shows it.")]

Days = Annotated[
    float | None,
    typer.Option(
        min=0.001,
        max=36_500,
        help="Days from now until it ends, a hundred years at most. (default: never)",
    ),
]

NAME_SOMEBODY = ("client", "gateway", "publisher")
"""Roles whose keys sign what people say, by their names."""

FAR_MS = 253_402_214_400_000
"""The last day that a date can name; a key that somebody wrote by hand may end later."""


@app.command()
def new(
    *,
    role: Annotated[
        str | None,
        typer.Option(
            help="client, gateway, worker, processor or publisher. (default: one of each needed)"
        ),
    ] = None,
    tenant: Annotated[
        list[str] | None, typer.Option(help="A tenant it vouches for; repeat. (default: all)")
    ] = None,
    algorithm: Annotated[str, typer.Option(help="hmac-sha256 or ed25519.")] = "hmac-sha256",
    actor: Annotated[
        str | None,
        typer.Option(
            help="The only actor it may name, for a client, gateway or publisher. (default: any)"
        ),
    ] = None,
    days: Days = None,
    as_json: AsJson = False,
) -> None:
    """Make a key and put it into the keyring, which signs with the newest that fits from then on.

    Without --role: a client's, a worker's, a processor's and a publisher's, which is what one machine needs.
    With --tenant and without --role a client's and a worker's: the other two are of use for all tenants only.
    """
    from ...commands.keyring import FOR_ALL
    from ...events.errors import InvalidKey
    from ...events.keys import check_id
    from ..clock import SystemClock
    from ..keyfile import LOCAL_ROLES, changing, new_key

    path = _path()
    needed = [one for one in LOCAL_ROLES if not (tenant and one in FOR_ALL)]
    try:
        _check_means_something(role, tenant, actor)
        until_ms = None if days is None else SystemClock().now_ms() + int(days * 86_400_000)
        made = [
            new_key(
                one,
                algorithm=algorithm,
                tenants=[check_id("tenant", name) for name in tenant or ()],
                actor=actor,
                not_after_ms=until_ms,
            )
            for one in ([role] if role is not None else needed)
        ]
    except (ValueError, InvalidKey) as error:
        raise Stopped(Exit.USAGE, str(error)) from None
    with changing(path) as keys:
        keys.extend(made)
    _show(made, as_json=as_json)


@app.command("list")
def list_(*, as_json: AsJson = False) -> None:
    """Show the keys of the keyring, without their secrets."""
    from ..keyfile import read_keys

    _show(read_keys(_path()).keys, as_json=as_json)


@app.command()
def retire(kid: KeyId) -> None:
    """Sign with this key no more; what it has signed is still believed. Make its successor first."""
    _set_status(kid, "retired")


@app.command()
def revoke(kid: KeyId) -> None:
    """Believe this key no more, also what it signed before and has not been read yet. There is no way back."""
    _set_status(kid, "revoked")


@app.command()
def export(
    kids: Annotated[list[str], typer.Argument(metavar="KEY...", help="Ids of keys.")],
    *,
    to: Annotated[Path, typer.Option(help="The keyring to write; it must not exist.")],
    secret: Annotated[
        bool,
        typer.Option(
            "--secret",
            help="With what signs, for the service whose keys they are; else halves that verify.",
        ),
    ] = False,
) -> None:
    """Write a keyring with some keys only: what a service needs to sign, or what others need to verify it."""
    from ..keyfile import public_key, read_keys, write_keys
    from .output import note

    found = [_find(read_keys(_path()).keys, kid) for kid in kids]
    if to.exists():
        raise Stopped(Exit.USAGE, f"{to} exists: name a new file, or add to it with 'keys add'")
    write_keys(to, [key if secret else public_key(key) for key in found])
    note(f"{to}: {len(found)} keys, {'WITH their secrets' if secret else 'public halves'}")


@app.command()
def add(
    file: Annotated[Path, typer.Argument(help="A keyring that 'keys export' wrote.")],
) -> None:
    """Put the keys of a file into the keyring; a key that is there already, with the same bytes, stays as it is."""
    from ..keyfile import changing, read_keys
    from .output import note

    added = read_keys(file).keys
    with changing(_path()) as keys:
        there = {key.kid: key for key in keys}
        for key in added:
            known = there.get(key.kid)
            if known is None:
                keys.append(key)
            elif known.known != key.known:
                raise Stopped(
                    Exit.REFUSED, f"another key is called {key.kid} here: nothing was added"
                )
    note(f"{len([k for k in added if k.kid not in there])} of {len(added)} keys added")


def _set_status(kid: str, status: str) -> None:
    from ...commands.keyring import PUBLISHED, REVOKED
    from ..clock import SystemClock
    from ..keyfile import changing
    from ..roles import roles_for_all, roles_over, told, told_narrowed
    from .output import note

    now_ms = SystemClock().now_ms()
    with changing(_path()) as keys:
        before, whole = roles_over(keys, now_ms), roles_for_all(keys, now_ms)
        key = _find(keys, kid)
        if key.status == REVOKED and status != REVOKED:
            raise Stopped(Exit.REFUSED, f"key {kid} is revoked, which is for good")
        keys[keys.index(key)] = replace(key, status=status)
        ended = [role for role in roles_over(keys, now_ms) if role not in before]
        left = {*roles_for_all(keys, now_ms), *ended}
    note(f"key {kid} is {status}; processes that run see it at once")
    if status == REVOKED and PUBLISHED in key.kinds:
        note(
            "warning: policy sets and rollouts that it signed count for nothing in processors that start from now on, and "
            "those that run keep to them: see 'wakeful policy show' and 'wakeful rollout show', and publish what shall hold"
        )
    for role in ended:
        note(f"warning: {told(role)}")
    for role in (role for role in whole if role not in left):
        note(f"warning: {told_narrowed(role)}")


def _find(keys: Any, kid: str) -> Key:
    for key in keys:
        if key.kid == kid:
            found: Key = key
            return found
    raise Stopped(Exit.NOT_FOUND, f"no key {kid!r} in {_path()}: see 'wakeful keys list'")


def _check_means_something(
    role: str | None, tenants: Sequence[str] | None, actor: str | None
) -> None:
    """Refuses a role that there is not, and a key that could sign nothing of what its role says."""
    from ...commands.actors import WORKER
    from ...commands.inputs import actor as checked_actor
    from ...commands.keyring import FOR_ALL, ROLES

    if role is not None and role not in ROLES:
        raise Stopped(Exit.USAGE, f"--role {role} is not one of {', '.join(ROLES)}")
    if tenants and role in FOR_ALL:
        why = (
            "a policy set speaks of all" if role == "publisher" else "it wakes the sessions of all"
        )
        raise Stopped(
            Exit.USAGE,
            f"--tenant {tenants[0]}: a {role}'s key is for all tenants, since {why}: leave --tenant out",
        )
    if actor is None:
        return
    if role in NAME_SOMEBODY:
        checked_actor(actor)
        return
    if role is None:
        told = f"of the keys that are made without --role not all name somebody: give --role {' or '.join(NAME_SOMEBODY)}"
    elif role == "worker" and not actor.startswith(WORKER):
        told = f"a worker speaks as {WORKER}ITS-NAME alone, so such a key would sign nothing: leave --actor out"
    elif role == "processor":
        told = "a processor speaks for nobody: leave --actor out"
    else:
        return
    raise Stopped(Exit.USAGE, f"--actor {actor}: {told}")


def _path() -> Path:
    """The keyring that is meant here, whether or not it exists; no service is asked."""
    from ..home import KEYS_FILE
    from ..stack import stack_home

    named = os.environ.get("WAKEFUL_KEYS")
    return Path(named) if named else stack_home(os.environ) / KEYS_FILE


def _show(keys: Any, *, as_json: bool) -> None:
    from .output import table, write_json

    rows = [_row(key) for key in keys]
    if as_json:
        write_json({"file": str(_path()), "keys": rows})
    else:
        table(
            ("key", "status", "algorithm", "role", "tenants", "actor", "until", "signs"),
            [
                [
                    row["kid"],
                    row["status"],
                    row["algorithm"],
                    row["role"],
                    ", ".join(row["tenants"] or ("all",)),
                    row["actor"] or "any",
                    row["not_after"] or "",
                    "yes" if row["signs"] else "no",
                ]
                for row in rows
            ],
        )


def _row(key: Key) -> dict[str, Any]:
    """What may be shown of a key."""
    from datetime import UTC, datetime

    until = key.not_after_ms
    return {
        "kid": key.kid,
        "status": key.status,
        "algorithm": key.algorithm,
        "role": key.role,
        "kinds": sorted(key.kinds),
        "tenants": None if key.tenants is None else sorted(key.tenants),
        "actor": key.actor,
        "not_after": None
        if until is None
        else datetime.fromtimestamp(min(until, FAR_MS) / 1000, UTC).isoformat(),
        "signs": key.signs,
        "public": None if key.public is None else key.public.hex(),
    }
