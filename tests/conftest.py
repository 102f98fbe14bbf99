"""Fixtures for all tests: one local stack per run, a database per module, a namespace per test.

A test that asks for one of these is marked `kafka` or `postgres` by that alone. These and the slow ones come first:
`make test` deals the tests to three processes, as much of the long half is waiting, and those with the pure ones help when they are through.
"""

import asyncio
import fcntl
import gc
import logging
import os
import ssl
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import settings
from hypothesis.internal.conjecture import junkdrawer

from wakeful.deploy.keyfile import ensure_local_keys
from wakeful.deploy.logs import Handler
from wakeful.deploy.stack import Endpoints, Stack, StackError, native_kafka
from wakeful.projections import probe

# A broker that lives for minutes earns nothing by the full JIT: 8.7 s of processor time for what took it 13.0.
native_kafka.JAVA_OPTIONS = (*native_kafka.JAVA_OPTIONS, native_kafka.SHORT_LIVED)

# No callback of hypothesis's own in the collector: an alarm that interrupts a workflow would meet it, and be lost there.
junkdrawer._gc_initialized = True

# How long an example takes is the machine's affair.
settings.register_profile("any-machine", deadline=None)
settings.load_profile("any-machine")


@cache
def _trusting(cafile: str | None) -> ssl.SSLContext:
    return _made(cafile=cafile)


def _context(
    purpose: ssl.Purpose = ssl.Purpose.SERVER_AUTH, *, cafile: str | None = None, **more: Any
) -> ssl.SSLContext:
    if purpose is ssl.Purpose.SERVER_AUTH and not any(more.values()):
        return _trusting(cafile)
    return _made(purpose, cafile=cafile, **more)


# Each client of HTTP reads the certificates of all authorities, 0.1 s, and nothing here speaks to one: once will do.
_made, ssl.create_default_context = ssl.create_default_context, _context

MARKS = {
    "stack": ("kafka", "postgres"),
    "endpoints": ("kafka", "postgres"),
    "kafka": ("kafka",),
    "postgres_url": ("postgres",),
    "private_stack": ("kafka", "postgres"),
}


LONG = frozenset({"kafka", "postgres", "slow", "chaos"})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by the fixtures they use; the long ones to the front, otherwise in the order they were in.

    Of these, modules with the longest first, so that what is left at the end is short: a test that kills processes of
    the stack and takes seconds has more such marks than one that only asks the database.
    """
    marks: dict[pytest.Item, int] = {}
    longest: Counter[Path] = Counter()
    for item in items:
        for fixture in getattr(item, "fixturenames", ()):
            for mark in MARKS.get(fixture, ()):
                item.add_marker(mark)
        marks[item] = len(LONG.intersection(mark.name for mark in item.iter_markers()))
        longest[item.path] = max(longest[item.path], marks[item])
    items.sort(key=lambda item: (not marks[item], -longest[item.path]))


def pytest_collection_finish() -> None:
    """Modules and tests live to the end: a full collection, which some tests ask for, need not walk them each time.

    The others come more rarely than by default, which took a tenth of the time of whatever makes many values.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A loop that a fixture left running in this thread would fail every later test that has one of its own."""
    if asyncio._get_running_loop() is not None and "chromium" not in getattr(
        item, "fixturenames", ()
    ):
        pytest.fail("an event loop of an earlier fixture still runs in this thread")


@pytest.fixture(autouse=True)
def logs_as_they_were() -> Iterator[None]:
    """Commands and the simulator set up the logs of their process; here they share it with the next test."""
    yield
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    root = logging.getLogger()
    root.handlers[:] = [one for one in root.handlers if not isinstance(one, Handler)]
    root.setLevel(logging.WARNING)
    logging.getLogger("wakeful").setLevel(logging.NOTSET)


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the processes of this run share."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Waits until no other process of this run is in here."""
    with (folder / "stack.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def stack(run_folder: Path) -> Iterator[Stack]:
    """The one local stack of this run, up; URLs in the environment are used instead of processes.

    All processes of a run share it: the first to ask starts it, the last to end removes it.
    """
    urls = {name: os.environ[name] for name in os.environ if name.startswith("WAKEFUL_")}
    one = Stack(run_folder / "stack", environ={"WAKEFUL_STACK": "native", **urls})
    users = run_folder / "stack-users"
    mine = users / str(os.getpid())
    with alone(run_folder):
        users.mkdir(exist_ok=True)
        mine.touch()
        try:
            up(one)
        except StackError as refused:
            let_go(one, mine)
            if "wakeful[local]" in str(refused):
                pytest.skip(str(refused))  # installed without what a stack is made of
            raise
    yield one
    with alone(run_folder):
        let_go(one, mine)


def up(stack: Stack) -> None:
    """Starts it; what was not ready in time on a busy machine goes on, and is given that time once more."""
    try:
        stack.up()
    except StackError as refused:
        if "was not ready" not in str(refused):
            raise
        stack.up()


def let_go(stack: Stack, mine: Path) -> None:
    """Removes the stack if nobody else uses it."""
    mine.unlink()
    if not any(mine.parent.iterdir()):
        stack.reset()


@pytest.fixture(scope="session")
def endpoints(stack: Stack) -> Endpoints:
    """Where the stack's services are; taken once, so a test that kills one must start it again."""
    found = stack.endpoints()
    assert found is not None
    return found


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A keyring with what one machine needs: processes that are told of it sign, and ask for signatures."""
    path = tmp_path_factory.mktemp("keys") / "keys.json"
    ensure_local_keys(path)
    return path


@pytest.fixture(scope="session")
def kafka(endpoints: Endpoints) -> str:
    """The bootstrap servers of a running broker."""
    return endpoints.kafka


@pytest.fixture(scope="module")
def postgres_url(endpoints: Endpoints, request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of an empty database for this test module."""
    name = f"test_{os.getpid()}_{zlib.crc32(request.node.nodeid.encode()):08x}"
    probe.drop_database(endpoints.postgres, name)
    yield probe.create_database(endpoints.postgres, name)
    probe.drop_database(endpoints.postgres, name)


@pytest.fixture
def namespace(request: pytest.FixtureRequest) -> str:
    """A topic namespace that no other test of this run, or of another on the same broker, uses."""
    return f"t{os.getpid()}-{zlib.crc32(request.node.nodeid.encode()):08x}"


@pytest.fixture
def private_stack(tmp_path: Path) -> Iterator[Stack]:
    """A stack of this test's own, not started, and removed at its end."""
    one = Stack(tmp_path / "home", environ={"WAKEFUL_STACK": "native"})
    yield one
    one.reset()
