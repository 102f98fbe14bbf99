"""What a session did is taken back, whoever is killed meanwhile: in the whole system, as it is simulated."""

import pytest

from tests.simulation.story import Story
from tests.simulation.test_cases import PROCESSOR_POINTS, WORKER_POINTS
from wakeful.commands import models as m
from wakeful.events import records as r


def taken_back(story: Story) -> list[str]:
    """The keys of what was booked and taken back, in order."""
    return [key for what, key, _ in story.world.downstream.bookings if what == "taken back"]


@pytest.mark.case("U20")
@pytest.mark.parametrize("point", PROCESSOR_POINTS)
def test_a_cancelled_session_takes_back_once_whenever_its_processor_is_killed(point: str) -> None:
    story = Story()
    story.open("book:k reserve:k sleep:9")
    story.wait(1_000)
    story.kill_at(story.processor, point)
    story.send(m.CancelSession("enough"))
    story.wait(300)
    story.kill_at(story.processor, point)
    story.wait(20_000)
    story.run()
    assert story.last(r.SessionCancelled).compensated == ("1.2", "1.1")
    assert taken_back(story) == ["acme/s1/1/2", "acme/s1/1/1"]
    story.finish()


@pytest.mark.case("U20")
@pytest.mark.parametrize("point", WORKER_POINTS)
def test_a_failed_session_takes_back_whenever_its_worker_is_killed(point: str) -> None:
    story = Story()
    story.open("book:k reserve:k sleep:1 break:g")
    story.wait(900)
    story.kill_at(story.workers["payments"], point)
    story.wait(20_000)
    story.run()
    assert story.last(r.SessionFailed).compensated == ("1.2", "1.1")
    assert list(dict.fromkeys(taken_back(story))) == ["acme/s1/1/2", "acme/s1/1/1"]
    story.finish()


@pytest.mark.case("U20")
def test_a_call_that_is_cut_off_by_the_cancellation_is_taken_back() -> None:
    story = Story()
    story.open("reserve:t")  # it happens, and its worker hears nothing
    story.wait(60)
    story.send(m.CancelSession("enough"))
    story.wait(20_000)
    story.run()
    assert story.last(r.SessionCancelled).compensated == ("1.1",)
    assert taken_back(story) == ["acme/s1/1/1"]
    story.finish()
