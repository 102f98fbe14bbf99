"""A workflow that spins is held; the partition and everybody else's sessions go on."""

import contextlib
import gc
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.processors.desk import KEY, Desk, Hand, find_order, kinds
from tests.processors.loops import Cluster
from wakeful import Message, Turn, workflow
from wakeful.commands.check import Facts
from wakeful.commands.models import SendMessage
from wakeful.events.log.memory_faults import Fate, NoFaults
from wakeful.events.payloads import json_payload
from wakeful.processors.app import gather
from wakeful.processors.handler import CommandHandler
from wakeful.processors.time_limit import PARTS, STUBBORN, BorrowedTimeLimit, TimeLimit
from wakeful.processors.workflow.errors import WorkflowStuck


@workflow("desk", version=1)
async def spins(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Never comes back, and does not want to be told."""
    while True:
        try:
            while True:
                pass
        except Exception:
            continue


def test_a_workflow_that_spins_is_held_and_said_so() -> None:
    hand = Hand(spins, find_order)
    hand.handler = CommandHandler(hand.app, Facts(b"k"), limit=TimeLimit(0.05))
    began = time.monotonic()
    out = hand.open()
    assert time.monotonic() - began < 5
    assert kinds(out)[-2:] == ["SessionHeld", "CommandParked"]
    assert out[-2].reason == "workflow_stuck"
    assert "without a wait" in out[-2].detail


class Work:
    """Spins, though not for ever: a test ends whether the limit strikes or not."""

    def __init__(self) -> None:
        self.give_up = time.monotonic() + 90
        self.swallowed = 0
        self.let_go = self.ended = 0

    @property
    def goes_on(self) -> bool:
        return time.monotonic() < self.give_up

    def spin(self) -> None:
        while self.goes_on:
            pass


async def catches_the_first(work: Work) -> None:
    try:
        work.spin()
    except BaseException:
        work.swallowed += 1
    work.spin()


async def catches_whatever_comes(work: Work) -> None:
    while work.goes_on:
        try:
            work.spin()
        except BaseException:
            work.swallowed += 1


async def catches_it_within_itself(work: Work) -> None:
    while work.goes_on:
        try:
            await catches_whatever_comes(work)
        except BaseException:
            work.swallowed += 1


@pytest.mark.parametrize(
    "spins",
    [
        catches_the_first,
        catches_whatever_comes,
        catches_it_within_itself,
    ],
)
def test_a_workflow_that_swallows_its_interruption_is_interrupted_until_it_is_out(
    monkeypatch: pytest.MonkeyPatch, spins: Any
) -> None:
    # An alarm may meet what the interpreter cleans up, where nobody can catch it: it comes again.
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    work = Work()

    @workflow("desk", version=1)
    async def desk(turn: Turn, state: Desk, message: Message) -> Desk:
        if message.text == "spin":
            await spins(work)
        return state

    hand = Hand(desk, find_order)
    hand.open()
    hand.handler = CommandHandler(hand.app, Facts(b"k"), limit=TimeLimit(0.2))
    out = hand.say("spin")
    assert work.swallowed > 0
    assert kinds(out)[-2:] == ["SessionHeld", "CommandParked"]
    assert out[-2].reason == "workflow_stuck"


def test_a_process_gives_up_where_a_workflow_swallows_all_interruptions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By hand: real alarms come when they like, and would meet the test."""
    deaths: list[int] = []
    swallowed = 0
    limit = TimeLimit(3_600, give_up=lambda: deaths.append(swallowed), stubborn_s=0)
    with limit, monkeypatch.context() as patched:
        patched.setattr(signal, "setitimer", lambda *_: None)
        while not deaths:
            try:
                limit._interrupt(signal.SIGALRM, None)
            except WorkflowStuck:
                swallowed += 1
    assert deaths == [STUBBORN + 1]


def test_a_process_that_was_frozen_is_not_called_stuck() -> None:
    """The kernel keeps one alarm for a stopped process, not one for each that was due."""
    with TimeLimit(3_600):
        for _ in range(PARTS - 1):
            signal.raise_signal(signal.SIGALRM)
        with pytest.raises(WorkflowStuck, match="it ran for 3600 s without a wait"):
            signal.raise_signal(signal.SIGALRM)
    with TimeLimit(3_600):
        signal.raise_signal(signal.SIGALRM)  # counted anew


def test_the_limit_is_over_with_the_command() -> None:
    limit = TimeLimit(0.02)
    with limit:
        pass
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    signal.raise_signal(signal.SIGALRM)  # on its way when it was over


def test_the_limit_is_over_wherever_it_strikes() -> None:
    for number in range(2_000):
        with contextlib.suppress(WorkflowStuck), TimeLimit(1e-6 * (1 + number % 50), parts=1):
            pass
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.fixture
def alarms() -> Iterator[list[int]]:
    """Alarms of somebody else's, who is there before and after."""
    heard: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _frame: heard.append(number))
    try:
        yield heard
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_what_is_borrowed_is_there_again_afterwards(alarms: list[int]) -> None:
    signal.setitimer(signal.ITIMER_REAL, 3_600, 60)
    for number in range(2_000):
        limit = BorrowedTimeLimit(1e-6 * (1 + number % 50), parts=1)
        with contextlib.suppress(WorkflowStuck), limit:
            pass
        left_s, every_s = signal.getitimer(signal.ITIMER_REAL)
        assert 0 < left_s <= 3_600
        assert every_s == 60
    assert alarms == []
    signal.raise_signal(signal.SIGALRM)
    assert alarms == [signal.SIGALRM]


def test_an_alarm_that_was_due_meanwhile_comes_late_and_not_never(alarms: list[int]) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    began = time.monotonic()
    with BorrowedTimeLimit(3_600):
        while time.monotonic() < began + 0.1:
            pass
    while not alarms:
        assert time.monotonic() < began + 10
    assert alarms == [signal.SIGALRM]


def test_time_in_a_debugger_is_not_that_of_the_workflow() -> None:
    looks = "import signal\nfor _ in range(100): signal.raise_signal(signal.SIGALRM)"
    with BorrowedTimeLimit(3_600):
        exec(looks, {"__name__": "pdb"})
        for _ in range(PARTS - 1):
            signal.raise_signal(signal.SIGALRM)
        with pytest.raises(WorkflowStuck):
            signal.raise_signal(signal.SIGALRM)


def test_outside_of_the_main_thread_there_is_no_limit() -> None:
    met: list[BaseException] = []

    def use() -> None:
        try:
            with BorrowedTimeLimit(1e-6, parts=1):
                pass
        except BaseException as error:
            met.append(error)

    handler = signal.getsignal(signal.SIGALRM)
    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert (met, signal.getsignal(signal.SIGALRM)) == ([], handler)


class FailsOnce(NoFaults):
    """The next commit after `due` is refused."""

    due = False

    def on_commit(self, transactional_id: str) -> Fate:
        fails, self.due = self.due, False
        return Fate.FAILED if fails else Fate.OK


def ends_badly(work: Work) -> Any:
    """A turn that waits, and spins when it is let go."""

    @workflow("desk", version=1)
    async def desk(turn: Turn, state: Desk, message: Message) -> Desk:
        try:
            await turn.sleep("1h")
        finally:
            work.let_go += 1
            work.spin()
            work.ended += 1
        return state

    return desk


def test_a_coroutine_that_spins_while_it_is_evicted_is_left_where_it_stands() -> None:
    """Given parked sessions that do not want to end, when their partition goes, then each costs a moment."""
    work = Work()
    app = gather([ends_badly(work)])
    handler = CommandHandler(app, Facts(b"k"), last_words=TimeLimit(0.05))
    cluster = Cluster()
    cluster.app = app
    cluster.start(handler=handler)
    for name in ("s1", "s2"):
        cluster.open(name)
    cluster.run()
    assert cluster.facts("s2")[-1] == "SessionWaiting"
    for partition in cluster.loops[0]._partitions.values():
        partition.forget()
    assert (work.let_go, work.ended) == (2, 0)


@pytest.mark.parametrize("known", [False, True])
def test_one_whose_transaction_failed_is_let_go_within_the_limit_as_well(known: bool) -> None:
    work = Work()
    app = gather([ends_badly(work)])
    handler = CommandHandler(app, Facts(b"k"), last_words=TimeLimit(0.05))
    cluster = Cluster(faults=(faults := FailsOnce()))
    cluster.app = app
    cluster.start(handler=handler)
    if known:
        cluster.open()
        cluster.run()
    faults.due = True
    cluster.send(SendMessage(json_payload({"text": "more"}, KEY))) if known else cluster.open()
    cluster.run()
    gc.collect()
    assert not faults.due
    assert cluster.facts()[-1] == ("MessageReceived" if known else "SessionWaiting")
    assert (work.let_go, work.ended) == (1, 0)


def test_one_that_a_fault_of_the_engine_takes_back_is_let_go_within_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = Work()
    hand = Hand(ends_badly(work))
    hand.open()
    hand.handler = CommandHandler(hand.app, Facts(b"k"), last_words=TimeLimit(0.05))

    def fails(*_: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(hand.handler, "_park_if_waiting", fails)
    assert kinds(hand.say("more"))[-2:] == ["SessionHeld", "CommandParked"]
    assert (work.let_go, work.ended) == (1, 0)
