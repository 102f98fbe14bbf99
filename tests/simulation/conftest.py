"""Schedules recover thousands of times: nobody wants to read of each."""

from collections.abc import Iterator

import pytest
import structlog

from wakeful.deploy.simulation.run import quiet


@pytest.fixture(autouse=True)
def quiet_logs() -> Iterator[None]:
    quiet()
    yield
    structlog.reset_defaults()
