"""The `Policy` port: who may decide, and what may be carried out, as questions and rulings.

Two kinds of acts are asked about: deciding a proposal (`Deciding`) and carrying out an activity (`Executing`). A policy
is total and deterministic: equal questions to equal sets have equal rulings, and whatever goes wrong inside of it is a
denial that says so. Pure data; the engine that reads Cedar is `processors/policies`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

PERMITTED = "permitted"
NOT_PERMITTED = "not_permitted"
FORBIDDEN = "forbidden"
NO_POLICY = "no_policy"
POLICY_ERROR = "policy_error"

PUBLISH = "'wakeful policy publish FILE'"

OPEN_TO_ALL = "open-to-all"
"""The id under which decisions are recorded that nothing but the insecure local default allowed."""


@dataclass(frozen=True, slots=True)
class Deciding:
    """A decision (`approve`, `reject`, `edit` or `respond`) on a proposal to call `tool`.

    `approver` is the role that the action's rule names; `requester` is whoever's message the turn answers.
    `arguments` are null where nobody can read them.
    """

    decision: str
    tool: str
    contract: str
    workflow: str
    arguments: Mapping[str, Any] | None
    approver: str
    requester: str


@dataclass(frozen=True, slots=True)
class Executing:
    """An attempt of `tool`; `approved_by` are those whose approval it uses, `tainted`: untrusted content led to it."""

    tool: str
    contract: str
    workflow: str
    arguments: Mapping[str, Any] | None
    requester: str
    approved_by: tuple[str, ...] = ()
    tainted: bool = False


Act = Deciding | Executing


@dataclass(frozen=True, slots=True)
class Question:
    """May `actor` do this? For `Executing` the actor is whoever the activity is carried out for."""

    tenant: str
    actor: str
    on_behalf_of: str | None
    channel: str
    action: Act


@dataclass(frozen=True, slots=True)
class Ruling:
    """The answer: the policies it rests on, the hash of the set they are in (null: no set), and why, in sentences.

    `verdict` is one word: permitted, not_permitted, forbidden, no_policy or policy_error. `final`: about an attempt that
    may not be carried out, and by this set would not be whoever approved it.
    """

    allowed: bool
    policy_ids: tuple[str, ...] = ()
    set_hash: bytes | None = None
    reasons: tuple[str, ...] = ()
    verdict: str = PERMITTED
    final: bool = False


class Policy(Protocol):
    """What is in force: a published set, or what holds where none is."""

    @property
    def set_hash(self) -> bytes | None:
        """The hash of the set's content; null where nothing is published."""

    def rule(self, question: Question) -> Ruling:
        """The answer. Never raises."""

    def wants_arguments(self, tool: str) -> bool:
        """Whether its answers about this tool may rest on the arguments, so that they must be read."""

    def applicable_hash(self, question: Question) -> bytes:
        """A hash of the policies that can apply to this action.

        Whoever asks does not count, as nobody has decided yet when an action is proposed, nor does who has which role:
        that is asked about each person anew. It stays the same when a policy is published that cannot apply.
        """


@dataclass(frozen=True, slots=True)
class _WithoutSet:
    """What is in force without a set: its answers rest on nothing that is published."""

    set_hash: bytes | None = field(default=None, init=False)

    def wants_arguments(self, tool: str) -> bool:
        """See `Policy`."""
        del tool
        return False

    def applicable_hash(self, question: Question) -> bytes:
        """See `Policy`: there is nothing to apply."""
        del question
        return b""


@dataclass(frozen=True, slots=True)
class Nobody(_WithoutSet):
    """In force where nothing can be relied on: every question is denied, with this reason and next step."""

    told: str = f"no policy is published, so nobody may: publish one with {PUBLISH}"
    verdict: str = NO_POLICY

    def rule(self, question: Question) -> Ruling:
        """See `Policy`."""
        del question
        return Ruling(allowed=False, reasons=(self.told,), verdict=self.verdict)


@dataclass(frozen=True, slots=True)
class Everybody(_WithoutSet):
    """In force on an insecure local stack where nothing is published: everybody has every role, and may all."""

    def rule(self, question: Question) -> Ruling:
        """See `Policy`."""
        del question
        return Ruling(allowed=True, policy_ids=(OPEN_TO_ALL,))


NOBODY = Nobody()
EVERYBODY = Everybody()
