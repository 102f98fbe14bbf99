"""Drives one stretch's coroutine, live and in replay alike: facts go in one by one, requested facts come out.

Rules:
- The coroutine is resumed by `send` with our own awaitables only; there is no event loop.
- `start` and `feed` return the bodies that the workflow asks for, in order. Nothing here knows whether they are
  new or replayed; `replay.py` compares them with the history.
- An exception of the workflow discards what this activation asked for and comes out as one `SessionHeld`; an
  uncaught `ActivityError` comes out as `SessionFailed`.
- Times are those of the fact that was fed.
- What ends the stretch comes out once no undo is under way; the function may have returned before.
"""

from __future__ import annotations

import traceback
from types import CoroutineType
from typing import Any, cast

from ...events import records as r
from ...events.errors import OwnSignal, PayloadTooLarge
from ...events.payloads import storable_text
from ...events.shown import name_of, shown, worded
from ..activities.definitions import Action, WrongArguments
from .ahead import LIVE, VERIFICATION_FAILED, Ahead
from .asking import Asking
from .claims import CLAIM_FAULTS
from .definitions import Message, Workflow
from .errors import (
    ActivityError,
    Unstorable,
    VerificationFailed,
    WorkflowMisuse,
    WorkflowStuck,
    WrongHandle,
    WrongResult,
    WrongSignal,
)
from .leaving import leaving
from .stepping import TurnContext
from .turn import Turn
from .upgrading import StateUnreadable, read_state
from .waits import Several, Step, misused_by

DETAIL_MAX = 2_000
"""Characters of a traceback, or of a misuse, kept in a hold: enough to find the line, small enough for every view."""

COMPLETE, AGAIN = "turn.complete", "turn.again"


class Stretch(Asking):
    """One coroutine from its top; dropped and rebuilt at will, never copied."""

    def __init__(
        self,
        workflow: Workflow[Any],
        context: TurnContext,
        data: r.Payload | None,
        message: Message,
    ) -> None:
        super().__init__(context)
        self.dead = False
        self._workflow = workflow
        self._outcome: r.Payload | None = None
        self._verified_by: str | None = None
        self._verifying: Step | None = None
        self._refused: VerificationFailed | None = None
        self._next_state: Any = None
        self._end: r.EventBody | None = None
        """What ends the stretch, once the function is over."""
        self._coroutine: CoroutineType[Any, Any, Any] | None = None
        self._data = data
        self._message = message

    @property
    def running(self) -> bool:
        """Whether the function itself runs right now, be it to its end."""
        coroutine = self._coroutine
        return coroutine is not None and coroutine.cr_running

    def start(self, at_ms: int, ahead: Ahead = LIVE) -> list[r.EventBody]:
        """Runs the function from its top to its first wait. Raises `CLAIM_FAULTS`, as `feed` does."""
        self.now_ms, self.ahead = at_ms, ahead
        try:
            state = self._workflow.initial() if self._data is None else self._decode(self._data)
            self.holdings.begin(self.context.resources, self.claims.handed)
        except CLAIM_FAULTS:
            raise
        except StateUnreadable as error:
            return [self._hold("state_unreadable", storable_text(str(error), DETAIL_MAX))]
        except Exception as error:  # noqa: BLE001 - user types decide what raises; it becomes a hold
            return [self._held("state_unreadable", error)]
        context = self.context
        # Held by the coroutine alone: a stretch that is dropped is then no cycle, and gone at once.
        turn = Turn(
            self,
            tenant=context.tenant,
            session_id=context.session_id,
            number=context.turn,
            stretch=context.stretch,
        )
        called = self._workflow.function(turn, state, self._message)
        self._coroutine = cast("CoroutineType[Any, Any, Any]", called)
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

    def may_end(self, how: str) -> None:
        """Refuses a second end of the stretch."""
        if self._over is not None:
            raise WorkflowMisuse(
                f"{how} was called after {self._over}: call one of them, once, and return the state"
            )

    def verify(self, check: Action[Any]) -> Step:
        """Asks for the verdict; see `Turn.complete`."""
        self._verifying = self.run(check, on_uncertain="wait")
        return self._verifying

    def refused(self, error: VerificationFailed) -> bool:
        """Whether the workflow is to see this; not where the history holds that it did not catch it, and a release."""
        if self.ahead.verifies_again():
            return False
        self._refused = error
        return True

    def complete(self, outcome: r.Payload, *, verified_by: str | None) -> None:
        """Notes the outcome; see `Turn.complete`."""
        self._over, self._outcome, self._verified_by = COMPLETE, outcome, verified_by

    def again(self, state: Any) -> None:
        """Notes the state of the next stretch; see `Turn.again`."""
        self.may_end(AGAIN)
        self._over, self._next_state = AGAIN, state

    def _drive(self) -> list[r.EventBody]:
        self._asked, self._refused, self.misuse = [], None, ""
        bodies = self._go_on()
        return [self._misused(self.misuse)] if self.misuse else bodies

    def _go_on(self) -> list[r.EventBody]:
        if self._end is not None:
            return self._ended(self._end)
        coroutine = self._coroutine
        if coroutine is None:
            return []
        try:
            return self._suspended(coroutine.send(None))
        except StopIteration as returned:
            return self._finish(returned.value)
        except ActivityError as error:
            return self._ended(r.SessionFailed(self.context.turn, error.failure, messages_unread=0))
        except WrongSignal as error:
            told = f"workflow {self._workflow.name}: {error}; it is not lost: each release gives it to this turn again"
            return [self._hold("wrong_signal", storable_text(told, DETAIL_MAX))]
        except WrongResult as error:
            told = f"workflow {self._workflow.name}: {error}; it is not lost: each release gives it to this turn again"
            return [self._hold("wrong_result", storable_text(told, DETAIL_MAX))]
        except WrongHandle as error:
            told = f"workflow {self._workflow.name}: {error}"
            return [self._hold("handle_unreadable", storable_text(told, DETAIL_MAX))]
        except VerificationFailed as error:
            if error is not self._refused:  # kept, and raised at another fact
                return [self._held("workflow_raised", error)]
            told = f"{error}: mend what it looks at, then release: it is verified again"
            return [self._hold(VERIFICATION_FAILED, told)]
        except RuntimeError as error:
            if "event loop" in worded(error):
                return [
                    self._misused(
                        f"it used asyncio ({error}): use turn.sleep, or an activity for I/O"
                    )
                ]
            return [self._held("workflow_raised", error)]
        except (WorkflowMisuse, WrongArguments) as error:
            return [self._misused(str(error))]
        except WorkflowStuck:
            raise
        except BaseException as error:  # noqa: BLE001 - user code holds its session and no more, whatever it raises: Ctrl-C is a signal that the process handles
            return [self._held("workflow_raised", error)]

    def _suspended(self, waited: object) -> list[r.EventBody]:
        if not isinstance(waited, Step | Several):
            return [self._misused(str(misused_by(waited)))]
        verifying = self._verifying
        if verifying is not None and not verifying.done and waited is not verifying:
            told = (
                "turn.complete with verify= was given to gather or first: await it by itself, last"
            )
            return [self._misused(told)]
        return self._take()

    def _finish(self, returned: Any) -> list[r.EventBody]:
        workflow = self._workflow
        if not isinstance(returned, workflow.state_class):
            wanted = workflow.state_class.__name__
            return [
                self._misused(
                    f"it returned {shown(returned)}: return the {wanted} that the next turn starts from"
                )
            ]
        if self._over == AGAIN and (told := self._why_not_again(returned)):
            return [self._misused(told)]
        try:
            state = self.payload(leaving(workflow.state_type, returned))
        except (Unstorable, PayloadTooLarge) as error:
            told = f"workflow {workflow.name}: the {workflow.state_class.__name__} that it returned cannot be kept: {error}"
            return [self._hold("state_unserialisable", f"{told}; then deploy and release")]
        return self._ended(self._end_with(state))

    def _ended(self, end: r.EventBody) -> list[r.EventBody]:
        """The function is over, and so is the stretch, unless something is being undone: then once that is."""
        self._end = end
        if self.undoes:
            return self._take()
        if isinstance(end, r.TurnContinued):
            self.let_losers_go()
        return [*self._take(), end]

    def _end_with(self, state: r.Payload) -> r.EventBody:
        turn, steps = self.context.turn, self.steps
        if self._over == AGAIN:
            return r.TurnContinued(turn, self.context.stretch + 1, steps, state)
        if self._outcome is None:
            return r.TurnCompleted(turn, steps, state, obligations=(), next_valid=())
        return r.SessionCompleted(
            turn, steps, self._outcome, state, verified_by=self._verified_by, messages_unread=0
        )

    def _why_not_again(self, returned: Any) -> str:
        """Why the stretch may not end so; nothing where it may."""
        if returned is not self._next_state:
            return f"it called turn.again and returned another object, {shown(returned)}: write 'return turn.again(state)'"
        if self.steps == self.context.steps:
            return "it called turn.again without a step before: it would go round for ever; await something first, or return the state"
        if open_waits := self.open_waits():
            waits = "; ".join(open_waits)
            return f"it called turn.again while it still waits for {waits}: await it, or let it go with turn.first(…)"
        return ""

    def _decode(self, data: r.Payload) -> Any:
        stored = self.claims.handed(data).inline or b"null"
        return read_state(self._workflow, stored, self.context.data_version)

    def _misused(self, told: str) -> r.SessionHeld:
        return self._hold(
            "workflow_misuse", storable_text(f"workflow {self._workflow.name}: {told}", DETAIL_MAX)
        )

    def _held(self, reason: str, error: BaseException) -> r.SessionHeld:
        try:
            frames = traceback.format_exception(error)
        except OwnSignal:
            raise
        except BaseException as second:  # noqa: BLE001 - its own __str__ may raise anything
            frames = [f"{name_of(type(error))}, whose traceback raises {name_of(type(second))}"]
        return self._hold(reason, "".join(frames)[-DETAIL_MAX:])

    def _hold(self, reason: str, detail: str) -> r.SessionHeld:
        self._asked = []
        self.drop()
        return r.SessionHeld(reason, storable_text(detail))
