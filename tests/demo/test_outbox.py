"""Answers and model calls as files that survive any kill."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from wakeful.deploy.demo.drive import CallWatch
from wakeful.deploy.demo.outbox import CALLS, Answer, Outbox, OutboxBroken, append

ANSWER = Answer("local/m1/1/3", "m1", "c1", "refund", "half \ud83d, nul \x00, é")


@pytest.fixture
def outbox(tmp_path) -> Outbox:
    one = Outbox(tmp_path / "outbox")
    one.prepare()
    return one


def test_an_answer_written_twice_is_one_file_with_the_same_bytes(outbox: Outbox) -> None:
    first = outbox.write(ANSWER)
    before = first.read_bytes()
    assert outbox.write(ANSWER) == first
    assert first.read_bytes() == before
    assert outbox.answers() == [ANSWER]
    assert list(first.parent.iterdir()) == [first]


def test_what_a_kill_left_half_written_does_not_count(outbox: Outbox) -> None:
    path = outbox.write(ANSWER)
    path.with_name(f".{path.name}.0123").write_text("{")
    assert outbox.answers() == [ANSWER]


def test_a_file_of_somebody_else_is_named(outbox: Outbox) -> None:
    (outbox.folder / "answers" / "x.json").write_text("{}")
    with pytest.raises(OutboxBroken, match=r"x\.json is no answer of ours"):
        outbox.answers()


def test_a_call_leaves_its_start_and_how_it_ended(outbox: Outbox) -> None:
    with outbox.call("k") as call:
        pass
    with pytest.raises(ZeroDivisionError), outbox.call("k"):
        _ = 1 / 0
    assert [line.at for line in outbox.calls()] == ["start", "end", "start", "failed"]
    assert outbox.calls()[0].call == outbox.calls()[1].call == call


def test_lines_of_many_writers_do_not_mix(outbox: Outbox) -> None:
    path = outbox.folder / "many"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: append(path, {"n": n, "fill": "x" * 500}), range(400)))
    lines = [json.loads(line)["n"] for line in path.read_text().splitlines()]
    assert sorted(lines) == list(range(400))


def test_the_watch_knows_which_calls_are_open(outbox: Outbox) -> None:
    watch = CallWatch(outbox.folder / CALLS)
    assert watch.look() == 0
    with outbox.call("a"), outbox.call("b"):
        assert watch.look() == 2
    with (outbox.folder / CALLS).open("ab") as file:
        file.write(b'{"at": "start", "ca')  # a line on its way
    assert watch.look() == 0
