"""Secrets that activities are given, and tell in every way they can: nothing that is kept anywhere has them."""

import base64
import json
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
import redis
from tests.deploy.supervised import until

from wakeful.deploy.cli.context import kafka
from wakeful.deploy.cli.main import invoke
from wakeful.deploy.exits import Exit
from wakeful.deploy.processes import apply_topics, prepare_views
from wakeful.deploy.settings import Settings
from wakeful.deploy.stack import Endpoints
from wakeful.deploy.supervisor import Supervisor
from wakeful.events.log.protocol import Isolation, Log, Place, Record

pytestmark = [pytest.mark.kafka, pytest.mark.postgres]

APP = str(Path(__file__).with_name("canary_app.py"))
SESSION = "m4rked-session"
"""Stands in all that is searched: whoever finds nothing has looked in the wrong place."""

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the app shares with its test; what it has is searched by nobody."""
    folder = tmp_path / "canary"
    folder.mkdir()
    (folder / "word").write_text(f"c4nary{secrets.token_hex(8)}", "utf-8")
    monkeypatch.setenv("CANARY", str(folder))
    return folder


@pytest.fixture
def leaky(
    endpoints: Endpoints,
    postgres_url: str,
    tmp_path: Path,
    keys: Path,
    canary: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[tuple[Settings, Supervisor]]:
    """The app, running in a namespace of its own."""
    settings = Settings(
        kafka=endpoints.kafka,
        postgres=postgres_url,
        redis=endpoints.redis,
        cluster_id=endpoints.cluster_id,
        namespace=f"can{os.getpid()}",
        tenant="acme",
        home=tmp_path / "run",
        blobs=f"file://{tmp_path}/run/blobs",
        open_policy=True,
        keys=keys,
    )
    with kafka(settings, may_be_empty=True) as log:
        apply_topics(log, settings, ["default"])
    prepare_views(settings)
    for name, value in settings.to_environ().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("wakeful.deploy.cli.asking.DECIDED_MS", 30_000)  # machines may be busy
    with Supervisor(settings, APP, queues=["default"], spares_max=0) as supervisor:
        yield settings, supervisor


@pytest.fixture
def cli(leaky: object, capsys: pytest.CaptureFixture[str]) -> Cli:
    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = invoke(arguments)
        return code, *capsys.readouterr()

    return run


def records(log: Log, topic: str) -> list[Record]:
    """All of a topic, those of aborted transactions as well."""
    places = [Place(topic, number) for number in range(log.partitions(topic))]
    ends = log.ends(places, Isolation.UNCOMMITTED)
    reader, found = log.reader(Isolation.UNCOMMITTED), []
    reader.assign({place: first for place, (first, end) in ends.items() if first < end})
    missing = {place for place, (first, end) in ends.items() if first < end}
    while missing:
        for one in reader.poll(1_000, 1_000):
            if isinstance(one, Record):
                found.append(one)
            else:
                missing.discard(Place(one.topic, one.partition))
    reader.close()
    return found


def in_topics(settings: Settings) -> dict[str, bytes]:
    """Keys, values and headers, by topic."""
    found = {}
    with kafka(settings) as log:
        for spec in settings.topics.specs(["default"], settings.partitions):
            parts: list[bytes] = []
            for one in records(log, spec.name):
                parts += [one.key or b"", one.value or b""]
                parts += [part for name, value in one.headers for part in (name.encode(), value)]
            found[spec.name] = b"\n".join(parts)
    return found


def in_postgres(settings: Settings) -> dict[str, bytes]:
    """Each table of the database, as its bytes are."""
    found = {}
    with psycopg.connect(settings.postgres_url) as connection:
        tables = connection.execute(
            "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables "
            "WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
        ).fetchall()
        for (table,) in tables:
            with connection.cursor().copy(f"COPY {table} TO STDOUT (FORMAT binary)") as copy:
                found[table] = b"".join(map(bytes, copy))
    return found


def in_redis(settings: Settings) -> dict[str, bytes]:
    """All that is left of leases, and what was emitted; and what is told of the server."""
    with redis.Redis.from_url(str(settings.redis)) as client:
        found = {f"redis {key!r}": key + (client.dump(key) or b"") for key in client.scan_iter("*")}
        for key in client.scan_iter(f"{settings.namespace}:tokens:*"):  # a dump is compressed
            found[f"tokens {key!r}"] = b"".join(fields[b"text"] for _, fields in client.xrange(key))
        return found


def in_files(folder: Path) -> dict[str, bytes]:
    """Logs, states, blobs, whatever processes leave."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def writings(word: str) -> list[bytes]:
    """The word as it stands in base64 as well, whatever is before it."""
    lies = [base64.b64encode(bytes(n) + word.encode()).decode()[4:-4].encode() for n in range(3)]
    return [word.encode(), word.encode().hex().encode(), *lies]


def has(everything: dict[str, bytes], words: list[bytes]) -> list[str]:
    return [
        f"{name}: {data[max(0, at - 200) : at + 60]!r}"
        for name, data in everything.items()
        for word in words
        if (at := data.find(word)) >= 0
    ]


def test_secrets_of_activities_are_kept_nowhere_and_a_revoked_one_is_not_used_again(
    leaky: tuple[Settings, Supervisor], cli: Cli, canary: Path
) -> None:
    settings, supervisor = leaky
    word = (canary / "word").read_text("utf-8")
    code, _, err = cli("session", "open", "leaky", "--session", SESSION)
    assert code == Exit.DONE, err
    code, out, err = cli("session", "send", SESSION, "go", "--wait", "--timeout", "60")
    assert code == Exit.DONE, err
    assert (canary / "died").exists()
    assert max(supervisor.restarts.values()) >= 1

    # Attempt 1 had the first secret, and it was revoked: attempt 2 was given another, and where there is none it ran not.
    assert (canary / "used").read_text("utf-8").split("\n")[:-1] == ["bytes_of 1", "bytes_of 2"]
    assert "no_credentials" in out

    lays_aside(settings)
    shown = outputs(cli)
    exported(cli, settings.home)
    supervisor.stop()
    everything = {**in_topics(settings), **in_postgres(settings), **in_redis(settings)}
    everything |= {**in_files(settings.home), **shown}

    assert has(everything, writings(word)) == []
    looked_at(everything, str(supervisor.log_path("worker-default-0")))


def looked_at(everything: dict[str, bytes], log: str) -> None:
    """What should be in there is: the session's name, and the stars that stand for its secrets."""
    marked = has(everything, [SESSION.encode()])
    for where in (
        "commands.v1",
        "events.v1",
        "activities.default.v1",
        "outcomes.v1",
        "dead-letters.v1",
    ):
        assert any(f".{where}: " in one for one in marked), where
    for where in ("ledger: ", "sessions: ", "session show", "explain", "tail", "dlq show", "sql"):
        assert any(where in one for one in marked), where
    for name in EXPORTS:
        assert any(f"/{name}: " in one for one in marked), name
    hidden = {name for name, data in everything.items() if b"***" in data}
    for where in (
        *(".commands.v1", ".events.v1", ".outcomes.v1", ".dead-letters.v1", "/blobs/", log),
        "tokens ",
    ):
        assert any(where in name for name in hidden), where
    assert any("audit verify" in name for name in everything)


def lays_aside(settings: Settings) -> None:
    """Each of the commands again, without its signature: they are dead letters, byte for byte."""
    with kafka(settings) as log:
        found, producer = records(log, settings.topics.commands), log.producer()
        for one in found:
            headers = [(n, v) for n, v in one.headers if not n.startswith("wakeful_signature")]
            producer.produce(one.topic, key=one.key, value=one.value, headers=headers)
        producer.flush(10_000)

        def are_dead() -> bool:
            return len(records(log, settings.topics.dead_letters)) >= len(found)

        until(are_dead, "the dead letters")


EXPORTS = ("all.jsonl", "session.jsonl", "all.sqlite")


def exported(cli: Cli, folder: Path) -> None:
    """A namespace and a session in files, and a database made of them: they lie where files are looked through."""
    whole, session, database = (str(folder / name) for name in EXPORTS)
    for one in (
        ("export", "--all", whole),
        ("export", SESSION, session),
        ("import", whole, database),
    ):
        code, _, err = cli("audit", *one)
        assert code == Exit.DONE, err


def outputs(cli: Cli) -> dict[str, bytes]:
    """What commands print and export."""
    asked = [
        *(
            ("session", "show", SESSION),
            ("session", "show", SESSION, "--json"),
            ("explain", SESSION),
        ),
        *(("ledger", "--json"), ("ledger",), ("session", "list"), ("activity", "list", SESSION)),
        *(("approval", "list", "--json"), ("status", "--json"), ("doctor",)),
        *(("audit", "verify"), ("audit", "verify", "--blobs", "--json")),
        *(("dlq", "list", "--json"), ("dlq", "list")),
        ("tail", "--from-start", "--no-follow", "--json"),
        ("tail", "outcomes", "--from-start", "--no-follow", "--json"),
        *(("sql", f"SELECT * FROM {view}") for view in ("ledger", "sessions", "outcomes")),
    ]
    shown = {" ".join(one): cli(*one)[1:] for one in asked}
    for one in json.loads(shown["dlq list --json"][0])[-2:]:
        shown[f"dlq show {one['id']}"] = cli("dlq", "show", one["id"], "--json")[1:]
    return {name: "\n".join(told).encode() for name, told in shown.items()}
