"""What a server claims of its tools, what people say of them, and the contract that follows.

| the server is trusted and claims | contract | gated |
|---|---|---|
| read-only, and not destructive | `Read()` | no |
| idempotent, and not destructive | `Write(idempotent=True)` | no |
| idempotent, and nothing about destruction | `Write(idempotent=True)` | yes |
| not destructive | `Write()`, at most once | no |
| anything else, or nothing | `Write()`, at most once | yes |

Of a server that is not trusted nothing is believed: the last row. What the manifest says of a tool counts in any case.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..activities.contracts import Contract, Read, Write
from ..activities.rules import Needs

CONTRACTS: dict[str, Contract] = {
    "read": Read(),
    "idempotent": Write(idempotent=True),
    "once": Write(),
}
"""As the manifest writes them."""

NOBODY = "nobody"
"""Who approves what need not be approved."""

EXPIRES_DEFAULT = "24h"


@dataclass(frozen=True, slots=True)
class Claims:
    """What a server says of a tool; null where it says nothing."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None


@dataclass(frozen=True, slots=True)
class Said:
    """What people say of a tool, or of the whole server; null where they leave it to what is claimed."""

    contract: str | None = None
    approver: str | None = None
    expires: str = EXPIRES_DEFAULT
    quorum: int = 1
    four_eyes: bool = False
    untrusted: bool | None = None


@dataclass(frozen=True, slots=True)
class Terms:
    """How a tool may be called, and whether what it returns is anybody's word."""

    contract: Contract
    approval: Needs | None
    untrusted: bool


def terms_of(claims: Claims, said: Said, *, trusted: bool, approver: str) -> Terms:
    """The terms of a tool; `approver` is asked where it is gated and people name nobody else."""
    believed = claims if trusted else Claims()
    word, gated = _claimed(believed)
    if said.contract is not None:
        word = said.contract
    contract = CONTRACTS[word]
    asked = said.approver or (approver if gated else NOBODY)
    approval = None
    if asked != NOBODY and not isinstance(contract, Read):
        approval = Needs(asked, expires=said.expires, quorum=said.quorum, four_eyes=said.four_eyes)
    tainted = not trusted or believed.open_world is True
    return Terms(contract, approval, tainted if said.untrusted is None else said.untrusted)


def _claimed(claims: Claims) -> tuple[str, bool]:
    """The contract's word, and whether somebody is asked."""
    if claims.destructive is not True:
        if claims.read_only:
            return "read", False
        if claims.idempotent:
            return "idempotent", claims.destructive is None
    return "once", claims.destructive is not False
