"""The driver of chaos runs: what is drawn follows from the seed, each mutant has its note, and the page is what the code says."""

import re
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from tests.chaos.clocked import off_of, put_off
from tests.chaos.faults import FAULTS, drawn
from tests.chaos.page import CHECKED, HEAD, of_mutants, page_of, table_of, write_page
from tests.chaos.run import Met, Result
from wakeful.deploy.clock import SystemClock
from wakeful.deploy.simulation.mutants import MUTANTS
from wakeful.deploy.simulation.on_kafka import KINDS, TRIED, notes
from wakeful.processors.failpoints import Failpoints

PAGE = Path(__file__).parents[2] / "docs" / "chaos.md"
README = Path(__file__).parents[2] / "README.md"


def test_all_faults_come_before_any_comes_again_and_a_seed_repeats_its_order() -> None:
    first = [fault.name for fault in islice(drawn(7), len(FAULTS))]
    assert Counter(first) == Counter(fault.name for fault in FAULTS)
    assert [fault.name for fault in islice(drawn(7), len(FAULTS))] == first
    assert [fault.name for fault in islice(drawn(5), len(FAULTS))] != first


def test_an_even_seed_and_the_next_begin_with_other_halves() -> None:
    halves = [[fault.name for fault in islice(drawn(seed), len(FAULTS) // 2)] for seed in (8, 9)]
    assert set(halves[0]) & set(halves[1]) == set()


def test_faults_can_be_chosen_by_words_and_a_word_that_names_none_is_refused() -> None:
    assert {f.name for f in islice(drawn(1, "Redis,zombie"), 8)} == {
        fault.name for fault in FAULTS if "Redis" in fault.name or "zombie" in fault.name
    }
    with pytest.raises(ValueError, match="no fault has 'sunspots' in its name"):
        next(drawn(1, "sunspots"))


def test_every_crash_point_that_is_drawn_can_be_read() -> None:
    points = [found[1] for f in FAULTS if (found := re.search(r"dies at `(\S+)`", f.name))]
    assert len(points) == 18
    for point in points:
        Failpoints.from_text(f"{point}:1")


def test_a_clock_is_off_by_what_the_file_says_for_those_whom_it_concerns(tmp_path: Path) -> None:
    file = tmp_path / "clock"
    assert off_of(file, 4) == 0
    file.write_text("7200000 0")
    assert (off_of(file, 4), off_of(file, 5)) == (7_200_000, 0)
    file.write_text("-5 2")
    assert (off_of(file, 4), off_of(file, 5)) == (-5, -5)


def test_every_clock_of_a_process_looks_into_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SystemClock, "now_ms", lambda _: 1_000)
    (tmp_path / "clock").write_text("500 2")
    put_off(tmp_path / "clock")
    assert SystemClock().now_ms() == 1_500


def test_each_mutant_has_one_note() -> None:
    named = [mutant.name for _, mutant, _ in notes()]
    assert Counter(named) == Counter(mutant.name for mutant in MUTANTS)
    for kind in KINDS:
        assert set(kind.others) <= {mutant.name for mutant in kind.mutants}, kind.title
    assert set(TRIED) <= set(named)


def test_the_table_has_a_line_for_each_fault_with_its_runs_and_what_was_wrong() -> None:
    name = FAULTS[0].name
    result = Result(1, [Met(name, 1, 0.5, 2, 3), Met(name, 1, 0.5, 4, 9, wrong="stuck")])
    _, _, line = table_of([result])
    assert line == f"| {name} | 2 | 0.5 | 3.0 | 4.0 | 9.0 | 1 |"
    assert not result.holds


def test_the_page_is_what_the_command_writes() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page.startswith(HEAD)
    assert page.endswith(CHECKED + "\n".join(of_mutants()) + "\n")
    told = page.removeprefix(HEAD).partition(CHECKED)[0]
    assert page_of(told) == page
    names = re.findall(r"^\| (.+?) \| \d+ \| ", told, re.MULTILINE)
    assert names == [fault.name for fault in FAULTS if fault.name in names]


def test_a_page_that_is_made_anew_keeps_what_it_told_of_the_last_run(tmp_path: Path) -> None:
    path = tmp_path / "chaos.md"
    write_page(path, [Result(7, [Met(FAULTS[0].name, 1, 2, 3, 4)], seconds=60)], "2026-01-02")
    written = path.read_text(encoding="utf-8")
    assert "2026-01-02, seeds 7, 1 minutes: 1 faults" in written
    path.write_text(written.replace("The simulator has", "It has"), encoding="utf-8")
    write_page(path, [], "2026-01-03")
    assert path.read_text(encoding="utf-8") == written


def test_the_readme_counts_the_faults() -> None:
    assert f"inflicts\n{len(FAULTS)} kinds of faults" in README.read_text(encoding="utf-8")
