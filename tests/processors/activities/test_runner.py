"""Whatever a tool takes, returns or raises, its attempt ends in words that the log can hold."""

import asyncio
import contextlib
import json
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, PlainSerializer, PlainValidator

from wakeful.commands.models import Command, CommandHeader, CompleteActivity, FailActivity
from wakeful.commands.wire import decode_command, encode_command
from wakeful.processors.activities import performing
from wakeful.processors.activities.contracts import Read, Write
from wakeful.processors.activities.definitions import activity
from wakeful.processors.activities.performing import perform, perform_sync
from wakeful.processors.activities.runner import Call, Runner


def runner_and_task(bench, function, arguments=None, *, contract=None, start_to_close_ms=10_000):
    """A runner that has loaded this function, and a task for it."""
    tool = activity(contract=contract or Read())(function)
    runner = Runner({tool.name: tool}, worker_id="w1", digest_key=b"k")
    return runner, bench.task(tool.name, arguments or {}, start_to_close_ms=start_to_close_ms)


def outcome_of(bench, function, arguments=None, **options):
    """What one attempt of this function says, as it comes back out of the log."""
    runner, task = runner_and_task(bench, function, arguments, **options)
    call = runner.prepare(task)
    body = asyncio.run(perform(runner, call)) if isinstance(call, Call) else call
    header = CommandHeader("acme", "s1", "c", 0, "worker:w1", None, "worker", None)
    encoded = encode_command(Command(header, body))
    return decode_command(encoded.value, [("wakeful_fingerprint", encoded.fingerprint)]).body


def test_a_result_is_stored_as_json(bench, desk):
    body = outcome_of(bench, desk.find_order.function, {"order_id": "A1"})
    assert isinstance(body, CompleteActivity)
    assert (body.activity_id, body.attempt, body.worker) == ("1.1", 1, "w1")
    assert json.loads(body.result.inline) == {"id": "A1", "cents": 100}


def test_arguments_arrive_typed_with_defaults_and_the_key(bench, desk):
    body = outcome_of(
        bench,
        desk.refund.function,
        {"order": {"id": "A1", "cents": 3}},
        contract=Write(idempotent=True),
    )
    assert json.loads(body.result.inline) == "A1 1 acme/s1/1/1"


def test_an_unknown_activity_names_what_is_loaded(bench, desk):
    runner = Runner(desk.app.activities, worker_id="w1", digest_key=b"k")
    body = runner.prepare(bench.task("find_odor", {}))
    assert isinstance(body, FailActivity)
    assert body.failure.kind == "unknown_activity"
    assert (
        body.failure.message
        == "no activity 'find_odor' is loaded here (loaded: find_order, refund, slow): "
        "deploy it to this queue's workers"
    )


@pytest.mark.parametrize(
    "arguments", [{}, {"order_id": 7}, {"order_id": "A", "colour": "red"}, [1], None]
)
def test_arguments_the_function_does_not_take_are_a_failure_that_names_them(bench, desk, arguments):
    runner = Runner(desk.app.activities, worker_id="w1", digest_key=b"k")
    body = runner.prepare(bench.task("find_order", arguments))
    assert isinstance(body, FailActivity)
    assert body.failure.kind == "wrong_arguments"
    assert "find_order does not take the recorded arguments" in body.failure.message


def test_an_exception_is_reported_with_type_message_and_the_tools_frames(bench):
    async def pay() -> None:
        raise LookupError("no such account")

    failure = outcome_of(bench, pay).failure
    assert (failure.kind, failure.type, failure.message) == (
        "raised",
        "LookupError",
        "no such account",
    )
    assert "in pay" in failure.detail
    assert 'raise LookupError("no such account")' in failure.detail


def test_a_traceback_shows_no_values_of_variables(bench):
    async def pay() -> None:
        secret = "hunter2-" * 2  # noqa: F841
        raise LookupError("no such account")

    assert "hunter2-hunter2-" not in outcome_of(bench, pay).failure.detail


def test_a_deep_traceback_is_cut_to_its_inner_end(bench):
    def dig(n: int) -> None:
        if n == 0:
            raise LookupError("bottom")
        dig(n - 1)

    async def pay() -> None:
        try:
            dig(50)
        except LookupError as error:
            raise ValueError("x" * 9_000) from error

    failure = outcome_of(bench, pay).failure
    assert len(failure.detail.encode()) <= 4_096
    assert len(failure.message) <= 1_000


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Exits(Exception):
    """Asks its process to end, with code 0, whatever is asked of it."""

    def __str__(self) -> str:
        raise SystemExit

    __repr__ = __str__

    @property
    def __dict__(self):
        raise SystemExit

    @property
    def __class__(self):
        raise SystemExit


class ExitsWhenTraced(Exception):
    @property
    def __notes__(self):
        raise SystemExit


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (Mute(), "<its message raised RuntimeError>"),
        (ExitsWhenTraced("a note"), "a note"),
        (ValueError("a\ud800b"), "a\\ud800b"),
        (ValueError("nul \x00"), "nul \x00"),
        (SystemExit(3), "3"),
        (KeyboardInterrupt("by itself"), "by itself"),
        (asyncio.CancelledError("by itself"), "by itself"),
        (TimeoutError("the tool's own"), "the tool's own"),
        (ExceptionGroup("several", [ValueError("one")]), "several (1 sub-exception)"),
    ],
)
def test_whatever_is_raised_is_a_failure_that_can_be_stored(bench, error, told):
    async def pay() -> None:
        raise error

    failure = outcome_of(bench, pay).failure
    assert (failure.kind, failure.message) == ("raised", told)


def test_an_error_that_exits_whatever_it_is_asked_is_a_failure(bench):
    async def pay() -> None:
        raise Exits

    def pay_sync() -> None:
        raise Exits

    one, task = runner_and_task(bench, pay_sync)
    for failure in (outcome_of(bench, pay).failure, perform_sync(one, one.prepare(task)).failure):
        assert failure.kind == "raised"
        assert failure.type.endswith(".Exits")
        assert failure.message == "<its message raised SystemExit>"


def test_an_attempt_that_outlives_its_limit_is_cancelled_and_timed_out(bench):
    ends = []

    async def pay() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise

    failure = outcome_of(bench, pay, start_to_close_ms=5).failure
    assert (failure.kind, failure.message) == (
        "timed_out",
        "pay did not finish within 5 ms and was cancelled",
    )
    assert ends == ["cancelled"]


def test_an_error_while_being_cancelled_is_still_a_time_out(bench):
    async def pay() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            raise ValueError("cleaning up failed")

    assert outcome_of(bench, pay, start_to_close_ms=5).failure.kind == "timed_out"


def test_a_result_that_comes_after_the_time_out_is_none(bench):
    async def pay() -> int:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        return 7

    assert outcome_of(bench, pay, start_to_close_ms=5).failure.kind == "timed_out"


def test_one_that_catches_the_first_cancellation_is_cancelled_again(bench, monkeypatch):
    monkeypatch.setattr(performing, "CLEAN_UP_MS", 5)

    async def pay() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        await asyncio.sleep(60)

    assert outcome_of(bench, pay, start_to_close_ms=5).failure.kind == "timed_out"


def test_the_workers_own_cancellation_goes_through_after_a_time_out(bench):
    struck = asyncio.Event()

    async def pay() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            struck.set()
            await asyncio.sleep(60)

    async def main() -> None:
        one, task = runner_and_task(bench, pay, start_to_close_ms=5)
        running = asyncio.create_task(perform(one, one.prepare(task)))
        await struck.wait()
        running.cancel("the worker stops")
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())


def exits(_value: Any) -> Any:
    raise SystemExit


async def returns_what_exits() -> Annotated[int, PlainSerializer(exits)]:
    return 1


def test_arguments_whose_validator_exits_are_a_failure(bench):
    async def pay(cents: Annotated[int, PlainValidator(exits)]) -> None: ...

    failure = outcome_of(bench, pay, {"cents": 1}).failure
    assert (failure.kind, failure.type) == ("wrong_arguments", "SystemExit")


def complains(_value: Any) -> Any:
    class Complaint(ValueError):
        def __str__(self) -> str:
            raise SystemExit

    raise Complaint


def test_arguments_whose_validator_complains_in_words_that_exit_are_a_failure(bench):
    async def pay(cents: Annotated[int, PlainValidator(complains)]) -> None: ...

    assert outcome_of(bench, pay, {"cents": 1}).failure.kind == "wrong_arguments"


async def returns_object() -> Any:
    return object()


async def returns_wrong_type() -> int:
    return "seven"  # type: ignore[return-value]


async def returns_nan() -> float:
    return float("nan")


async def returns_nan_in_any() -> dict[str, Any]:
    return {"price": float("nan")}


async def returns_bytes() -> bytes:
    return b"\xff"


async def returns_circle() -> Any:
    circle: list = []
    circle.append(circle)
    return circle


async def returns_deep() -> Any:
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    return deep


@pytest.mark.parametrize(
    "function",
    [
        returns_object,
        returns_wrong_type,
        returns_nan,
        returns_nan_in_any,
        returns_bytes,
        returns_circle,
        returns_deep,
        returns_what_exits,
    ],
)
def test_a_result_that_cannot_be_stored_is_a_failure_that_names_the_activity(bench, function):
    failure = outcome_of(bench, function).failure
    assert failure.kind == "unserialisable_result"
    assert function.__name__ in failure.message


def test_a_number_that_json_does_not_have_is_named_by_its_place_in_the_result(bench):
    told = outcome_of(bench, returns_nan_in_any).failure.message
    assert "field 'price' holds a number that JSON does not have (NaN or an infinity)" in told


def test_a_result_of_a_subclass_is_kept_as_the_declared_type(bench):
    class Paid(BaseModel):
        cents: int

    class Noted(Paid):
        note: str

    async def pays() -> Paid:
        return Noted(cents=7, note="thanks")

    assert outcome_of(bench, pays).result.inline == b'{"cents":7}'


def test_a_result_over_the_limit_names_size_and_limit(bench):
    async def read() -> str:
        return "x" * 300_000

    failure = outcome_of(bench, read).failure
    assert failure.kind == "result_too_large"
    assert "300002 bytes, the limit is 262144" in failure.message


def test_the_largest_result_is_stored(bench):
    async def read() -> str:
        return "x" * (262_144 - 2)

    assert isinstance(outcome_of(bench, read), CompleteActivity)


@pytest.mark.case("L26")
def test_nul_and_lone_surrogates_of_a_model_survive(bench):
    async def ask() -> dict[str, str]:
        return {"a": "cut \udc00 here", "whole": "\U0001f600 \x00"}

    body = outcome_of(bench, ask)
    assert json.loads(body.result.inline) == {
        "a": "cut \udc00 here",
        "whole": "\U0001f600 \x00",
    }


def test_a_result_reads_back_as_the_type_it_was_declared_with(bench, desk):
    body = outcome_of(bench, desk.find_order.function, {"order_id": "A1"})
    order = desk.find_order.result_type.validate_json(body.result.inline)
    assert type(order).__name__ == "Order"
