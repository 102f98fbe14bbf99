"""The stack in containers, where there is an engine to run them."""

from pathlib import Path

import pytest

from wakeful.deploy.stack import Stack, docker

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not docker.engine_answers(), reason="no Docker engine answers here"),
]


def test_containers_serve_and_come_back(tmp_path: Path) -> None:
    stack = Stack(tmp_path / "home", environ={"WAKEFUL_STACK": "docker"})
    try:
        first = stack.up()
        assert stack.up() == first
        stack.kill("kafka")
        assert stack.start("kafka") == first
        stack.down()
        assert stack.endpoints() is None
        assert stack.up() == first
    finally:
        stack.reset()
