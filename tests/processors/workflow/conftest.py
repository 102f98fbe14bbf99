"""What workflows that end in bad ways leave behind is told of in the test that left it."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def few_objects() -> None:
    """What other modules hold is looked through once, and not at each collection of this one."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def coroutines_end_here(request: pytest.FixtureRequest) -> Iterator[None]:
    """A coroutine in a cycle warns when it is collected: here, where the warning is expected, not in some later test."""
    marks = request.node.iter_markers("filterwarnings")
    left = any("was never awaited" in text for mark in marks for text in mark.args)
    if left:
        request.getfixturevalue("few_objects")
    yield
    if left:
        gc.collect()
