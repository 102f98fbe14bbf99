"""Waiting for a service that does not come up: what to do comes first, and the log behind it."""

import pytest

from wakeful.deploy.stack.errors import StackError
from wakeful.deploy.stack.waiting import EndedError, NotReadyYetError, wait_ready

LOG = "the end of kafka.log is\n[INFO] one\n[INFO] two"


def silent(_limit_s: float) -> None:
    raise NotReadyYetError("no controller yet")


def waited(*, alive: bool) -> None:
    wait_ready(silent, is_alive=lambda: alive, explain=lambda: LOG, service="kafka", limit_s=0.05)


def test_one_that_is_not_ready_in_time_begins_with_what_to_do() -> None:
    with pytest.raises(StackError) as failed:
        waited(alive=True)
    first, *log = str(failed.value).splitlines()
    assert first.startswith("kafka was not ready in 0 s: run 'wakeful up' again once ")
    assert "kafka last said: no controller yet; the end of kafka.log" in first
    assert log == ["[INFO] one", "[INFO] two"]


def test_one_that_ended_begins_with_what_to_do() -> None:
    with pytest.raises(
        EndedError, match=r"^kafka ended by itself: mend what .* 'wakeful up' again"
    ):
        waited(alive=False)
