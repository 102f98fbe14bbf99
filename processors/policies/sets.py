"""What a policy set is made of, and whether it is in order: faults are told with their policy and its line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

import cedarpy

from ...events import records as r
from .depth import DEPTH_MAX, depth
from .stored import id_of, in_order, stored_form, uids_in
from .text import Statement, statements

KINDS: Mapping[str, type] = {"Long": int, "String": str, "Bool": bool}

SET_DOMAIN = b"wakeful/policy-set/1"

_CONTEXT = {"Var": "context"}
_ARGUMENTS = {".": {"left": _CONTEXT, "attr": "arguments"}}
_IN_CONTEXT = frozenset(
    (
        *("tenant", "workflow", "requester", "approver", "decision", "contract", "channel"),
        *("on_behalf_of", "arguments", "approved_by", "tainted"),
    )
)


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a set; `policy_id` and `line` (from 1, in the policies' text) where it is about one policy."""

    told: str
    policy_id: str = ""
    line: int | None = None


def default_policies() -> str:
    """The text of the default set."""
    return files(__package__).joinpath("default.cedar").read_text("utf-8")


def canonical(content: object) -> bytes:
    """The bytes that equal contents have alike, to be hashed."""
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def set_hash(published: r.PolicyPublished) -> bytes:
    """The hash of what a set says; who published it, when and as which version does not count."""
    content = {
        "policies": published.policies,
        "roles": sorted((o.tenant, o.role, sorted(set(o.actors))) for o in published.roles),
        "arguments": sorted((o.tool, o.name, o.kind) for o in published.arguments),
    }
    return sha256(SET_DOMAIN + canonical(content)).digest()


def problems(published: r.PolicyPublished) -> list[Problem]:
    """Everything that keeps a set from being published; none for one that is in order.

    What is about single policies is told once their text can be read.
    """
    parts = statements(published.policies)
    if not parts:
        told = "there is no policy in it, and what no policy permits is denied: begin with "
        return [Problem(told + "'policies = [\"default\", …]'")]
    found = [
        *_argument_problems(published.arguments),
        *_role_problems(published.roles),
        *_syntax_problems(parts),
    ]
    return found or list(_policy_problems(published, parts))


def _policy_problems(published: r.PolicyPublished, parts: Sequence[Statement]) -> Iterator[Problem]:
    stored = stored_form(published.policies)
    if stored["templates"]:
        told = "templates (?principal, ?resource) are not used here: name whom it is about"
        yield Problem(told)
        return
    policies = in_order(stored)
    if len(policies) != len(parts):
        told = "the text does not come apart into its policies: put each on lines of its own"
        yield Problem(told)
        return
    named = [(id_of(policy), part.line) for policy, part in zip(policies, parts, strict=True)]
    yield from _id_problems(named)
    known = {one.name for one in published.arguments}
    for policy, (policy_id, line) in zip(policies, named, strict=True):
        yield from _name_problems(policy, policy_id, line)
        for told in sorted(set(_never(policy, known))):
            yield Problem(told, policy_id, line)
    yield from _schema_problems(published, named)


def _schema_problems(
    published: r.PolicyPublished, named: Sequence[tuple[str, int]]
) -> Iterator[Problem]:
    """What the engine itself finds, with our ids and lines instead of its own."""
    ours = {f"policy{number}": each for number, each in enumerate(named)}
    checked = cedarpy.validate_policies(published.policies, _schema(published.arguments))
    for error in checked.errors:
        told = error.error.removeprefix(f"for policy `{error.policy_id}`, ")
        yield Problem(told, *ours.get(error.policy_id, ("", None)))


def _syntax_problems(parts: Iterable[Statement]) -> Iterator[Problem]:
    for part in parts:
        deep = depth(part.text)
        if deep > DEPTH_MAX:
            told = f"it goes {deep} deep, and {DEPTH_MAX} is the most: write it as several policies"
            yield Problem(told, line=part.line)
            continue
        try:
            cedarpy.PolicySet.from_str(part.text)
        except ValueError as error:
            yield Problem(f"it is not Cedar: {error}", line=part.line)


def _id_problems(ids: Iterable[tuple[str, int]]) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for policy_id, line in ids:
        if not policy_id:
            yield Problem('it has no name: write @id("what-it-says") before it', line=line)
        elif policy_id in seen:
            told = f"its id is that of the policy at line {seen[policy_id]}: give it one of its own"
            yield Problem(told, policy_id, line)
        seen.setdefault(policy_id, line)


def _name_problems(policy: Mapping[str, Any], policy_id: str, line: int) -> Iterator[Problem]:
    """Names without a tenant: they are nobody's, so such a policy would never apply."""
    for kind, name in sorted(set(uids_in(policy))):
        if kind in ("Actor", "Role") and "/" not in name:
            told = f'{kind}::"{name}" names no tenant: write {kind}::"TENANT/{name}"'
            yield Problem(told, policy_id, line)


def _never(part: Any, arguments: set[str]) -> Iterator[str]:
    """Questions after what can never be there: the engine finds nothing wrong in a policy that never applies."""
    if isinstance(part, list):
        for inner in part:
            yield from _never(inner, arguments)
    if not isinstance(part, dict):
        return
    match part.get("has"):
        case {"left": left, "attr": str() as name} if left == _ARGUMENTS and name not in arguments:
            yield f"no tool declares an argument {name!r}: declare it, or it is never there"
        case {"left": left, "attr": str() as name} if left == _CONTEXT and name not in _IN_CONTEXT:
            yield f"{name!r} is never in the context: use one of {', '.join(sorted(_IN_CONTEXT))}"
    for inner in part.values():
        yield from _never(inner, arguments)


def _argument_problems(arguments: Iterable[r.ToolArgument]) -> Iterator[Problem]:
    kinds: dict[str, r.ToolArgument] = {}
    for one in arguments:
        if one.kind not in KINDS:
            yield Problem(
                f"argument {one.name!r} of {one.tool!r} is declared as {one.kind!r}: use {', '.join(KINDS)}"
            )
        other = kinds.setdefault(one.name, one)
        if other.kind != one.kind:
            yield Problem(
                f"argument {one.name!r} is a {other.kind} of {other.tool!r} and a {one.kind} of {one.tool!r}: "
                "declare it for one of them only, as policies know it by its name"
            )


def _role_problems(roles: Iterable[r.RoleMembers]) -> Iterator[Problem]:
    seen = set()
    for one in roles:
        if not one.tenant or not one.role or "/" in one.tenant:
            yield Problem(
                f"role {one.role!r} of tenant {one.tenant!r}: give both a name, and the tenant no '/'"
            )
        if (one.tenant, one.role) in seen:
            yield Problem(
                f"role {one.role!r} of tenant {one.tenant!r} is given twice: write its members into one list"
            )
        seen.add((one.tenant, one.role))


def _schema(arguments: Iterable[r.ToolArgument]) -> cedarpy.Schema:
    kinds = {one.name: one.kind for one in arguments}
    fields = ", ".join(f'"{_escaped(name)}"?: {kind}' for name, kind in sorted(kinds.items()))
    return cedarpy.Schema.from_str(_schema_text().replace("__ARGUMENTS__", fields))


def _escaped(name: str) -> str:
    """As Cedar writes what is not plain within quotes."""
    return "".join(c if c.isascii() and c.isalnum() else f"\\u{{{ord(c):x}}}" for c in name)


@cache
def _schema_text() -> str:
    return files(__package__).joinpath("wakeful.cedarschema").read_text("utf-8")
