"""A worker and attempts: what it reports of a failure, and what a later attempt is to it."""

import math
from decimal import Decimal
from fractions import Fraction

import pytest

from wakeful import RetryLater
from wakeful.agents import RateLimited, ScriptedModel, chat
from wakeful.commands.models import CompleteActivity, FailActivity
from wakeful.events.records import Failure
from wakeful.events.retries import may_retry
from wakeful.processors.activities.contracts import Read, Retry
from wakeful.processors.activities.definitions import activity
from wakeful.processors.activities.telling import retry_after_of
from wakeful.processors.app import gather


def test_the_time_a_tool_asks_for_travels_with_its_failure(bench, hand):
    @activity(contract=Read(), retry=Retry())
    async def busy(n: int) -> int:
        raise RetryLater("30s", "come back")

    bench.desk.app.activities["busy"] = busy
    bench.put(bench.task("busy", {"n": 1}))
    hand.work()
    [report] = bench.results()
    assert isinstance(report.body, FailActivity)
    failure = report.body.failure
    assert (failure.kind, failure.message, failure.retry_after_ms) == (
        "raised",
        "come back",
        30_000,
    )
    assert failure.type.endswith(".RetryLater")


class Hostile(Exception):
    """Its time to come back raises when it is asked for."""

    @property
    def retry_after_ms(self) -> int:
        raise RuntimeError("no time")


@pytest.mark.parametrize(
    "asked",
    [None, True, -1, -0.5, 2**70, 10**400, "5", math.nan, math.inf, Decimal("sNaN"), 5j],
)
def test_only_a_number_of_milliseconds_is_a_time_to_come_back(asked):
    assert retry_after_of(RateLimited("slow down", retry_after_ms=asked)) is None
    assert retry_after_of(Hostile()) is None


@pytest.mark.parametrize(
    ("asked", "ms"),
    [(5_000, 5_000), (1500.5, 1501), (0.5, 1), (Decimal("1500.1"), 1501), (Fraction(7, 2), 4)],
)
def test_parts_of_a_millisecond_are_rounded_up(asked, ms):
    assert retry_after_of(RateLimited("slow down", retry_after_ms=asked)) == ms


def test_a_model_is_asked_again_but_for_what_is_final():
    policy = chat(ScriptedModel(["a"])).retry.policy
    assert not may_retry(policy, 1, Failure("raised", "wakeful.agents.Refused", "", ""))
    assert may_retry(policy, 1, Failure("raised", "wakeful.agents.StreamCut", "", ""))


def test_another_attempt_runs_with_the_same_key_and_is_not_fresh(bench, hand):
    hand.take()  # joins, and notes where the partitions end
    bench.put(
        *(bench.task("refund", {"order": {"id": "o", "cents": 1}}, attempt=n) for n in (1, 2))
    )
    assert [(job.task.attempt, job.fresh) for job in hand.work()] == [(1, True), (2, False)]
    keys = {what for _, what in bench.desk.calls.made}
    assert keys == {"acme/s1/1/1"}
    assert [report.header.command_id for report in bench.results()] == [
        "acme/s1/1/1#1",
        "acme/s1/1/1#2",
    ]
    assert all(isinstance(report.body, CompleteActivity) for report in bench.results())


def test_an_app_says_the_policies_of_its_activities():
    @activity(contract=Read(), retry=Retry(attempts=3))
    async def ask(n: int) -> int:
        return n

    @activity(contract=Read())
    async def once(n: int) -> int:
        return n

    app = gather([ask, once])
    assert app.activities["ask"].retry.policy.attempts_max == 3
    assert app.activities["once"].retry.policy is None
