"""The watchdog ends a process whose client call does not return, and no other."""

from __future__ import annotations

import threading

from wakeful.events.log.watchdog import EXIT_CODE, TICK_MS, Watchdog


def test_a_call_that_outlives_the_limit_ends_the_process():
    ended: list[int] = []
    said: list[str] = []
    watchdog = Watchdog(limit_ms=2 * TICK_MS, end=ended.append, report=said.append)
    with watchdog("commit_transaction"):
        for _ in range(2):
            watchdog.tick()
        assert ended == []
        watchdog.tick()
    assert ended == [EXIT_CODE]
    assert "commit_transaction" in said[0]


def test_calls_that_return_in_time_end_nothing_however_many_there_are():
    ended: list[int] = []
    watchdog = Watchdog(limit_ms=TICK_MS, end=ended.append)
    for _ in range(10):
        with watchdog("poll"):
            watchdog.tick()
    watchdog.tick()
    assert ended == []


def test_a_call_that_raises_has_returned():
    ended: list[int] = []
    watchdog = Watchdog(limit_ms=TICK_MS, end=ended.append)
    try:
        with watchdog("poll"):
            raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    for _ in range(3):
        watchdog.tick()
    assert ended == []


def test_calls_of_several_threads_are_watched_at_once():
    ended: list[int] = []
    said: list[str] = []
    watchdog = Watchdog(limit_ms=TICK_MS, end=ended.append, report=said.append)
    with watchdog("hung"):
        thread = threading.Thread(target=lambda: watchdog("quick").__enter__())
        thread.start()
        thread.join()
        watchdog.tick()
        watchdog.tick()
    assert [message.split("'s ")[1].split()[0] for message in said] == ["hung", "quick"]


def test_its_thread_looks_by_itself():
    ended = threading.Event()
    with (
        Watchdog(
            limit_ms=TICK_MS, end=lambda _code: ended.set(), report=lambda _m: None
        ) as watchdog,
        watchdog("hung"),
    ):
        assert ended.wait(10)
