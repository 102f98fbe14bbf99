"""What the overview says of watchers: sessions without progress of the own tenant, and since when nobody looks."""

import json
from dataclasses import replace
from types import SimpleNamespace

from tests.deploy.gateway.log_rig import NOW_MS, TOPICS, SharedLog

from wakeful.deploy.gateway.console.mending import mending
from wakeful.deploy.gateway.console.overview import SHOWN, _watched
from wakeful.deploy.telling.watched import Watched
from wakeful.events.log.protocol import LogFault
from wakeful.events.state import Hold, OpenActivity, State, Status


class Page:
    """The overview of a tenant's visitor, over a log in memory."""

    def __init__(self, tenant="acme"):
        self.log = SharedLog()
        self.watched = Watched(self.log, (TOPICS.watch_proposals,))
        self.visit = SimpleNamespace(
            services=SimpleNamespace(watched=self.watched),
            principal=SimpleNamespace(tenant=tenant),
        )

    def tell(self, key, value):
        producer = self.log.producer()
        data = None if value is None else json.dumps(value).encode()
        name = json.dumps(key).encode()
        producer.produce(TOPICS.watch_proposals, key=name, value=data, headers=(), partition=key[1])
        producer.flush(1_000)
        producer.close()

    def say(self, partition, at_ms, *, caught_up=True):
        said = {"at_ms": at_ms, "position": at_ms, "caught_up": caught_up, "undecodable": 0}
        self.tell(["said", partition], said)

    def propose(self, session_id, tenant="acme", since_ms=NOW_MS - 600_000, activity_id=""):
        kind = "activity" if activity_id else "session"
        named = {"tenant": tenant, "session_id": session_id, "kind": kind}
        named["activity_id"] = activity_id
        more = {"workflow": "desk", "version": 1, "since_ms": since_ms, "position": 3}
        told = {**named, **more, "why": "its turn runs, waits for nothing, and does not go on"}
        self.tell(["proposal", 0, *named.values()], told)
        return ["proposal", 0, *named.values()]

    def look(self, now_ms=NOW_MS):
        return _watched(self.visit, now_ms)


def test_given_no_watcher_ever_then_nobody_misses_one():
    assert Page().look() == {"stalled": [], "stalled_more": 0, "silence": ""}


def test_given_proposals_then_the_own_tenants_are_shown_and_go_when_they_are_withdrawn():
    page = Page()
    key = page.propose("late")
    page.propose("later", since_ms=NOW_MS - 1)
    page.propose("foreign", tenant="other")
    assert [one["session_id"] for one in page.look()["stalled"]] == ["late", "later"]
    page.tell(key, None)
    assert [one["session_id"] for one in page.look()["stalled"]] == ["later"]


def test_given_a_proposal_then_the_sessions_own_page_says_what_was_seen():
    page, running = Page(), State(workflow="desk", status=Status.RUNNING, turn=1)
    assert mending(page.visit, "late", running).seen == ()
    page.propose("late")
    page.propose("late", tenant="other")
    told = mending(page.visit, "late", running)
    assert told.recovers
    assert told.attempts == ()
    assert told.seen == ("its turn runs, waits for nothing, and does not go on",)
    assert mending(page.visit, "later", running).seen == ()
    assert not mending(page.visit, "late", replace(running, status=Status.SUSPENDED)).recovers


def test_given_a_proposal_for_an_activity_then_its_attempt_is_offered_first():
    page = Page()
    calls = (OpenActivity("1.1", 1, "find", 1, 0), OpenActivity("1.2", 2, "refund", 2, 0))
    running = State(workflow="desk", status=Status.WAITING, turn=1, activities=calls)
    assert [a.activity_id for a in mending(page.visit, "late", running).attempts] == ["1.1", "1.2"]
    page.propose("late", activity_id="1.2")
    assert [a.activity_id for a in mending(page.visit, "late", running).attempts] == ["1.2", "1.1"]
    held = replace(running, hold=Hold("workflow_missing", "no code for it"))
    told = mending(page.visit, "late", held)
    assert (told.recovers, told.attempts, told.seen) == (False, (), ())


def test_given_more_than_fit_then_the_rest_is_counted():
    page = Page()
    for number in range(SHOWN + 3):
        page.propose(f"s{number}")
    told = page.look()
    assert (len(told["stalled"]), told["stalled_more"]) == (SHOWN, 3)


def test_given_a_watcher_that_fell_silent_then_it_says_for_how_long():
    page = Page()
    page.say(0, NOW_MS)
    page.say(1, NOW_MS)
    assert page.look()["silence"] == ""
    assert page.look(NOW_MS + 60_000)["silence"] == "watchers have said nothing for 1 min"
    page.say(0, NOW_MS + 60_000, caught_up=False)
    told = page.look(NOW_MS + 60_000)["silence"]
    assert told == "watchers have said nothing of 1 of 2 partitions for 1 min"
    page.say(1, NOW_MS + 60_000)
    assert page.look(NOW_MS + 60_000)["silence"] == "watchers still read 1 of 2 partitions"


def test_given_a_log_that_does_not_answer_then_the_page_says_so_and_is_shown_all_the_same():
    page = Page()
    page.propose("late")

    def away(_topic):
        raise LogFault("the broker is away")

    page.log.partitions = away
    assert page.look()["silence"] == "nobody can tell what watchers say"
