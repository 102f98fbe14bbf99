"""Policies in the engine's own form: JSON, in which their heads and names can be looked at."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import cedarpy


def stored_form(policies: str) -> dict[str, Any]:
    """What the engine makes of a text: `staticPolicies` by its own ids, and `templates`."""
    read: dict[str, Any] = json.loads(cedarpy.policies_to_json_str(policies))
    return read


def in_order(stored: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The policies as the text has them: the engine numbers them `policy0`, `policy1` and so on."""
    named = stored["staticPolicies"]
    return [named[key] for key in sorted(named, key=lambda key: int(key.removeprefix("policy")))]


def id_of(policy: Mapping[str, Any]) -> str:
    """The name that its author gave it; empty where there is none."""
    return policy.get("annotations", {}).get("id") or ""


def uids_in(part: Any) -> Iterator[tuple[str, str]]:
    """Each entity that a piece of a policy names."""
    if isinstance(part, dict):
        if set(part) == {"type", "id"} and isinstance(part["id"], str):
            yield part["type"], part["id"]
            return
        for inner in part.values():
            yield from uids_in(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from uids_in(inner)


VARYING = frozenset({"principal", "requester", "on_behalf_of", "arguments", "approved_by"})
"""What differs from call to call in questions about one tool."""


def looks_at(policy: Mapping[str, Any]) -> frozenset[str]:
    """Which of `VARYING` a policy's answer may rest on; all of them where it takes the context as a whole."""
    whom = {"principal"} if policy["principal"]["op"] != "All" else set()
    return frozenset(whom | _looked_at(policy["conditions"]))


def _looked_at(part: Any) -> set[str]:
    if isinstance(part, list):
        return set().union(*map(_looked_at, part))
    if not isinstance(part, dict):
        return set()
    if part == {"Var": "context"}:
        return set(VARYING)
    if part == {"Var": "principal"}:
        return {"principal"}
    if part.get("left") == {"Var": "context"} and isinstance(part.get("attr"), str):
        return {part["attr"]} & VARYING
    return set().union(*map(_looked_at, part.values()))
