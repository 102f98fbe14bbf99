"""The waits of a stretch that somebody or some time outside ends, and the numbers of all its steps.

Nothing here runs user code; `asking.py` adds what runs or needs an approval, `driver.py` the function.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...events import records as r
from ...events.blobs import Blobs
from ...events.holding import HeldResource
from ...events.keys import child_id_of, job_id_of
from ...events.state import CHILD_DEPTH_MAX, CHILDREN_MAX
from .errors import WorkflowMisuse
from .waits import Step

STEPS_PER_ACTIVATION_MAX = 1_000
"""Steps between two waits; a loop that never waits ends here instead of filling the log."""


@dataclass(frozen=True, slots=True)
class TurnContext:
    """What identifies the stretch that is driven, the key for digests of its data, and the store of what is large.

    `stretch` counts the `again`s of the turn so far, `steps` those that were asked for before it; `requester` is whose
    message the turn answers, `attributes` what the session was found by then, `parent` whose child it is; `data_version`
    has left the state, and `resources` are what was held then.
    """

    tenant: str
    session_id: str
    turn: int
    digest_key: bytes
    stretch: int = 0
    steps: int = 0
    blobs: Blobs | None = None
    requester: str = ""
    attributes: tuple[r.Attribute, ...] = ()
    parent: r.Parent | None = None
    data_version: int = 0
    resources: tuple[HeldResource, ...] = ()


class Stepping:
    """Numbers steps, and keeps what was asked for in this activation and the waits that are open."""

    def __init__(self, context: TurnContext) -> None:
        self.context = context
        self.now_ms = 0
        self.steps = context.steps
        self._asked: list[r.EventBody] = []
        self._waits: dict[str, tuple[r.EventBody, Step]] = {}
        self._letting_go = False
        self._over: str | None = None
        """What ends this stretch once the function returns: nothing may be asked for after it."""

    def sleep(self, duration_ms: int) -> Step:
        """Asks for a timer; see `Turn.sleep`."""
        turn, step = self.context.turn, self._next_step()
        timer_id = f"{turn}.{step}"
        return self._wait(timer_id, r.TimerSet(timer_id, turn, step, self.now_ms + duration_ms))

    def signal(self, name: str) -> Step:
        """Asks for a signal; see `Turn.signal`."""
        turn, step = self.context.turn, self._next_step()
        wait_id = f"{turn}.{step}"
        return self._wait(wait_id, r.SignalAwaited(wait_id, turn, step, name))

    def inbox(self, *, wait: bool) -> Step:
        """Asks for the messages that queue; see `Turn.inbox`."""
        turn, step = self.context.turn, self._next_step()
        wait_id = f"{turn}.{step}"
        return self._wait(wait_id, r.InboxAwaited(wait_id, turn, step, wait))

    def job(self, name: str, within_ms: int, *, untrusted: bool) -> Step:
        """Waits for work elsewhere; see `Turn.job`. The step's id is the job's, which nobody can guess."""
        context, step = self.context, self._next_step()
        place = f"{context.turn}.{step}"
        job_id = job_id_of(context.tenant, context.session_id, place, context.digest_key)
        due_ms = self.now_ms + within_ms
        body = r.JobAwaited(job_id, context.turn, step, name, due_ms, untrusted)
        return self._wait(job_id, body)

    def child(
        self, workflow: str, given: r.Payload, within_ms: int, attributes: tuple[r.Attribute, ...]
    ) -> Step:
        """Opens a child; see `Turn.child`. The step's id is the child's, which never outlives what its own parent waits for."""
        context, parent = self.context, self.context.parent
        if parent is not None and parent.depth >= CHILD_DEPTH_MAX:
            told = f"turn.child was called {parent.depth} generations below the first session, and that is the limit: a "
            raise WorkflowMisuse(
                told + "workflow that opens itself needs an end, or do the rest here"
            )
        if (
            sum(isinstance(asked, r.ChildStarted) for asked, _ in self._waits.values())
            >= CHILDREN_MAX
        ):
            told = f"{CHILDREN_MAX} children are open, and that is the limit of one session: await some first"
            raise WorkflowMisuse(told)
        step = self._next_step()
        place = f"{context.turn}.{step}"
        child_id = child_id_of(context.tenant, context.session_id, place, context.digest_key)
        expires_at_ms = self.now_ms + within_ms
        if parent is not None:
            expires_at_ms = min(expires_at_ms, parent.deadline_ms)
        body = r.ChildStarted(
            child_id, context.turn, step, workflow, given, expires_at_ms, attributes
        )
        return self._wait(child_id, body)

    def start_run(
        self,
        workflow: str,
        run_id: str,
        occasion: tuple[str, str],
        data: r.Payload,
        *,
        where_open: str,
        attributes: tuple[r.Attribute, ...],
    ) -> None:
        """Sets a session to work for which nobody waits; `occasion` is the kind of trigger, and its words."""
        turn, step = self.context.turn, self._next_step()
        body = r.RunStarted(run_id, turn, step, workflow, *occasion, data, where_open, attributes)
        self._ask(body)

    @property
    def next_place(self) -> str:
        """Where the next step will stand: the id of an activity that is asked for next."""
        return f"{self.context.turn}.{self.steps + 1}"

    def is_open(self, step: Step) -> bool:
        """Whether this is still waited for, or over; not where it was let go."""
        return step.done or step.wait_id in self._waits

    def _wait(self, wait_id: str, asked: r.EventBody) -> Step:
        self._ask(asked)
        step = Step(wait_id, abandoned=self._letting_go)
        self._waits[wait_id] = (asked, step)
        return step

    def _next_step(self) -> int:
        if self._over is not None:
            raise WorkflowMisuse(
                f"a step was asked for after {self._over}: {self._over} comes last, then return the state"
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
