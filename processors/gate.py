"""The last look before an attempt is dispatched: whether authority still holds, by the policy in force now.

An approval was given for an action as it was shown: made from what it relies on, under the policies that applied to it,
by people who might. Where one of these has changed, or policy does not let the attempt be carried out, the attempt is
withheld: recorded, and not dispatched. The approval is void then, with what drifted, and people are asked again; policy
may also want an approval that no rule of the activity asks for, as where untrusted content has come into the session.
Granted, the attempt is looked at here once more, and dispatched. Where policy would forbid it whoever approved it, nobody
is asked: the activity ends as forbidden.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..commands.actors import WORKFLOW
from ..commands.authority import applicable, has_aged
from ..commands.check import Facts
from ..commands.decisions import ARTIFACT_CHANGED, POLICY_CHANGED, UNAUTHORIZED
from ..commands.policy import Act, Deciding, Executing, Question, Ruling
from ..events import records as r
from ..events.errors import Corrupt
from ..events.state import NEVER_MS, OpenActivity, State
from ..events.verdicts import APPROVE
from .app import App
from .proposals import OpenProposals
from .session import Session

CHANNEL = "engine"
"""How an attempt comes in, for policies."""

TAKES_BACK = "it takes back what the session did, and its rule asks for an approval"
"""Why it is asked for, where no workflow asks."""

Attempt = r.ActivityRequested | r.ActivityRetried | r.ActivityReturned

LOOKED_AT = frozenset(
    {
        r.ActivityRequested,
        r.ActivityRetried,
        r.ActivityReturned,
        r.ActivityCancelled,
        r.ApprovalRequested,
    }
)
"""Facts that may not pass as they are."""

Looked = tuple[r.EventBody, list[r.EventBody]]
"""The fact as it is to be recorded, and what follows from it at once."""


def look(session: Session, app: App, facts: Facts, now_ms: int, body: r.EventBody) -> Looked:
    """What becomes of one fact before it is recorded; most pass as they are. It changes nothing by itself.

    Raises `Corrupt` where the journal lacks what the attempt goes back to, and blob faults where what has to be asked for
    cannot be read.
    """
    state = session.state
    if type(body) not in LOOKED_AT or state is None or session.broken is not None:
        return body, []
    match body:
        case r.ApprovalRequested():
            hashed = applicable(facts.policy, session.tenant, state, body)
            return replace(body, policies=hashed), []
        case r.ActivityCancelled():
            return body, [
                r.ApprovalWithdrawn(a.proposal_id, body.reason)
                for a in state.approvals
                if a.activity_id == body.activity_id
            ]
        case r.ActivityRequested() | r.ActivityRetried() | r.ActivityReturned():
            proposals = OpenProposals(
                app, facts, session.tenant, session.journal, now_ms, state.artifacts
            )
            return _Gate(session, state, facts, proposals, now_ms).attempt(body)
        case _:
            return body, []


@dataclass(frozen=True, slots=True)
class _Grant:
    """An approval that an attempt uses: what was asked for, and who said yes to it."""

    asked: r.ApprovalRequested
    approvals: tuple[r.Event, ...]

    @property
    def approved_by(self) -> tuple[str, ...]:
        return tuple(event.envelope.actor for event in self.approvals)


@dataclass(frozen=True, slots=True)
class _Gate:
    """Of one attempt."""

    session: Session
    state: State
    facts: Facts
    proposals: OpenProposals
    now_ms: int

    def attempt(self, body: Attempt) -> Looked:
        """Lets it go, or withholds it."""
        known = self._known(body.activity_id)
        request, grant = self._request(body), self._grant(body, known)
        undo = self._undo(request)
        if grant is None and undo and undo.approver and not self._is_forbidden(request):
            return self._ask_first(body, request, known, undo)
        if grant is None and self.facts.policy.set_hash is None:
            return self._let_go(body, known, None), []  # the code's own rules are all there is
        ruling = self._executing(request, grant)
        reason, drift = self._drift(grant) if grant is not None else ("", ())
        if not drift and ruling.allowed:
            return self._let_go(body, known, ruling), []
        if not ruling.allowed:
            reason = reason or UNAUTHORIZED
            drift += tuple(
                f"{request.name} may not be carried out: {why}" for why in ruling.reasons
            )
        voided = grant.asked.proposal_id if grant is not None else None
        follow: list[r.EventBody] = []
        if voided is not None:
            follow.append(r.ApprovalVoided(voided, reason, drift))
        if not ruling.final:
            whose = self.state.requester
            follow.append(self.proposals.for_withheld(request, voided, drift, whose, undo))
        return self._withhold(body, known, ruling), follow

    def _undo(self, request: r.ActivityRequested) -> r.Compensation | None:
        """What takes an effect back, as it was registered, with the rule of its own; null where it takes none back."""
        if request.compensates is None or not self.state.registered:
            return None
        return self.state.registered[-1].compensation

    def _is_forbidden(self, request: r.ActivityRequested) -> bool:
        """Whether policy forbids it whoever approves it, so that nobody is asked."""
        return self.facts.policy.set_hash is not None and self._executing(request, None).final

    def _ask_first(
        self,
        body: Attempt,
        request: r.ActivityRequested,
        known: OpenActivity | None,
        undo: r.Compensation,
    ) -> Looked:
        """Nobody has been asked yet: no workflow is there to do it."""
        whose = self.state.requester
        asked = self.proposals.for_withheld(request, None, (TAKES_BACK,), whose, undo)
        return replace(body, withheld_ms=self._left_ms(body, known)), [asked]

    def _known(self, activity_id: str) -> OpenActivity | None:
        return next((a for a in self.state.activities if a.activity_id == activity_id), None)

    def _request(self, body: Attempt) -> r.ActivityRequested:
        if isinstance(body, r.ActivityRequested):
            return body
        asked = self.session.request_of(body.activity_id).body
        if not isinstance(asked, r.ActivityRequested):
            raise Corrupt(f"{body.activity_id} is dispatched again, and is no activity")
        return asked

    def _grant(self, body: Attempt, known: OpenActivity | None) -> _Grant | None:
        if isinstance(body, r.ActivityRequested):
            proposal_id = body.proposal_id
        else:
            proposal_id = known.grant.proposal_id if known and known.grant else None
        if proposal_id is None:
            return None
        approvals: list[r.Event] = []
        for event in reversed(self.session.journal):
            match event.body:
                case r.ApprovalGranted() | r.ApprovalVoted() as said:
                    approvals += [event] if said.proposal_id == proposal_id else []
                case r.ApprovalRequested() as asked if asked.proposal_id == proposal_id:
                    return _Grant(asked, tuple(reversed(approvals)))
                case _:
                    pass
        raise Corrupt(f"approval {proposal_id} is used, and the journal has no request for it")

    def _executing(self, request: r.ActivityRequested, grant: _Grant | None) -> Ruling:
        """For whoever's message the turn answers, or the workflow itself where no message began it.

        What takes an effect back is for whoever that was for.
        """
        requester = self.state.requester
        act = Executing(
            tool=request.name,
            contract=request.contract,
            workflow=self.state.workflow,
            arguments=self.proposals.arguments(request.name, request.arguments),
            requester=requester,
            approved_by=grant.approved_by if grant is not None else (),
            tainted=bool(self.state.tainted_by),
        )
        actor = requester or f"{WORKFLOW}{self.state.workflow}"
        return self._rule(actor, None, CHANNEL, act)

    def _drift(self, grant: _Grant) -> tuple[str, tuple[str, ...]]:
        """Why the approval is one of another action by now, in a word and in sentences; nothing where it is not."""
        asked, policy = grant.asked, self.facts.policy
        now = {a.artifact_id: a.version for a in self.state.artifacts}
        changed = tuple(
            f"{v.name} was {v.version} and is {now[v.name]} now"
            for v in asked.relies_on
            if now.get(v.name, v.version) != v.version
        )
        if changed:
            return ARTIFACT_CHANGED, changed
        if has_aged(policy, self.session.tenant, self.state, asked):
            told = f"the policies that apply to {asked.name} are others than when it was shown"
            return POLICY_CHANGED, (told,)
        return UNAUTHORIZED, tuple(self._no_longer(grant))

    def _no_longer(self, grant: _Grant) -> Iterator[str]:
        """Those who approved, and might not by the set that is in force now."""
        asked = grant.asked
        act = Deciding(
            decision=APPROVE,
            tool=asked.name,
            contract=asked.contract,
            workflow=self.state.workflow,
            arguments=self.proposals.arguments(asked.name, asked.arguments),
            approver=asked.approver,
            requester=self.state.requester,
        )
        for event in grant.approvals:
            by, said = event.envelope, event.body
            if getattr(said, "policy_hash", None) == self.facts.policy.set_hash:
                continue
            ruling = self._rule(by.actor, by.on_behalf_of, by.channel, act)
            if not ruling.allowed:
                why = "; ".join(ruling.reasons)
                yield f"{by.actor} has approved {asked.name} and may not any more: {why}"

    def _rule(self, actor: str, on_behalf_of: str | None, channel: str, act: Act) -> Ruling:
        question = Question(self.session.tenant, actor, on_behalf_of, channel, act)
        return self.facts.policy.rule(question)

    def _let_go(
        self, body: Attempt, known: OpenActivity | None, ruling: Ruling | None
    ) -> r.EventBody:
        if ruling is not None:
            body = replace(body, policy_ids=ruling.policy_ids, policy_hash=ruling.set_hash)
        if isinstance(body, r.ActivityRetried) and known and known.withheld_ms is not None:
            body = replace(body, deadline_ms=self.now_ms + known.withheld_ms)
        return body

    def _withhold(self, body: Attempt, known: OpenActivity | None, ruling: Ruling) -> r.EventBody:
        return replace(
            body,
            withheld_ms=NEVER_MS if ruling.final else self._left_ms(body, known),
            policy_ids=ruling.policy_ids,
            policy_hash=ruling.set_hash,
        )

    def _left_ms(self, body: Attempt, known: OpenActivity | None) -> int:
        """Of its time; at least something, so that it can go on once it is approved."""
        if known is not None and known.withheld_ms is not None:
            return known.withheld_ms
        asked = body if isinstance(body, r.ActivityRequested) else known
        return max(1, (asked.deadline_ms if asked is not None else 0) - self.now_ms)
