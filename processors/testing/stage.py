"""Where activities run in a rehearsal: fakes by name, the real function where there is none, failures on demand."""

from __future__ import annotations

import difflib
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ...commands.models import CompleteActivity, FailActivity
from ...events.blobs import Blobs, fetched
from ...events.failures import KINDS
from ...events.keys import attempt_id
from ...events.payloads import load_json
from ...events.records import ActivityTask, Failure
from ..activities.attempt import Ask, Came, LookUp, Run, Say, steps_of
from ..activities.credentials import Access, Provider
from ..activities.definitions import CREDENTIALS, Activity
from ..activities.providing import Given
from ..activities.runner import Body, Call, Runner, Words
from ..app import App
from .attempts import within
from .errors import Misuse
from .fakes import called, check_parameters, fitting, instance, is_exception, takes_credentials
from .given import shown
from .limited import OutOfTime, in_a_thread, to_the_end

B = TypeVar("B")

WORKER = "rehearsal"


class NoAnswer:
    """An answer that never comes, until the test gives one or the deadline passes."""

    def __repr__(self) -> str:
        return "NO_ANSWER"


NO_ANSWER = NoAnswer()
"""As a fake: the call stays open. See `Rehearsal.answer`."""


@dataclass(frozen=True, slots=True)
class Called:
    """One call of an activity, made by the engine; a call that is made again after a crash is one more."""

    name: str
    arguments: dict[str, Any]
    """As recorded: JSON values by the parameters' names."""
    key: str
    """The idempotency key: the same for all calls of one step."""


@dataclass(slots=True)
class Stage:
    """One worker of the rehearsal: turns tasks into reports, in the order of the log."""

    app: App
    digest_key: bytes
    blobs: Blobs
    credentials: Provider[Any] | None = None
    """The provider that the test gave; it outlives a deploy."""
    calls: list[Called] = field(default_factory=list)
    _fakes: dict[str, Any] = field(default_factory=dict)
    _failures: dict[str, deque[Failure]] = field(default_factory=dict)
    _drawn: dict[str, Any] = field(default_factory=dict)
    _done: dict[str, Any] = field(default_factory=dict)
    """By key, of what was called: the result that it gave, or null; what a look-up of a fake finds."""

    def fake(self, fakes: Mapping[str, Any]) -> None:
        """Puts these in the place of activities; a list is one answer per call, and is used up."""
        for name, given in fakes.items():
            check_parameters(self.find(name), given)
            self._fakes[name] = deque(given) if isinstance(given, list) else given

    def redeploy(self, app: App) -> None:
        """Other code; the fakes stay, and must still fit."""
        self.app = app
        for name, given in self._fakes.items():
            if name in app.activities:
                check_parameters(self.find(name), given)

    def fail_next(self, name: str, failure: Failure) -> None:
        """The next call of this activity ends so; nothing runs."""
        self.find(name)
        if failure.kind not in KINDS:
            raise Misuse(f"no failure is of kind {failure.kind!r} (kinds: {', '.join(KINDS)})")
        self._failures.setdefault(name, deque()).append(failure)

    def find(self, name: str) -> Activity[Any]:
        """The activity of this name; `Misuse` says which there are."""
        if not isinstance(name, str):
            told = "give its name" if not isinstance(name, Activity) else f"give {name.name!r}"
            raise Misuse(f"an activity is named by a text, got {shown(name)}: {told}")
        activity = self.app.activities.get(name)
        if activity is not None:
            return activity
        near = difflib.get_close_matches(name, self.app.activities, 1)
        hint = f"did you mean {near[0]!r}?" if near else "give it to the rehearsal as well"
        known = ", ".join(sorted(self.app.activities)) or "none"
        raise Misuse(f"no activity {name!r} is known here (known: {known}): {hint}")

    def run(self, task: ActivityTask) -> Body | None:
        """The report of one attempt; none where its fake gives no answer.

        It goes the way of its contract, without the waits: where it is called again, what can be looked up is.
        """
        self.find(task.name)
        fresh = task.attempt == 1 and task.idempotency_key not in self._done
        steps = steps_of(self._runner, task, fresh=fresh, waited_ms=0, is_over=lambda: False)
        step = next(steps)
        while not isinstance(step, Say):
            came: Came = None
            if isinstance(step, Ask):
                came = self._ask(step)
            elif isinstance(step, LookUp):
                came = self._look_up(step)
            elif isinstance(step, Run):
                came = self._call(step.call, step.words)
                if came is None or isinstance(self._drawn.get(_name(task)), Failure):
                    return came
            step = steps.send(came)
        return step.body

    def _ask(self, step: Ask) -> Came:
        """What the provider gives for a real function, and for a fake that takes it; for others nobody is asked."""
        task = step.call.task
        if step.before is LookUp:
            asked = task.name not in self._fakes
        else:
            answer = self._draw(task)
            asked = (
                answer.takes_credentials
                if isinstance(answer, Activity)
                else takes_credentials(answer)
            )
        return self._run_real(step.call, step.words) if asked else Given(None)

    def _call(self, call: Call, words: Runner) -> Body | None:
        task = call.task
        self._done.setdefault(task.idempotency_key, None)
        arguments = self._arguments(task)
        self.calls.append(Called(task.name, arguments, task.idempotency_key))
        answer = self._draw(task)
        if isinstance(answer, Failure):
            return FailActivity(task.activity_id, task.attempt, answer, WORKER)
        body = self._play(call, answer, words)
        if isinstance(body, CompleteActivity):
            self._done[task.idempotency_key] = body
        return body

    def _look_up(self, step: LookUp) -> Body | None:
        """What the real look-up says of a real function; of a fake, what it gave before."""
        call, task = step.call, step.call.task
        if task.name not in self._fakes:
            return self._run_real(call, step.words)
        done = self._done.get(task.idempotency_key)
        return None if done is None else replace(done, attempt=task.attempt, recovered=True)

    def answer(self, task: ActivityTask, answer: Any) -> Body:
        """The report of an attempt that ended with this: a value, an exception, or what a function makes of it."""
        call = self._prepare(task)
        if not isinstance(call, Call):
            return call
        if call.activity.takes_credentials:
            call.arguments[CREDENTIALS] = None
        report = self._play(call, answer, self._runner)
        if report is None:
            raise Misuse(f"NO_ANSWER is no answer for {task.name!r}: give a value or an exception")
        return report

    def found_out(self, name: str, result: Any) -> Any:
        """What a person says of an uncertain activity: an exception, or its result as JSON."""
        if is_exception(result):
            return instance(result)
        activity = self.find(name)
        return activity.stored(fitting(activity, result))

    def _prepare(self, task: ActivityTask) -> Call | FailActivity:
        self.find(task.name)
        return self._runner.prepare(task)

    def _play(self, call: Call, answer: Any, words: Runner) -> Body | None:
        if isinstance(answer, Activity):
            given = dict(call.arguments)
            if not answer.takes_credentials:
                given.pop(CREDENTIALS, None)
            real = replace(call, arguments=given, function=answer.function, is_sync=answer.is_sync)
            return self._run_real(real, words)
        if is_exception(answer):
            return words.failed(call.task, instance(answer))
        if callable(answer):
            try:
                answer = called(answer, call)
            except (AssertionError, Misuse):
                raise  # what a fake asserts is the test's own word
            except Exception as error:  # noqa: BLE001 - as a worker does: whatever a tool raises is its failure
                return words.failed(call.task, error)
        if isinstance(answer, NoAnswer):
            return None
        return words.completed(call, fitting(call.activity, answer))

    def _draw(self, task: ActivityTask) -> Any:
        """What this attempt meets; what is used up by it, it meets again however often it is delivered."""
        attempt = _name(task)
        if attempt in self._drawn:
            return self._drawn[attempt]
        failures = self._failures.get(task.name)
        given = self._fakes.get(task.name, self.find(task.name))
        if failures:
            self._drawn[attempt] = failures.popleft()
        elif not isinstance(given, deque):
            return given
        elif given:
            self._drawn[attempt] = given.popleft()
        else:
            told = f"the answers for {task.name!r} are used up, and it is called once more"
            raise Misuse(f"{told}, with {self._arguments(task)}: give one answer per call")
        return self._drawn[attempt]

    def _run_real(self, call: Call, words: Words[B]) -> B:
        """The real function, or real look-up, under its real start-to-close limit."""
        limit_s = call.task.start_to_close_ms / 1_000
        try:
            with within(call.task, self.digest_key, call.hidden):
                if call.is_sync:
                    result = in_a_thread(call.start, limit_s)
                else:
                    result = to_the_end(call.start(), limit_s)
        except OutOfTime:
            return words.timed_out(call.task)
        except Misuse:
            raise
        except Exception as error:  # noqa: BLE001 - as a worker does
            return words.failed(call.task, error)
        return words.completed(call, result)

    def _arguments(self, task: ActivityTask) -> dict[str, Any]:
        recorded = fetched(task.arguments, task.tenant, self.digest_key, self.blobs)
        arguments: dict[str, Any] = load_json(recorded)
        return arguments

    @property
    def _runner(self) -> Runner:
        return Runner(
            self.app.activities,
            worker_id=WORKER,
            digest_key=self.digest_key,
            blobs=self.blobs,
            provider=self.app.credentials or NOBODY,
        )


def _nobody(access: Access) -> None:
    raise Misuse(
        f"activity {access.activity!r} takes credentials, and nobody gives them here: give the rehearsal "
        "credentials=…, a function of its access or the credentials themselves, or a fake of the activity"
    )


NOBODY = Provider(_nobody)
"""Asked only where a real function, or a fake that wants them, is to have credentials."""


def _name(task: ActivityTask) -> str:
    return attempt_id(task.idempotency_key, task.attempt)
