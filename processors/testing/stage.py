"""Where activities run in a rehearsal: fakes by name, the real function where there is none, failures on demand."""

from __future__ import annotations

import asyncio
import difflib
import inspect
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pydantic import ValidationError

from ...commands.models import CompleteActivity, FailActivity
from ...events.blobs import Blobs, fetched
from ...events.payloads import load_json
from ...events.records import ActivityTask, Failure
from ..activities.attempt import LookUp, Run, Say, steps_of
from ..activities.definitions import KEY, Activity, problems
from ..activities.runner import Body, Call, Runner, Words
from ..app import App
from .attempts import within
from .errors import Misuse

B = TypeVar("B")

WORKER = "rehearsal"

KINDS = (
    "raised",
    "nothing_done",
    "timed_out",
    "look_up_failed",
    "cut_off",
    "unknown_activity",
    "wrong_arguments",
    "arguments_unavailable",
    "unserialisable_result",
    "result_too_large",
    "result_not_stored",
)
"""How an attempt may fail, in the words of `activities/runner.py`."""


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
    calls: list[Called] = field(default_factory=list)
    _fakes: dict[str, Any] = field(default_factory=dict)
    _failures: dict[str, deque[Failure]] = field(default_factory=dict)
    _drawn: dict[str, Any] = field(default_factory=dict)
    _done: dict[str, Any] = field(default_factory=dict)
    """By key, of what was called: the result that it gave, or null; what a look-up of a fake finds."""

    def fake(self, fakes: Mapping[str, Any]) -> None:
        """Puts these in the place of activities; a list is one answer per call, and is used up."""
        for name, given in fakes.items():
            _check_parameters(self.find(name), given)
            self._fakes[name] = deque(given) if isinstance(given, list) else given

    def redeploy(self, app: App) -> None:
        """Other code; the fakes stay, and must still fit."""
        self.app = app
        for name, given in self._fakes.items():
            if name in app.activities:
                _check_parameters(self.find(name), given)

    def fail_next(self, name: str, failure: Failure) -> None:
        """The next call of this activity ends so; nothing runs."""
        self.find(name)
        if failure.kind not in KINDS:
            raise Misuse(f"no failure is of kind {failure.kind!r} (kinds: {', '.join(KINDS)})")
        self._failures.setdefault(name, deque()).append(failure)

    def find(self, name: str) -> Activity[Any]:
        """The activity of this name; `Misuse` says which there are."""
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
            came = None
            if isinstance(step, LookUp):
                came = self._look_up(step)
            elif isinstance(step, Run):
                came = self._call(step.call)
                if came is None or isinstance(self._drawn.get(_name(task)), Failure):
                    return came
            step = steps.send(came)
        return step.body

    def _call(self, call: Call) -> Body | None:
        task = call.task
        self._done.setdefault(task.idempotency_key, None)
        arguments = self._arguments(task)
        self.calls.append(Called(task.name, arguments, task.idempotency_key))
        answer = self._draw(task)
        if isinstance(answer, Failure):
            return FailActivity(task.activity_id, task.attempt, answer, WORKER)
        body = self._play(call, answer)
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
        report = self._play(call, answer)
        if report is None:
            raise Misuse(f"NO_ANSWER is no answer for {task.name!r}: give a value or an exception")
        return report

    def found_out(self, name: str, result: Any) -> Any:
        """What a person says of an uncertain activity: an exception, or its result as JSON."""
        if _is_exception(result):
            return _instance(result)
        activity = self.find(name)
        return activity.stored(_fitting(activity, result))

    def _prepare(self, task: ActivityTask) -> Call | FailActivity:
        self.find(task.name)
        return self._runner.prepare(task)

    def _play(self, call: Call, answer: Any) -> Body | None:
        if isinstance(answer, Activity):
            real = replace(call, function=answer.function, is_sync=answer.is_sync)
            return self._run_real(real, self._runner)
        if _is_exception(answer):
            return self._runner.failed(call.task, _instance(answer))
        if callable(answer):
            try:
                answer = _called(answer, call)
            except (AssertionError, Misuse):
                raise  # what a fake asserts is the test's own word
            except Exception as error:  # noqa: BLE001 - as a worker does: whatever a tool raises is its failure
                return self._runner.failed(call.task, error)
        if isinstance(answer, NoAnswer):
            return None
        return self._runner.completed(call, _fitting(call.activity, answer))

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
            with within(call.task, self.digest_key):
                if call.is_sync:
                    result = _in_a_thread(call.start, limit_s)
                else:
                    result = _to_the_end(call.start(), limit_s)
        except _OutOfTime:
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
            self.app.activities, worker_id=WORKER, digest_key=self.digest_key, blobs=self.blobs
        )


def _name(task: ActivityTask) -> str:
    return f"{task.idempotency_key}#{task.attempt}"


class _OutOfTime(Exception):
    """The attempt was cancelled at its limit; a `TimeoutError` of the tool's own is something else."""


def _to_the_end(awaitable: Awaitable[Any], limit_s: float | None = None) -> Any:
    """Runs it in a fresh event loop; on a thread of its own where the test runs in a loop itself."""

    async def limited() -> Any:
        limit = asyncio.timeout(limit_s)
        try:
            async with limit:
                return await awaitable
        except TimeoutError as error:
            if limit.expired():
                raise _OutOfTime from error
            raise

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(limited())
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(copy_context().run, lambda: asyncio.run(limited())).result()


def _in_a_thread(function: Callable[[], Any], limit_s: float) -> Any:
    """What a sync one gives, in a thread and a context of its own, as on a worker; one that hangs is left behind."""
    answer: Future[Any] = Future()

    def run() -> None:
        try:
            answer.set_result(function())
        except BaseException as error:  # noqa: BLE001 raised again by whoever waits
            answer.set_exception(error)

    threading.Thread(target=copy_context().run, args=(run,), daemon=True).start()
    try:
        return answer.result(limit_s)
    except TimeoutError as error:
        if not answer.done():
            raise _OutOfTime from error
        raise


def _called(fake: Callable[..., Any], call: Call) -> Any:
    """What the fake makes of the call: arguments as the activity takes them, the key where the fake wants it."""
    positional, named = _split(call.activity, call.arguments)
    if KEY in named and not _wants_key(fake):
        del named[KEY]
    answer = fake(*positional, **named)
    return _to_the_end(answer) if inspect.isawaitable(answer) else answer


def _split(
    activity: Activity[Any], arguments: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """By position what the activity takes by position, by name the rest."""
    positional, left = [], dict(arguments)
    for parameter in inspect.signature(activity.function).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY or parameter.name not in left:
            break
        positional.append(left.pop(parameter.name))
    return positional, left


def _wants_key(fake: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(fake).parameters
    except (TypeError, ValueError):
        return False
    return KEY in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def _check_parameters(activity: Activity[Any], fake: object) -> None:
    """Whether a function, or each of a list, takes what it will be called with."""
    if isinstance(fake, list | deque):
        for one in fake:
            _check_parameters(activity, one)
    if not callable(fake) or _is_exception(fake) or isinstance(fake, Activity):
        return
    try:
        signature = inspect.signature(fake)
    except (TypeError, ValueError):
        return  # written in C, without a signature: the call will tell
    parameters = inspect.signature(activity.function).parameters
    positional, named = _split(activity, dict.fromkeys(parameters))
    if not _wants_key(fake):
        named.pop(KEY, None)
    try:
        signature.bind(*positional, **named)
    except TypeError as error:
        wanted = ", ".join(name for name in parameters if name != KEY)
        raise Misuse(
            f"the fake of {activity.name!r} cannot take ({wanted}): {error}; its signature is {signature}"
        ) from error


def _fitting(activity: Activity[Any], answer: Any) -> Any:
    """The answer as the activity's own type; a fake that gives something else tests nothing."""
    try:
        return activity.result_type.validate_python(answer)
    except ValidationError as error:
        told = f"the fake of {activity.name!r} gives {answer!r}, which is not what it returns"
        raise Misuse(f"{told}: {problems(error)}") from error


def _is_exception(given: object) -> bool:
    return isinstance(given, Exception) or (
        isinstance(given, type) and issubclass(given, Exception)
    )


def _instance(given: Any) -> Exception:
    raised: Exception = given() if isinstance(given, type) else given
    return raised
