"""The newest steps of the ledger: the last ones of all sessions, in the order in which they were asked for."""

from datetime import UTC, datetime

from wakeful.events import records as r
from wakeful.events.codec import decode_event
from wakeful.projections.postgres import PostgresViews
from wakeful.projections.projector import Projector
from wakeful.projections.queries import Queries


def test_the_newest_come_last_whatever_their_session(installed, scribe, list_reader, catch_up):
    asked_ms = {}
    for name in ("z", "a", "m"):
        session = ("acme", name)
        scribe.add(session, r.SessionOpened("desk"))
        scribe.add(session, r.MessageReceived("m1", scribe.payload("hi")))
        scribe.add(session, r.TurnStarted(1, "message", "", "m1", "desk", 1, ()))
        scribe.request(session, "1.1")
        asked_ms[name] = scribe.now_ms
    scribe.add(("acme", "a"), r.ActivityCompleted("1.1", 1, scribe.payload("done"), "w1"))
    views = PostgresViews(*installed)
    decode = lambda record: decode_event(record.value, record.headers)  # noqa: E731
    catch_up(Projector(list_reader(scribe), views, scribe.places, decode))
    views.close()
    with Queries(*installed) as queries:

        def found(**asked):
            return [row["session_id"] for row in queries.newest_steps(**asked)]

        assert found() == ["z", "a", "m"]
        assert found(limit=2) == ["a", "m"]
        assert found(status="completed") == ["a"]
        assert found(tenant="acme", session_id="z") == ["z"]
        assert found(tenant="else") == []
        assert found(since=datetime.fromtimestamp(asked_ms["a"] / 1000, UTC)) == ["a", "m"]
