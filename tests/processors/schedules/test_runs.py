"""Runs between processors: set to work once, in the name of whoever made the schedule, whatever crashes and is copied."""

import pytest

from tests.processors.desk import KEY, Desk
from tests.processors.loops import Cluster
from wakeful import Message, Turn, workflow
from wakeful.commands.models import (
    CancelSession,
    OpenSession,
    SendMessage,
    SendSignal,
    StartRun,
)
from wakeful.commands.wire import decode_command
from wakeful.events import records as r
from wakeful.events.headers import OVER_QUOTA
from wakeful.events.keys import partition_of, session_key
from wakeful.events.payloads import json_payload
from wakeful.processors.quotas import Quotas
from wakeful.processors.rates import Rate
from wakeful.processors.schedules.workflow import schedule

PARTITIONS = 3
HOUR_MS = 3_600_000
TAKEN = "hourly-20270115T090000Z"


@workflow("report", version=1)
async def report(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Says what it was asked, for whom; at length where it is told to wait."""
    if message.data == "wait":
        await turn.signal("go")
    await turn.say(f"{message.trigger} for {message.actor}: {message.data}")
    return desk


def settle(cluster: Cluster) -> None:
    """Until nothing moves."""
    before = -1
    while before != (now := len(cluster.events()) + len(cluster.log.dump(cluster.topics.commands))):
        before = now
        cluster.run()


def begin(cluster: Cluster, **given) -> None:
    spec = {"name": "hourly", "cron": "0 * * * *", "workflow": "report", **given}
    cluster.send(OpenSession("wakeful.schedule"), "schedule.hourly")
    cluster.send(SendMessage(json_payload(spec, KEY)), "schedule.hourly")


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster(partitions=PARTITIONS, more=(schedule, report))
    made.start()
    return made


def passes(cluster: Cluster, hours: int = 1) -> None:
    for _ in range(hours):
        cluster.clock.ms += HOUR_MS
        settle(cluster)


def started(cluster: Cluster) -> list[r.RunStarted]:
    return [e.body for e in cluster.events() if isinstance(e.body, r.RunStarted)]


def replies(cluster: Cluster) -> list[str]:
    return [o.message.inline.decode() for o in cluster.outcomes() if o.kind == "reply"]


def commands(cluster: Cluster) -> list:
    found = [
        (x, decode_command(x.value, x.headers)) for x in cluster.log.dump(cluster.topics.commands)
    ]
    return [(record, one) for record, one in found if isinstance(one.body, StartRun)]


def test_each_time_a_session_of_its_own_is_set_to_work_for_whoever_made_the_schedule(cluster):
    begin(cluster, data={"top": 3})
    settle(cluster)
    passes(cluster, 6)
    ids = [run.run_id for run in started(cluster)]
    assert len(set(ids)) == 6
    assert len({partition_of(session_key("acme", one), PARTITIONS) for one in ids}) > 1
    assert replies(cluster) == ['{"text":"schedule for ann: {\'top\': 3}"}'] * 6
    assert cluster.facts(ids[0]) == [
        "SessionOpened",
        "TriggerReceived",
        "TurnStarted",
        "ReplySent",
        "TurnCompleted",
    ]
    (opened, *_) = cluster.events(ids[0])
    assert {one.name: one.value for one in opened.body.attributes}["scheduled_by"] == "hourly"
    assert (opened.envelope.actor, opened.envelope.channel) == ("ann", "run")


def test_a_run_goes_on_where_its_schedule_has_ended(cluster):
    begin(cluster, data="wait")
    settle(cluster)
    passes(cluster)
    cluster.send(CancelSession("no more"), "schedule.hourly")
    settle(cluster)
    (run,) = started(cluster)
    cluster.send(SendSignal("go", json_payload(None, KEY)), run.run_id)
    settle(cluster)
    passes(cluster, 2)
    assert replies(cluster) == ['{"text":"schedule for ann: wait"}']


def test_a_named_session_is_opened_once_and_skipped_while_its_turn_is_open(cluster):
    begin(cluster, session="desk-1", data="wait")
    settle(cluster)
    passes(cluster, 3)
    assert cluster.facts("desk-1").count("SessionOpened") == 1
    refusals = [e.body for e in cluster.events("desk-1") if isinstance(e.body, r.CommandRefused)]
    assert [(one.command_type, one.reason) for one in refusals] == [
        ("StartRun", "still_running")
    ] * 2
    cluster.send(SendSignal("go", json_payload(None, KEY)), "desk-1")
    settle(cluster)
    passes(cluster)
    assert cluster.facts("desk-1").count("TurnStarted") == 2


def test_where_it_allows_runs_queue_in_a_named_session(cluster):
    begin(cluster, session="desk-1", data="wait", overlap="allow")
    settle(cluster)
    passes(cluster, 3)
    assert cluster.facts("desk-1").count("TriggerReceived") == 3
    for _ in range(3):
        cluster.send(SendSignal("go", json_payload(None, KEY)), "desk-1")
    settle(cluster)
    assert len(replies(cluster)) == 3


def test_a_session_that_has_the_id_of_a_run_is_left_alone(cluster):
    cluster.open(TAKEN, workflow="report")
    begin(cluster)
    settle(cluster)
    passes(cluster)
    assert [run.run_id for run in started(cluster)] == [TAKEN]
    refused = cluster.events(TAKEN)[-1].body
    assert (refused.command_type, refused.reason) == ("StartRun", "already_open")
    assert replies(cluster) == ["""{"text":"message for ann: {'text': 'hello'}"}"""]


def test_what_nobody_has_loaded_is_told_in_the_dead_letters(cluster):
    begin(cluster, workflow="nobody")
    settle(cluster)
    passes(cluster, 2)
    assert [letter.reason for letter in cluster.dead()] == ["unknown_workflow"] * 2
    assert len(started(cluster)) == 2


def test_a_run_counts_as_a_new_session_of_its_tenant():
    cluster = Cluster(partitions=1, more=(schedule, report))
    cluster.start(quotas=Quotas(sessions=Rate(2, 86_400_000), commands=Rate(2, 86_400_000)))
    begin(cluster, catch_up="all")
    settle(cluster)
    cluster.clock.ms += 5 * HOUR_MS
    settle(cluster)
    assert len(started(cluster)) == 5
    assert [letter.reason for letter in cluster.dead()] == [OVER_QUOTA] * 3
    assert len(replies(cluster)) == 2


def test_what_somebody_copies_starts_no_second_run(cluster):
    begin(cluster, session="desk-1")
    settle(cluster)
    passes(cluster, 2)
    before = len(cluster.events())
    for record, _ in commands(cluster):
        cluster.raw(record.key, record.value, record.headers)
    settle(cluster)
    assert len(cluster.events()) == before
    assert len(replies(cluster)) == 2


@pytest.mark.parametrize(
    "point", ["p.begun", "p.offsets_sent", "p.produced", "p.commit_sent", "p.committed", "p.stored"]
)
@pytest.mark.parametrize("passed", [1, 2])
def test_a_crash_anywhere_sets_no_run_to_work_twice_or_never(cluster, point, passed):
    begin(cluster)
    settle(cluster)
    cluster.clock.ms += HOUR_MS
    for _ in range(passed):
        cluster.step_to(point)
    cluster.kill()
    cluster.clock.ms += 20_000
    cluster.start()
    settle(cluster)
    runs = started(cluster)
    assert len(runs) == len(commands(cluster)) == len(replies(cluster)) == 1
