"""Schedules recover thousands of times: nobody wants to read of each."""

import pytest

from wakeful.deploy.simulation.run import quiet


@pytest.fixture(autouse=True)
def quiet_logs() -> None:
    quiet()
