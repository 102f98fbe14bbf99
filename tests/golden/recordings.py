"""Histories of every released version of the workflows that we ship, made by rehearsals: `python -m tests.golden.recordings`.

A file is written once, by the code of its version, and never again. Each is an export, as `wakeful audit export` writes one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from wakeful.deploy.auditing.exported import About, write_export
from wakeful.deploy.demo.model import decide
from wakeful.events.headers import record_headers
from wakeful.events.keys import session_key
from wakeful.events.log.protocol import Record
from wakeful.events.topics import Topics
from wakeful.processors.app import App, load_app
from wakeful.processors.testing.engine import TENANT
from wakeful.testing import rehearse

FOLDER = Path(__file__).parent / "histories"
ROOT = Path(__file__).parents[2]
TOPICS = Topics("golden")

os.environ.setdefault("TOUR_PAYMENTS", "http://127.0.0.1:1")
os.environ.setdefault("TOUR_CAREFUL_PAYMENTS", "http://127.0.0.1:1")
os.environ.setdefault("TOUR_BOOK", os.devnull)

Play = Callable[[Callable[..., Any]], Iterator[Any]]
"""Plays some sessions of an app; gives them at their ends. It is handed what opens a session of the app."""


def hello(begin: Callable[..., Any]) -> Iterator[Any]:
    """A refund that nobody need approve, and one that is declined."""
    session = begin(activities={"think": [900, 25_000, 25_000], "refund": "paid"})
    session.send("it was late")
    session.send("it came broken")
    session.reject(by="sue")
    session.send("it came broken, really")
    yield session


def saga(begin: Callable[..., Any]) -> Iterator[Any]:
    """Paid, not covered, and called off."""
    for told in ("paid", "no cover", "called off"):
        session = begin()
        session.send("Rome")
        if told == "called off":
            session.cancel()
        if told == "no cover":
            session.fail_next("pay", "nothing_done", message="no cover")
        session.skip("2h")
        yield session


def contracts(begin: Callable[..., Any]) -> Iterator[Any]:
    """Each contract once."""
    results = {
        "is_refunded": True,
        **dict.fromkeys(
            ("refund_by_key", "refund_looked_up", "refund_undone", "refund_once"), "c1"
        ),
    }
    for name in results:
        session = begin(activities=results)
        if name == "refund_once":
            session.fail_next(name, "wrong_arguments")
        session.send(name)
        yield session


def approvals(begin: Callable[..., Any]) -> Iterator[Any]:
    """Approved, declined, expired, after a signal; by two; and an untrusted page."""
    session = begin(workflow="refunds", activities={"refund": "paid", "hasty_refund": "paid"})
    session.send("please")
    session.approve(by="sue")
    session.send("again")
    session.respond("ask tomorrow", by="sue")
    session.send("hasty")
    session.expire()
    session.send("later")
    session.approve(by="sue")
    session.signal("go")
    yield session
    session = begin(workflow="wires", activities={"wire": "wired"})
    session.send("500")
    session.approve(by="ann")
    session.approve(by="bob")
    yield session
    session = begin(workflow="browser", activities={"read_page": "a page", "post": "posted"})
    session.send("http://a.page")
    yield session


def refund_desk(begin: Callable[..., Any]) -> Iterator[Any]:
    """Small and large, asked back about, an answer, a model that fails, and a wait that is still open."""

    def thinks(messages: list[Any]) -> dict[str, Any]:
        call = decide(messages)
        made = [{"id": "", "name": call.name, "arguments": call.arguments}]
        return {"text": "", "model": "m-1", "calls": made}

    def find_order(order_id: str, customer: str) -> dict[str, Any] | None:
        known = {"1009": 2_500, "2000": 99_000}
        order = {"id": order_id, "customer": customer, "item": "lamp"}
        return {**order, "cents": known[order_id]} if order_id in known else None

    model = "refund-desk.v2.model"
    fakes = {model: thinks, "find_order": find_order, "refund": "c1", "write_letter": "letter"}
    session = begin(activities=fakes)
    texts = ("refund order 1009", "refund it", "when does it open?", "refund order 1009")
    for text in (*texts, "refund order 3000"):
        session.send({"text": text, "customer": "ivo"})
    session.fail_next(model, message="no model")
    session.send({"text": "refund order 2000", "customer": "ivo"})
    session.skip("3s")
    session.approve(by="sue")
    yield session
    waits = begin(activities=fakes)
    waits.send({"text": "refund order 2000", "customer": "ann"})
    yield waits


def agent(begin: Callable[..., Any]) -> Iterator[Any]:
    """Calls that are made, granted, answered and wrong, a message meanwhile, a summary, a wait that is open, a model that fails."""

    def said(text: str, *names: str, tokens: int = 9) -> dict[str, Any]:
        given = {"pay_back": {"cents": 5}}
        made = [{"id": "", "name": name, "arguments": given.get(name, {})} for name in names]
        usage = {"input_tokens": tokens, "output_tokens": 9}
        return {"text": text, "model": "m-1", "usage": usage, "finish": "stop", "calls": made}

    calls = said("", "last_order", "pay_back", "nothing", tokens=50_000)
    looking = [said("", "last_order") for _ in range(8)]
    script = [*looking, calls, said("a summary"), said("", "pay_back"), said("done")]
    fakes = {"last_order": "a lamp", "pay_back": "paid"}
    session = begin(activities={**fakes, "agent.v1.model": script})
    session.send("it came broken")
    session.send("by the way")
    session.approve(by="sue")
    session.respond("once is enough", by="sue")
    yield session
    waits = begin(activities={**fakes, "agent.v1.model": [said("", "pay_back")]})
    waits.send("it came broken")
    yield waits
    fails = begin(activities={**fakes, "agent.v1.model": RuntimeError("no model")})
    fails.send("hello")
    fails.skip("1m")
    yield fails


PLAYED: dict[str, Play] = {
    "examples/agent.py": agent,
    "examples/hello.py": hello,
    "examples/saga.py": saga,
    "examples/contracts.py": contracts,
    "examples/approvals.py": approvals,
    "examples.refund_desk.desk": refund_desk,
}
"""The apps whose workflows are released."""


def load(target: str) -> App:
    """The app, as `wakeful run` loads it."""
    return load_app(str(ROOT / target) if target.endswith(".py") else target)


def history_of(workflow: str, version: int) -> Path:
    """Where the history of this version lies."""
    return FOLDER / f"{workflow}-v{version}.jsonl"


def record(target: str) -> dict[tuple[str, int], list[Record]]:
    """By workflow and version, the events of the sessions that are played with the code of today."""
    app, found = load(target), dict[tuple[str, int], list[Record]]()
    given = [
        *(w for each in app.workflows.values() for w in each.values()),
        *app.activities.values(),
    ]

    def begin(**more: Any) -> Any:
        number = sum(map(len, found.values()))
        return rehearse(*given, session_id=f"s{number}", always_replay=False, **more)

    for session in PLAYED[target](begin):
        name = session.events[0].workflow
        (version,) = app.workflows[name]
        lines = found.setdefault((name, version), [])
        lines += _records(session, len(lines))
    return found


def _records(session: Any, first: int) -> Iterator[Record]:
    for offset, one in enumerate(session._engine.log, first):
        envelope = one.event.envelope
        key = session_key(TENANT, envelope.session_id)
        headers = tuple(record_headers(one.encoded, f"{key.decode()}/{envelope.seq}"))
        yield Record(TOPICS.events, 0, offset, envelope.at_ms, key, one.encoded.value, headers)


def main() -> int:
    """Writes the histories that are not there yet."""
    FOLDER.mkdir(exist_ok=True)
    about = About(TOPICS.namespace, 1, None, 0, None, {})
    for target in PLAYED:
        for (name, version), records in record(target).items():
            path = history_of(name, version)
            if not path.exists():
                count, _ = write_export(path, about, records)
                path.chmod(0o644)
                sys.stdout.write(f"{path.name}: {count} events\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
