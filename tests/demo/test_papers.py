"""Letters and model calls as files that survive any kill."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from wakeful.deploy.demo.killer import CallWatch
from wakeful.deploy.demo.papers import CALLS, Letter, Papers, PapersBroken, append

LETTER = Letter("local/m1/1/3", "c1", "half \ud83d, nul \x00, é")


@pytest.fixture
def papers(tmp_path) -> Papers:
    one = Papers(tmp_path / "papers")
    one.prepare()
    return one


def test_a_letter_written_twice_is_one_file_with_the_same_bytes(papers: Papers) -> None:
    first = papers.write(LETTER)
    before = first.read_bytes()
    assert papers.write(LETTER) == first
    assert first.read_bytes() == before
    assert papers.letters() == [LETTER]
    assert list(first.parent.iterdir()) == [first]


def test_what_a_kill_left_half_written_does_not_count(papers: Papers) -> None:
    path = papers.write(LETTER)
    path.with_name(f".{path.name}.0123").write_text("{")
    assert papers.letters() == [LETTER]


def test_a_file_of_somebody_else_is_named(papers: Papers) -> None:
    (papers.folder / "letters" / "x.json").write_text("{}")
    with pytest.raises(PapersBroken, match=r"x\.json is no letter of ours"):
        papers.letters()


def test_a_call_leaves_its_start_and_how_it_ended(papers: Papers) -> None:
    with papers.call("k") as call:
        pass
    with pytest.raises(ZeroDivisionError), papers.call("k"):
        _ = 1 / 0
    assert [line.at for line in papers.calls()] == ["start", "end", "start", "failed"]
    assert papers.calls()[0].call == papers.calls()[1].call == call


def test_lines_of_many_writers_do_not_mix(papers: Papers) -> None:
    path = papers.folder / "many"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: append(path, {"n": n, "fill": "x" * 500}), range(400)))
    lines = [json.loads(line)["n"] for line in path.read_text().splitlines()]
    assert sorted(lines) == list(range(400))


def test_the_watch_knows_which_calls_are_open(papers: Papers) -> None:
    watch = CallWatch(papers.folder / CALLS)
    assert watch.look() == 0
    with papers.call("a"), papers.call("b"):
        assert watch.look() == 2
    with (papers.folder / CALLS).open("ab") as file:
        file.write(b'{"at": "start", "ca')  # a line on its way
    assert watch.look() == 0
