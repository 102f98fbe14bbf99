"""The statuses that schemas name are those that sessions have."""

from typing import get_args

from wakeful.deploy.telling.statuses import StatusName
from wakeful.events.state import Status


def test_they_are_those_of_sessions() -> None:
    known = {value for name, value in vars(Status).items() if name.isupper()}
    assert set(get_args(StatusName)) == known
