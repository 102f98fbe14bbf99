"""A synchronous commit of a group's offsets that comes back within a bound.

`Consumer.commit` has no time-out: with a broker that is frozen it was measured to block for minutes, and the watchdog would end
a worker with all that it is running. So a thread makes the call, and its caller waits for so long and no longer.
"""

from __future__ import annotations

import threading

from confluent_kafka import Consumer, KafkaException, TopicPartition

from .kafka_client import fault_of
from .protocol import LogFault

JOIN_WAIT_S = (
    5.0  # a consumer must not be closed under a commit; then it is left to the end of the process
)


class OffsetCommits:
    """One commit at a time: while an earlier one has no answer, every other is refused, so none can overtake it."""

    def __init__(self, consumer: Consumer, group: str, wait_s: float) -> None:
        self._consumer = consumer
        self._group = group
        self._wait_s = wait_s
        self._thread: threading.Thread | None = None

    def commit(self, offsets: list[TopicPartition]) -> None:
        """Raises `LogFault` where the commit was refused, or has not been answered in time and may yet be applied."""
        if self._thread is not None and self._thread.is_alive():
            raise LogFault(f"an earlier commit in group {self._group} has no answer yet")
        answers: list[list[TopicPartition] | BaseException] = []
        self._thread = threading.Thread(
            target=self._run, args=(offsets, answers), name="commit-offsets", daemon=True
        )
        self._thread.start()
        self._thread.join(self._wait_s)
        if not answers:
            raise LogFault(
                f"a commit in group {self._group} was not answered in {self._wait_s:.0f} s; it may yet be applied"
            )
        answer = answers[0]
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
        if self._thread is not None:
            self._thread.join(JOIN_WAIT_S)
        return self._thread is None or not self._thread.is_alive()

    def _run(
        self, offsets: list[TopicPartition], answers: list[list[TopicPartition] | BaseException]
    ) -> None:
        try:
            answers.append(self._consumer.commit(offsets=offsets, asynchronous=False) or [])
        except BaseException as error:  # noqa: BLE001 raised from commit, in the caller's thread
            answers.append(error)
