"""What workflows that end in bad ways leave behind is told of in the test that left it."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def coroutines_end_here(request: pytest.FixtureRequest) -> Iterator[None]:
    """A coroutine in a cycle warns when it is collected: here, where the warning is expected, not in some later test."""
    yield
    marks = request.node.iter_markers("filterwarnings")
    if any("was never awaited" in text for mark in marks for text in mark.args):
        gc.collect()
