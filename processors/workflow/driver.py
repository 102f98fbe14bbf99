"""Drives one turn's coroutine, live and in replay alike: facts go in one by one, requested facts come out.

Rules:
- The coroutine is resumed by `send` with our own awaitables only; there is no event loop.
- `start` and `feed` return the bodies that the workflow asks for, in order. Nothing here knows whether they are
  new or replayed; `replay.py` compares them with the history.
- An exception of the workflow discards what this activation asked for and comes out as one `SessionHeld`; an
  uncaught `ActivityError` comes out as `SessionFailed`.
- Times are those of the fact that was fed.
"""

from __future__ import annotations

import traceback
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from ...events import records as r
from ...events.blobs import Blobs
from ...events.payloads import action_digest, storable_text
from ..activities.definitions import Action
from ..stored_json import json_value, read_json
from .claims import CLAIM_FAULTS, Claims
from .definitions import Message, Workflow
from .errors import ActivityError, UnapprovedAction, WorkflowMisuse, WorkflowStuck
from .turn import Approval, Turn
from .waits import Several, Step

STEPS_PER_ACTIVATION_MAX = 1_000
"""Steps between two waits; a loop that never waits ends here instead of filling the log."""

LOST = "another wait was over first"
"""Why `first` lets a wait go."""

DETAIL_MAX = 2_000
"""Characters of a traceback kept in a hold: enough to find the line, small enough for every view."""


@dataclass(frozen=True, slots=True)
class TurnContext:
    """What identifies the turn that is driven, the key for digests of its data, and the store of what is large."""

    tenant: str
    session_id: str
    turn: int
    digest_key: bytes
    blobs: Blobs | None = None


class Stretch:
    """One turn's coroutine from its start; dropped and rebuilt at will, never copied."""

    def __init__(
        self,
        workflow: Workflow[Any],
        context: TurnContext,
        data: r.Payload | None,
        message: Message,
    ) -> None:
        self.context = context
        self.claims = Claims(context.tenant, context.digest_key, context.blobs)
        self.now_ms = 0
        self.dead = False
        self.steps = 0
        self._workflow = workflow
        self._asked: list[r.EventBody] = []
        self._waits: dict[str, tuple[r.EventBody, Step]] = {}
        self._grants: dict[bytes, str] = {}
        self._outcome: r.Payload | None = None
        self._turn = Turn(
            self, tenant=context.tenant, session_id=context.session_id, number=context.turn
        )
        self._coroutine: Coroutine[Any, Any, Any] | None = None
        self._data = data
        self._message = message

    def start(self, at_ms: int) -> list[r.EventBody]:
        """Runs the function from its top to its first wait. Raises `CLAIM_FAULTS`, as `feed` does."""
        self.now_ms = at_ms
        try:
            state = self._workflow.initial() if self._data is None else self._decode(self._data)
        except CLAIM_FAULTS:
            raise
        except Exception as error:  # noqa: BLE001 - user types decide what raises; it becomes a hold
            return [self._held("state_unreadable", error)]
        self._coroutine = self._workflow.function(self._turn, state, self._message)
        return self._drive()

    def feed(self, event: r.Event) -> list[r.EventBody]:
        """Hands one fact to whoever waits for it; facts that nobody waits for change nothing."""
        self.now_ms = event.envelope.at_ms
        try:
            step = self._resolve(event)
        except CLAIM_FAULTS:
            self.drop()
            raise
        return self._drive() if step is not None else []

    def drop(self) -> None:
        """Lets the coroutine go; what its `finally` blocks ask for is discarded."""
        self.dead = True
        if self._coroutine is not None:
            try:
                self._coroutine.close()
            except BaseException:  # noqa: BLE001, S110 - a dying coroutine's words count for nothing
                pass
            finally:
                self._coroutine = None

    def run(self, action: Action[Any]) -> Step:
        """Asks for the action to be run; see `Turn.run`."""
        digest, arguments = self._identify(action)
        approval, proposal_id = "none", None
        if action.activity.approval is not None:
            approval, proposal_id = self._use_grant(action, digest)
        step = self._next_step()
        context = self.context
        activity_id = f"{context.turn}.{step}"
        return self._wait(
            activity_id,
            r.ActivityRequested(
                activity_id=activity_id,
                turn=context.turn,
                step=step,
                name=action.activity.name,
                queue=action.activity.queue,
                contract=action.activity.contract.word,
                arguments=arguments,
                digest=digest,
                idempotency_key=f"{context.tenant}/{context.session_id}/{context.turn}/{step}",
                attempt=1,
                start_to_close_ms=action.activity.start_to_close_ms,
                deadline_ms=self.now_ms + action.activity.schedule_to_close_ms,
                approval=approval,
                proposal_id=proposal_id,
                retry=action.activity.retry.policy,
            ),
        )

    def approval(self, action: Action[Any]) -> Step:
        """Asks for approval of the action; see `Turn.approval`."""
        rule = action.activity.approval
        if rule is None:
            raise WorkflowMisuse(f"activity {action.activity.name!r} has no approval rule")
        digest, arguments = self._identify(action)
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
            ),
        )

    def sleep(self, duration_ms: int) -> Step:
        """Asks for a timer; see `Turn.sleep`."""
        step = self._next_step()
        timer_id = f"{self.context.turn}.{step}"
        due_ms = self.now_ms + duration_ms
        return self._wait(timer_id, r.TimerSet(timer_id, self.context.turn, step, due_ms))

    def say(self, message: Any) -> None:
        """Records a reply; see `Turn.say`."""
        content = {"text": message} if isinstance(message, str) else message
        payload = self.claims.payload(content)
        self._ask(r.ReplySent(self.context.turn, self._next_step(), payload))

    def complete(self, outcome: Any) -> None:
        """Notes the outcome; see `Turn.complete`."""
        if self._outcome is not None:
            raise WorkflowMisuse("turn.complete was called already in this turn: call it once")
        self._outcome = self.claims.payload(outcome)

    def withdraw(self, step: Step, *, cancel: bool) -> None:
        """Lets a wait that lost go; see `Turn.first`. An activity that runs on still has its outcome recorded."""
        asked = self._waits[step.wait_id][0]
        match asked:
            case r.TimerSet():
                body: r.EventBody = r.TimerCancelled(asked.timer_id, LOST)
            case r.ApprovalRequested():
                body = r.ApprovalWithdrawn(asked.proposal_id, LOST)
            case r.ActivityRequested() if cancel:
                body = r.ActivityCancelled(asked.activity_id, asked.attempt, LOST)
            case _:
                return
        del self._waits[step.wait_id]
        self._ask(body)

    def _drive(self) -> list[r.EventBody]:
        coroutine = self._coroutine
        if coroutine is None:
            return []
        self._asked = []
        try:
            waited: object = coroutine.send(None)
            if not isinstance(waited, Step | Several):
                told = f"it awaited {waited!r}, which is not of this turn: use turn.sleep, or an activity for I/O"
                return [self._misused(told)]
            return self._take()
        except StopIteration as returned:
            return self._finish(returned.value)
        except ActivityError as error:
            failure = error.failure
            return [*self._take(), r.SessionFailed(self.context.turn, failure, messages_unread=0)]
        except RuntimeError as error:
            if "event loop" in str(error):
                return [
                    self._misused(
                        f"it used asyncio ({error}): use turn.sleep, or an activity for I/O"
                    )
                ]
            return [self._held("workflow_raised", error)]
        except WorkflowMisuse as error:
            return [self._misused(str(error))]
        except WorkflowStuck:
            raise
        except BaseException as error:  # noqa: BLE001 - user code holds its session and no more, whatever it raises: Ctrl-C is a signal that the process handles
            return [self._held("workflow_raised", error)]

    def _finish(self, returned: Any) -> list[r.EventBody]:
        workflow = self._workflow
        if not isinstance(returned, workflow.state_class):
            wanted = workflow.state_class.__name__
            return [
                self._misused(
                    f"it returned {returned!r}: return the {wanted} that the next turn starts from"
                )
            ]
        try:
            state = self.claims.payload(json_value(workflow.state_type, returned))
        except Exception as error:  # noqa: BLE001 - user types decide what raises; it becomes a hold
            return [self._held("state_unserialisable", error)]
        asked = self._take()
        if self._outcome is not None:
            end: r.EventBody = r.SessionCompleted(
                self.context.turn,
                self.steps,
                self._outcome,
                state,
                verified_by=None,
                messages_unread=0,
            )
        else:
            end = r.TurnCompleted(
                self.context.turn, self.steps, state, obligations=(), next_valid=()
            )
        return [*asked, end]

    def _resolve(self, event: r.Event) -> Step | None:
        body, actor = event.body, event.envelope.actor
        match body:
            case r.ActivityCompleted():
                return self._settle(body.activity_id, body.result, None)
            case r.ActivityFailed():
                error = ActivityError(self._name(body.activity_id), body.failure)
                return self._settle(body.activity_id, None, error)
            case r.ApprovalGranted():
                self._grants[body.digest] = body.proposal_id
                return self._settle(
                    body.proposal_id, Approval(True, "approved", actor, body.comment), None
                )
            case r.ApprovalRejected():
                return self._settle(
                    body.proposal_id, Approval(False, "rejected", actor, body.comment), None
                )
            case r.ApprovalExpired():
                return self._settle(body.proposal_id, Approval(False, "expired", "", ""), None)
            case r.TimerFired():
                return self._settle(body.timer_id, None, None)
            case _:
                return None

    def _settle(self, wait_id: str, value: Any, error: Exception | None) -> Step | None:
        found = self._waits.pop(wait_id, None)
        if found is None:
            return None
        step = found[1]
        step.value, step.error, step.done = self.claims.handed(value), error, True
        return step

    def _wait(self, wait_id: str, asked: r.EventBody) -> Step:
        self._ask(asked)
        step = Step(wait_id)
        self._waits[wait_id] = (asked, step)
        return step

    def _name(self, activity_id: str) -> str:
        asked = self._waits.get(activity_id)
        return asked[0].name if asked and isinstance(asked[0], r.ActivityRequested) else ""

    def _use_grant(self, action: Action[Any], digest: bytes) -> tuple[str, str | None]:
        if not action.needs_approval():
            return "exempt", None
        proposal_id = self._grants.pop(digest, None)
        if proposal_id is None:
            rule = action.activity.approval
            raise UnapprovedAction(action.activity.name, rule.approver if rule else "")
        return "granted", proposal_id

    def _identify(self, action: Action[Any]) -> tuple[bytes, r.Payload]:
        activity, key = action.activity, self.context.digest_key
        arguments = self.claims.payload(action.arguments)
        approver = activity.approval.approver if activity.approval else ""
        digest = action_digest(
            activity.name,
            activity.contract.word,
            self.claims.bytes_of(arguments),
            approver,
            key,
        )
        return digest, arguments

    def _next_step(self) -> int:
        if self._outcome is not None:
            raise WorkflowMisuse(
                "a step was asked for after turn.complete: complete last, then return the state"
            )
        if len(self._asked) >= STEPS_PER_ACTIVATION_MAX:
            told = f"{STEPS_PER_ACTIVATION_MAX} steps were asked for without a wait: await a result in that loop"
            raise WorkflowMisuse(told)
        self.steps += 1
        return self.steps

    def _ask(self, body: r.EventBody) -> None:
        self._asked.append(body)

    def _take(self) -> list[r.EventBody]:
        asked, self._asked = self._asked, []
        return asked

    def _decode(self, data: r.Payload) -> Any:
        return read_json(self._workflow.state_type, self.claims.handed(data).inline or b"null")

    def _misused(self, told: str) -> r.SessionHeld:
        return self._hold("workflow_misuse", f"workflow {self._workflow.name}: {told}")

    def _held(self, reason: str, error: BaseException) -> r.SessionHeld:
        frames = traceback.format_exception(error)
        return self._hold(reason, "".join(frames)[-DETAIL_MAX:])

    def _hold(self, reason: str, detail: str) -> r.SessionHeld:
        self._asked = []
        self.drop()
        return r.SessionHeld(reason, storable_text(detail))
