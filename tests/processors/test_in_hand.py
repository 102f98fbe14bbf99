"""A command that kills its process is found out: its session is held, and the partition goes on."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processors.desk import Desk, Hand, find_order, kinds
from wakeful import Message, Turn, workflow
from wakeful.commands.check import Facts
from wakeful.commands.models import ReleaseSession
from wakeful.commands.policy import EVERYBODY
from wakeful.events import records as r
from wakeful.processors.handler import CommandHandler
from wakeful.processors.in_hand import DEATHS_MAX, NotedInHand, ProcessDied

ROOT = Path(__file__).parents[2]


@workflow("desk", version=1)
async def ends_the_process(turn: Turn, state: Desk, message: Message) -> Desk:
    if message.text == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    await turn.say("still here")
    return state


@workflow("desk", version=1)
async def mended(turn: Turn, state: Desk, message: Message) -> Desk:
    await turn.say("still here")
    return state


def decide(note: Path, text: str, *declared: object) -> Hand:
    """A processor under the same name: it decides a message and goes on."""
    hand = Hand(*(declared or (ends_the_process, find_order)))
    hand.open("hello")
    hand.handler = CommandHandler(
        hand.app, Facts(b"k", policy=EVERYBODY), in_hand=NotedInHand(note)
    )
    hand.say(text)
    return hand


def holds(hand: Hand) -> list[r.SessionHeld]:
    return [s.event.body for s in hand.log if isinstance(s.event.body, r.SessionHeld)]


def killed(note: Path, text: str = "die") -> int:
    """The same in a process of its own, which it may cost: its exit code."""
    program = f"from tests.processors.test_in_hand import *; decide(Path({str(note)!r}), {text!r})"
    return subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode


def test_a_workflow_that_kills_its_process_is_held_after_some_deaths(tmp_path: Path) -> None:
    note = tmp_path / "note"
    assert [killed(note) for _ in range(DEATHS_MAX)] == [-signal.SIGKILL] * DEATHS_MAX
    hand = decide(note, "die")
    (held,) = holds(hand)
    assert held.reason == "process_died"
    assert f"died {DEATHS_MAX} times" in held.detail
    assert "deploy" in held.detail
    hand.redeploy(mended, find_order)
    assert kinds(hand.give(ReleaseSession("mended"))).count("ReplySent") == 1


def test_a_death_between_commands_counts_for_none(tmp_path: Path) -> None:
    for _ in range(DEATHS_MAX + 1):
        hand = decide(tmp_path / "note", "fine")  # ends with nothing in hand
        assert not holds(hand)


def dies_at(note: Path, *offsets: int) -> None:
    """A process that decides these commands of partition 0 and dies of the last."""
    noted = NotedInHand(note)
    for offset in offsets[:-1]:
        noted.begins(0, offset)
        noted.ends()
    noted.begins(0, offsets[-1])


def test_deaths_count_for_the_command_that_each_of_them_met(tmp_path: Path) -> None:
    note = tmp_path / "note"
    for _ in range(DEATHS_MAX - 1):
        dies_at(note, 6, 7)
    dies_at(note, 8)
    for _ in range(DEATHS_MAX):
        dies_at(note, 6, 7)
    noted = NotedInHand(note)
    noted.begins(1, 7)
    noted.ends()
    with pytest.raises(ProcessDied, match=f"died {DEATHS_MAX} times"):
        noted.begins(0, 7)


@pytest.mark.parametrize("content", [b"", b"x", b"y" * 100])
def test_a_file_that_is_no_note_is_a_new_one(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "note").write_bytes(content)
    noted = NotedInHand(tmp_path / "note")
    for offset in range(10):
        noted.begins(0, offset)
        noted.ends()
