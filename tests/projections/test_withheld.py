"""What waits for an approval that policy asks for, as the views show it: the same as the engine's own fold of its events."""

import pytest
from tests.processors.desk import Hand
from tests.processors.test_gate import FREEZE, STOP, policy, retrying
from tests.processors.test_taint import browser, post, read_page
from tests.processors.test_taint import policy as reviewed

from wakeful.commands.models import ReturnActivity
from wakeful.events.codec import decode_event
from wakeful.projections.postgres import PostgresViews
from wakeful.projections.projector import Projector
from wakeful.projections.queries import Queries

S = ("acme", "s1")


@pytest.fixture
def shown(installed, scribe, list_reader, catch_up):
    """What the views show of a hand's session: its row, ledger, approvals, and open deadlines."""
    known = []

    def show(hand):
        events = [stamped.event for stamped in hand.log if stamped.event is not None]
        for event in events[len(known) :]:
            scribe.add(S, event.body, actor=event.envelope.actor)
            known.append(event)
        views = PostgresViews(*installed)
        decode = lambda record: decode_event(record.value, record.headers)  # noqa: E731
        catch_up(Projector(list_reader(scribe), views, scribe.places, decode))
        views.close()
        with Queries(*installed) as queries:
            (session,) = queries.session("s1")
            ledger = {row["activity_id"]: row for row in queries.ledger()}
            approvals = {row["proposal_id"]: row for row in queries.approvals(status=None)}
            timers = {(row["kind"], row["id"]) for row in queries.timers()}
        return session, ledger, approvals, timers

    return show


def test_a_withheld_attempt_its_approval_and_who_gave_it(shown):
    hand = retrying()
    old = hand.session.state.activities[0].grant.proposal_id
    hand.handler.go_by(policy(FREEZE), 8)
    hand.wake()
    session, ledger, approvals, timers = shown(hand)
    (asked,) = hand.session.state.approvals
    step, wanted = ledger["1.3"], approvals[asked.proposal_id]
    assert (session["status"], session["tainted_by"]) == ("Waiting", [])
    assert (step["status"], step["attempts"], step["deadline_at"]) == ("withheld", 2, None)
    assert (step["proposal_id"], step["approved_by"]) == (asked.proposal_id, "sue")
    assert approvals[old]["status"] == "voided"
    assert (wanted["status"], wanted["activity_id"], wanted["supersedes"]) == (
        "requested",
        "1.3",
        old,
    )
    assert wanted["because"] == ["refund may not be carried out: forbidden by frozen"]
    assert len(wanted["policies"]) == 64
    assert timers == {("approval", asked.proposal_id)}

    hand.handler.go_by(policy(), 9)
    hand.decide(actor="sue")
    _, ledger, _, timers = shown(hand)
    assert (ledger["1.3"]["status"], ledger["1.3"]["approved_by"]) == ("requested", "sue")
    assert timers == {("activity", "1.3")}


@pytest.mark.parametrize("ends", ["rejected", "forbidden"])
def test_who_approved_what_may_have_run_stays_in_the_ledger(shown, ends):
    hand = retrying()
    hand.handler.go_by(policy(FREEZE if ends == "rejected" else STOP), 8)
    hand.wake()
    if ends == "rejected":
        hand.decide("reject", actor="sue")
    step = shown(hand)[1]["1.3"]
    assert step["status"] not in ("withheld", "completed")
    assert step["approved_by"] == "sue"


def test_what_tainted_a_session_is_what_its_events_fold_to(shown):
    hand = Hand(browser, read_page, post, workflow="browser")
    hand.handler.go_by(reviewed(), 7)
    hand.open("http://x")
    assert shown(hand)[0]["tainted_by"] == []
    hand.result("1.1", "post this")
    session, ledger, _, _ = shown(hand)
    assert session["tainted_by"] == list(hand.session.state.tainted_by) == ["read_page"]
    assert (ledger["1.1"]["untrusted"], ledger["1.2"]["untrusted"]) == (True, False)
    assert (ledger["1.2"]["status"], ledger["1.2"]["approval"]) == ("withheld", "by_policy")
    hand.decide("reject", actor="rob")
    assert shown(hand)[1]["1.2"]["status"] == "failed"


@pytest.mark.parametrize("kind", ["raised", "timed out by the clock"])
def test_a_failure_taints_where_the_tool_speaks_and_not_where_the_clock_does(shown, kind):
    hand = Hand(browser, read_page, post, workflow="browser")
    hand.handler.go_by(reviewed(), 7)
    hand.open("http://x")
    if kind == "raised":
        hand.failure("1.1", "raised")
    else:
        hand.now_ms = hand.session.state.activities[0].deadline_ms
        hand.wake()
    assert shown(hand)[0]["tainted_by"] == list(hand.session.state.tainted_by)


def test_what_a_worker_gives_back_and_policy_still_allows_goes_out_again(shown):
    hand = retrying()
    hand.wake()
    hand.give(ReturnActivity("1.3", 2, "authority_stale", "w1"), actor="worker:w1")
    step = shown(hand)[1]["1.3"]
    assert (step["status"], step["attempts"], step["approved_by"]) == ("requested", 3, "sue")
