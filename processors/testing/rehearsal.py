"""`rehearse`: one session of a user's workflow on the real core, in virtual time, in milliseconds."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from ...commands import models as m
from ...commands.actors import ENGINE
from ...events import records as r
from ...events.contracts import ONCE
from ...events.failures import NOT_WANTED, RAISED
from ...events.keys import attempt_id
from ...events.payloads import storable_text
from ...events.state import OpenApproval, Uncertain
from ...events.verdicts import (
    APPROVE,
    CANCELLED,
    COMPLETED,
    EDIT,
    FAILED,
    REJECT,
    RESPOND,
    UNCERTAIN,
)
from ..durations import Duration, to_ms
from ..session import Stamped
from . import given
from .cast import Declared, cast, choose_workflow, provider_of
from .elsewhere import Elsewhere
from .engine import DIGEST_KEY, Engine, StepAt
from .errors import Held, Misuse, Refused
from .given import EPOCH
from .operating import Operating
from .policies import policy_of
from .stage import WORKER, Stage

T = TypeVar("T")

STARTS_AT = datetime(2027, 1, 15, 8, tzinfo=UTC)
"""When a rehearsal begins where no time is given: a Friday morning, in every run the same."""

CALLS_MAX = 10_000
"""Calls of activities that one command of a test may lead to; more is a workflow that never comes to an end."""

HOLDS = r.SessionHeld | r.NondeterminismFound
"""Facts that hold a session; one that is released and held again may say the same as before."""

WAKES_MAX = 100_000
"""Timers, expiries, back-offs and deadlines that one skip may pass."""


def rehearse(
    *declared: Declared,
    workflow: str | None = None,
    activities: Mapping[str, Any] | None = None,
    credentials: Any = None,
    starts_at: datetime = STARTS_AT,
    session_id: str = "session-1",
    attributes: Mapping[str, Any] | None = None,
    always_replay: bool = True,
) -> Rehearsal:
    """Opens a session of the workflow and returns the hand that drives it.

    `activities` puts fakes in the place of activities, by name: a function, an exception to raise, a list with one
    answer per call, `NO_ANSWER`, or the value itself. An activity without a fake runs its real function, with what
    `credentials` gives it: a function of its `Access`, or the credentials themselves; by default the app's provider.
    A fake that takes `credentials` gets them, too, and for others nobody is asked. `attributes` is what the session is found by from the start. With `always_replay` the workflow is rebuilt from its history before every step, which finds what replay would.
    """
    provider = provider_of(credentials)
    app = cast(declared, credentials=provider)
    name = choose_workflow(app, workflow)
    now_ms = (given.moment("starts_at", starts_at) - EPOCH) // timedelta(milliseconds=1)
    replays = given.yes_or_no("always_replay", always_replay)
    engine = Engine(app, given.session_id(session_id), now_ms, always_replay=replays)
    stage = Stage(app, DIGEST_KEY, engine.blobs, provider)
    stage.fake(given.fakes(activities))
    return Rehearsal(engine, stage, name, given.attributes(attributes))


class Rehearsal(Operating, Elsewhere):
    """One session. Each call returns when nothing is left to do at this moment: it waits, rests or has ended."""

    def __init__(
        self, engine: Engine, stage: Stage, workflow: str, attributes: tuple[r.Attribute, ...] = ()
    ) -> None:
        super().__init__(engine, stage)
        self._tasks: deque[r.ActivityTask] = deque()
        self._unanswered: list[r.ActivityTask] = []
        self._interrupted: set[StepAt] = set()
        self._cancelled: list[str] = []
        self._command(m.OpenSession(workflow, attributes), actor="customer")

    def send(self, message: Any, *, by: str = "customer") -> None:
        """Sends a message: its text, or anything that is JSON (`text` in an object is `message.text` in the workflow)."""
        content = {"text": message} if isinstance(message, str) else message
        self._command(m.SendMessage(self._data("a message", content)), actor=by)

    def approve(self, name: str | None = None, *, by: str | None = None, comment: str = "") -> None:
        """Approves what is proposed; `name` (the activity's, or the proposal's id) where several are open."""
        self._decide(name, APPROVE, by, comment)

    def reject(self, name: str | None = None, *, by: str | None = None, comment: str = "") -> None:
        """Declines what is proposed."""
        self._decide(name, REJECT, by, comment)

    def edit(
        self,
        arguments: Mapping[str, Any],
        name: str | None = None,
        *,
        by: str | None = None,
        comment: str = "",
    ) -> None:
        """Changes the arguments of what is proposed, and approves what it is then."""
        self._decide(name, EDIT, by, comment, self._data("the arguments", arguments))

    def respond(self, answer: Any, name: str | None = None, *, by: str | None = None) -> None:
        """Tells the workflow something instead of a decision: a text, or anything that is JSON."""
        told = {"text": answer} if isinstance(answer, str) else answer
        self._decide(name, RESPOND, by, "", self._data("the answer", told))

    def publish(
        self,
        policies: str = "",
        *,
        roles: Mapping[str, Sequence[str]] | None = None,
        arguments: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """Publishes a policy set: the default one and these Cedar policies. The one before is gone.

        `roles` says who has which role, `arguments` what policies may know of an activity's arguments: their types by
        name. In policies the tenant is `rehearsal`, as in `Role::"rehearsal/supervisor"`. Until the first one everybody
        may decide, and nothing is withheld.
        """
        self._engine.go_by(policy_of(policies, roles or {}, arguments or {}))

    def change_artifact(self, artifact_id: str, version: str, *, by: str = "service") -> None:
        """Says that something outside, which the session relies on, has another version now."""
        what = given.text("the id of an artifact", artifact_id)
        body = m.ChangeArtifact(what, given.text("the version of an artifact", version))
        self._command(body, actor=by)

    def signal(self, name: str, data: Any = None, *, by: str = "service") -> None:
        """Sends a signal of this name with this data (anything that is JSON)."""
        name = given.text("the name of a signal", name)
        self._command(m.SendSignal(name, self._data("a signal's data", data)), actor=by)

    def trigger(
        self, kind: str, reason: str = "", data: Any = None, *, by: str = "service"
    ) -> None:
        """Asks for a turn without a message: an occasion of this kind, such as `schedule`."""
        kind = given.text("the kind of a trigger", kind)
        because = given.sentence("reason", reason)
        content = self._data("a trigger's data", data)
        self._command(m.StartTurn(kind, because, content), actor=by)

    def resolve(
        self, name: str | None, result: Any, *, by: str = "operator", comment: str = ""
    ) -> None:
        """Says what became of an uncertain activity: its result, or an exception where nothing was done.

        `name` is the activity's, or the id of one of several; None where there is one only.
        """
        comment = given.sentence("comment", comment)
        doubt = self._open_doubt(name)
        found = self._stage.found_out(doubt.name, result)
        if isinstance(found, Exception):
            told = comment or storable_text(str(found))
            body = m.ResolveActivity(doubt.activity_id, FAILED, None, told)
        else:
            payload = self._engine.payload(found)
            body = m.ResolveActivity(doubt.activity_id, COMPLETED, payload, comment)
        self._command(body, actor=by)

    def cancel(self, reason: str = "no longer wanted", *, by: str = "customer") -> None:
        """Stops the session for good."""
        self._command(m.CancelSession(given.sentence("reason", reason)), actor=by)

    def release(self, reason: str = "mended", *, by: str = "operator") -> None:
        """Lets a held session go on from where it was held."""
        self._command(m.ReleaseSession(given.sentence("reason", reason)), actor=by)

    def skip(self, duration: Duration) -> None:
        """Lets time pass: timers, expiries, back-offs and deadlines come in order, each at its own moment."""
        try:
            ms = to_ms(duration)
        except ValueError as error:
            raise Misuse(str(error)) from error
        self._skip_to(self._engine.now_ms + ms)

    def skip_to_next(self) -> None:
        """Lets time pass until the next thing is due."""
        owed = self._engine.session.next_due()
        if owed is None:
            raise Misuse(f"nothing is due: {self._told()}")
        self._skip_to(owed[0])

    def expire(self, name: str | None = None) -> None:
        """Lets time pass until the proposal has expired, and whatever is due before that has happened."""
        self._skip_to(self._open_approval(name).expires_at_ms)

    def fail_next(
        self, name: str, kind: str = RAISED, *, error_type: str = "", message: str = ""
    ) -> None:
        """The next call of this activity fails with this kind, without running. See `KINDS`."""
        told = given.sentence("message", message) or f"{name} was told to fail"
        failure = r.Failure(kind, given.sentence("error_type", error_type), told, "")
        self._stage.fail_next(name, failure)

    def fake(self, name: str, fake: Any) -> None:
        """Puts another fake in the place of this activity, from its next call on."""
        self._stage.fake({self._stage.find(name).name: fake})

    def answer(self, name: str, answer: Any) -> None:
        """Answers the oldest call of this activity that has had none (`NO_ANSWER`); one too late is recorded as such."""
        self._stage.find(name)
        found = next((task for task in self._unanswered if task.name == name), None)
        if found is None:
            open_names = ", ".join(sorted({task.name for task in self._unanswered})) or "none"
            raise Misuse(f"no call of {name!r} is without an answer (without: {open_names})")
        body = self._stage.answer(found, answer)
        self._unanswered.remove(found)
        since = len(self._engine.log)
        self._report(found, body)
        self._settle(since)

    def crash_at(self, step: int, *, turn: int | None = None) -> None:
        """Kills all processes at this step of the running turn, or of the next.

        The processor loses what it decided and decides it again from the history; where the step is an activity, its
        worker dies after the call and before its report, so that the call is made again, with the same key. Its contract
        may say otherwise: what can be looked up is looked up first, and what is called at most once stays unanswered.
        """
        step = given.count("step", step)
        if turn is not None:
            turn = given.count("turn", turn)
        else:
            turn = self._state.turn if self._engine.running else self._state.turn + 1
        at = StepAt(turn, step)
        if self._engine.is_past(at):
            raise Misuse(f"step {step} of turn {turn} is in the past: {self._told()}")
        self._engine.doom(at)

    def crash_everywhere(self) -> None:
        """From here on, a crash at every step; every activity that may be called twice is."""
        self._engine.crash_everywhere = True

    def redeploy(self, *declared: Declared, activities: Mapping[str, Any] | None = None) -> None:
        """The same session on other code: its coroutine is gone, its history, tasks and fakes stay.

        An open turn stays on the version it began with, so give that as well, or see what happens without it.
        """
        fakes = given.fakes(activities)
        app = cast(declared, credentials=self._stage.credentials)
        self._engine.redeploy(app)
        self._stage.redeploy(app)
        self._stage.fake(fakes)

    def _data(self, what: str, value: object) -> r.Payload:
        return given.data(what, value, self._engine.payload)

    def _command(self, body: m.CommandBody, *, actor: str) -> None:
        since = len(self._engine.log)
        stamped, refusal = self._engine.give(body, actor=given.actor(actor))
        self._take_tasks(stamped)
        self._settle(since)
        if refusal is not None:
            raise Refused(refusal.reason, refusal.detail)
        for one in stamped:
            if isinstance(one.event.body, r.CommandRefused):
                raise Refused(one.event.body.reason, one.event.body.detail)

    def _decide(
        self,
        name: str | None,
        decision: str,
        by: str | None,
        comment: str,
        data: r.Payload | None = None,
    ) -> None:
        comment = given.sentence("comment", comment)
        asked = self._open_approval(name)
        body = m.DecideApproval(asked.proposal_id, asked.digest, decision, comment, data)
        self._command(body, actor=asked.approver if by is None else by)

    def _open_approval(self, name: str | None) -> OpenApproval:
        known = [(a.name, a.proposal_id, a) for a in self._state.approvals]
        return self._the_one("approval", "open", name, known)

    def _open_doubt(self, name: str | None) -> Uncertain:
        known = [(u.name, u.activity_id, u) for u in self._state.uncertain]
        return self._the_one("activity", UNCERTAIN, name, known)

    def _the_one(self, what: str, how: str, name: str | None, known: list[tuple[str, str, T]]) -> T:
        """The one that is meant, by name or id."""
        found = [one for one in known if name in (None, one[0], one[1])]
        if len(found) == 1:
            return found[0][2]
        about = f"of {name!r} " if name is not None else ""
        if not found:
            raise Misuse(f"no {what} {about}is {how}: {self._told()}")
        ids = ", ".join(f"{found_id} ({found_name})" for found_name, found_id, _ in found)
        many = {
            "approval": "approvals",
            "activity": "activities",
            "job": "jobs",
            "child": "children",
        }[what]
        raise Misuse(f"several {many} {about}are {how}: name one of {ids}")

    def _skip_to(self, target_ms: int) -> None:
        since = len(self._engine.log)
        for _ in range(WAKES_MAX):
            owed = self._engine.session.next_due()
            if owed is None or owed[0] > target_ms:
                break
            self._engine.now_ms = max(self._engine.now_ms, owed[0])
            stamped, _refusal = self._engine.give(m.FireTimer(owed[1], owed[0]), actor=ENGINE)
            self._take_tasks(stamped)
            self._run_tasks()
        else:
            raise Misuse(f"{WAKES_MAX} timers fired in one skip: skip less at a time")
        self._engine.now_ms = max(self._engine.now_ms, target_ms)
        self._settle(since)

    def _settle(self, since: int) -> None:
        """Runs what is to run, and what is due at this moment; a hold among the facts since then is said aloud."""
        self._run_tasks()
        for _ in range(WAKES_MAX):
            owed = self._engine.session.next_due()
            if owed is None or owed[0] > self._engine.now_ms:
                break
            stamped, _refusal = self._engine.give(m.FireTimer(owed[1], owed[0]), actor=ENGINE)
            self._take_tasks(stamped)
            self._run_tasks()
        if self.hold is not None and any(isinstance(fact, HOLDS) for fact in self.events[since:]):
            raise Held(self.hold.reason, self.hold.detail)

    def _run_tasks(self) -> None:
        for _ in range(CALLS_MAX):
            if self._cancelled:
                end = m.EndChild(self._cancelled.pop(0), CANCELLED, None, None)
                self._take_tasks(self._engine.give(end, actor=ENGINE)[0])
            elif not self._tasks:
                return
            else:
                self._run_task(self._tasks[0])
        raise Misuse(f"{CALLS_MAX} activities were called at one moment: the workflow does not end")

    def _run_task(self, task: r.ActivityTask) -> None:
        """Runs the first task; it stays the first where its fake raises, as an assertion of the test does."""
        running = any(
            (a.activity_id, a.attempt) == (task.activity_id, task.attempt)
            for a in self._state.activities
        )
        if not running:
            self._tasks.popleft()  # cancelled, or its deadline passed, before its worker came to it
            self._report(task, m.ReturnActivity(task.activity_id, task.attempt, NOT_WANTED, WORKER))
            return
        report = self._stage.run(task)
        at = _step_of(task)
        spared = task.contract in ONCE and self._engine.crash_everywhere
        if at in self._engine.crashes and at not in self._interrupted and not spared:
            # The worker died before its report: the task is delivered again.
            self._interrupted.add(at)
            if task.contract in ONCE:  # committed before the call: nobody is given it again
                self._unanswered.append(self._tasks.popleft())
            return
        self._tasks.popleft()
        if report is None:
            self._unanswered.append(task)
        else:
            self._report(task, report)

    def _report(
        self, task: r.ActivityTask, body: m.CompleteActivity | m.FailActivity | m.ReturnActivity
    ) -> None:
        command_id = attempt_id(task.idempotency_key, task.attempt)
        stamped, refusal = self._engine.give(body, actor=f"worker:{WORKER}", command_id=command_id)
        if refusal is not None:
            raise Refused(refusal.reason, refusal.detail)
        self._take_tasks(stamped)

    def _take_tasks(self, stamped: Iterable[Stamped]) -> None:
        """What workers are to do; and what is told to children, which are not here and end at once where they are cancelled."""
        for one in stamped:
            self._tasks += [one.task] if one.task is not None else []
            self._cancelled += [
                c.header.session_id for c in one.commands if isinstance(c.body, m.CancelChild)
            ]


def _step_of(task: r.ActivityTask) -> StepAt:
    turn, _, step = task.activity_id.partition(".")
    return StepAt(int(turn), int(step))
