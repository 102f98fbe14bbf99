"""The `Policy` port on Cedar: one published set, parsed once, asked for each decision.

Nothing is decided by the absence of an answer: an error of the engine, in any policy, is a denial. (Cedar itself skips a
policy that fails, and a skipped `forbid` would permit.)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

import cedarpy

from ...commands.policy import (
    FORBIDDEN,
    NOT_PERMITTED,
    POLICY_ERROR,
    Deciding,
    Question,
    Ruling,
)
from ...events import records as r
from ..control import PolicyDamaged
from .text import Statement, statements

KINDS: Mapping[str, type] = {"Long": int, "String": str, "Bool": bool}

LONG_MAX = 2**63

SET_DOMAIN = b"wakeful/policy-set/1"
APPLICABLE_DOMAIN = b"wakeful/applicable-policies/1"


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a set; `policy_id` and `line` (from 1, in the policies' text) where it is about one policy."""

    told: str
    policy_id: str = ""
    line: int | None = None


@dataclass(frozen=True, slots=True)
class _Scope:
    """Whom and what a policy can be about, as its head says; null: everybody, everything."""

    action: frozenset[str] | None
    tool: str | None
    tenant: str | None
    roles: frozenset[str]
    content: str


class CedarPolicy:
    """See the module."""

    def __init__(self, published: r.PolicyPublished) -> None:
        """`PolicyDamaged` names every problem of the set."""
        found = problems(published)
        if found:
            raise PolicyDamaged("; ".join(problem.told for problem in found))
        self.published = published
        self._arguments: dict[str, dict[str, str]] = {}
        for one in published.arguments:
            self._arguments.setdefault(one.tool, {})[one.name] = one.kind
        self._policies = cedarpy.PolicySet.from_str(published.policies)
        self._entities = cedarpy.Entities.from_json_str(_entities(published.roles))
        self._scopes = _scopes(published.policies)
        self._members = {
            _own(each.tenant, each.role): sorted(set(each.actors)) for each in published.roles
        }
        self._hash = set_hash(published)

    @property
    def set_hash(self) -> bytes:
        """See `Policy`."""
        return self._hash

    @property
    def policy_ids(self) -> list[str]:
        """The ids of its policies, in their order."""
        return list(self._scopes)

    def wants_arguments(self, tool: str) -> bool:
        """See `Policy`."""
        return tool in self._arguments

    def rule(self, question: Question) -> Ruling:
        """See `Policy`."""
        try:
            arguments = self._known(question)
            answer = cedarpy.is_authorized(
                _request(question, arguments), self._policies, self._entities
            )
        except Exception as error:  # noqa: BLE001 - whatever its cause, no answer is a denial
            return self._denied(POLICY_ERROR, (), f"the policies could not be asked: {error}")
        told = answer.diagnostics
        ids = tuple(sorted(told.id_annotations_by_reason.get(each, each) for each in told.reasons))
        if told.errors:
            return self._denied(POLICY_ERROR, ids, *map(self._named, told.errors))
        if answer.allowed:
            return Ruling(allowed=True, policy_ids=ids, set_hash=self._hash)
        if ids:
            return self._denied(FORBIDDEN, ids, f"forbidden by {', '.join(ids)}")
        return self._denied(NOT_PERMITTED, (), "no policy permits it")

    def applicable_hash(self, question: Question) -> bytes:
        """See `Policy`: by the policies' heads alone, so a policy may count that its conditions would rule out."""
        name = _action(question)
        applying = {
            policy_id: scope
            for policy_id, scope in self._scopes.items()
            if (scope.action is None or name in scope.action)
            and scope.tool in (None, question.action.tool)
            and scope.tenant in (None, question.tenant)
        }
        roles = {role for scope in applying.values() for role in scope.roles}
        if isinstance(question.action, Deciding):
            roles.add(_own(question.tenant, question.action.approver))
        content = {
            "policies": {policy_id: scope.content for policy_id, scope in applying.items()},
            "roles": {role: self._members.get(role, []) for role in roles},
            "arguments": self._arguments.get(question.action.tool, {}),
        }
        return sha256(APPLICABLE_DOMAIN + _canonical(content)).digest()

    def _denied(self, verdict: str, ids: tuple[str, ...], *reasons: str) -> Ruling:
        return Ruling(
            allowed=False,
            policy_ids=ids,
            set_hash=self._hash,
            reasons=reasons,
            verdict=verdict,
        )

    def _known(self, question: Question) -> dict[str, Any]:
        """The declared arguments that the call has; ValueError where one is not what was declared."""
        declared = self._arguments.get(question.action.tool)
        if not declared:
            return {}
        given = question.action.arguments
        if given is None:
            raise ValueError(f"the arguments of {question.action.tool!r} cannot be read")
        known = {name: given[name] for name in declared if given.get(name) is not None}
        for name, value in known.items():
            if not _is(declared[name], value):
                raise ValueError(
                    f"argument {name!r} of {question.action.tool!r} is not a {declared[name]}, as the policy set declares"
                )
        return known

    def _named(self, error: str) -> str:
        """The engine's sentence with our ids instead of its own."""
        error = " ".join(error.split())
        for number, policy_id in enumerate(self._scopes):
            error = error.replace(f"`policy{number}`", f"`{policy_id}`")
        return error


def load(published: r.PolicyPublished) -> CedarPolicy:
    """The set as a policy; `PolicyDamaged` where it cannot be one."""
    return CedarPolicy(published)


def default_policies() -> str:
    """The text of the default set."""
    return files(__package__).joinpath("default.cedar").read_text("utf-8")


def set_hash(published: r.PolicyPublished) -> bytes:
    """The hash of what a set says; who published it, when and as which version does not count."""
    content = {
        "policies": published.policies,
        "roles": sorted((o.tenant, o.role, sorted(set(o.actors))) for o in published.roles),
        "arguments": sorted((o.tool, o.name, o.kind) for o in published.arguments),
    }
    return sha256(SET_DOMAIN + _canonical(content)).digest()


def problems(published: r.PolicyPublished) -> list[Problem]:
    """Everything that keeps a set from being published; none for one that is in order."""
    found = [*_argument_problems(published.arguments), *_role_problems(published.roles)]
    parts = statements(published.policies)
    broken = list(_syntax(parts))
    if broken or found:
        return [*found, *broken]
    stored = _stored(published.policies)
    if stored["templates"]:
        return [
            Problem("templates (?principal, ?resource) are not used here: name whom it is about")
        ]
    if len(stored["staticPolicies"]) != len(parts):
        return [
            Problem("the text does not come apart into its policies: put each on lines of its own")
        ]
    policies = _in_order(stored)
    ids = {
        f"policy{number}": (_id(policy), parts[number].line)
        for number, policy in enumerate(policies)
    }
    found += _id_problems(ids.values())
    for policy, part in zip(policies, parts, strict=True):
        found += _name_problems(policy, part.line)
    checked = cedarpy.validate_policies(published.policies, _schema(published.arguments))
    for error in checked.errors:
        policy_id, line = ids.get(error.policy_id, ("", None))
        told = error.error.removeprefix(f"for policy `{error.policy_id}`, ")
        found.append(Problem(told, policy_id, line))
    return found


def _syntax(parts: Iterable[Statement]) -> Iterator[Problem]:
    for part in parts:
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


def _name_problems(policy: Mapping[str, Any], line: int) -> Iterator[Problem]:
    """Names without a tenant: they are nobody's, so such a policy would never apply."""
    for kind, name in sorted(set(_uids(policy))):
        if kind in ("Actor", "Role") and "/" not in name:
            told = f'{kind}::"{name}" names no tenant: write {kind}::"TENANT/{name}"'
            yield Problem(told, _id(policy), line)


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


def _scopes(policies: str) -> dict[str, _Scope]:
    found = {}
    for policy in _in_order(_stored(policies)):
        principal, resource = policy["principal"], policy["resource"]
        whom = [uid for uid in _uids(principal) if uid[0] in ("Actor", "Role")]
        tools = [name for kind, name in _uids(resource) if kind == "Tool"]
        found[_id(policy)] = _Scope(
            action=_actions(policy["action"]),
            tool=tools[0] if tools else None,
            tenant=whom[0][1].partition("/")[0] if whom else None,
            roles=frozenset(name for kind, name in _uids(policy) if kind == "Role"),
            content=json.dumps(policy, sort_keys=True),
        )
    return found


def _actions(scope: Mapping[str, Any]) -> frozenset[str] | None:
    names = frozenset(name for kind, name in _uids(scope) if kind == "Action")
    return names or None


def _uids(part: Any) -> Iterator[tuple[str, str]]:
    """Each entity that a piece of a policy names."""
    if isinstance(part, dict):
        if set(part) == {"type", "id"} and isinstance(part["id"], str):
            yield part["type"], part["id"]
            return
        for inner in part.values():
            yield from _uids(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from _uids(inner)


def _id(policy: Mapping[str, Any]) -> str:
    """The name that its author gave it; empty where there is none."""
    return policy.get("annotations", {}).get("id") or ""


def _stored(policies: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(cedarpy.policies_to_json_str(policies))
    return read


def _in_order(stored: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The policies as the text has them: the engine numbers them `policy0`, `policy1` and so on."""
    named = stored["staticPolicies"]
    return [named[key] for key in sorted(named, key=lambda key: int(key.removeprefix("policy")))]


def _schema(arguments: Iterable[r.ToolArgument]) -> cedarpy.Schema:
    kinds = {one.name: one.kind for one in arguments}
    fields = ", ".join(f"{json.dumps(name)}?: {kind}" for name, kind in sorted(kinds.items()))
    return cedarpy.Schema.from_str(_schema_text().replace("__ARGUMENTS__", fields))


@cache
def _schema_text() -> str:
    return files(__package__).joinpath("wakeful.cedarschema").read_text("utf-8")


def _entities(roles: Iterable[r.RoleMembers]) -> str:
    held: dict[str, list[str]] = {}
    names = []
    for one in roles:
        role = _own(one.tenant, one.role)
        names.append(role)
        for actor in one.actors:
            held.setdefault(_own(one.tenant, actor), []).append(role)
    made: list[dict[str, Any]] = [
        {"uid": _uid("Role", name), "attrs": {}, "parents": []} for name in names
    ]
    made += [
        {"uid": _uid("Actor", actor), "attrs": {}, "parents": [_uid("Role", n) for n in theirs]}
        for actor, theirs in held.items()
    ]
    return json.dumps(made)


def _request(question: Question, arguments: dict[str, Any]) -> dict[str, Any]:
    act, tenant = question.action, question.tenant
    context: dict[str, Any] = {
        "tenant": tenant,
        "workflow": act.workflow,
        "requester": _ref("Actor", _own(tenant, act.requester)),
        "contract": act.contract,
        "channel": question.channel,
        "arguments": arguments,
    }
    if question.on_behalf_of is not None:
        context["on_behalf_of"] = _ref("Actor", _own(tenant, question.on_behalf_of))
    if isinstance(act, Deciding):
        context["approver"] = _ref("Role", _own(tenant, act.approver))
        context["decision"] = act.decision
    else:
        context["approved_by"] = [_ref("Actor", _own(tenant, each)) for each in act.approved_by]
        context["tainted"] = act.tainted
    return {
        "principal": _uid("Actor", _own(tenant, question.actor)),
        "action": _uid("Action", _action(question)),
        "resource": _uid("Tool", act.tool),
        "context": context,
    }


def _is(kind: str, value: Any) -> bool:
    if kind == "Long":
        return type(value) is int and -LONG_MAX <= value < LONG_MAX
    return type(value) is KINDS[kind]


def _action(question: Question) -> str:
    return "decide" if isinstance(question.action, Deciding) else "execute"


def _own(tenant: str, name: str) -> str:
    """A name within its tenant, which has no '/' itself."""
    return f"{tenant}/{name}"


def _uid(kind: str, name: str) -> dict[str, str]:
    return {"type": kind, "id": name}


def _ref(kind: str, name: str) -> dict[str, dict[str, str]]:
    return {"__entity": _uid(kind, name)}


def _canonical(content: object) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
