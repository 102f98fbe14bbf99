"""What is in doubt: of all that is uncertain, only what still waits for somebody to say how it ended."""

from wakeful.events import records as r
from wakeful.events.codec import decode_event
from wakeful.projections.postgres import PostgresViews
from wakeful.projections.projector import Projector
from wakeful.projections.queries import Queries

DIED = r.Failure("cut_off", "", "no word", "")


def begin(scribe, name: str, turn: int) -> None:
    message = f"m{turn}"
    scribe.add(("acme", name), r.MessageReceived(message, scribe.payload("hi")))
    scribe.add(("acme", name), r.TurnStarted(turn, "message", "", message, "desk", 1, ()))


def doubt(scribe, name: str, *, on_uncertain: str) -> None:
    """A session in its first turn, whose one activity is uncertain."""
    scribe.add(("acme", name), r.SessionOpened("desk"))
    begin(scribe, name, 1)
    scribe.request(("acme", name), "1.1", on_uncertain=on_uncertain)
    scribe.add(("acme", name), r.ActivityUncertain("1.1", 1, DIED, "w1"))


def test_only_what_waits_to_be_resolved_is_in_doubt(installed, scribe, list_reader, catch_up):
    said = scribe.payload("hi")
    for name in ("waits", "held", "rests", "goes-on", "cancelled"):
        doubt(scribe, name, on_uncertain="wait")
    doubt(scribe, "told", on_uncertain="raise")
    scribe.add(("acme", "held"), r.SessionHeld("workflow_raised", "a bug"))
    for name in ("rests", "goes-on"):
        scribe.add(("acme", name), r.TurnCompleted(1, 2, said, (), ()))
    begin(scribe, "goes-on", 2)
    scribe.add(("acme", "cancelled"), r.SessionCancelled((), (), ("1.1",)))
    views = PostgresViews(*installed)
    decode = lambda record: decode_event(record.value, record.headers)  # noqa: E731
    catch_up(Projector(list_reader(scribe), views, scribe.places, decode))
    views.close()
    with Queries(*installed) as queries:
        uncertain = {row["session_id"]: row["in_doubt"] for row in queries.ledger()}
        assert uncertain == dict.fromkeys(uncertain, False) | {"waits": True, "held": True}
        assert len(uncertain) == 6
        found = queries.ledger(in_doubt=True)
        assert [(row["session_id"], row["activity_id"]) for row in found] == [
            ("held", "1.1"),
            ("waits", "1.1"),
        ]
        assert queries.ledger(tenant="acme", session_id="told", in_doubt=True) == []
        assert len(queries.ledger(status="uncertain")) == 6
