"""A worker and attempts: what it reports of a failure, and what a later attempt is to it."""

from wakeful import RetryLater
from wakeful.commands.models import CompleteActivity, FailActivity
from wakeful.processors.activities.contracts import Read, Retry
from wakeful.processors.activities.definitions import activity
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
