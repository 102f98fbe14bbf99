"""The same commands in one batch or in many, kept or replayed: one history, for programs of every kind of wait."""

import random

import pytest
from tests.processors.desk import KEY
from tests.processors.workflow.hands import ACTIVITIES, Hand
from tests.processors.workflow.programs import code_of, drawn, move

from wakeful.commands.check import Facts
from wakeful.commands.policy import EVERYBODY
from wakeful.commands.wire import encode_command
from wakeful.events.headers import record_headers
from wakeful.events.keys import session_key
from wakeful.events.log.memory import MemoryLog
from wakeful.events.topics import Topics
from wakeful.processors.handler import CommandHandler
from wakeful.processors.loop import Loop, LoopSettings
from wakeful.processors.session import Received, Session

GROUP = "g"


class LogClock:
    """The log's time; the owner's stands still long ago, so that it wakes nobody."""

    ms = 0

    def log_ms(self) -> int:
        return self.ms

    def now_ms(self) -> int:
        return 0

    def steady_ms(self) -> int:
        return self.ms


class Noting:
    """A handler that notes what it was given."""

    def __init__(self, handler: CommandHandler) -> None:
        self.handler = handler
        self.received: list[Received] = []

    def handle(self, session: Session, received: Received) -> object:
        self.received.append(received)
        return self.handler.handle(session, received)


def fold(commands: list[Received], hand: Hand, *, batch: int, replay: bool) -> list[bytes | None]:
    clock, topics = LogClock(), Topics("n")
    log = MemoryLog(now_ms=clock.log_ms)
    log.create_topics(topics.specs(hand.app.queues, 1))
    producer = log.producer()
    for received in commands:
        clock.ms = received.timestamp_ms
        encoded, header = encode_command(received.command), received.command.header
        producer.produce(
            topics.commands,
            key=session_key(header.tenant, header.session_id),
            value=encoded.value,
            headers=tuple(record_headers(encoded, header.command_id)),
            partition=0,
        )
    handler = CommandHandler(hand.app, Facts(KEY, policy=EVERYBODY), always_replay=replay)
    settings = LoopSettings(GROUP, f"{GROUP}-0", None, batch_records=batch)
    loop = Loop(log, topics, handler, settings, clock)
    polls = 0
    for point in loop.steps():
        polls = polls + 1 if point == "p.polled" else 0
        loop.stopping = polls > 3
    return [record.value for record in log.dump(topics.events)]


@pytest.mark.case("U7")
@pytest.mark.parametrize("seed", range(12))
def test_batches_and_replay_change_nothing(seed: int) -> None:
    chance = random.Random(seed)
    hand = Hand(code_of(drawn(chance, guards=True), guarded=True), *ACTIVITIES)
    hand.handler = noting = Noting(hand.handler)
    hand.open("go")
    for _ in range(24):
        move([hand], chance)
    folds = [
        fold(noting.received, hand, batch=batch, replay=replay)
        for batch, replay in ((1, False), (64, False), (1, True), (64, True))
    ]
    assert len(folds[0]) == len(hand.log)
    assert folds[0] == folds[1] == folds[2] == folds[3]
