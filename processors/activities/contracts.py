"""Contracts: how a tool may be retried; there is no default, since a wrong guess pays twice."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Read:
    """The tool changes nothing; it may run again at any time."""

    word = "read"


@dataclass(frozen=True, slots=True)
class Write:
    """The tool changes something. `idempotent=True`: it honours the key, so it may run again with the same key."""

    idempotent: bool = False

    word = "write_idempotent"


Contract = Read | Write
