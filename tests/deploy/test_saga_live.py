"""Sessions that are cancelled on real Kafka: their calls are stopped at once, and what they did is taken back."""

import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.deploy.supervised import until

from wakeful.deploy.cli.context import client, kafka, queries
from wakeful.deploy.cli.main import invoke
from wakeful.deploy.exits import Exit
from wakeful.deploy.processes import apply_topics, prepare_views
from wakeful.deploy.settings import Settings
from wakeful.deploy.stack import Endpoints
from wakeful.deploy.supervisor import Supervisor
from wakeful.projections.queries import LIMIT_MAX

APP = str(Path(__file__).with_name("saga_app.py"))
COUNT = int(os.environ.get("WAKEFUL_CANCELLED_SESSIONS", "5"))
"""`make chaos-tests` cancels 5,000."""

SESSIONS = [f"t{number}" for number in range(COUNT)]
IN_FLIGHT = min(COUNT, 50)
LIMIT_S = 60 + COUNT / 10
STOPPED_S = 10.0 + COUNT / 100
"""A machine that is busy with other tests takes its time; an idle one takes some tenths of a second."""


_CANCELLED = """
SELECT count(*) AS sessions FROM {views}.sessions WHERE tenant = %(tenant)s AND status = 'Cancelled' LIMIT %(limit)s
"""

_CALLS = """
SELECT idempotency_key, settled_at FROM {views}.ledger
WHERE tenant = %(tenant)s AND idempotency_key = ANY (%(keys)s) AND status = 'cancelled' LIMIT %(limit)s
"""


class Book:
    """What activities did, by the file that they write into."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def of(self, what: str) -> dict[str, float]:
        """When it was done, by key."""
        lines = (line.split() for line in self.path.read_text(encoding="utf-8").splitlines())
        return {key: float(at) for done, key, at in lines if done == what}

    def keys(self, what: str) -> list[str]:
        """What was done, in order, as often as it was."""
        lines = (line.split() for line in self.path.read_text(encoding="utf-8").splitlines())
        return [key for done, key, _ in lines if done == what]


@pytest.fixture
def trips(
    endpoints: Endpoints,
    postgres_url: str,
    tmp_path: Path,
    keys: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[tuple[Settings, Book]]:
    """The app, running, and its book."""
    book = Book(tmp_path / "book")
    monkeypatch.setenv("SAGA_BOOK", str(book.path))
    settings = Settings(
        kafka=endpoints.kafka,
        postgres=postgres_url,
        redis=endpoints.redis,
        cluster_id=endpoints.cluster_id,
        namespace=f"saga{os.getpid()}",
        tenant="acme",
        actor="ann",
        home=tmp_path / "run",
        open_policy=True,
        keys=keys,
    )
    settings.home.mkdir()
    for name, value in settings.to_environ().items():
        monkeypatch.setenv(name, value)
    with kafka(settings, may_be_empty=True) as log:
        apply_topics(log, settings, ["default", "seats"])
    prepare_views(settings)
    with Supervisor(settings, APP, queues=["default", "seats"], spares_max=0):
        yield settings, book


@pytest.mark.slow
@pytest.mark.case("U20")
def test_many_that_are_cancelled_at_once_are_stopped_and_taken_back(
    trips: tuple[Settings, Book],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings, book = trips
    with kafka(settings) as log, client(settings, log) as asking:
        for session_id in SESSIONS:
            asking.open("trips", session_id)
            asking.send(session_id, "rome")
    until(lambda: len(book.of("booked")) == COUNT, "all booked", limit_s=LIMIT_S)
    until(lambda: len(book.of("began")) >= IN_FLIGHT, "seats asked for", limit_s=LIMIT_S)
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(SESSIONS)))
    capsys.readouterr()
    assert invoke(("session", "cancel", "-", "--reason", "closed")) == Exit.DONE
    assert f"asked {COUNT} sessions to stop" in capsys.readouterr().out.replace(",", "")
    until(lambda: cancelled(settings) == COUNT, "all stopped", limit_s=LIMIT_S)
    taken_back: dict[str, list[str]] = {session_id: [] for session_id in SESSIONS}
    for key in book.keys("unbooked"):
        taken_back[key.split("/")[1]].append(key.removeprefix("acme/"))
    began = {key.split("/")[1] for key in book.of("began")}
    for session_id, own in taken_back.items():
        both = [f"{session_id}/1/2", f"{session_id}/1/1"]
        assert own == both or (session_id not in began and own == both[1:]), session_id
    stopped = book.of("stopped")
    asked_at = cancelled_at(settings, list(stopped))
    assert stopped.keys() == book.of("began").keys() == asked_at.keys()
    took = [stopped[key] - asked_at[key] for key in stopped]
    assert max(took) < STOPPED_S, took


def cancelled(settings: Settings) -> int:
    """How many sessions have ended so."""
    with queries(settings) as views:
        (row,) = views.ask(_CANCELLED, tenant=settings.tenant, limit=1)
    return int(row["sessions"])


def cancelled_at(settings: Settings, keys: Sequence[str]) -> dict[str, float]:
    """When each of these calls was cancelled, on the log's clock, by its key."""
    found: dict[str, float] = {}
    with queries(settings) as views:
        for first in range(0, len(keys), LIMIT_MAX):
            some = list(keys[first : first + LIMIT_MAX])
            rows = views.ask(_CALLS, tenant=settings.tenant, keys=some, limit=LIMIT_MAX)
            found |= {row["idempotency_key"]: row["settled_at"].timestamp() for row in rows}
    return found
