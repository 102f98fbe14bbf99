"""Children between processors: opened once, their end told once, cancelled with whoever waits for them, whatever crashes."""

from collections import Counter

import pytest

from tests.processors.desk import KEY, Desk
from tests.processors.loops import Cluster
from wakeful import ChildError, Message, Read, Turn, activity, workflow
from wakeful.commands.models import (
    CancelSession,
    Command,
    EndChild,
    OpenSession,
    StartChild,
)
from wakeful.commands.wire import decode_command
from wakeful.events import records as r
from wakeful.events.headers import OVER_QUOTA
from wakeful.events.keys import child_id_of, partition_of, session_key
from wakeful.events.state import CHILD_DEPTH_MAX
from wakeful.processors.quotas import Quotas
from wakeful.processors.rates import Rate

PARTITIONS = 3


@activity(contract=Read(), untrusted=True)
async def browse(topic: str) -> str:
    """Reads what strangers wrote."""
    return topic


@workflow("researcher", version=1)
async def researcher(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Does as its message says: answers, reads first, fails, sleeps, or passes the rest on to a child of its own."""
    word, _, rest = message.text.partition(" ")
    match word:
        case "read":
            await turn.run(browse.call(rest))
        case "fail":
            await turn.job("never", within="1s")
        case "wait":
            await turn.signal("go")
        case "raise":
            raise ValueError(rest)
        case "pass":
            await turn.complete(await turn.child(researcher, rest, within="2h"))
            return desk
        case "loop":
            await turn.child("researcher", "loop", within="2h")
    await turn.complete(f"{rest or word} for {message.actor}")
    return desk


@workflow("editor", version=1)
async def editor(turn: Turn, desk: Desk, message: Message) -> Desk:
    """One child per line of its message; the first of them where that begins with `first`."""
    race, *lines = message.text.split("\n")
    asked = [turn.child(researcher, line, within="1h", expect=str) for line in lines]
    try:
        if race == "halt":
            await asked[0]
            raise ValueError(race)
        if race == "first":
            await turn.say((await turn.first(*asked)).value)
        elif race == "leave":
            await turn.say("left")
        elif race == "strict":
            await turn.say([await one for one in reversed(asked)])
        else:
            await turn.say(list(await turn.gather(*asked)))
    except ChildError as error:
        if race == "strict":
            raise
        await turn.say(f"{error.failure.kind} {error.failure.type}: {error}")
    return desk


@workflow("lost", version=1)
async def lost(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Asks for what nobody has loaded."""
    try:
        await turn.child("nobody", None, within="1h")
    except ChildError as error:
        await turn.say(f"{error.failure.kind} {error.failure.type}")
    return desk


APP = (editor, researcher, lost, browse)


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster(partitions=PARTITIONS, more=APP)
    made.start()
    return made


def settle(cluster: Cluster) -> None:
    """Until nothing moves."""
    before = -1
    while before != (now := len(cluster.events()) + len(commands(cluster))):
        before = now
        cluster.run()


def open_(cluster: Cluster, *lines: str, race: str = "all") -> None:
    cluster.open(text="\n".join((race, *lines)), workflow="editor")
    settle(cluster)


def children(cluster: Cluster) -> list[str]:
    return [
        event.body.child_id
        for event in cluster.events("s1")
        if isinstance(event.body, r.ChildStarted)
    ]


def replies(cluster: Cluster) -> list[str]:
    return [o.message.inline.decode() for o in cluster.outcomes() if o.kind == "reply"]


def commands(cluster: Cluster, *kinds: type) -> list[Command]:
    found = (decode_command(x.value, x.headers) for x in cluster.log.dump(cluster.topics.commands))
    return [command for command in found if not kinds or isinstance(command.body, kinds)]


def parents(cluster: Cluster) -> list[r.Parent]:
    """Of all children, from the first generation on."""
    found = (event.body.parent for event in facts_of(cluster, r.SessionOpened))
    return sorted((one for one in found if one is not None), key=lambda one: one.depth)


def facts_of(cluster: Cluster, kind: type) -> list[r.Event]:
    return [event for event in cluster.events() if isinstance(event.body, kind)]


def test_children_run_where_their_keys_say_and_their_outcomes_come_back(cluster: Cluster) -> None:
    open_(cluster, *(f"answer {n}" for n in range(12)))
    ids = children(cluster)
    homes = {partition_of(session_key("acme", one), PARTITIONS) for one in ids}
    assert homes == set(range(PARTITIONS))
    (reply,) = replies(cluster)
    assert reply.startswith('["0 for ann","1 for ann"')
    assert reply.endswith('"11 for ann"]')
    assert cluster.facts(ids[0]) == [
        "SessionOpened",
        "MessageReceived",
        "TurnStarted",
        "SessionCompleted",
    ]


def test_a_child_acts_for_whom_its_parent_acts(cluster: Cluster) -> None:
    open_(cluster, "pass read news")
    cluster.answer()
    settle(cluster)
    (task,) = cluster.tasks()
    assert task.on_behalf_of == "ann"
    opened = [e.envelope for e in facts_of(cluster, r.SessionOpened) if e.body.parent is not None]
    assert {(e.actor, e.on_behalf_of) for e in opened} == {
        ("workflow:editor", "ann"),
        ("workflow:researcher", "ann"),
    }
    assert [one.depth for one in parents(cluster)] == [1, 2]


def test_what_a_child_read_taints_whoever_takes_its_outcome(cluster: Cluster) -> None:
    open_(cluster, "pass read news")
    cluster.answer()
    settle(cluster)
    completed = [event.body.tainted_by for event in facts_of(cluster, r.ChildCompleted)]
    assert completed == [("browse",), ("browse",)]


def test_a_child_that_fails_is_an_error_in_its_parent(cluster: Cluster) -> None:
    open_(cluster, "fail")
    cluster.clock.ms += 2_000
    settle(cluster)
    assert replies(cluster) == [
        '{"text":"child_failed job_expired: child researcher failed: nobody said in time what became of it"}'
    ]


def test_a_child_that_takes_too_long_is_cancelled(cluster: Cluster) -> None:
    open_(cluster, "wait", "pass wait")
    cluster.clock.ms += 3_500_000
    settle(cluster)
    assert Counter(cluster.facts())["ChildExpired"] == 0
    cluster.clock.ms += 100_000
    settle(cluster)
    assert replies(cluster) == [
        '{"text":"child_expired : child researcher expired: it had not ended in time, and is cancelled"}'
    ]
    states = {event.envelope.session_id: type(event.body) for event in cluster.events()}
    assert states.pop("s1") is r.LateChildRecorded
    assert set(states.values()) <= {r.SessionCancelled, r.SessionFailed}


def test_a_child_has_no_more_time_than_its_parent(cluster: Cluster) -> None:
    open_(cluster, "pass pass wait")
    first, *others = parents(cluster)
    assert {one.deadline_ms for one in others} == {first.deadline_ms}


def test_an_unknown_workflow_is_told_to_its_parent(cluster: Cluster) -> None:
    cluster.open(workflow="lost")
    settle(cluster)
    assert replies(cluster) == ['{"text":"child_not_started unknown_workflow"}']
    assert [letter.reason for letter in cluster.dead()] == ["unknown_workflow"]


def test_whoever_loses_is_cancelled_and_its_end_is_recorded_as_late(cluster: Cluster) -> None:
    open_(cluster, "wait", "answer now", race="first")
    slow, fast = children(cluster)
    assert replies(cluster) == ['{"text":"now for ann"}']
    assert cluster.facts(slow)[-1] == "SessionCancelled"
    assert cluster.facts(fast)[-1] == "SessionCompleted"
    assert cluster.facts()[-1] == "LateChildRecorded"


def test_a_child_that_nobody_awaits_ends_with_the_turn(cluster: Cluster) -> None:
    open_(cluster, "wait", race="leave")
    (slow,) = children(cluster)
    assert cluster.facts(slow)[-1] == "SessionCancelled"
    assert "ChildWithdrawn" in cluster.facts()


def test_a_cancellation_reaches_children_of_children_and_waits_for_them(cluster: Cluster) -> None:
    open_(cluster, "pass pass wait", "wait", "answer x")
    cluster.send(CancelSession("enough"), "s1")
    settle(cluster)
    states = {event.envelope.session_id: event.body for event in cluster.events()}
    assert len(states) == 6
    assert sum(isinstance(one, r.SessionCompleted) for one in states.values()) == 1
    assert sum(isinstance(one, r.SessionCancelled) for one in states.values()) == 5
    assert [one.end for one in states["s1"].children] == ["cancelled"] * 2
    asked = facts_of(cluster, r.CancellationRequested)
    assert {event.envelope.actor for event in asked} == {"ann"}


def test_a_failure_that_nobody_catches_cancels_the_other_children_first(cluster: Cluster) -> None:
    open_(cluster, "wait", "fail", race="strict")
    cluster.clock.ms += 2_000
    settle(cluster)
    slow, _ = children(cluster)
    assert cluster.facts()[-4:] == [
        "ChildFailed",
        "CompensationStarted",
        "ChildCancelled",
        "SessionFailed",
    ]
    assert cluster.facts(slow)[-1] == "SessionCancelled"
    (failed,) = [
        e.body for e in facts_of(cluster, r.SessionFailed) if e.envelope.session_id == "s1"
    ]
    assert failed.failure.kind == "child_failed"
    assert failed.children == (r.ChildEnd(slow, "cancelled"),)


def test_a_workflow_that_opens_itself_comes_to_an_end(cluster: Cluster) -> None:
    open_(cluster, "loop")
    settle(cluster)
    assert [one.depth for one in parents(cluster)] == list(range(1, CHILD_DEPTH_MAX + 1))
    (held,) = facts_of(cluster, r.SessionHeld)
    assert held.body.reason == "workflow_misuse"


def test_a_quota_is_a_failure_in_the_parent() -> None:
    cluster = Cluster(partitions=1, more=APP)
    cluster.start(quotas=Quotas(sessions=Rate(2, 60_000)))
    open_(cluster, "answer a", "answer b")
    (reply,) = replies(cluster)
    assert f"child_not_started {OVER_QUOTA}" in reply
    assert [letter.reason for letter in cluster.dead()] == [OVER_QUOTA]


def test_many_children_make_no_event_large(cluster: Cluster) -> None:
    open_(cluster, *(f"pass wait {n}" for n in range(50)))
    cluster.send(CancelSession("enough"), "s1")
    settle(cluster)
    sizes = [len(x.value) for x in cluster.log.dump(cluster.topics.events)]
    assert max(sizes) < 12_000
    assert len(facts_of(cluster, r.SessionCancelled)) == 101


def told_once(cluster: Cluster, count: int) -> None:
    """Each child is opened by one command and tells its end by one, and both are one fact."""
    starts = [command.header.session_id for command in commands(cluster, StartChild)]
    ends = [command.header.command_id for command in commands(cluster, EndChild)]
    assert len(starts) == len(set(starts)) == count
    assert len(ends) == len(set(ends)) == count
    assert len(parents(cluster)) == len(facts_of(cluster, r.ChildCompleted)) == count


@pytest.mark.case("L35")
@pytest.mark.case("U6")
@pytest.mark.parametrize(
    "point", ["p.begun", "p.offsets_sent", "p.produced", "p.commit_sent", "p.committed", "p.stored"]
)
@pytest.mark.parametrize("passes", [1, 2, 3, 4])
def test_a_crash_anywhere_opens_no_child_twice(cluster: Cluster, point: str, passes: int) -> None:
    cluster.open(text="all\nanswer a\npass answer b", workflow="editor")
    for _ in range(passes):
        cluster.step_to(point)
    cluster.kill()
    cluster.clock.ms += 20_000
    cluster.start()
    settle(cluster)
    assert replies(cluster) == ['["a for ann","b for ann"]']
    told_once(cluster, 3)


def test_a_second_processor_takes_over_half_of_a_family(cluster: Cluster) -> None:
    open_(cluster, *("wait" for _ in range(6)), race="first")
    cluster.start(1, always_replay=True)
    settle(cluster)
    cluster.send(CancelSession("enough"), "s1")
    settle(cluster)
    assert len(facts_of(cluster, r.SessionCancelled)) == 7


def test_a_child_that_is_held_is_cancelled_with_its_parent(cluster: Cluster) -> None:
    open_(cluster, "raise it")
    (child,) = children(cluster)
    assert cluster.facts(child)[-1] == "SessionHeld"
    cluster.send(CancelSession("enough"), "s1")
    settle(cluster)
    assert (cluster.facts(child)[-1], cluster.facts()[-1]) == ("SessionCancelled",) * 2


def test_an_end_that_came_while_its_parent_was_held_is_not_waited_for(cluster: Cluster) -> None:
    open_(cluster, "answer a", "wait", race="halt")
    _, slow = children(cluster)
    assert cluster.facts()[-1] == "SessionHeld"
    cluster.send(CancelSession("nobody needs it"), slow, actor="bob")
    settle(cluster)
    assert cluster.facts()[-1] == "CommandParked"
    cluster.send(CancelSession("enough"), "s1")
    settle(cluster)
    assert cluster.facts()[-2:] == ["ChildCancelled", "SessionCancelled"]


def test_what_somebody_copies_changes_nothing(cluster: Cluster) -> None:
    open_(cluster, "answer a", "pass answer b")
    before = len(cluster.events())
    for record in cluster.log.dump(cluster.topics.commands):
        command = decode_command(record.value, record.headers)
        if isinstance(command.body, StartChild | EndChild):
            cluster.raw(record.key, record.value, record.headers)
    settle(cluster)
    assert len(cluster.events()) == before


def test_a_session_that_has_its_id_already_is_no_child(cluster: Cluster) -> None:
    taken = child_id_of("acme", "s1", "1.1", KEY)
    cluster.send(OpenSession("researcher"), taken)
    open_(cluster, "answer a")
    (reply,) = replies(cluster)
    assert reply.startswith('{"text":"child_not_started already_open')


def test_wake_ups_are_sent_though_a_mark_is_the_last_of_its_commands(cluster: Cluster) -> None:
    """A transaction that wrote to a partition of commands leaves a mark there, which nobody is given."""
    open_(cluster, "fail", "fail", "fail")
    cluster.kill()
    cluster.clock.ms += 20_000
    cluster.start()
    settle(cluster)
    assert replies(cluster)
