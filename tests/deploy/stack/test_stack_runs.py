"""The local stack on real processes: it starts, heals, moves aside and leaves nothing behind."""

import os
import signal
import socket
import stat
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
import redis
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from wakeful.deploy.stack import (
    Endpoints,
    Stack,
    StackError,
    external,
    native_kafka,
    native_postgres,
    processes,
)
from wakeful.deploy.stack.provider import Place
from wakeful.deploy.stack.records import StateFile


def topics(bootstrap: str) -> set[str]:
    return set(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10).topics)


def make_topic(bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(timeout=10)


@pytest.mark.case("L28")
def test_a_stack_that_is_up_serves_all_three(stack: Stack, endpoints: Endpoints) -> None:
    assert {line.state for line in stack.status()} <= {"running", "external"}
    assert "wakeful.probe" in topics(endpoints.kafka)
    with psycopg.connect(endpoints.postgres) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    with redis.Redis.from_url(endpoints.redis) as client:
        assert client.ping()


def test_a_second_up_finds_the_first(stack: Stack, endpoints: Endpoints) -> None:
    before = [(line.name, line.pid) for line in stack.status()]
    assert stack.up() == endpoints
    assert [(line.name, line.pid) for line in stack.status()] == before, "nothing was started"


def test_a_killed_broker_comes_back_on_its_port_with_its_data(
    private_stack: Stack, tmp_path: Path
) -> None:
    stack = private_stack
    first = stack.up()
    make_topic(first.kafka, "kept")
    with psycopg.connect(first.postgres, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept (id int)")

    stack.kill("kafka", signal.SIGKILL)
    assert stack.endpoints() is None
    assert {s.name: s.state for s in stack.status()}["kafka"] == "stopped"
    assert stack.start("kafka") == first
    assert "kept" in topics(first.kafka)

    stack.kill("postgres", signal.SIGKILL)
    stack.kill("redis", signal.SIGKILL)
    assert stack.up() == first
    with psycopg.connect(first.postgres) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)

    stack.kill("kafka", signal.SIGSTOP)
    stack.kill("kafka", signal.SIGCONT)
    assert stack.endpoints() == first

    started = [line.pid for line in stack.status()]
    stack.down()
    assert stack.endpoints() is None
    assert not any(processes.identity(pid) for pid in started if pid)
    stack.down()  # a repeat does nothing

    data = [Path(r.data) for r in StateFile(stack.home).load().records.values()]
    stack.reset()
    assert not any(folder.exists() for folder in data)
    assert not stack.home.exists()


def test_two_commands_at_once_start_one_stack(private_stack: Stack) -> None:
    stack = private_stack
    with ThreadPoolExecutor(2) as pool:
        both = [
            pool.submit(Stack(stack.home, environ={"WAKEFUL_STACK": "native"}).up) for _ in "ab"
        ]
        one, other = (each.result() for each in both)
    assert one == other


def test_a_broker_of_another_stack_is_refused(stack: Stack, tmp_path: Path) -> None:
    state = StateFile(stack.home).load()
    if "native:kafka" not in state.records:
        pytest.skip("the broker is not ours")
    stranger = replace(state.records["native:kafka"], cluster_id="AAAAAAAAAAAAAAAAAAAAAA")
    state.records[stranger.key] = stranger
    StateFile(tmp_path).save(state)
    with pytest.raises(StackError, match=r"belongs to cluster .*, expected AAAAAAAAAAAAAAAAAAAAAA"):
        Stack(tmp_path, environ={"WAKEFUL_STACK": "native"}).up()


@pytest.mark.parametrize("service", ["kafka", "postgres", "redis"])
def test_a_taken_port_is_named_with_the_way_out(tmp_path: Path, service: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        variable = f"WAKEFUL_{service.upper()}_PORT"
        with pytest.raises(StackError, match=rf"port {port} for {service} is taken.*{variable}"):
            processes.pick_port(service, str(port))


def test_a_url_that_nobody_answers_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external, "REACH_LIMIT_S", 0.5)
    nobody = {
        "WAKEFUL_KAFKA": "127.0.0.1:1",
        "WAKEFUL_POSTGRES": "postgresql://me:hidden@127.0.0.1:1/x",
        "WAKEFUL_REDIS": "redis://127.0.0.1:1/0",
    }
    with pytest.raises(StackError) as refused:
        Stack(tmp_path, environ=nobody).up()
    for name in nobody:
        assert f"cannot reach {name}=" in str(refused.value)
    assert "hidden" not in str(refused.value)


def test_urls_in_the_environment_are_used_and_never_ended(
    endpoints: Endpoints, stack: Stack, tmp_path: Path
) -> None:
    urls = {
        "WAKEFUL_KAFKA": endpoints.kafka,
        "WAKEFUL_POSTGRES": endpoints.postgres,
        "WAKEFUL_REDIS": endpoints.redis,
    }
    outside = Stack(tmp_path / "home", environ=urls)
    assert outside.endpoints() is None
    assert outside.up() == endpoints
    assert outside.endpoints() == endpoints
    assert [line.state for line in outside.status()] == ["external"] * 3
    assert endpoints.postgres not in {line.address for line in outside.status()}
    with pytest.raises(StackError, match="was not started here"):
        outside.kill("kafka")
    outside.reset()
    assert stack.endpoints() == endpoints


def test_a_broker_that_never_gets_ready_shows_its_log(
    private_stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = native_kafka.COMMON | {"offsets.topic.num.partitions": "none"}
    monkeypatch.setattr(native_kafka, "COMMON", broken)
    refused = r"(?s)cannot format kafka's storage.*offsets\.topic.num.partitions"
    with pytest.raises(StackError, match=refused):
        private_stack.up()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to run Postgres as somebody else")
@pytest.mark.postgres
@pytest.mark.parametrize("installed", ["for all", "below a closed folder"])
def test_as_root_postgres_runs_below_a_folder_that_is_closed_to_others(
    installed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if installed == "below a closed folder":
        monkeypatch.setattr(native_postgres, "_others_reach", lambda _: False)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    outside = {"WAKEFUL_STACK": "native"}
    stack = Stack(closed / "home", environ=outside)
    remembered = []
    place = Place(stack.home, outside, "unused", remembered.append)
    provider = native_postgres.NativePostgres()
    record = provider.start(place, None)
    try:
        assert provider.is_alive(record)
        assert Path(f"/proc/{record.pid}").stat().st_uid != 0
        assert Path(record.data).is_relative_to(Path(tempfile.gettempdir()))
        assert stat.S_IMODE(closed.stat().st_mode) == 0o700
        assert remembered[-1].pid == record.pid
    finally:
        provider.stop(record)
        provider.remove(record)
    assert not Path(record.data).exists()
