"""The watcher on Faust's own classes, without a broker: what it keeps over restarts, and what it does with bad events."""

from __future__ import annotations

import ast
import asyncio
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.projections.conftest import Scribe

from wakeful.events import records as r
from wakeful.events.topics import Topics
from wakeful.processors.watchers import rows
from wakeful.processors.watchers.windows import HOUR_MS, KEPT_MS, MINUTE_MS

faust_app = pytest.importorskip("wakeful.processors.watchers.faust_app")

ROOT = Path(__file__).parents[3]
STALLED_MS = 300_000
PLACE = 0


class Topic:
    """The compacted topic behind a table: the newest row of each key."""

    def __init__(self) -> None:
        self.rows: dict[str, str] = {}

    def send(self, partition: int, key: Any, value: Any, **_: Any) -> asyncio.Future[None]:
        self.rows.pop(json.dumps(key), None)
        if value is not None:
            self.rows[json.dumps(key)] = json.dumps(value)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    def changelog(self) -> list[SimpleNamespace]:
        message = SimpleNamespace(partition=PLACE)
        return [
            SimpleNamespace(key=json.loads(k), value=json.loads(v), message=message)
            for k, v in self.rows.items()
        ]


class Clock:
    """What the watcher's clock says."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


def watcher(folder: Path, clock: Clock, windows: Topic, told: Topic) -> Any:
    """A watcher as it stands when its rows are restored."""
    settings = faust_app.WatcherSettings(
        "127.0.0.1:1", Topics("n"), "one", folder, STALLED_MS, 6_000
    )
    one = faust_app.Watcher(settings, clock)
    one._app = one._new_app()
    for name, topic in (("windows", windows), ("told", told)):
        table = one._new_rows(name, f"n.{name}")
        table.send_changelog = topic.send
        table.apply_changelog_batch(topic.changelog())
        setattr(one, f"_{name}", table)
    return one


def taken(one: Any, scribe: Scribe, start: int) -> None:
    """The watcher is given the scribe's records from there on."""
    for record in scribe.records[start:]:
        message = SimpleNamespace(value=record.value, headers=list(record.headers))
        one._take(PLACE, record.offset, message)


def windows(one: Any) -> list[tuple[Any, dict[str, int]]]:
    return one._windows.of(rows.WINDOW, PLACE)


@pytest.mark.case("L16")
def test_given_restarts_then_windows_end_with_their_time_and_no_store_grows(tmp_path) -> None:
    async def hours() -> None:
        scribe, kept, told = Scribe(partitions=1), Topic(), Topic()
        clock = Clock(scribe.now_ms)
        session, most = ("acme", "s1"), KEPT_MS // MINUTE_MS + 1
        scribe.add(session, r.SessionOpened("desk"))
        step = 0
        for _ in range(6):  # five restarts
            one = watcher(tmp_path, clock, kept, told)
            for _ in range(HOUR_MS // MINUTE_MS):
                start, step = len(scribe.records), step + 1
                scribe.request(session, f"1.{step}", approval="none", proposal=None)
                taken(one, scribe, 0 if step == 1 else start)
                one._sweep(PLACE)
                clock.now_ms += MINUTE_MS
                scribe.now_ms = clock.now_ms
                assert len(windows(one)) <= most
                assert sum('"window"' in key for key in kept.rows) == len(windows(one))
        assert step == 360
        assert len(windows(one)) == most

    asyncio.run(hours())


@pytest.mark.case("L14")
def test_given_a_bad_event_in_each_hundred_then_the_good_ones_are_counted_and_it_is_told_of_the_bad(
    tmp_path,
) -> None:
    async def many() -> None:
        scribe, told = Scribe(partitions=1), Topic()
        session = ("acme", "s1")
        scribe.add(session, r.SessionOpened("desk"))
        for step in range(1, 1_001):
            scribe.request(session, f"1.{step}", approval="none", proposal=None)
            if step % 100 == 0:
                scribe.append(PLACE, b"acme/s1", b"\0\0\xff\xff\xff\xffpoison")
        one = watcher(tmp_path, Clock(scribe.now_ms), Topic(), told)
        taken(one, scribe, 0)
        one._say(PLACE, caught_up=True)
        assert sum(counts.get("requested", 0) for _, counts in windows(one)) == 1_000
        (said,) = (json.loads(row) for key, row in told.rows.items() if '"said"' in key)
        assert (said["undecodable"], said["read"]) == (10, scribe.records[-2].offset)

    asyncio.run(many())


@pytest.mark.case("L14")
def test_given_an_event_that_it_fails_over_then_it_ends_before_that_counts_as_read(
    tmp_path, monkeypatch
) -> None:
    async def fails() -> None:
        scribe = Scribe(partitions=1)
        scribe.add(("acme", "s1"), r.SessionOpened("desk"))
        one = watcher(tmp_path, Clock(scribe.now_ms), Topic(), Topic())
        one._ending = asyncio.Event()
        monkeypatch.setattr(faust_app, "changes", lambda *_, **__: 1 / 0)
        handed, record = [], scribe.records[0]

        class Stream:
            async def events(self) -> Any:
                for number in range(2):
                    message = SimpleNamespace(
                        partition=PLACE, offset=number, value=record.value, headers=record.headers
                    )
                    yield SimpleNamespace(message=message)
                    handed.append(number)  # Faust would acknowledge it here

        watching = asyncio.ensure_future(one._watch(Stream()))
        await asyncio.wait_for(one._ending.wait(), 5)
        assert handed == []
        assert isinstance(one._failed, ZeroDivisionError)
        watching.cancel()

    asyncio.run(fails())


@pytest.mark.case("L17")
def test_one_module_knows_aiokafka_and_it_commits_by_no_transaction() -> None:
    known = {}
    for folder in ("commands", "deploy", "events", "processors", "projections", "schemas"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text("utf-8")
            if not re.search(r"aiokafka|faust|\bmode\b", text):
                continue
            tree = ast.parse(text)
            names = [
                name
                for node in ast.walk(tree)
                for name in (
                    [alias.name for alias in node.names]
                    if isinstance(node, ast.Import)
                    else [node.module or ""]
                    if isinstance(node, ast.ImportFrom)
                    else []
                )
            ]
            if any(name.split(".")[0] in ("aiokafka", "faust", "mode") for name in names):
                known[str(path.relative_to(ROOT))] = text
    assert list(known) == ["processors/watchers/faust_app.py"]
    (text,) = known.values()
    for word in ("send_offsets_to_transaction", "exactly_once", "processing_guarantee"):
        assert word not in text
    written = {"watch_windows", "watch_proposals"}
    used = {n.attr for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Attribute)}
    assert used & {k for k, v in vars(Topics).items() if isinstance(v, property)} == {
        *written,
        "events",  # which it reads
    }


@pytest.mark.case("L17")
def test_a_watcher_asks_faust_for_no_transactions(tmp_path) -> None:
    async def asked() -> None:
        one = watcher(tmp_path, Clock(0), Topic(), Topic())
        assert one._app.conf.processing_guarantee.name == "AT_LEAST_ONCE"
        assert not one._app.in_transaction

    asyncio.run(asked())
