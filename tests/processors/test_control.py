"""A processor goes by the newest good policy from before its first command on, and says which it goes by."""

from collections.abc import Sequence

import pytest
from structlog.testing import capture_logs

from tests.processors.loops import Cluster
from wakeful.commands.identity import Identity
from wakeful.commands.policy import (
    EVERYBODY,
    NO_POLICY,
    NOBODY,
    OPEN_TO_ALL,
    POLICY_ERROR,
    Policy,
)
from wakeful.events import records as r
from wakeful.events.codec import decode_control, encode_control
from wakeful.events.headers import record_headers
from wakeful.events.log.memory_faults import Fate, NoFaults
from wakeful.processors.control import POLICY_KEY, Control, seen_key
from wakeful.processors.policies.cedar import load
from wakeful.processors.policies.sets import default_policies
from wakeful.processors.rollouts import rollout_key, rollout_seen_key

NAME = "desk.processors.0"


class Desk(Cluster):
    """A cluster whose processor reads the control topic."""

    def __init__(self, unpublished: Policy = NOBODY, **more: object) -> None:
        super().__init__(**more)
        self.unpublished = unpublished

    def control(self) -> Control:
        return Control(
            self.log,
            self.topics,
            NAME,
            load=load,
            identity=self.identity,
            unpublished=self.unpublished,
            now_ms=self.clock.now_ms,
        )

    def publish(
        self,
        members: Sequence[str],
        *,
        policies: str | None = None,
        version: int = 1,
        by: Identity | None = None,
        topic: str = "",
    ) -> None:
        """A set that `by` signs, as if for `topic`."""
        text = default_policies() if policies is None else policies
        roles = (r.RoleMembers("acme", "supervisor", tuple(members)),)
        made = r.PolicyPublished(version, 0, "root", "", text, roles, ())
        encoded = encode_control(made)
        where = (topic or self.topics.control, POLICY_KEY, encoded.value)
        mark = (by or self.identity).sign_published(made, *where)
        self.put(POLICY_KEY, encoded.value, [*record_headers(encoded, "policy"), *mark])

    def put(self, key: bytes, value: bytes | None, headers: object = ()) -> None:
        self.producer.produce(
            self.topics.control, key=key, value=value, headers=headers, partition=0
        )
        self.producer.flush(1_000)

    def seen(self) -> list[r.PolicySeen]:
        records = self.log.dump(self.topics.control)
        return [decode_control(x.value, x.headers) for x in records if x.key == seen_key(NAME)]

    def asked(self) -> None:
        """A refund waits for a supervisor, who was asked for by ann."""
        self.open()
        self.run()
        self.answer()
        self.run()

    def decided(self) -> r.EventBody:
        """What becomes of sue's approval."""
        self.approve()
        self.run()
        decisions = (r.ApprovalGranted, r.ApprovalRejected, r.CommandRefused)
        return [e.body for e in self.events() if isinstance(e.body, decisions)][-1]


def started(desk: Desk) -> Desk:
    desk.start(control=desk.control())
    desk.run()
    return desk


def test_what_was_published_before_the_start_counts_for_the_first_command() -> None:
    desk = Desk()
    desk.publish(["eve"])
    desk.publish(["sue"])
    started(desk).asked()
    granted = desk.decided()
    assert isinstance(granted, r.ApprovalGranted)
    assert granted.policy_ids == ("approver-has-the-role",)
    (seen,) = desk.seen()
    assert (seen.policy_offset, seen.policy_hash) == (1, granted.policy_hash)


def test_what_is_published_while_it_runs_counts_for_the_next_decision() -> None:
    desk = Desk()
    desk.publish(["eve"])
    started(desk).asked()
    refused = desk.decided()
    assert isinstance(refused, r.CommandRefused)
    assert (refused.check, refused.reason) == ("authority", "not_permitted")
    desk.publish(["sue"])
    assert isinstance(desk.decided(), r.ApprovalGranted)
    assert [seen.policy_offset for seen in desk.seen()] == [0, 2]  # its first word is between them


def test_an_event_says_up_to_where_the_control_topic_was_read() -> None:
    desk = started(Desk(EVERYBODY))
    desk.asked()
    desk.publish(["sue"])
    desk.decided()
    ends = [event.envelope.control_offset for event in desk.events()]
    assert (ends[0], ends[-1] in (1, 2)) == (0, True)


@pytest.mark.parametrize(
    ("unpublished", "kind", "reason", "may_decide"),
    [
        (NOBODY, r.CommandRefused, NO_POLICY, "nobody"),
        (EVERYBODY, r.ApprovalGranted, OPEN_TO_ALL, "everybody"),
    ],
)
def test_without_a_policy_it_goes_by_what_its_stack_says(
    unpublished: Policy, kind: type, reason: str, may_decide: str
) -> None:
    desk = Desk(unpublished)
    with capture_logs() as logs:
        started(desk).asked()
    body = desk.decided()
    assert isinstance(body, kind)
    assert reason in (getattr(body, "reason", ""), *getattr(body, "policy_ids", ()))
    [told] = [line for line in logs if line["event"] == "no policy is published"]
    assert told["may_decide"] == may_decide
    assert desk.seen() == []


def test_a_policy_that_is_taken_back_leaves_what_held_before() -> None:
    desk = Desk()
    desk.publish(["sue"])
    started(desk).asked()
    desk.put(POLICY_KEY, None)
    desk.run()
    refused = desk.decided()
    assert (refused.check, refused.reason) == ("authority", NO_POLICY)
    assert desk.seen()[-1].policy_hash is None


DAMAGED = ("bytes", "another record", "a set with a fault")


def damage(desk: Desk, how: str) -> None:
    if how == "another record":
        encoded = encode_control(r.PolicySeen("x", 0, None, 0))
        desk.put(POLICY_KEY, encoded.value, record_headers(encoded, "policy"))
    elif how == "bytes":
        desk.put(POLICY_KEY, b"\0\0")
    else:
        desk.publish(["sue"], policies="permit (principal, action, resource);")


@pytest.mark.parametrize("how", DAMAGED)
def test_a_damaged_policy_is_reported_and_the_last_good_one_stays(how: str) -> None:
    desk = Desk()
    desk.publish(["sue"])
    started(desk).asked()
    with capture_logs() as logs:
        damage(desk, how)
        desk.run()
    assert any(line["log_level"] == "error" and line["offset"] == 2 for line in logs)
    assert isinstance(desk.decided(), r.ApprovalGranted)
    assert [seen.policy_offset for seen in desk.seen()] == [0]


@pytest.mark.parametrize("how", DAMAGED)
def test_where_the_only_policy_is_damaged_nobody_may_even_on_an_open_stack(how: str) -> None:
    desk = Desk(EVERYBODY)
    damage(desk, how)
    started(desk).asked()
    refused = desk.decided()
    assert (refused.check, refused.reason) == ("authority", POLICY_ERROR)
    assert "at offset 0" in refused.detail


def test_a_processor_that_starts_again_says_again_what_it_goes_by() -> None:
    desk = Desk()
    desk.publish(["sue"])
    started(desk)
    desk.kill()
    started(desk)
    assert [seen.policy_offset for seen in desk.seen()] == [0, 0]


class LostWord(NoFaults):
    """The first word about policies is not delivered."""

    lost = 0

    def on_deliver(self, topic: str) -> Fate:
        if topic.endswith(".control.v1") and self.lost == 1:
            self.lost += 1
            return Fate.FAILED
        self.lost += topic.endswith(".control.v1")
        return Fate.OK


def test_a_word_that_is_not_delivered_is_said_again() -> None:
    faults = LostWord()
    desk = Desk(faults=faults)
    desk.publish(["sue"])
    started(desk)
    assert faults.lost > 1
    assert [seen.policy_offset for seen in desk.seen()] == [0]


def rolled_out(desk: Desk, version: int, number: int) -> None:
    made = r.RolloutSet(number, 0, "root", "", "desk", version, 100, None)
    encoded = encode_control(made)
    mark = desk.identity.sign_published(
        made, desk.topics.control, rollout_key("desk"), encoded.value
    )
    desk.put(rollout_key("desk"), encoded.value, [*record_headers(encoded, "r"), *mark])


def test_rollouts_are_read_before_the_first_command_and_told_with_what_is_loaded() -> None:
    desk = Desk(EVERYBODY)
    rolled_out(desk, 1, 1)
    control = desk.control()
    control._loaded = desk.app.loaded
    desk.start(control=control)
    desk.open()
    desk.run()
    (begun,) = [e for e in desk.events() if isinstance(e.body, r.TurnStarted)]
    assert begun.body.rollout_offset == 0 < begun.envelope.control_offset
    rolled_out(desk, 7, 2)
    desk.run()
    desk.open("s2")
    desk.run()
    (held,) = [e.body for e in desk.events() if isinstance(e.body, r.SessionHeld)]
    assert "gives it version 7 of workflow 'desk', which is not loaded here" in held.detail
    records = desk.log.dump(desk.topics.control)
    seen = [decode_control(x.value, x.headers) for x in records if x.key == rollout_seen_key(NAME)]
    newest = max(x.offset for x in records if x.key == rollout_key("desk"))
    assert [one.rollout_offset for one in seen] == [0, newest]
    assert r.Version("desk", "1") in seen[-1].loaded
