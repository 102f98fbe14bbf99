"""One connection of a worker: kept, made anew when it breaks, and its server ends with it, whatever ends the worker."""

import asyncio
import os
import signal
import subprocess
import sys

import pytest
import structlog

from wakeful.mcp import Disconnected, NotConnected, SchemaChanged, ToolFailed, ToolRefused

from .conftest import call, gone


def test_calls_share_a_connection_and_side_by_side(stranger):
    them = stranger.server()

    async def work():
        return await asyncio.gather(*(call(them["read"], n=n) for n in range(5)))

    assert asyncio.run(work()) == [f"read {n}" for n in range(5)]
    assert len(stranger.noted("started")) == 1


def test_two_workers_have_a_server_each_and_it_ends_with_them(stranger):
    them = stranger.server("stubborn")
    pids = [asyncio.run(call(them["who"])) for _ in range(2)]
    assert pids[0] != pids[1]
    gone(*map(int, pids))


def test_a_server_that_dies_in_a_call_fails_it_and_the_next_has_a_new_one(stranger):
    them = stranger.server()

    async def work():
        with (
            structlog.testing.capture_logs() as logs,
            pytest.raises(Disconnected, match="die_once"),
        ):
            await call(them["die_once"], n=1)
        assert "so long" in [line.get("line") for line in logs]
        return await call(them["read"], n=2)

    assert asyncio.run(work()) == "read 2"
    assert len(stranger.noted("started")) == 2


def test_one_that_hangs_is_left_and_killed_and_others_are_called(stranger):
    them = stranger.server("stubborn")

    async def work():
        await call(them["read"], n=0)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(call(them["hang"]), 0.2)
        return await call(them["read"], n=1)

    assert asyncio.run(work()) == "read 1"
    first, second = map(int, stranger.noted("started"))
    gone(first, second)


def test_one_that_never_answers_is_not_reached(stranger):
    them = stranger.server("deaf", connect_timeout="300ms")
    with pytest.raises(NotConnected, match=r"cannot be reached: no answer within 0\.3 s"):
        asyncio.run(call(them["read"], n=1))
    gone(*map(int, stranger.noted("started")))


def test_a_program_that_is_not_there_is_named(stranger):
    them = stranger.server()
    them._command = ["no-such-program"]
    with pytest.raises(NotConnected, match="no program 'no-such-program'"):
        asyncio.run(call(them["read"], n=1))


@pytest.mark.parametrize(
    ("tool", "arguments", "why"),
    [
        ("read", {"n": 1}, r"its arguments have changed \(n\)"),
        ("hang", {}, r"what it claims has changed \(destructive\)"),
        ("who", {}, "it is gone"),
    ],
)
def test_a_tool_that_is_not_what_was_reviewed_is_not_called(stranger, tool, arguments, why):
    them = stranger.server("drift")
    with pytest.raises(SchemaChanged, match=why):
        asyncio.run(call(them[tool], **arguments))
    assert stranger.noted("calls") == []


def test_what_has_not_changed_is_called_all_the_same(stranger):
    them = stranger.server("drift")
    assert asyncio.run(call(them["pay"], n=3)) == "pay 3"


def test_an_error_is_told_and_is_certain_where_people_say_so(stranger):
    stranger.said("refuse", "errors_are_certain = true")
    them = stranger.server()

    async def work():
        with pytest.raises(ToolFailed, match="no order fail"):
            await call(them["fail"])
        with pytest.raises(ToolRefused, match="no order refuse"):
            await call(them["refuse"])

    asyncio.run(work())


def test_results_are_bounded_json(stranger):
    them = stranger.server()

    async def work():
        picture = await call(them["picture"])
        long = await call(them["long"])
        odd = await call(them["odd"], **{"key": "mine", "a-b": 5})
        return picture, long, odd

    picture, long, odd = asyncio.run(work())
    assert picture["content"][0] == {"type": "text", "text": "a whale"}
    image, resource = picture["content"][1:]
    assert (image["mime_type"], image["bytes"], image["base64"]) == ("image/png", 2, "aGk=")
    assert (resource["uri"], resource["text"]) == ("file:///a", "kept")
    assert len(long) < 5 * 1024 * 1024
    assert long.endswith("(cut: 5242880 bytes in all)")
    assert odd == {"key": "mine", "a-b": 5}


WORKER = """
import asyncio, sys
from wakeful.mcp import McpServer
manifest, *command = sys.argv[1:]
them = McpServer("them", manifest=manifest, command=command)
async def main():
    print(await them["begin"].function(), flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


def test_a_killed_worker_leaves_no_server_and_nothing_that_the_server_began(stranger):
    stranger.server()
    command = [sys.executable, "-c", WORKER, str(stranger.manifest), *stranger.command("stubborn")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        server, child = (int(pid) for pid in worker.stdout.readline().strip("[]\n").split(","))
        os.kill(worker.pid, signal.SIGKILL)
    gone(server, child)
