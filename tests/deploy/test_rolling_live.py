"""A rolling restart from version 1 to version 2 and back on real Kafka, while sessions are in mid turn, parked, and asked for more."""

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.deploy import supervised

from wakeful.commands.client import Client
from wakeful.commands.wire import decode_command
from wakeful.deploy.cli.context import client, kafka
from wakeful.deploy.cli.main import invoke
from wakeful.deploy.exits import Exit
from wakeful.deploy.processes import apply_topics, prepare_views, processors_group
from wakeful.deploy.settings import Settings
from wakeful.deploy.stack import Endpoints
from wakeful.deploy.supervisor import Supervisor
from wakeful.events import records as r
from wakeful.events.codec import decode_event
from wakeful.events.log.kafka_survey import members
from wakeful.events.log.protocol import Isolation, Log, Place, Record
from wakeful.events.payloads import load_json
from wakeful.projections.audit import asked_by, audit, evidence_from_log

pytestmark = [pytest.mark.kafka, pytest.mark.postgres, pytest.mark.slow]

APP = str(Path(__file__).with_name("rolling_app.py"))
SESSIONS = int(os.environ.get("WAKEFUL_ROLLING_SESSIONS", "10"))
"""Of each kind: parked, and in mid turn; `make chaos-tests` has 200."""

READS_MAX = 5

NUMBERS = count()
"""Each fleet has a control topic of its own."""

Cli = Callable[..., tuple[int, Any, str]]


class Fleet:
    """Two processors, a worker and a projector; what they load is in a file."""

    def __init__(self, settings: Settings, supervisor: Supervisor, code: Path) -> None:
        self.settings, self.supervisor, self.code = settings, supervisor, code
        self.loads = 0

    def deploy(
        self,
        *loaded: str,
        meanwhile: Callable[[], None] = lambda: None,
        names: tuple[str, ...] = ("processor-0", "processor-1", "worker-default-0"),
    ) -> None:
        """One process after another is told to end, and comes back with this code."""
        self.code.write_text(" ".join(loaded), encoding="utf-8")
        for name in names:
            before = self.supervisor.pids()[name]
            self.supervisor.kill(name, signal.SIGTERM)
            meanwhile()
            supervised.until(
                lambda name=name, pid=before: self.supervisor.pids().get(name, pid) != pid,
                f"{name} to come back",
            )

    def live(self) -> list[str]:
        return members(self.settings.kafka_servers, processors_group(self.settings))


@pytest.fixture
def fleet(
    endpoints: Endpoints,
    postgres_url: str,
    tmp_path: Path,
    keys: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Fleet]:
    monkeypatch.setattr(supervised, "LIMIT_S", 30.0 + SESSIONS / 4)
    code = tmp_path / "code"
    code.write_text("1 first", encoding="utf-8")
    (tmp_path / "book").touch()
    monkeypatch.setenv("ROLLING_CODE", str(code))
    monkeypatch.setenv("ROLLING_BOOK", str(tmp_path / "book"))
    settings = Settings(
        kafka=endpoints.kafka,
        postgres=postgres_url,
        redis=endpoints.redis,
        cluster_id=endpoints.cluster_id,
        namespace=f"rolling{os.getpid()}.{next(NUMBERS)}",
        tenant="acme",
        actor="ann",
        home=tmp_path / "run",
        open_policy=True,
        keys=keys,
    )
    settings.home.mkdir()
    for name, value in settings.to_environ().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("wakeful.deploy.cli.asking.DECIDED_MS", 30_000)
    with kafka(settings, may_be_empty=True) as log:
        apply_topics(log, settings, ["default"])
    prepare_views(settings)
    supervisor = Supervisor(settings, APP, queues=["default"], processors=2, spares_max=2)
    with supervisor:
        yield Fleet(settings, supervisor, code)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    def run(*arguments: str) -> tuple[int, Any, str]:
        capsys.readouterr()
        code = invoke(arguments)
        out, err = capsys.readouterr()
        return code, json.loads(out) if "--json" in arguments and out else out, err

    return run


class Sessions:
    """What was asked of whom, and what came of it, by the events."""

    def __init__(self, log: Log, settings: Settings, asking: Client) -> None:
        self.log, self.topics, self.asking = log, settings.topics, asking
        self.asked: Counter[str] = Counter()
        self.load = 0
        self._events: list[r.Event] = []
        self._reader = log.reader(Isolation.COMMITTED)
        count = log.partitions(settings.topics.events)
        self._reader.assign({Place(settings.topics.events, n): 0 for n in range(count)})

    def ask(self, session_id: str, text: str) -> None:
        if not self.asked[session_id]:
            self.asking.post(*self.asking.opening("desk", session_id))
        self.asked[session_id] += 1
        self.asking.post(session_id, self.asking.message(text))

    def more(self) -> None:
        """Load: a new session, and one more message for an old one."""
        self.load += 1
        self.ask(f"load{self.load}", "work")
        self.ask(f"mid{self.load % SESSIONS}", "work")
        self.asking.flush()

    def events(self) -> list[r.Event]:
        """All that are committed by now."""
        while items := self._reader.poll(1_000, 50):
            found = [one for one in items if isinstance(one, Record)]
            self._events += [decode_event(one.value, one.headers) for one in found]
            if not found:
                break
        return self._events

    def close(self) -> None:
        self._reader.close()

    def of(self, kind: type, prefix: str = "") -> list[tuple[str, Any]]:
        return [
            (e.envelope.session_id, e.body)
            for e in self.events()
            if isinstance(e.body, kind) and e.envelope.session_id.startswith(prefix)
        ]

    def answered(self) -> bool:
        done = Counter(session_id for session_id, _ in self.of(r.TurnCompleted))
        return done == self.asked

    def versions(self, prefix: str) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for session_id, turn in self.of(r.TurnStarted, prefix):
            found.setdefault(session_id, []).append(turn.workflow_version)
        return found


@pytest.mark.case("U1")
@pytest.mark.case("U5")
def test_nothing_is_lost_repeated_or_diverged_from_version_1_to_2_and_back_and_a_bug_is_repaired(
    fleet: Fleet, cli: Cli, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        log = stack.enter_context(kafka(fleet.settings))
        asking = stack.enter_context(client(fleet.settings, log))
        sessions = stack.enter_context(closing(Sessions(log, fleet.settings, asking)))
        rolled_out_and_back(fleet, cli, sessions)
        assert_each_cent_is_there_once(sessions, tmp_path / "book")
        repaired(fleet, cli, sessions)
        assert_audited(sessions, fleet.settings)


def rolled_out_and_back(fleet: Fleet, cli: Cli, sessions: Sessions) -> None:
    """From version 1 to 2 and back, while they are in mid turn, parked, and asked for more."""
    asking = sessions.asking
    supervised.until(lambda: len(fleet.live()) == 2, "both processors")
    assert cli("rollout", "set", "desk", "--version", "1")[0] == Exit.DONE
    code, _, err = cli("rollout", "set", "desk", "--version", "2", "--timeout", "0")
    assert (code, "no live processor has loaded version 2 of desk" in err) == (
        Exit.REFUSED,
        True,
    )
    for number in range(SESSIONS):
        sessions.ask(f"parked{number}", "park")
        sessions.ask(f"mid{number}", "work")
    asking.flush()
    supervised.until(lambda: len(sessions.of(r.SessionWaiting, "parked")) == SESSIONS, "parked")

    fleet.deploy("1", "2", "first", meanwhile=sessions.more)
    share = ("rollout", "set", "desk", "--version", "2", "--percent", "50", "--json")
    code, told, err = cli(*share)
    assert code == Exit.DONE, err
    assert (told["rest"], len(told["processors"])) == (1, 2)
    sessions.more()
    assert cli("rollout", "set", "desk", "--version", "2")[0] == Exit.DONE
    for number in range(0, SESSIONS, 2):
        asking.signal(f"parked{number}", "go")
        sessions.ask(f"parked{number}", "work")
    sessions.more()
    asking.flush()
    evens = [f"parked{number}" for number in range(0, SESSIONS, 2)]
    supervised.until(
        lambda: all(len(sessions.versions("parked")[one]) == 2 for one in evens), "new turns"
    )

    assert cli("rollout", "set", "desk", "--version", "1", "--comment", "back")[0] == Exit.DONE
    for number in range(1, SESSIONS, 2):
        asking.signal(f"parked{number}", "go")
        sessions.ask(f"parked{number}", "work")
    asking.flush()
    supervised.until(sessions.answered, "all answers")
    fleet.deploy("1", "first", meanwhile=sessions.more)
    supervised.until(sessions.answered, "all answers of the version that is left")

    assert sessions.of(r.SessionHeld) + sessions.of(r.NondeterminismFound) == []
    told = sessions.versions("parked")
    assert {told[f"parked{n}"][0] for n in range(SESSIONS)} == {1}
    assert {told[f"parked{n}"][1] for n in range(0, SESSIONS, 2)} == {2}
    assert {told[f"parked{n}"][1] for n in range(1, SESSIONS, 2)} == {1}


def assert_each_cent_is_there_once(sessions: Sessions, book: Path) -> None:
    """One payment for each message, and each state counts on from the one before, whichever version left it."""
    paid = book.read_text(encoding="utf-8").split()
    turns = {(session_id, turn.turn) for session_id, turn in sessions.of(r.TurnStarted)}
    assert Counter(key.rsplit("/", 1)[0] for key in set(paid)) == Counter(
        f"acme/{session_id}/{turn}" for session_id, turn in turns
    )
    assert len(paid) == len(set(paid))
    said: dict[str, list[int]] = {}
    for session_id, reply in sessions.of(r.ReplySent):
        text = load_json(reply.message)["text"]
        if text != "welcome":
            said.setdefault(session_id, []).append(int(text.rsplit(" ", 2)[1]))
    assert said == {
        session_id: [100 * (n + 1) for n in range(count)]
        for session_id, count in sessions.asked.items()
    }


def assert_audited(sessions: Sessions, settings: Settings) -> None:
    """Topics are read one after another: what is still being written may be seen in one and not in another, for a moment."""
    for _ in range(READS_MAX):
        evidence = evidence_from_log(sessions.log, settings.topics, ["default"])
        found = [str(one) for one in audit(evidence, asked_by(decode_command))]
        if not found:
            break
        time.sleep(1)
    assert found == []


def repaired(fleet: Fleet, cli: Cli, sessions: Sessions) -> None:
    """A deploy holds three sessions; what an operator can do about it, with one and with all that are so."""
    processors = ("processor-0", "processor-1")
    assert cli("rollout", "clear", "desk")[0] == Exit.DONE
    fleet.deploy("1", "2", names=processors)
    held = ["mid0", "mid1", "mid2"]
    turns = {one: len(told) for one, told in sessions.versions("mid").items()}
    for one in held:
        sessions.ask(one, "bug")
    sessions.asking.flush()
    supervised.until(lambda: len(sessions.of(r.SessionHeld)) == 3, "all held")

    code, told, err = cli("repair", "release", "mid0", "--json")
    assert (code, told[0]["fate"]) == (Exit.REFUSED, "held"), err
    assert "ValueError: a bug of the second deploy" in told[0]["detail"]
    code, _, err = cli("repair", "reset", "--where", "reason=workflow_raised")
    assert (code, "reset 3 sessions, and nobody can confirm it here" in err) == (Exit.USAGE, True)
    code, told, err = cli("repair", "reset", "mid0", "--to-turn", "99", "--json")
    assert (code, "name one of turns" in told[0]["detail"]) == (Exit.REFUSED, True), err
    all_held = ("--where", "reason=workflow_raised", "--yes", "--json")
    code, told, err = cli("repair", "pin", "--version", "1", *all_held)
    assert (code, {one["fate"] for one in told}) == (Exit.DONE, {"held"}), err

    fleet.deploy("1", "2", "first", names=processors)
    supervised.until(lambda: len(fleet.live()) == 2, "both processors")
    code, told, err = cli("repair", "reset", *all_held, "--reason", "mended")
    assert (code, sorted(one["session_id"] for one in told)) == (Exit.DONE, held), err
    supervised.until(sessions.answered, "all answered")
    for one in held:
        assert sessions.versions("mid")[one][turns[one] :] == [2, 1]
    assert {(body.to_turn, body.reason) for one, body in sessions.of(r.SessionReset)} == {
        (turns[one], "mended") for one in held
    }
    code, out, _ = cli("explain", "mid1")
    assert f"ann took it back to the end of turn {turns['mid1']} (mended)" in out
    assert "ann pinned it to version 1" in out
