"""What a turn asks for: builds the facts, and knows what ends its waits.

Nothing here runs user code; `driver.py` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ...events import records as r
from ...events.attributes import InvalidAttribute, attribute, changed, check_count, check_name
from ...events.errors import InvalidPayload, PayloadTooLarge
from ...events.holding import HeldResource
from ...events.keys import effect_key
from ...events.payloads import action_digest, approval_terms, load_json
from ...events.verdicts import EXEMPT, GRANTED, UNGATED
from ..activities.definitions import Action
from .ahead import LIVE, Ahead
from .answers import Answer, answer_of
from .claims import Claims
from .compensations import check_changes, checked_compensation, compensation_of
from .errors import UnapprovedAction, WorkflowMisuse
from .facts import describe
from .holdings import Holdings, check_size
from .stepping import Stepping, TurnContext
from .waits import Step

STRETCH_ENDS = "the stretch ended"
"""Why what lost in `first`, and runs on, is cancelled by `again`."""

LOSER_WAITS = (
    "a branch that lost in turn.first may not wait in its finally or except block: "
    "say there what is to be said, and await the rest after turn.first"
)

LOST = "another wait was over first"
"""Why `first` lets a wait go."""


class Asking(Stepping):
    """The asked-for half of a stretch; `Turn` calls it."""

    def __init__(self, context: TurnContext) -> None:
        super().__init__(context)
        self.claims = Claims(context.tenant, context.digest_key, context.blobs)
        self.ahead: Ahead = LIVE
        self._grants: list[r.ApprovalRequested] = []
        self._relied: dict[str, str] = {}
        """What this stretch relies on, in the version that holds now."""
        self._attributes = context.attributes
        self._lost: set[str] = set()
        self._undos: set[str] = set()
        self.misuse = ""
        """What this activation did that no workflow may: it is held, whatever its function catches."""
        self._changes: dict[str, bool] = {}
        self.holdings = Holdings()

    def run(self, action: Action[Any], *, on_uncertain: str, compensate: object = None) -> Step:
        """Asks for the action to be run; see `Turn.run`."""
        activity, context = action.activity, self.context
        digest, arguments = self._identify(action)
        approval, proposal_id = UNGATED, None
        if activity.approval is not None:
            approval, granted = self._use_grant(action, arguments)
            if granted is not None:
                proposal_id, digest = granted.proposal_id, granted.digest
        compensation = self._compensation(action, compensate)
        step = self._next_step()
        activity_id = f"{context.turn}.{step}"
        return self._wait(
            activity_id,
            r.ActivityRequested(
                activity_id=activity_id,
                turn=context.turn,
                step=step,
                name=activity.name,
                queue=activity.queue,
                contract=activity.contract.word,
                arguments=arguments,
                digest=digest,
                idempotency_key=effect_key(context.tenant, context.session_id, activity_id),
                attempt=1,
                start_to_close_ms=activity.start_to_close_ms,
                deadline_ms=self.now_ms + activity.schedule_to_close_ms,
                approval=approval,
                proposal_id=proposal_id,
                retry=activity.retry.policy,
                settle_ms=activity.settle_ms,
                heartbeat_ms=activity.heartbeat_ms,
                on_uncertain=on_uncertain,
                untrusted=activity.untrusted,
                compensation=compensation,
            ),
        )

    def committed(self) -> None:
        """Drops what takes effects back; see `Turn.committed`."""
        self._ask(r.CompensationsReleased(self.context.turn, self._next_step()))

    def _compensation(self, action: Action[Any], given: object) -> r.Compensation | None:
        """How the effect of the action that is asked for next is taken back."""
        context = self.context
        key = effect_key(context.tenant, context.session_id, f"{context.turn}.{self.steps + 1}")
        undo = checked_compensation(action, given, key)
        if undo is None:
            return None
        check_changes(undo)
        return compensation_of(undo, *self._identify(undo))

    def undo(self, action: Action[Any]) -> Step:
        """Asks for an action that undoes another. Once begun it goes on to its end, whoever still waits for it."""
        step = self.run(action, on_uncertain="raise")
        self._undos.add(step.wait_id)
        return step

    def is_undo(self, wait_id: str) -> bool:
        """Whether this wait is for an undo."""
        return wait_id in self._undos

    @property
    def undoes(self) -> bool:
        """Whether an undo has begun that has no outcome yet."""
        return any(self.is_undo(wait_id) for wait_id in self._waits)

    def approval(self, action: Action[Any]) -> Step:
        """Asks for approval of the action; see `Turn.approval`."""
        rule = action.activity.approval
        if rule is None:
            raise WorkflowMisuse(f"activity {action.activity.name!r} has no approval rule")
        requester = self.context.requester if rule.four_eyes else ""
        relies_on = tuple(r.Version(*known) for known in sorted(self._relied.items()))
        terms = approval_terms(rule.quorum, requester, relies_on)
        digest, arguments = self._identify(action, terms)
        step = self._next_step()
        proposal_id = f"{self.context.turn}.{step}-{digest.hex()[:16]}"
        return self._wait(
            proposal_id,
            r.ApprovalRequested(
                proposal_id=proposal_id,
                turn=self.context.turn,
                step=step,
                name=action.activity.name,
                contract=action.activity.contract.word,
                arguments=arguments,
                digest=digest,
                approver=rule.approver,
                expires_at_ms=self.now_ms + action.activity.approval_expires_ms,
                quorum=rule.quorum,
                requester=requester,
                relies_on=relies_on,
            ),
        )

    def payload(self, value: Any) -> r.Payload:
        """The value as it is stored."""
        return self.claims.payload(value)

    def say(self, message: Any) -> None:
        """Records a reply; see `Turn.say`."""
        payload = self.payload({"text": message} if isinstance(message, str) else message)
        self._ask(r.ReplySent(self.context.turn, self._next_step(), payload))

    def artifact(self, artifact_id: str, version: str) -> None:
        """Records a version that the turn relies on; see `Turn.artifact`."""
        self._relied[artifact_id] = version
        self._ask(r.ArtifactRecorded(self.context.turn, self._next_step(), artifact_id, version))

    def attributes(self, values: Mapping[str, Any]) -> None:
        """Records by what the session is to be found; see `Turn.attributes`. What changes nothing is no step."""
        try:
            known = {one.name: one for one in self._attributes}
            for name, value in values.items():
                if value is None:
                    known.pop(check_name(name), None)
                else:
                    one = attribute(name, value)
                    known[one.name] = one
            after = check_count(known.values())
        except InvalidAttribute as error:
            raise WorkflowMisuse(f"turn.attributes: {error.message}") from error
        names = changed(self._attributes, after)
        if names:
            self._attributes = after
            self._ask(r.AttributesSet(self.context.turn, self._next_step(), after, names))

    def held(self, kind: str, resource_id: str, handle: r.Payload, ttl_ms: int) -> HeldResource:
        """What is held from now on, as far as it is known before it is recorded; `handle` is what set it up returned."""
        check_size(kind, "handle", handle)
        turn, step = self.context.turn, self.steps + 1
        return HeldResource(resource_id, kind, turn, step, handle, self.now_ms + ttl_ms)

    def attached(self, held: HeldResource, release: Action[Any] | None, *, again: bool) -> None:
        """Records it; see `Turn.resource`."""
        back = None
        if release is not None:
            back = compensation_of(release, *self._identify(release))
            check_size(held.kind, f"release by {back.name}", back.arguments)
        attaches = r.ResourceReattached if again else r.ResourceAttached
        step, handle = self._next_step(), self.payload(load_json(held.handle))
        place = (held.resource_id, held.turn, step, held.kind)
        self._ask(attaches(*place, handle, held.expires_at_ms, back))
        self.holdings.keep(held)

    def holds(self, kind: str, resource_id: str) -> bool:
        """Whether it is this one that is held."""
        live = self.holdings.live(kind, self.now_ms)
        return live is not None and live.resource_id == resource_id

    def released(self, kind: str, resource_id: str) -> None:
        """Records that it is given back; see `Turn.release`."""
        self._ask(r.ResourceReleased(resource_id, self.context.turn, self._next_step(), kind))
        self.holdings.drop(kind)

    def version(self, change: str) -> bool:
        """Which side of a change this stretch takes; see `Turn.version` and `ahead.py`."""
        known = self._changes.get(change)
        if known is None:
            known = self.ahead.passes(change, len(self._asked))
            if known:
                self._ask(r.VersionMarked(self.context.turn, self._next_step(), change))
            self._changes[change] = known
        return known

    def may_wait(self) -> bool:
        """Whether there is somebody to wait; in a branch that is let go there is none, and that is noted.

        What the history holds is asked for again: such a request was once made, and nobody heard the answer.
        """
        if not self._letting_go or self.ahead.holds_wait(len(self._asked)):
            return True
        self.misuse = LOSER_WAITS
        return False

    @contextmanager
    def letting_go(self) -> Iterator[None]:
        """While losers run their `finally` blocks: nobody is there to wait."""
        before, self._letting_go = self._letting_go, True
        try:
            yield
        finally:
            self._letting_go = before

    def withdraw(self, step: Step, *, cancel: bool) -> None:
        """Lets a wait that lost go; see `Turn.first`. An activity that runs on still has its outcome recorded.

        An undo runs on whatever `cancel` says, except where the history holds that it was cancelled: it once was.
        """
        if step.wait_id not in self._waits:
            return  # it is over, or was for another branch, and no fact was to end it
        asked = self._waits[step.wait_id][0]
        match asked:
            case r.TimerSet():
                body: r.EventBody = r.TimerCancelled(asked.timer_id, LOST)
            case r.ApprovalRequested():
                body = r.ApprovalWithdrawn(asked.proposal_id, LOST)
            case r.SignalAwaited() | r.InboxAwaited():
                body = r.WaitWithdrawn(asked.wait_id, LOST)
            case r.JobAwaited():
                body = r.JobWithdrawn(asked.job_id, LOST)
            case r.ChildStarted():
                body = r.ChildWithdrawn(asked.child_id, LOST)
            case r.ActivityRequested() if cancel and not self._undoes_on(asked.activity_id):
                body = r.ActivityCancelled(asked.activity_id, asked.attempt, LOST)
            case _:
                self._lost.add(step.wait_id)  # it runs on, and nobody waits for it
                return
        del self._waits[step.wait_id]
        self._ask(body)

    def adopt(self, recorded: r.EventBody) -> None:
        """Takes a request as the history holds it: what was recorded with it is kept, whatever this code says."""
        if isinstance(recorded, r.ActivityRequested) and recorded.activity_id in self._waits:
            step = self._waits[recorded.activity_id][1]
            self._waits[recorded.activity_id] = (recorded, step)

    def learn(self, body: r.EventBody) -> None:
        """Takes note of what it did not ask for: another proposal in the place of its own, another version of its
        data, a resource that is held no more."""
        match body:
            case r.ApprovalRequested(supersedes=str() as superseded) if superseded in self._waits:
                step = self._waits.pop(superseded)[1]
                step.wait_id = body.proposal_id
                self._waits[body.proposal_id] = (body, step)
            case r.ArtifactChanged() if body.artifact_id in self._relied:
                self._relied[body.artifact_id] = body.version
            case r.ResourceExpired():
                self.holdings.learn(body)
            case _:
                pass

    def open_waits(self) -> list[str]:
        """What is still waited for, in words."""
        return [
            f"{describe(asked)} ({wait_id})"
            for wait_id, (asked, _) in self._waits.items()
            if wait_id not in self._lost
        ]

    def let_losers_go(self) -> None:
        """Cancels what lost in `first` and runs on: nothing outlives its stretch."""
        for wait_id, (asked, _) in self._waits.items():
            if wait_id in self._lost and isinstance(asked, r.ActivityRequested):
                self._ask(r.ActivityCancelled(asked.activity_id, asked.attempt, STRETCH_ENDS))

    def _undoes_on(self, activity_id: str) -> bool:
        return self.is_undo(activity_id) and not self.ahead.cancels(activity_id)

    def _resolve(self, event: r.Event) -> Step | None:
        """The step that this fact ends, with its value; none where it ends nobody's wait."""
        if isinstance(event.body, r.ApprovalGranted):
            asked = self._waits.get(event.body.proposal_id, (None,))[0]
            self._grants += [asked] if isinstance(asked, r.ApprovalRequested) else []
        answer = answer_of(
            event, lambda wait_id: self._waits.get(wait_id, (None,))[0], self.claims.handed
        )
        return self._settle(answer) if answer is not None else None

    def _settle(self, answer: Answer) -> Step | None:
        found = self._waits.pop(answer.wait_id, None)
        if found is None:
            return None
        step = found[1]
        step.value, step.error, step.done = self.claims.handed(answer.value), answer.error, True
        return step

    def _use_grant(
        self, action: Action[Any], arguments: r.Payload
    ) -> tuple[str, r.ApprovalRequested | None]:
        """How the action may run, and the approval that it uses up: of these arguments, by the rule as it is now."""
        if not action.needs_approval():
            return EXEMPT, None
        rule, drift = action.activity.approval, ""
        for granted in self._grants:
            if (granted.name, granted.arguments.digest) != (action.activity.name, arguments.digest):
                continue
            terms = approval_terms(granted.quorum, granted.requester, granted.relies_on)
            if self._identify(action, terms)[0] != granted.digest:
                continue
            drift = self._drift(granted)
            if not drift:
                self._grants.remove(granted)
                return GRANTED, granted
        raise UnapprovedAction(action.activity.name, rule.approver if rule else "", drift)

    def _drift(self, granted: r.ApprovalRequested) -> str:
        """What the action was made from and is no more, in words; nothing where all of it holds."""
        return ", ".join(
            f"{v.name} was {v.version} and is {self._relied[v.name]} now"
            for v in granted.relies_on
            if self._relied.get(v.name, v.version) != v.version
        )

    def _identify(self, action: Action[Any], terms: bytes = b"") -> tuple[bytes, r.Payload]:
        activity, key = action.activity, self.context.digest_key
        try:
            arguments = self.payload(action.arguments)
        except PayloadTooLarge as error:
            raise WorkflowMisuse(
                f"{activity.name}.call was given arguments of {error.size} bytes, and the limit is {error.limit}: {error.advice}"
            ) from error
        except InvalidPayload as error:
            raise WorkflowMisuse(
                f"{activity.name}.call was given what cannot be stored ({error.message}): give it what JSON can hold"
            ) from error
        approver = activity.approval.approver if activity.approval else ""
        data = self.claims.bytes_of(arguments)
        digest = action_digest(activity.name, activity.contract.word, data, approver, key, terms)
        return digest, arguments
