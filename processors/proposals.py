"""A session's open proposals: what the fifth check goes by, and how each would be asked for now, otherwise."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from ..commands.authority import Authority
from ..commands.check import Facts, Refusal
from ..commands.decisions import Fresh
from ..events import freezing
from ..events import records as r
from ..events.blobs import BLOB_FAULTS, fetch
from ..events.errors import InvalidPayload, WakefulError
from ..events.payloads import action_digest, approval_terms
from ..events.state import Artifact
from .activities.definitions import WrongArguments, problems
from .activities.rules import Needs
from .app import App
from .stored_json import changed_kind
from .workflow.claims import Claims

REVIEWER = "reviewer"
"""The role that is asked where policy wants an approval and the activity has no rule of its own."""

REVIEW_EXPIRES_MS = 7 * 24 * 3_600_000
"""How long an attempt that is withheld may wait for it."""


@freezing.dataclass(frozen=True, slots=True)
class OpenProposals:
    """`Proposals` of one session: they are in its journal, and their activities in the app."""

    app: App
    facts: Facts
    tenant: str
    journal: Sequence[r.Event]
    now_ms: int
    artifacts: Sequence[Artifact] = ()

    def authority(self, proposal_id: str) -> Authority:
        """See `Proposals`."""
        asked = self._found(proposal_id)
        return Authority(self.facts.policy) if asked is None else self._of(asked)

    def edited(self, proposal_id: str, arguments: r.Payload) -> Fresh | Refusal:
        """See `Proposals`. What is not given has its default; what the function does not take is refused.

        So is what it would take for something else, `true` for 1: whoever approves says what is to be done.
        """
        asked = self._open(proposal_id)
        activity = self.app.activities.get(asked.name)
        if activity is None:
            told = f"activity {asked.name!r} is not loaded here, so nobody can check its arguments: deploy it first"
            return Refusal("freshness", "activity_missing", told)
        try:
            given = fetch(arguments, self.tenant, self.facts.digest_key, self.facts.blobs)
            taken = activity.call(**activity.typed_json(given)).arguments
            changed = changed_kind(json.loads(given), taken)
            if changed is not None:
                raise WrongArguments(changed)
            payload = self._stored(taken)
        except BLOB_FAULTS as fault:
            return _missing(fault)
        except (InvalidPayload, ValueError, RecursionError, WrongArguments) as error:
            told = problems(error) if isinstance(error, ValidationError) else str(error)
            return Refusal(
                "freshness", "wrong_arguments", f"{told}: give {activity.name} what it takes"
            )
        if payload.digest == asked.arguments.digest:
            told = "the arguments are those that were shown: approve it, or change them"
            return Refusal("freshness", "not_edited", told)
        return self._anew(asked, replace(asked, arguments=payload, because=()))

    def as_of_now(self, proposal_id: str, because: tuple[str, ...]) -> Fresh | Refusal:
        """See `Proposals`."""
        asked = self._open(proposal_id)
        try:
            return self._anew(asked, replace(asked, because=because))
        except BLOB_FAULTS as fault:
            return _missing(fault)

    def relying_on(self, proposal_id: str, changed: r.Version) -> Fresh | Refusal:
        """See `Proposals`."""
        asked = self._open(proposal_id)
        versions = tuple(changed if v.name == changed.name else v for v in asked.relies_on)
        because = asked.because if asked.activity_id is not None else ()
        try:
            return self._anew(asked, replace(asked, relies_on=versions, because=because))
        except BLOB_FAULTS as fault:
            return _missing(fault)

    def for_withheld(
        self,
        request: r.ActivityRequested,
        voided: str | None,
        because: tuple[str, ...],
        requester: str,
        undo: r.Compensation | None = None,
    ) -> r.ApprovalRequested:
        """The proposal that a withheld attempt waits for, in the place of the one that is void, if it had one.

        `requester` is for whom it is done, and `undo` what was registered if it takes an effect back: the rule in it is
        known where the code that is loaded may not be.

        Blob faults come out of here: the command that led here is kept then, and decided when they are mended.
        """
        before = self.asked_for(voided) if voided is not None else None
        activity = self.app.activities.get(request.name)
        rule: Needs | r.Compensation | None = activity.approval if activity is not None else None
        rule = undo if undo is not None and undo.approver else rule
        asked = r.ApprovalRequested(
            proposal_id="",
            turn=request.turn,
            step=request.step,
            name=request.name,
            contract=request.contract,
            arguments=request.arguments,
            digest=b"",
            approver=rule.approver if rule is not None else REVIEWER,
            expires_at_ms=self.now_ms + REVIEW_EXPIRES_MS,
            quorum=rule.quorum if rule is not None else 1,
            requester=requester if rule is not None and rule.four_eyes else "",
        )
        if before is not None:
            asked = replace(
                before, relies_on=self._current(before.relies_on), expires_at_ms=asked.expires_at_ms
            )
        asked = replace(asked, activity_id=request.activity_id, because=because)
        return self._anew(replace(asked, proposal_id=voided or ""), asked).asked

    def asked_for(self, proposal_id: str) -> r.ApprovalRequested | None:
        """The proposal as it was asked for, open or not, while its stretch lasts."""
        return self._found(proposal_id)

    def _found(self, proposal_id: str) -> r.ApprovalRequested | None:
        bodies = (event.body for event in reversed(self.journal))
        return next(
            (
                body
                for body in bodies
                if isinstance(body, r.ApprovalRequested) and body.proposal_id == proposal_id
            ),
            None,
        )

    def _open(self, proposal_id: str) -> r.ApprovalRequested:
        asked = self._found(proposal_id)
        if asked is None:
            raise LookupError(f"proposal {proposal_id} is open and not in the journal")
        return asked

    def _of(self, asked: r.ApprovalRequested) -> Authority:
        return Authority(self.facts.policy, asked, self.arguments(asked.name, asked.arguments))

    def arguments(self, tool: str, arguments: r.Payload) -> Mapping[str, Any] | None:
        """Null where the policy does not ask, and where they cannot be read: a policy that asks denies then."""
        facts = self.facts
        if not facts.policy.wants_arguments(tool):
            return None
        try:
            read = json.loads(fetch(arguments, self.tenant, facts.digest_key, facts.blobs))
        except (*BLOB_FAULTS, ValueError, RecursionError):
            return None
        return read if isinstance(read, dict) else None

    def _anew(self, asked: r.ApprovalRequested, fresh: r.ApprovalRequested) -> Fresh:
        key = self.facts.digest_key
        data = fetch(fresh.arguments, self.tenant, key, self.facts.blobs)
        terms = approval_terms(fresh.quorum, fresh.requester, fresh.relies_on)
        digest = action_digest(fresh.name, fresh.contract, data, fresh.approver, key, terms)
        activity = self.app.activities.get(fresh.name)
        lasts_ms = activity.approval_expires_ms if activity is not None else 0
        anew = replace(
            fresh,
            digest=digest,
            proposal_id=f"{fresh.turn}.{fresh.step}.{self._times(fresh) + 1}-{digest.hex()[:16]}",
            supersedes=asked.proposal_id or None,
            expires_at_ms=self.now_ms + lasts_ms if lasts_ms else fresh.expires_at_ms,
        )
        return Fresh(anew, self._of(anew))

    def _current(self, versions: tuple[r.Version, ...]) -> tuple[r.Version, ...]:
        now = {a.artifact_id: a.version for a in self.artifacts}
        return tuple(replace(v, version=now.get(v.name, v.version)) for v in versions)

    def _times(self, asked: r.ApprovalRequested) -> int:
        """How often this step has asked so far."""
        return sum(
            isinstance(event.body, r.ApprovalRequested)
            and (event.body.turn, event.body.step) == (asked.turn, asked.step)
            for event in self.journal
        )

    def _stored(self, arguments: object) -> r.Payload:
        claims = Claims(self.tenant, self.facts.digest_key, self.facts.blobs)
        payload = claims.payload(arguments)
        claims.store([r.ReplySent(0, 0, payload)])
        return payload


def _missing(fault: WakefulError) -> Refusal:
    return Refusal("freshness", "payload_missing", f"{fault.message}: put it there, then ask again")
