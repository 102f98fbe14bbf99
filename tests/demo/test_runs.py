"""What a run is promised by its flags, and which run of a home is gone on with."""

from pathlib import Path

from wakeful.deploy.demo.console import Beside
from wakeful.deploy.demo.messages import Incoming
from wakeful.deploy.demo.report import Promises
from wakeful.deploy.demo.runs import Options, Run, cut_run, earlier_runs, new_run
from wakeful.deploy.settings import Settings

MESSAGES = [Incoming(1, "hi", "ann", "s00001")]
ASKED = Options().digest(MESSAGES)


def settings(home: Path, cluster_id: str = "here") -> Settings:
    return Settings(home=home, cluster_id=cluster_id)


def begun(home: Path, asked: str = ASKED) -> Run:
    run = new_run(settings(home))
    run.begin(asked)
    return run


def test_kills_and_lost_answers_are_promised_unless_it_is_calm() -> None:
    assert Options().promises == Promises(kills_min=2, recovered_min=1, seconds_max=120)
    assert "--drop" in Options().payment_flags
    assert Options(calm=True).promises == Promises(kills_min=0, recovered_min=0, seconds_max=120)
    assert Options(calm=True).payment_flags == ["--slow", "100"]


def test_a_late_commit_is_one_whatever_else_is_asked_for() -> None:
    for calm in (False, True):
        options = Options(calm=calm, late_commit=True)
        assert "--late" in options.payment_flags
        assert "--drop" not in options.payment_flags
        assert options.promises.recovered_min == 1
    assert "--dedupe" in Options(dedupe=True).payment_flags


def test_nothing_is_promised_of_how_many_refunds_others_ask_for_or_how_long_a_person_thinks() -> (
    None
):
    assert Options(own=False).promises == Promises(2, recovered_min=0, seconds_max=None)
    assert Options(ask=True).promises.seconds_max is None
    assert Options(console=Beside.YOURS).promises.seconds_max is None
    assert Options(console=Beside.SHOWN).promises.seconds_max == 120


def test_a_run_that_was_cut_is_gone_on_with_where_the_same_is_asked_for(tmp_path: Path) -> None:
    run = begun(tmp_path)
    (found,) = earlier_runs(settings(tmp_path))
    assert (found.settings.namespace, found.resumed) == (run.settings.namespace, True)
    assert cut_run([found], ASKED) is found
    assert cut_run([found], Options(calm=True).digest(MESSAGES)) is None
    assert cut_run([found], Options().digest([*MESSAGES, *MESSAGES])) is None


def test_a_run_that_has_ended_is_not(tmp_path: Path) -> None:
    begun(tmp_path).end()
    assert cut_run(earlier_runs(settings(tmp_path)), ASKED) is None


def test_runs_on_another_cluster_are_left_alone(tmp_path: Path) -> None:
    begun(tmp_path)
    assert earlier_runs(settings(tmp_path, "elsewhere")) == []
