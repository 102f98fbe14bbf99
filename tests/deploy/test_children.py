"""Children of a supervisor: each has a command line of its own, and rests longer the more often it ends."""

import pytest

from wakeful.deploy.children import BACKOFF_FIRST_S, STEADY_S, Cast, Child, children_of
from wakeful.deploy.exits import Exit, Stopped


def cast(**more: object) -> Cast:
    given = {
        "app_target": "desk.py",
        "queues": ("default",),
        "processors": 1,
        "workers": 1,
        "projector": False,
        "concurrency": None,
        "sync_concurrency": None,
    }
    return Cast(**{**given, **more})


def test_a_child_rests_twice_as_long_after_each_early_end_up_to_a_bound() -> None:
    child = Child("processor-0", [])
    rests = [child.ended(1, 0.0, 4 * BACKOFF_FIRST_S) for _ in range(4)]
    assert rests == [n * BACKOFF_FIRST_S for n in (1, 2, 4, 4)]
    assert child.due_s == rests[-1]
    assert child.ends == [1, 1, 1, 1]


def test_a_steady_run_makes_the_next_rest_a_short_one_and_forgets_taken_places() -> None:
    child = Child("processor-0", [])
    for _ in range(3):
        child.ended(Exit.BUSY, 0.0, 5.0)
    assert child.busy == 3
    assert child.ended(1, STEADY_S + 1, 5.0) == BACKOFF_FIRST_S
    assert child.busy == 0


def test_a_crash_point_is_for_the_child_that_it_names_and_the_settings_one_for_the_others() -> None:
    found = children_of(cast(), {"processor-0": "p.begun"}, "p.produced")
    assert {name: child.failpoint for name, child in found.items()} == {
        "processor-0": "p.begun",
        "worker-default-0": "p.produced",
    }


@pytest.mark.parametrize("what", ["processors", "workers"])
def test_less_than_none_cannot_run(what: str) -> None:
    with pytest.raises(Stopped, match=f"--{what} is -1: give 0 or more"):
        cast(**{what: -1})
