"""The manifest: the tools of a server as people have reviewed them, a TOML file that lies beside the code.

`wakeful mcp describe` writes it from what a server says. A processor goes by it alone, so that it says the same at every
replay whatever became of the server; a worker compares it with what it meets.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from .claims import CONTRACTS, EXPIRES_DEFAULT, NOBODY, Claims, Said
from .errors import WrongManifest

APPROVER_DEFAULT = "supervisor"

BYTES_MAX = 4 * 1024 * 1024
"""Of a manifest; a longer one nobody has reviewed."""

_BARE = re.compile(r"[A-Za-z0-9_-]+")

_TOOL_KEYS: dict[str, type] = {
    "description": str,
    "schema": str,
    "claims": dict,
    "name": str,
    "use": bool,
    "contract": str,
    "approver": str,
    "expires": str,
    "quorum": int,
    "four_eyes": bool,
    "untrusted": bool,
    "key_argument": str,
    "errors_are_certain": bool,
}
_SERVER_KEYS: dict[str, type] = {"server": str, "trusted": bool, "approver": str, "tools": dict}


@dataclass(frozen=True, slots=True)
class Described:
    """A tool as its server describes it."""

    name: str
    description: str
    schema: dict[str, Any]
    claims: Claims


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """A tool as it was reviewed, and what people say of it."""

    described: Described
    said: Said = field(default_factory=Said)
    activity: str | None = None
    """Its name as an activity, where people gave it one."""
    use: bool = True
    key_argument: str | None = None
    """The argument that gets the idempotency key; no caller gives it."""
    errors_are_certain: bool = False
    """Where it says that it failed, nothing was done."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The tools of one server."""

    server: str
    trusted: bool = False
    approver: str = APPROVER_DEFAULT
    tools: dict[str, ToolEntry] = field(default_factory=dict)


def read_manifest(path: Path) -> Manifest:
    """The manifest of this file; `WrongManifest` where it is none, or says what nothing can be made of."""
    try:
        with path.open("rb") as file:
            data = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise WrongManifest(
            f"no manifest {str(path)!r} ({error.strerror}): write one with 'wakeful mcp describe', and review it"
        ) from error
    if len(data) > BYTES_MAX:
        raise WrongManifest(f"manifest {str(path)!r} is longer than {BYTES_MAX} bytes")
    try:
        return parse(data.decode("utf-8"), str(path))
    except UnicodeDecodeError as error:
        raise WrongManifest(f"manifest {str(path)!r} is not UTF-8 text") from error


def parse(text: str, where: str) -> Manifest:
    """The manifest in this text; `where` names it in errors."""
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise WrongManifest(f"manifest {where!r} is no TOML: {error}") from error
    told = f"manifest {where!r}"
    _check_keys(given, _SERVER_KEYS, told)
    if not given.get("server"):
        raise WrongManifest(f'{told} names no server: begin it with server = "…"')
    return Manifest(
        given["server"],
        given.get("trusted", False),
        given.get("approver") or APPROVER_DEFAULT,
        {
            name: _entry(name, one, f"{told}, tool {name!r},")
            for name, one in given.get("tools", {}).items()
        },
    )


def write(manifest: Manifest) -> str:
    """The manifest as text, which `parse` reads back as the same."""
    lines = [
        f"# The tools of the MCP server {_text(manifest.server)}, as it described them to `wakeful mcp describe`.",
        "# Review and commit this file: it is what counts. docs/mcp.md says what may be written here.",
        f"server = {_text(manifest.server)}",
        f"trusted = {_bool(manifest.trusted)}  # whether what it claims counts; what an untrusted server returns is tainted",
        f"approver = {_text(manifest.approver)}  # who is asked, where nobody else is named",
    ]
    for name in sorted(manifest.tools):
        lines += ["", *_written(name, manifest.tools[name])]
    return "\n".join(lines) + "\n"


def merged(kept: Manifest, found: Manifest) -> Manifest:
    """What was found, with all that people said before; tools that are gone are left out."""
    tools = {
        name: replace(kept.tools[name], described=one.described) if name in kept.tools else one
        for name, one in found.tools.items()
    }
    return replace(kept, tools=tools)


def drift(reviewed: Described, met: Described | None) -> str | None:
    """How a server describes a tool otherwise than it was reviewed; null where it does not.

    The words of its description are no drift: models are told those that were reviewed.
    """
    if met is None:
        return "it is gone"
    if met.schema != reviewed.schema:
        changed = sorted(
            name
            for name in {*_properties(met), *_properties(reviewed)}
            if _properties(met).get(name) != _properties(reviewed).get(name)
        )
        named = f" ({', '.join(changed[:5])})" if changed else ""
        return f"its arguments have changed{named}"
    claims = [
        one.name
        for one in fields(Claims)
        if getattr(met.claims, one.name) != getattr(reviewed.claims, one.name)
    ]
    return f"what it claims has changed ({', '.join(claims)})" if claims else None


def _properties(described: Described) -> Mapping[str, Any]:
    found = described.schema.get("properties")
    return found if isinstance(found, Mapping) else {}


def _entry(name: str, given: Any, told: str) -> ToolEntry:
    if not isinstance(given, dict):
        raise WrongManifest(f"{told} is no table: write [tools.{name}]")
    _check_keys(given, _TOOL_KEYS, told)
    contract = given.get("contract")
    if contract is not None and contract not in CONTRACTS:
        raise WrongManifest(
            f"{told} has contract {contract!r}: expected one of {', '.join(CONTRACTS)}"
        )
    if contract == "read" and given.get("approver", NOBODY) != NOBODY:
        raise WrongManifest(
            f"{told} is a read with an approver: reads cannot be gated, leave one of the two out"
        )
    schema = _schema(given.get("schema", ""), told)
    key_argument = given.get("key_argument")
    if key_argument is not None and key_argument not in schema.get("properties", {}):
        raise WrongManifest(f"{told} takes no argument {key_argument!r}: see its schema")
    said = {one.name: given[one.name] for one in fields(Said) if one.name in given}
    described = Described(name, given.get("description", ""), schema, _claims(given, told))
    return ToolEntry(
        described,
        Said(**said),
        given.get("name"),
        given.get("use", True),
        key_argument,
        given.get("errors_are_certain", False),
    )


def _claims(given: Mapping[str, Any], told: str) -> Claims:
    claims = given.get("claims", {})
    _check_keys(claims, {one.name: bool for one in fields(Claims)}, f"{told} claims")
    return Claims(**claims)


def _schema(text: str, told: str) -> dict[str, Any]:
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WrongManifest(f"{told} has a schema that is no JSON: {error}") from error
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise WrongManifest(f'{told} has a schema that is none of an object: its "type" is wrong')
    return schema


def _check_keys(given: Mapping[str, Any], known: Mapping[str, type], told: str) -> None:
    for name, value in given.items():
        kind = known.get(name)
        if kind is None:
            raise WrongManifest(f"{told} has {name!r}: expected {', '.join(known)}")
        if type(value) is not kind:
            raise WrongManifest(f"{told} has {name} = {value!r}: expected a {kind.__name__}")


def _written(name: str, entry: ToolEntry) -> list[str]:
    said, described = entry.said, entry.described
    lines = [f"[tools.{_key(name)}]", f"description = {_text(described.description)}"]
    claimed = {k: v for k, v in asdict(described.claims).items() if v is not None}
    told = ", ".join(f"{word} = {_bool(value)}" for word, value in claimed.items())
    lines.append(f"claims = {{ {told} }}" if told else "claims = {}")
    texts = {
        "name": entry.activity,
        "contract": said.contract,
        "approver": said.approver,
        "expires": None if said.expires == EXPIRES_DEFAULT else said.expires,
        "key_argument": entry.key_argument,
    }
    lines += [f"{key} = {_text(value)}" for key, value in texts.items() if value is not None]
    flags = {
        "use": None if entry.use else False,
        "four_eyes": said.four_eyes or None,
        "untrusted": said.untrusted,
        "errors_are_certain": entry.errors_are_certain or None,
    }
    lines += [f"{key} = {_bool(value)}" for key, value in flags.items() if value is not None]
    if said.quorum != 1:
        lines.append(f"quorum = {said.quorum}")
    schema = json.dumps(described.schema, indent=2, sort_keys=True).replace("'", "\\u0027")
    return [*lines, f"schema = '''\n{schema}\n'''"]


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _text(value: str) -> str:
    """A TOML basic string: JSON's escapes are among its own, but for those of surrogates and DEL."""
    clean = value.encode("utf-8", "replace").decode("utf-8")
    return json.dumps(clean, ensure_ascii=False).replace("\x7f", "\\u007F")


def _bool(value: bool) -> str:  # noqa: FBT001 it is the value that is written
    return "true" if value else "false"
