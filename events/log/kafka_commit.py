"""A synchronous commit of a group's offsets that comes back within a bound.

`Consumer.commit` has no time-out: with a broker that is frozen it was measured to block for minutes, and the watchdog would end
a worker with all that it is running. So a thread makes the call, and its caller waits for so long and no longer. It is
one thread for all commits, started by the first: starting one costs as much as everything else of a commit together.
"""

from __future__ import annotations

import threading
from queue import Empty, SimpleQueue

from confluent_kafka import Consumer, KafkaException, TopicPartition

from .kafka_client import fault_of
from .protocol import LogFault

JOIN_WAIT_S = (
    5.0  # a consumer must not be closed under a commit; then it is left to the end of the process
)

Answer = list[TopicPartition] | BaseException
Asked = tuple[list[TopicPartition], SimpleQueue[Answer]]
"""What to commit, and where the answer is put; each commit has its own, so none is taken for another's."""


class OffsetCommits:
    """One commit at a time: while an earlier one has no answer, every other is refused, so none can overtake it."""

    def __init__(self, consumer: Consumer, group: str, wait_s: float) -> None:
        self._consumer = consumer
        self._group = group
        self._wait_s = wait_s
        self._asked: SimpleQueue[Asked | None] | None = None  # of the thread, while there is one
        self._owed: SimpleQueue[Answer] | None = None  # the answer that nobody has taken yet

    def commit(self, offsets: list[TopicPartition]) -> None:
        """Raises `LogFault` where the commit was refused, or has not been answered in time and may yet be applied."""
        if self._owed is not None and self._owed.empty():
            raise LogFault(f"an earlier commit in group {self._group} has no answer yet")
        if self._asked is None:
            self._asked = self._start()
        owed = self._owed = SimpleQueue[Answer]()
        self._asked.put((offsets, owed))
        try:
            answer = owed.get(timeout=self._wait_s)
        except Empty:
            raise LogFault(
                f"a commit in group {self._group} was not answered in {self._wait_s:.0f} s; it may yet be applied"
            ) from None
        self._owed = None
        if isinstance(answer, KafkaException):
            raise fault_of(answer, f"committing in group {self._group}") from answer
        if isinstance(answer, BaseException):
            raise answer
        for each in answer:
            if each.error is not None:
                raise fault_of(
                    each.error, f"committing {each.topic}[{each.partition}]@{each.offset}"
                )

    def finished(self) -> bool:
        """Waits a little for an unanswered commit; whether the consumer may be closed."""
        if self._owed is not None:
            try:
                self._owed.get(timeout=JOIN_WAIT_S)
            except Empty:
                return False
            self._owed = None
        return True

    def close(self) -> None:
        """Ends the thread, once it has answered; a commit after this starts another. Again, it does nothing."""
        if self._asked is not None:
            self._asked.put(None)
            self._asked = None

    def _start(self) -> SimpleQueue[Asked | None]:
        asked = SimpleQueue[Asked | None]()
        threading.Thread(
            target=self._run, args=(asked,), name="commit-offsets", daemon=True
        ).start()
        return asked

    def _run(self, asked: SimpleQueue[Asked | None]) -> None:
        while (taken := asked.get()) is not None:
            offsets, owed = taken
            try:
                owed.put(self._consumer.commit(offsets=offsets, asynchronous=False) or [])
            except BaseException as error:  # noqa: BLE001 raised from commit, in the caller's thread
                owed.put(error)
