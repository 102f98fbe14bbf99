"""The world around the desk: customers who wait for their answers, a supervisor with a rule, and the board."""

import json

import pytest

from wakeful.commands.client import Client
from wakeful.commands.models import DecideApproval, SendMessage
from wakeful.commands.wire import decode_command
from wakeful.deploy.demo import approver
from wakeful.deploy.demo.approver import Approver
from wakeful.deploy.demo.board import Board
from wakeful.deploy.demo.customers import Customers
from wakeful.deploy.demo.messages import parse
from wakeful.deploy.demo.view import View, plain
from wakeful.events import records as r
from wakeful.events.log.memory import MemoryLog
from wakeful.events.log.memory_faults import Fate, NoFaults
from wakeful.events.topics import Topics

from .evidence import changed, clean, payload

TOPICS = Topics("desk")
WRITTEN = (
    ("ann", "first"),
    ("bob", "hello"),
    ("ann", "second"),
    ("ann", "third"),
)
LINES = [json.dumps({"customer": who, "text": text}).encode() for who, text in WRITTEN]


class Unreachable(NoFaults):
    """The first records are not acknowledged."""

    def __init__(self, failures: int) -> None:
        self.left = failures

    def on_deliver(self, topic):
        self.left -= 1
        return Fate.FAILED if self.left >= 0 else Fate.OK


class World:
    """A log, and the commands in it."""

    def __init__(self, failures: int = 0) -> None:
        self.log = MemoryLog(now_ms=lambda: 1_000, faults=Unreachable(failures))
        self.log.create_topics(TOPICS.specs(["desk"], 1))
        self.client = Client(
            self.log,
            TOPICS,
            tenant="local",
            actor="a",
            channel="t",
            digest_key=b"k",
            now_ms=lambda: 1,
        )

    def bodies(self, kind: type) -> list:
        records = self.log.dump(TOPICS.commands)
        commands = [decode_command(record.value, record.headers) for record in records]
        return [command.body for command in commands if isinstance(command.body, kind)]

    def texts(self) -> list[str]:
        return [json.loads(body.message.inline)["text"] for body in self.bodies(SendMessage)]


def test_a_customer_writes_again_when_the_answer_is_there() -> None:
    world = World()
    customers = Customers(world.client, parse(LINES, "in.jsonl"))
    customers.write(4)
    assert world.texts() == ["first", "hello"]
    customers.hear("s00002")
    customers.write(4)
    assert world.texts() == ["first", "hello"]
    customers.hear("s00001")
    customers.write(4)
    assert world.texts()[2:] == ["second"]
    assert customers.text_of("s00001") == "second"
    assert not customers.done


def test_it_is_over_when_every_message_has_its_answer() -> None:
    customers = Customers(World().client, parse(LINES, "in.jsonl"))
    for session_id in ("s00001", "s00002", "s00001", "s00001"):
        customers.write(4)
        assert not customers.done
        customers.hear(session_id)
    assert customers.done
    assert (customers.sent, customers.answered) == (4, 4)


def test_a_session_that_answers_no_more_is_not_waited_for() -> None:
    customers = Customers(World().client, parse(LINES, "in.jsonl"))
    customers.write(4)
    customers.hear("s00002")
    customers.lose("s00001")
    assert customers.done


def test_what_the_broker_did_not_take_is_sent_again() -> None:
    world = World(failures=2)
    customers = Customers(world.client, parse(LINES[:1], "in.jsonl"))
    customers.write(1)
    assert (world.texts(), customers.sent) == ([], 0)
    customers.write(1)
    assert (world.texts(), customers.sent) == (["first"], 1)


def proposal(cents: int) -> r.Outcome:
    action = payload({"order_id": "7", "cents": cents})
    where = ("local", "s00001", 7, 1_000, "approval_wanted", 1)
    return r.Outcome(*where, action, None, None, "refund", "p", bytes(32), 9_999)


@pytest.mark.parametrize(("cents", "decision"), [(100_000, "approve"), (100_001, "reject")])
def test_the_script_says_no_to_too_much(cents: int, decision: str, monkeypatch) -> None:
    monkeypatch.setattr(approver, "THINKS_S", 0.0)
    world = World()
    one = Approver(world.client, View(), asks=False, wrote=lambda _: "")
    one.hear(proposal(cents))
    one.hear(proposal(cents))
    assert (one.decide(), one.decide()) == (1, 0)
    (body,) = world.bodies(DecideApproval)
    assert (body.decision, body.proposal_id) == (decision, "p")


def test_one_that_is_left_is_not_decided_until_it_is_taken_back(monkeypatch) -> None:
    monkeypatch.setattr(approver, "THINKS_S", 0.0)
    world = World()
    one = Approver(world.client, View(), asks=False, wrote=lambda _: "", leaves=1)
    one.hear(proposal(20_000))
    one.hear(proposal(20_000))
    assert (one.decide(), one.left) == (0, {"s00001": "s00001/p"})
    one.take_back()
    assert (one.decide(), one.left, one.decided_elsewhere) == (1, {}, None)
    (body,) = world.bodies(DecideApproval)
    assert body.proposal_id == "p"


def test_one_that_is_left_is_decided_elsewhere_once_its_customer_has_an_answer() -> None:
    one = Approver(World().client, View(), asks=False, wrote=lambda _: "", leaves=1)
    one.hear_reply("s00001")  # to an earlier message
    assert one.decided_elsewhere is None
    one.hear(proposal(20_000))
    one.hear_reply("s00001")
    assert (one.decided_elsewhere, one.left, one.decide()) == ("s00001", {}, 0)


def test_all_but_one_have_their_answers() -> None:
    customers = Customers(World().client, parse(LINES, "in.jsonl"))
    customers.write(4)
    assert not customers.waits_only_for({"s00001"})
    customers.hear("s00002")
    assert customers.waits_only_for({"s00001"})  # who has more to write, too
    assert not customers.done


def test_the_board_follows_the_events() -> None:
    board = Board(3)
    evidence = clean()
    until = next(
        n for n, e in enumerate(evidence.events) if isinstance(e.body, r.ApprovalRequested)
    )
    for event in evidence.events[: until + 1]:
        board.hear(event)
    assert (board.approvals_open, board.sessions, board.answered) == (1, {"running": 1}, 0)
    for event in evidence.events[until + 1 :]:
        board.hear(event)
    assert (board.approvals_open, board.refunds_open) == (0, 0)
    assert (board.answered, board.recovered, board.sessions) == (3, 1, {"suspended": 2})
    assert plain(board).startswith("3/3 answered, 0 charges, 2 suspended, 0 kills, ")


def test_a_refund_that_is_not_known_to_be_done_is_open() -> None:
    board = Board(3)
    for event in changed(clean(), r.ActivityCompleted, lambda _: None, which=2).events:
        board.hear(event)
    assert board.refunds_open == 1
