"""An app that cannot be loaded is told with the line of the user's own that is to be mended."""

import sys
from pathlib import Path

import pytest

from wakeful.deploy import loading
from wakeful.deploy.exits import Exit, Stopped

APPS = {
    "syntax": ("x = (\n", "'(' was never closed", "line 1"),
    "missing": ("import no_such_thing\n", "No module named 'no_such_thing'", "line 1"),
    "raises": ("def f():\n    raise ValueError('no key')\n\nf()\n", "ValueError: no key", "line 2"),
    "exits": ("raise SystemExit(3)\n", "SystemExit: 3", "line 1"),
    "nothing": ("x = 1\n", "declares no workflow and no activity", "decorate one"),
    "contract": (
        "from wakeful import activity\n@activity()\nasync def f(x: str) -> str: ...\n",
        "activity 'f' has no contract",
        "line 2",
    ),
}


@pytest.mark.parametrize(
    "target", ["", ".", "desk.", ".desk", "a b", "folder/desk", "no_such.desk"]
)
def test_what_names_no_module_is_no_app(target: str) -> None:
    with pytest.raises(Stopped, match=r"^no module '.*': give a module such as") as stopped:
        loading.load_user_app(target)
    assert stopped.value.code == Exit.APP


@pytest.mark.parametrize(("source", "told", "where"), APPS.values(), ids=APPS)
def test_an_app_that_cannot_be_loaded_is_told_with_the_users_own_line(
    source: str, told: str, where: str, tmp_path: Path
) -> None:
    path = tmp_path / f"app_{abs(hash(source))}.py"
    path.write_text(source)
    before = list(sys.path)
    try:
        with pytest.raises(Stopped) as stopped:
            loading.load_user_app(str(path))
    finally:
        sys.path[:] = before
    assert stopped.value.code == Exit.APP
    assert told in stopped.value.message
    assert where in stopped.value.message


def test_an_app_without_workflows_cannot_be_run(tmp_path: Path) -> None:
    path = tmp_path / "only_tools.py"
    path.write_text(
        "from wakeful import Read, activity\n"
        "@activity(contract=Read())\nasync def look(x: str) -> str: ...\n"
    )
    before = list(sys.path)
    try:
        with pytest.raises(Stopped, match="declares no workflow, so no session could run"):
            loading.load_user_app(str(path), need_workflows=True)
        assert loading.load_user_app(str(path)).queues == ["default"]
    finally:
        sys.path[:] = before
