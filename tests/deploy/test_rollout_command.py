"""`wakeful rollout`: numbered, signed, never older than what is in force, and refused where nobody has loaded the version."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from tests.deploy.test_policy_command import SETTINGS, identity, key, put

from wakeful.commands.identity import INSECURE
from wakeful.commands.keyring import REVOKED, NoKey
from wakeful.deploy.cli.main import invoke
from wakeful.deploy.exits import Exit, Stopped
from wakeful.deploy.policies import append
from wakeful.deploy.rollouts import Shown, rest_of, set_next, show, unloaded
from wakeful.deploy.settings import Settings
from wakeful.events import records as r
from wakeful.events.log.memory import MemoryLog
from wakeful.processors.rollouts import rollout_key, rollout_seen_key

Run = Callable[..., tuple[int, str, str]]

LIVE = ["p0", "p1"]


def made(version: int | None = 2, percent: int = 100, rest: int | None = None) -> r.RolloutSet:
    return r.RolloutSet(0, 0, "root", "", "desk", version, percent, rest)


def told(log: MemoryLog, processor: str, offset: int, *versions: int) -> None:
    loaded = tuple(r.Version("desk", str(one)) for one in versions)
    put(log, rollout_seen_key(processor), r.RolloutSeen(processor, offset, loaded, 0))


@pytest.fixture
def log() -> MemoryLog:
    one = MemoryLog(now_ms=lambda: 5)
    one.create_topics(SETTINGS.topics.specs(["default"], 1))
    return one


@pytest.fixture
def at_desk(
    log: MemoryLog, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    @contextmanager
    def opened(_given: Settings) -> Iterator[MemoryLog]:
        yield log

    monkeypatch.setattr("wakeful.deploy.cli.rollout.kafka", opened)
    monkeypatch.setattr("wakeful.events.log.kafka_survey.members", lambda *_: LIVE)
    for name, value in {"KAFKA": "b:1", "NAMESPACE": "desk", "INSECURE": "1"}.items():
        monkeypatch.setenv(f"WAKEFUL_{name}", value)

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = invoke(("rollout", *words))
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_each_rollout_of_a_workflow_has_the_next_number_and_the_newest_is_in_force(
    log: MemoryLog,
) -> None:
    ours = identity(key("publisher", "publisher"))
    for number, version in ((1, 1), (2, 2)):
        published, offset = set_next(log, SETTINGS, made(version), ours)
        assert (published.number, offset) == (number, number - 1)
    other, _ = set_next(log, SETTINGS, replace(made(7), workflow="other"), ours)
    assert other.number == 1
    shown = show(log, SETTINGS, ours)
    assert {name: one.said.version for name, one in shown.table.in_force.items()} == {
        "desk": 2,
        "other": 7,
    }


def test_an_old_one_that_is_appended_again_and_what_nobody_vouches_for_change_nothing(
    log: MemoryLog,
) -> None:
    ours = identity(key("publisher", "publisher"))
    first, _ = set_next(log, SETTINGS, made(1), ours)
    set_next(log, SETTINGS, made(2), ours)
    append(log, SETTINGS, first, rollout_key("desk"), "again", ours)
    forged = replace(made(9), number=7)
    append(log, SETTINGS, forged, rollout_key("desk"), "forged", INSECURE)
    stray = replace(made(9), number=8)
    append(log, SETTINGS, stray, rollout_key("elsewhere"), "stray", ours)
    shown = show(log, SETTINGS, ours)
    assert {name: one.said.version for name, one in shown.table.in_force.items()} == {"desk": 2}
    older, unsigned, elsewhere = shown.table.ignored
    assert "offset 2 is ignored: older_version (it is number 1, and 2 is in force" in older
    assert "offset 3 is ignored: unsigned" in unsigned
    assert "its key is of workflow 'elsewhere', and it speaks of 'desk'" in elsewhere


def test_one_by_a_revoked_key_counts_for_nothing_and_its_number_is_taken(log: MemoryLog) -> None:
    set_next(log, SETTINGS, made(1), identity(key("stolen", "publisher")))
    ours = identity(key("publisher", "publisher"), key("stolen", "publisher", status=REVOKED))
    assert show(log, SETTINGS, ours).table.in_force == {}
    assert set_next(log, SETTINGS, made(1), ours)[0].number == 2


def test_without_a_publishers_key_nothing_is_set(log: MemoryLog) -> None:
    with pytest.raises(NoKey, match=r"RolloutSet.*'wakeful keys new --role publisher'"):
        set_next(log, SETTINGS, made(), identity(key("client")))


def test_what_cannot_be_gone_by_leaves_the_last_good_one(log: MemoryLog) -> None:
    set_next(log, SETTINGS, made(1), INSECURE)
    set_next(log, SETTINGS, made(2, 40, None), INSECURE)
    shown = show(log, SETTINGS)
    assert shown.table.in_force["desk"].said.version == 1
    assert "names no version for the rest" in shown.table.ignored[0]


def in_force(log: MemoryLog, *sets: r.RolloutSet) -> Shown:
    for one in sets:
        set_next(log, SETTINGS, one, INSECURE)
    told(log, "p0", 0, 1, 2, 3)
    told(log, "p1", 0, 1)
    return show(log, SETTINGS)


@pytest.mark.parametrize(
    ("sets", "version", "rest"),
    [
        ([made(1)], 2, 1),
        ([made(1), made(2, 10, 1)], 2, 1),
        ([made(1), made(2, 10, 1)], 3, 1),
        ([made(2)], 3, 2),
        ([made(2)], 2, 1),
        ([], 3, 2),
        ([made(None)], 3, 2),
    ],
)
def test_the_others_stay_where_they_are(
    log: MemoryLog, sets: list[r.RolloutSet], version: int, rest: int
) -> None:
    shown = in_force(log, *sets)
    assert rest_of(shown, "desk", version, 10, LIVE) == rest
    assert rest_of(shown, "desk", version, 100, LIVE) is None


def test_where_nobody_knows_where_the_others_are_it_is_asked_for(log: MemoryLog) -> None:
    shown = in_force(log)
    with pytest.raises(Stopped, match=r"the other 90 per cent .* give --rest VERSION") as stopped:
        rest_of(shown, "desk", 1, 10, LIVE)
    assert stopped.value.code == Exit.USAGE
    assert unloaded(shown, "desk", 2, LIVE) == ["p1"]


def test_a_version_that_no_live_processor_has_loaded_is_refused_unless_forced(
    log: MemoryLog, at_desk: Run
) -> None:
    for one in LIVE:
        told(log, one, 100, 1)
    code, out, err = at_desk("set", "desk", "--version", "2", "--timeout", "0")
    assert (code, out) == (Exit.REFUSED, "")
    assert "no live processor has loaded version 2 of desk (p0: 1; p1: 1): deploy it first" in err
    assert show(log, SETTINGS).table.in_force == {}
    code, out, err = at_desk("set", "desk", "--version", "2", "--force")
    assert code == Exit.DONE
    assert "p0, p1 has not loaded version 2 of desk" in err
    assert "desk: version 2; number 1 at offset 2: in force in p0, p1" in out


def test_one_that_some_have_not_loaded_is_said_aloud_and_shown(
    log: MemoryLog, at_desk: Run
) -> None:
    told(log, "p0", 100, 1, 2)
    told(log, "p1", 100, 1)
    code, out, err = at_desk("set", "desk", "--version", "2", "--percent", "10", "--timeout", "0")
    assert (code, "p1 has not loaded version 2 of desk" in err) == (Exit.DONE, True)
    assert out.startswith("desk: version 2 for 10% of sessions, version 1 for the others; number 1")
    _, shown, _ = at_desk("show")
    assert "version 2 for 10% of sessions, version 1 for the others" in shown
    assert "desk 1, 2" in shown
    found = json.loads(at_desk("show", "--json")[1])
    assert found["rollouts"][0]["percent"] == 10
    assert found["processors"]["p1"]["loaded"] == ["desk:1"]


def test_a_processor_that_does_not_go_by_it_in_time_is_named(log: MemoryLog, at_desk: Run) -> None:
    told(log, "p0", 100, 1)
    told(log, "p1", 0, 1)
    code, _, err = at_desk("set", "desk", "--version", "1", "--timeout", "0")
    assert code == Exit.NOT_IN_TIME
    assert "not in force yet in p1" in err
    assert "'wakeful rollout show'" in err


def test_cleared_the_highest_version_is_taken_again(log: MemoryLog, at_desk: Run) -> None:
    for one in LIVE:
        told(log, one, 100, 1)
    assert at_desk("set", "desk", "--version", "1")[0] == Exit.DONE
    code, out, _ = at_desk("clear", "desk", "--comment", "over")
    assert (code, "the highest version that is loaded; number 2" in out) == (Exit.DONE, True)
    found: Any = json.loads(at_desk("show", "--json")[1])
    assert (found["rollouts"][0]["version"], found["rollouts"][0]["comment"]) == (None, "over")
