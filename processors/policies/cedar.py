"""The `Policy` port on Cedar: one published set, parsed once, asked for each decision.

Nothing is decided by the absence of an answer: an error of the engine, in any policy, is a denial. (Cedar itself skips a
policy that fails, and a skipped `forbid` would permit.)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, TypeVar

import cedarpy

from ...commands.policy import (
    FORBIDDEN,
    NOT_PERMITTED,
    POLICY_ERROR,
    Deciding,
    Executing,
    Question,
    Ruling,
)
from ...events import records as r
from ..control import PolicyDamaged
from .sets import KINDS, canonical, problems, set_hash
from .stored import id_of, in_order, looks_at, stored_form, uids_in

LONG_MAX = 2**63

DECIDE, EXECUTE = "decide", "execute"

APPROVED_BY = "approved_by"

NOT_PERMITTED_SO = (NOT_PERMITTED, "no policy permits it")

REMEMBERED_MAX = 4_096
"""Of each kind of answers that a set remembers; then all of that kind are forgotten."""

Key = TypeVar("Key")
Found = TypeVar("Found")

APPLICABLE_DOMAIN = b"wakeful/applicable-policies/1"


@dataclass(frozen=True, slots=True)
class _Scope:
    """Whom and what a policy can be about, as its head says; null: everybody, everything."""

    action: frozenset[str] | None
    tool: str | None
    tenant: str | None
    permits: bool
    content: str
    looks_at: frozenset[str]

    def covers(self, action: str, tool: str, tenant: str) -> bool:
        """Whether it can apply to this, as far as its head says."""
        return (
            (self.action is None or action in self.action)
            and self.tool in (None, tool)
            and self.tenant in (None, tenant)
        )


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
        self._hash = set_hash(published)
        self._rulings: dict[tuple[object, ...], Ruling] = {}
        self._looks: dict[tuple[str, str], frozenset[str]] = {}
        self._applicable: dict[tuple[str, str, str], bytes] = {}

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
        """See `Policy`. One about an execution is remembered: it is asked for each attempt, and hardly ever anything new.

        Not where arguments can make a difference: a policy looks at them, or they are not what the set declares.
        """
        act = question.action
        if isinstance(act, Deciding):
            return self._rule(question)
        place = (act.tool, question.tenant)
        looks = _remembered(self._looks, place, lambda: self._looks_at(*place))
        if act.tool in self._arguments and ("arguments" in looks or not self._declared(question)):
            return self._rule(question)
        key = self._key(question, act, looks)
        return _remembered(self._rulings, key, lambda: self._rule(question))

    def _declared(self, question: Question) -> bool:
        try:
            self._known(question)
        except ValueError:
            return False
        return True

    def _key(self, question: Question, act: Executing, looks: frozenset[str]) -> tuple[object, ...]:
        """All that the ruling can rest on: people are left out where no policy that may apply looks at them."""
        return (
            question.tenant,
            act.tool,
            act.contract,
            act.workflow,
            question.channel,
            act.approved_by,
            act.tainted,
            question.actor if "principal" in looks else None,
            act.requester if "requester" in looks else None,
            question.on_behalf_of if "on_behalf_of" in looks else None,
        )

    def _looks_at(self, tool: str, tenant: str) -> frozenset[str]:
        """What differs from call to call and any policy that may apply to an execution looks at."""
        scopes = (one for one in self._scopes.values() if one.covers(EXECUTE, tool, tenant))
        return frozenset[str]().union(*(one.looks_at for one in scopes))

    def _rule(self, question: Question) -> Ruling:
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
        verdict, why = (FORBIDDEN, f"forbidden by {', '.join(ids)}") if ids else NOT_PERMITTED_SO
        return replace(self._denied(verdict, ids, why), final=self._is_final(question, ids))

    def _is_final(self, question: Question, ids: tuple[str, ...]) -> bool:
        """Whether this denial stays whoever approves: it rests on nothing that looks at who did.

        One policy that forbids so is enough. Where none forbids, no policy that might permit may look at it.
        """
        if not isinstance(question.action, Executing):
            return False
        if ids:
            return any(APPROVED_BY not in self._scopes[one].looks_at for one in ids)
        return not any(
            one.permits
            and APPROVED_BY in one.looks_at
            and one.covers(EXECUTE, question.action.tool, question.tenant)
            for one in self._scopes.values()
        )

    def applicable_hash(self, question: Question) -> bytes:
        """See `Policy`: by the policies' heads alone, so a policy may count that its conditions would rule out."""
        key = (_action(question), question.action.tool, question.tenant)
        return _remembered(self._applicable, key, lambda: self._hash_applicable(*key))

    def _hash_applicable(self, action: str, tool: str, tenant: str) -> bytes:
        content = {
            "policies": {
                policy_id: scope.content
                for policy_id, scope in self._scopes.items()
                if scope.covers(action, tool, tenant)
            },
            "arguments": self._arguments.get(tool, {}),
        }
        return sha256(APPLICABLE_DOMAIN + canonical(content)).digest()

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
    """The set as a policy; `PolicyDamaged` where it cannot be one, whatever the engine makes of it."""
    try:
        return CedarPolicy(published)
    except (ValueError, RecursionError) as error:
        raise PolicyDamaged(f"the engine cannot take it: {error}") from error


def _scopes(policies: str) -> dict[str, _Scope]:
    found = {}
    for policy in in_order(stored_form(policies)):
        principal, resource = policy["principal"], policy["resource"]
        whom = [uid for uid in uids_in(principal) if uid[0] in ("Actor", "Role")]
        tools = [name for kind, name in uids_in(resource) if kind == "Tool"]
        found[id_of(policy)] = _Scope(
            action=_actions(policy["action"]),
            tool=tools[0] if tools else None,
            tenant=whom[0][1].partition("/")[0] if whom else None,
            permits=policy["effect"] == "permit",
            content=json.dumps(policy, sort_keys=True),
            looks_at=looks_at(policy),
        )
    return found


def _actions(scope: Mapping[str, Any]) -> frozenset[str] | None:
    names = frozenset(name for kind, name in uids_in(scope) if kind == "Action")
    return names or None


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


def _remembered(known: dict[Key, Found], key: Key, make: Callable[[], Found]) -> Found:
    found = known.get(key)
    if found is None:
        if len(known) >= REMEMBERED_MAX:
            known.clear()
        found = known[key] = make()
    return found


def _action(question: Question) -> str:
    return DECIDE if isinstance(question.action, Deciding) else EXECUTE


def _own(tenant: str, name: str) -> str:
    """A name within its tenant, which has no '/' itself."""
    return f"{tenant}/{name}"


def _uid(kind: str, name: str) -> dict[str, str]:
    return {"type": kind, "id": name}


def _ref(kind: str, name: str) -> dict[str, dict[str, str]]:
    return {"__entity": _uid(kind, name)}
