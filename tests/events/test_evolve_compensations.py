"""When effects begin to be taken back nothing else is open: all that the end of a turn lets go."""

import dataclasses

from wakeful.events import records as r
from wakeful.events.evolve import _turn_ended
from wakeful.events.evolve_compensations import started
from wakeful.events.state import State, Status

FULL = dataclasses.replace(
    State("desk"),
    **{field.name: ("open",) for field in dataclasses.fields(State) if field.default == ()},
)
WAITED_FOR = {"children"}
"""They are cancelled with it, and end first."""

BEGUN = r.CompensationStarted(1, "cancelled", None, ("1.1",), (), (), ())


def emptied(after: State) -> set[str]:
    return {field.name for field in dataclasses.fields(State) if getattr(after, field.name) == ()}


def test_what_the_end_of_a_turn_lets_go_is_not_open_while_effects_are_taken_back() -> None:
    at_rest = emptied(_turn_ended(FULL, Status.SUSPENDED, None))
    assert {"activities", "approvals", "receives", "jobs", "children"} <= at_rest
    assert emptied(started(FULL, Status.COMPENSATING, BEGUN)) >= at_rest - WAITED_FOR
