"""Versions come and go, and sessions are taken back, whoever is killed meanwhile: in the whole system, as it is simulated."""

from dataclasses import replace

import pytest

from tests.simulation.story import Story
from tests.simulation.test_cases import PROCESSOR_POINTS
from wakeful.commands import models as m
from wakeful.events import records as r
from wakeful.processors.simulation.operators import Operator

DAY_MS = 2_000
"""A day of the wait, here."""


class TwoVersions(Story):
    """A story with both versions loaded, and an operator who does only what the test says."""

    def __init__(self) -> None:
        super().__init__(seed=6)
        assert self.world.plan.versions
        self.operator.active = True
        self.operator._calm = 0

    @property
    def operator(self) -> Operator:
        return self.world.operator

    def roll_out(self, version: int | None, percent: int = 100, rest: int | None = None) -> None:
        self.operator._set(version, percent, rest)
        self.run()

    def versions(self) -> list[int]:
        return [turn.workflow_version for turn in self.all(r.TurnStarted)]

    def reset(self, turn: int, *, again: bool = True) -> None:
        state = self.operator._ends("s1")[turn] if turn else None
        self.send(m.ResetSession(turn, state, again, "mended"))

    def deploy(self, app: object) -> None:
        """Other code for everybody, at once."""
        self.world.scene.app = app
        for processor in self.world.processors:
            processor.app = app
            processor.kill(after_ms=10)


@pytest.mark.case("U5")
@pytest.mark.parametrize("point", PROCESSOR_POINTS)
def test_a_wait_of_days_ends_on_its_version_across_deploys_whenever_its_processor_is_killed(
    point: str,
) -> None:
    story = TwoVersions()
    story.roll_out(1)
    story.open("sleep:60 say:done")
    versioned = story.world.scene.app
    for rolled_out in (2, 1, 2):
        story.roll_out(rolled_out)
        story.deploy(replace(versioned))
        story.kill_at(story.processor, point)
        story.wait(9 * DAY_MS)
    story.wait(4 * DAY_MS)
    story.say("say:next")
    assert story.versions() == [1, 2]
    assert [text for text in story.replies() if "next" in text or "done" in text] == [
        '{"text":"done"}',
        '{"text":"next"}',
    ]
    story.finish()


@pytest.mark.case("U5")
def test_a_wait_whose_version_is_gone_is_held_by_name_and_goes_on_once_it_is_back() -> None:
    story = TwoVersions()
    story.roll_out(1)
    story.open("sleep:30 say:done")
    versioned = story.world.scene.app
    second = {"player": {2: versioned.workflows["player"][2]}}
    story.deploy(replace(versioned, workflows=second))
    story.wait(31_000)
    held = story.last(r.SessionHeld)
    assert held.reason == "workflow_missing"
    assert "'player' version 1 is not loaded" in held.detail
    story.deploy(versioned)
    story.wait(1_000)
    story.send(m.ReleaseSession("it is back"))
    story.run()
    assert story.replies()[-1] == '{"text":"done"}'
    story.finish()


@pytest.mark.parametrize("point", PROCESSOR_POINTS)
def test_a_reset_is_done_once_whenever_the_processor_is_killed(point: str) -> None:
    story = TwoVersions()
    story.open("pay:30")
    story.say("pay:40 sleep:9")
    story.wait(500)
    story.kill_at(story.processor, point)
    story.reset(1)
    story.wait(300)
    story.kill_at(story.processor, point)
    story.wait(20_000)
    story.run()
    (fact,) = story.all(r.SessionReset)
    assert (fact.to_turn, fact.done) == (1, ("2.2",))
    assert [turn.turn for turn in story.all(r.TurnStarted)] == [1, 2, 3]
    story.finish()


def test_a_session_that_is_not_loaded_where_the_rollout_says_is_held_and_a_pin_lets_it_go_on() -> (
    None
):
    story = TwoVersions()
    story.roll_out(3)
    story.open("say:hi")
    assert "gives it version 3" in story.last(r.SessionHeld).detail
    story.send(m.PinSession(1, "as it was"))
    story.send(m.ReleaseSession("pinned"))
    story.run()
    assert story.versions() == [1]
    story.finish()
