"""Two runs of one namespace in different homes: one of them ends and says why, instead of both fencing each other for ever."""

from pathlib import Path
from time import monotonic

from wakeful.deploy.cli.context import kafka as opened
from wakeful.deploy.exits import Exit
from wakeful.deploy.processes import apply_topics
from wakeful.deploy.settings import Settings
from wakeful.deploy.stack import Endpoints
from wakeful.deploy.supervisor import Supervisor

APP = str(Path(__file__).with_name("desk_app.py"))
LIMIT_S = 60.0
LOOK_S = 0.05


def test_the_run_that_was_there_first_ends_and_names_the_other(
    endpoints: Endpoints, namespace: str, tmp_path: Path
) -> None:
    made = [
        Settings(
            kafka=endpoints.kafka,
            cluster_id=endpoints.cluster_id,
            namespace=namespace,
            home=tmp_path / name,
            insecure=True,
        )
        for name in ("one", "other")
    ]
    with opened(made[0], may_be_empty=True) as log:
        apply_topics(log, made[0], [])
    first, second = [
        Supervisor(
            each, APP, queues=[], workers=0, projector=False, spares_max=0, backoff_max_s=0.2
        )
        for each in made
    ]
    with first, second:
        limit = monotonic() + LIMIT_S
        while not (first.wait(LOOK_S) or second.wait(LOOK_S)):
            assert monotonic() < limit, f"both still run after {LIMIT_S} s"
        ended, left = (first, second) if first.gave_up else (second, first)
        assert ended.gave_up is not None
        assert ended.gave_up.code == Exit.BUSY
        assert left.gave_up is None
        assert ended.exit_codes["processor-0"].count(Exit.BUSY) == 3
        log_text = ended.log_path("processor-0").read_text()
        assert f"another process has taken over as {namespace}.processors.0" in log_text
        assert "end one of them, give this one a WAKEFUL_NAMESPACE of its own" in log_text
