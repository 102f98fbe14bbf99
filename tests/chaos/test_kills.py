"""kill -9 at the worst moments, on real Kafka and Postgres: nothing is lost, doubled, torn or stranded."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.long_form import whole
from tests.chaos.rig import Rig

pytestmark = pytest.mark.chaos


@pytest.fixture
def rig(kafka: str, postgres_url: str, namespace: str, tmp_path: Path) -> Iterator[Rig]:
    one = Rig(kafka=kafka, postgres=postgres_url, namespace=namespace, home=tmp_path)
    yield one
    one.close()


@pytest.mark.parametrize(
    "point",
    [
        pytest.param("p.begun", marks=whole),
        pytest.param("p.produced", marks=whole),
        "p.commit_sent",
        pytest.param("p.committed", marks=whole),
    ],
)
def test_a_processor_killed_in_a_transaction_loses_and_doubles_nothing(
    rig: Rig, point: str
) -> None:
    with rig.running(failpoints={"processor-0": f"{point}:3"}) as running:
        rig.open(8)
        rig.drive()
        rig.assert_all_holds()
        assert running.exit_codes["processor-0"] == [-9]


@pytest.mark.case("U15")
@pytest.mark.case("L37")
def test_a_worker_killed_in_mid_activity_pays_once_and_asks_the_model_once(rig: Rig) -> None:
    with rig.running(pause_s=0.2, failpoints={"worker-default-0": "w.dispatched:5"}) as running:
        rig.open(8, "slow one, refund me")
        rig.drive()
        rig.assert_all_holds()
        assert running.exit_codes["worker-default-0"] == [-9]


@whole
def test_a_worker_killed_after_its_results_were_sent_asks_the_model_no_second_time(
    rig: Rig,
) -> None:
    with rig.running(failpoints={"worker-default-0": "w.result_sent:4"}) as running:
        rig.open(8)
        rig.drive()
        rig.assert_all_holds()
        assert running.exit_codes["worker-default-0"] == [-9]


@pytest.mark.case("U24")
@pytest.mark.parametrize(
    "point",
    [
        pytest.param("j.applied", marks=whole),
        "j.commit_sent",
        pytest.param("j.committed", marks=whole),
    ],
)
def test_a_projector_killed_in_mid_batch_ends_with_the_rows_of_a_rebuild(
    rig: Rig, point: str
) -> None:
    with rig.running(failpoints={"projector": f"{point}:1"}) as running:
        rig.open(6)
        rig.drive()
        rig.drive(until=lambda: running.exit_codes["projector"] == [-9])
        rig.assert_all_holds()


@pytest.mark.case("U19")
@pytest.mark.slow
def test_results_and_grants_that_came_in_time_win_while_the_processors_were_down(rig: Rig) -> None:
    with rig.running(pause_s=2.0, expires="8s") as running:
        rig.open(1)
        rig.drive()  # all is up and warm: from here on the seconds count
        rig.approves = False
        rig.open(1)
        rig.open(1, "slow one, refund me")
        rig.drive(until=lambda: "s1" in rig.wanted and len(rig.told("model.ndjson")) == 5)
        running.kill("processor-0", signal.SIGSTOP)
        rig.approve(rig.wanted["s1"])
        rig.wait(9.0)
        assert len(rig.told("model.ndjson")) == 6
        running.kill("processor-0", signal.SIGKILL)
        rig.approves = True
        rig.drive()
        rig.assert_all_holds()
