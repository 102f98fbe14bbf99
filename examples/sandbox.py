"""An agent with a sandbox: a Python process that keeps its variables from turn to turn, and is killed with kill -9.

Run it with `python examples/sandbox.py`, a rehearsal without Kafka, or as an app: `wakeful run examples/sandbox.py`.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel

from wakeful import ActivityError, Message, ResourceLost, Turn, Write, activity, workflow
from wakeful.testing import rehearse

ONCE_PER_KEY = Write(idempotent=True)
SERVER = """
import contextlib, io, json, os, signal, socket, sys, traceback
signal.alarm(3600)  # whoever provides a sandbox ends it one day, asked or not
door, known, done = socket.socket(socket.AF_UNIX), {}, {}
door.bind("new"), door.listen(), os.rename("new", "door")
while True:
    caller, told = door.accept()[0], io.StringIO()
    with caller, contextlib.redirect_stdout(told):
        key, code = json.loads(caller.makefile().readline())
        try:
            done.get(key) or exec(code, known)
        except Exception:
            traceback.print_exc(limit=0, file=told)
        caller.sendall(json.dumps(done.setdefault(key, [told.getvalue()])).encode())
"""


class Box(BaseModel):
    folder: str
    pid: int


class Notes(BaseModel):
    done: list[str] = []  # enough to bring a new process to where the last one was


def folder_of(key: str) -> Path:
    return Path(tempfile.gettempdir(), f"sandbox-{os.getuid()}-{key.replace('/', '-')}")


def serve(folder: Path) -> Box:
    folder.mkdir(mode=0o700, exist_ok=True)
    server = subprocess.Popen([sys.executable, "-c", SERVER], cwd=folder, start_new_session=True)
    (folder / "pid").write_text(str(server.pid))
    while not (folder / "door").exists() and server.poll() is None:
        time.sleep(0.01)
    return Box(folder=str(folder), pid=server.pid)


def talk(box: Box, key: str, code: str) -> str:
    with socket.socket(socket.AF_UNIX) as caller:
        try:
            caller.connect(f"{box.folder}/door")
            caller.sendall(json.dumps([key, code]).encode() + b"\n")
            return str(json.loads(caller.makefile().read())[0]).strip()
        except (OSError, ValueError) as error:
            raise ResourceLost("sandbox", f"nobody answers: {error}") from error


@activity(contract=ONCE_PER_KEY)
def start(*, key: str) -> Box:
    note = folder_of(key) / "pid"  # one per key: a repeat finds the first
    return (
        Box(folder=str(note.parent), pid=int(note.read_text()))
        if note.exists()
        else serve(note.parent)
    )


@activity(contract=ONCE_PER_KEY)
def restore(done: list[str], *, key: str) -> Box:
    box = serve(folder_of(key))
    for n, code in enumerate(done):
        talk(box, f"again {n}", code)
    return box


@activity(contract=ONCE_PER_KEY, timeout="10s")
def execute(box: Box, code: str, *, key: str) -> str:
    return talk(box, key, code)


@activity(contract=ONCE_PER_KEY)
def stop(box: Box) -> None:
    if Path(box.folder).exists():  # of one that is gone there is nothing to stop
        with suppress(ProcessLookupError):
            os.kill(box.pid, signal.SIGKILL)
        shutil.rmtree(box.folder)


@workflow("coder", version=1)
async def coder(turn: Turn, notes: Notes, message: Message) -> Notes:
    done = list(notes.done)

    async def run(code: str) -> str:
        box = await turn.resource(
            "sandbox",
            attach=start.call(),
            ttl="30m",
            reconstruct=lambda last: restore.call(done),
            release=stop.call,
        )
        if box.how != "held":
            await turn.say(f"({box.how})")
        try:
            return await turn.run(execute.call(box.handle, code))
        except ActivityError as error:
            if error.lost is None:
                raise
        return await run(code)  # in another one, which is where the last one was

    for code in message.data:
        told = await run(code)
        done.append(code)
        if told:
            await turn.say(told)
    return Notes(done=done)


if __name__ == "__main__":
    session = rehearse(coder, session_id=f"example-{os.getpid()}")
    session.send(["x = 20", "x += 1", "print(x)"])
    folder = folder_of(session.calls("start")[0].key)
    os.kill(int((folder / "pid").read_text()), signal.SIGKILL)
    shutil.rmtree(folder)
    session.send(["x *= 2", "print(x)"])
    session.cancel("that was all")  # it gives back what it holds
    print(*session.replies, session.status, sep="\n")
