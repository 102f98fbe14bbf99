"""Violations planted into a copy of the schemas, each of which the gate names."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wakeful.schemas.compatibility import check_pair
from wakeful.schemas.gate import problems
from wakeful.schemas.library import LockError, parse_lock
from wakeful.schemas.release import release
from wakeful.schemas.rules import check_schema

FOLDER = Path(__file__).parents[2] / "schemas"

NEXT_ID = 1 + max(
    version.id for version in parse_lock((FOLDER / "ids.lock").read_text("utf-8")).versions
)

TIMER_ID = next(
    version.id
    for version in parse_lock((FOLDER / "ids.lock").read_text("utf-8")).versions
    if version.file == "TimerFired.avsc"
)

FIRE_ID = next(
    version.id
    for version in parse_lock((FOLDER / "ids.lock").read_text("utf-8")).versions
    if version.file == "FireTimer.avsc"
)
"""A record with one version, which binds nobody beside it."""

Edit = Callable[[dict[str, Any]], None]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the schemas as released, outside of any repository."""
    copy = tmp_path / "schemas"
    shutil.copytree(FOLDER, copy, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    lock = (copy / "ids.lock").read_text("utf-8")
    (copy / "ids.lock").write_text(lock.replace("draft\n", ""), "utf-8")
    return copy


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def committed(folder: Path) -> Path:
    git(folder, "init", "-q")
    commit(folder)
    return folder


def commit(folder: Path) -> None:
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "schemas")


def edit(folder: Path, file: str, change: Edit) -> None:
    path = folder / file
    schema = json.loads(path.read_text("utf-8"))
    change(schema)
    path.write_text(json.dumps(schema), "utf-8")


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "doc": "Something.", **more}


def add(*args: Any, **more: Any) -> Edit:
    return lambda schema: schema["fields"].append(field(*args, **more))


def test_the_bundled_schemas_pass(folder: Path) -> None:
    assert problems(FOLDER.resolve()) == []
    assert problems(folder) == []


STRUCTURE: dict[str, tuple[Edit, str]] = {
    "enum": (add("x", {"type": "enum", "name": "E", "symbols": ["A"]}), "SessionOpened.x is enum"),
    "map": (add("x", {"type": "map", "values": "string"}), "SessionOpened.x is map"),
    "fixed": (add("x", {"type": "fixed", "name": "F", "size": 8}), "SessionOpened.x is fixed"),
    "double": (add("x", "double"), "SessionOpened.x is double"),
    "int": (add("x", "int"), "SessionOpened.x is int"),
    "logical type": (add("x", {"type": "long", "logicalType": "timestamp-millis"}), "x is long"),
    "wide union": (add("x", ["null", "string", "long"], default=None), "only [null, T]"),
    "union without null": (add("x", ["string", "long"]), "only [null, T]"),
    "nullable array": (
        add("x", ["null", {"type": "array", "items": "string"}], default=None),
        "nullable array",
    ),
    "cycle": (add("x", ["null", "wakeful.v1.SessionOpened"], default=None), "no cycles"),
    "cycle in an array": (
        add("x", {"type": "array", "items": "wakeful.v1.SessionOpened"}),
        "no cycles",
    ),
    "array of nulls": (add("x", {"type": "array", "items": "null"}), "x is null"),
    "array of empty records": (
        add(
            "x",
            {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "N",
                    "namespace": "wakeful.v1",
                    "doc": "N.",
                    "fields": [],
                },
            },
        ),
        "record without fields",
    ),
    "array of arrays": (
        add("x", {"type": "array", "items": {"type": "array", "items": "string"}}),
        "array of array",
    ),
    "nullable without default": (add("x", ["null", "string"]), "does not default"),
    "no doc": (lambda s: s["fields"].append({"name": "x", "type": "string"}), "x has no doc"),
    "aliases": (add("x", "string", aliases=["y"]), "aliases"),
    "another name": (lambda s: s.update(name="Other"), "not the record wakeful.v1.SessionOpened"),
    "another namespace": (lambda s: s.update(namespace="other"), "not the record"),
}


@pytest.mark.case("L23")
@pytest.mark.parametrize(("change", "said"), STRUCTURE.values(), ids=STRUCTURE)
def test_what_readers_do_not_read_alike_is_named(folder: Path, change: Edit, said: str) -> None:
    edit(folder, "SessionOpened.avsc", change)
    found = [problem for problem in problems(folder) if said in problem]
    assert found
    assert found[0].startswith("SessionOpened.avsc: ")


def test_a_cycle_through_another_record_is_named() -> None:
    inner = {
        "type": "record",
        "name": "B",
        "namespace": "wakeful.v1",
        "doc": "B.",
        "fields": [field("a", ["null", "wakeful.v1.A"], default=None)],
    }
    outer = {**inner, "name": "A", "fields": [field("b", inner)]}
    assert any("no cycles" in problem for problem in check_schema(outer, "wakeful.v1.A"))


def test_a_file_that_changed_without_a_new_id_is_named(folder: Path) -> None:
    edit(folder, "TimerFired.avsc", add("why", "string", default=""))
    assert [p.partition(": its")[0] for p in problems(folder)] == [
        "TimerFired.avsc: changed without a new id"
    ]


def test_a_file_without_a_line_and_a_line_without_a_file_are_named(folder: Path) -> None:
    shutil.copy(folder / "TimerFired.avsc", folder / "Extra.avsc")
    (folder / "TimerSet.avsc").unlink()
    assert set(problems(folder)) == {
        "Extra.avsc: has no line in ids.lock",
        "TimerSet.avsc: is in ids.lock and not in the folder",
    }


def test_an_id_used_twice_is_named(folder: Path) -> None:
    lock = (folder / "ids.lock").read_text("utf-8")
    (folder / "ids.lock").write_text(lock.replace("1000001 ", "1000000 "), "utf-8")
    assert ["1000000 stands twice" in problem for problem in problems(folder)] == [True]


def test_a_copy_of_a_nested_record_that_differs_is_named(folder: Path) -> None:
    def change(schema: dict[str, Any]) -> None:
        schema["fields"][0]["type"]["fields"][0]["doc"] = "Somebody."

    edit(folder, "TimerFired.avsc", change)
    assert any("its wakeful.v1.Envelope differs" in problem for problem in problems(folder))


INCOMPATIBLE: dict[str, tuple[Edit, str]] = {
    "a field without a default": (add("why", "string"), "the new cannot read the old"),
    "a field removed": (lambda s: s["fields"].pop(), "the old cannot read the new"),
    "a field renamed": (lambda s: s["fields"][-1].update(name="at"), "the new cannot read the old"),
    "a field of another type": (
        lambda s: s["fields"][-1].update(type="string"),
        "the new cannot read the old",
    ),
    "text that becomes bytes": (
        lambda s: s["fields"][1].update(type="bytes"),
        "a field keeps its type",
    ),
    "null allowed": (
        lambda s: s["fields"][-1].update(type=["null", "long"], default=None),
        "the old cannot read the new",
    ),
}


@pytest.mark.parametrize(("change", "said"), INCOMPATIBLE.values(), ids=INCOMPATIBLE)
def test_a_version_that_cannot_read_all_others_is_named(
    committed: Path, change: Edit, said: str
) -> None:
    edit(committed, "TimerFired.avsc", change)
    release(committed)
    found = problems(committed)
    assert any(said in problem and problem.startswith("TimerFired.avsc: ") for problem in found)


def test_a_field_with_a_default_passes_and_the_old_version_stays(committed: Path) -> None:
    before = (committed / "TimerFired.avsc").read_text("utf-8")
    edit(committed, "TimerFired.avsc", add("why", ["null", "string"], default=None))
    assert release(committed) == [f"TimerFired.avsc: new version {NEXT_ID}"]
    assert (committed / "history" / f"TimerFired.{TIMER_ID}.avsc").read_text("utf-8") == before
    assert problems(committed) == []
    commit(committed)
    assert problems(committed) == []


@pytest.mark.case("L20")
def test_versions_are_compared_with_all_others_and_not_only_the_last(committed: Path) -> None:
    edit(committed, "TimerFired.avsc", add("why", "string", default=""))
    release(committed)
    commit(committed)
    edit(committed, "TimerFired.avsc", lambda s: s["fields"].pop())
    release(committed)
    commit(committed)
    assert problems(committed) != []  # the first version's fingerprint came back under a new id
    edit(committed, "TimerFired.avsc", add("why", "long", default=0))
    assert any("keeps its type" in problem for problem in check_all(committed))


def check_all(folder: Path) -> list[str]:
    first = json.loads((folder / "history" / f"TimerFired.{NEXT_ID}.avsc").read_text("utf-8"))
    return list(check_pair(first, json.loads((folder / "TimerFired.avsc").read_text("utf-8"))))


def test_a_committed_id_that_is_gone_or_means_something_else_is_named(committed: Path) -> None:
    lock = (committed / "ids.lock").read_text("utf-8")
    (committed / "ids.lock").write_text(lock.replace("1000040 ", f"{NEXT_ID} "), "utf-8")
    assert any("id 1000040 was wakeful.v1.SessionState" in p for p in problems(committed))


def test_a_committed_version_binds_even_where_the_lock_and_its_file_were_rewritten(
    committed: Path,
) -> None:
    edit(committed, "TimerFired.avsc", lambda s: s["fields"][-1].update(name="at"))
    lock = (committed / "ids.lock").read_text("utf-8")
    (committed / "ids.lock").write_text("draft\n" + lock, "utf-8")
    release(committed, bind=True)  # a draft corrects lines in place
    assert any(f"id {TIMER_ID} was wakeful.v1.TimerFired" in p for p in problems(committed))


def test_a_draft_binds_nobody_and_there_is_no_way_back_to_one(committed: Path) -> None:
    lock = (committed / "ids.lock").read_text("utf-8")
    (committed / "ids.lock").write_text("draft\n" + lock, "utf-8")
    assert ["is a draft again" in problem for problem in problems(committed)] == [True]


def test_a_draft_may_change_until_it_is_bound(folder: Path) -> None:
    lock = (folder / "ids.lock").read_text("utf-8")
    (folder / "ids.lock").write_text("draft\n" + lock, "utf-8")
    git(folder, "init", "-q")
    commit(folder)
    edit(folder, "FireTimer.avsc", lambda s: s["fields"].pop())
    assert release(folder, bind=True) == [
        f"FireTimer.avsc: {FIRE_ID} corrected, as the lock is a draft"
    ]
    assert problems(folder) == []
    assert not parse_lock((folder / "ids.lock").read_text("utf-8")).draft


def test_a_new_record_is_a_new_line_and_an_unreachable_old_one_is_refused(folder: Path) -> None:
    shutil.copy(folder / "TimerFired.avsc", folder / "TimerMoved.avsc")
    edit(folder, "TimerMoved.avsc", lambda s: s.update(name="TimerMoved"))
    assert release(folder) == [f"TimerMoved.avsc: new version {NEXT_ID}"]
    assert problems(folder) == []
    edit(folder, "TimerFired.avsc", add("why", "string", default=""))
    with pytest.raises(LockError, match="put it into history/ by hand"):
        release(folder)
