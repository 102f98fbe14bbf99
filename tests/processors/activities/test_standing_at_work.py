"""What somebody had to approve, on the worker as it runs: given back where policy is newer, kept back where nobody knows."""

import threading

import pytest
from tests.commands.keys import Ring, key

from wakeful import Access, Read, Write, activity, credentials
from wakeful.commands.identity import Signed
from wakeful.commands.keyring import Keyring
from wakeful.commands.models import CompleteActivity, ReturnActivity
from wakeful.events.failures import AUTHORITY_STALE, TAKEN_OVER
from wakeful.events.log.protocol import Isolation, LogFault, Place
from wakeful.processors.activities import standing as standing_module
from wakeful.processors.app import gather
from wakeful.processors.control import POLICY_KEY

from .conftest import DEADLINE_S, until

CONTRACTS = ("read", "write_idempotent", "write_lookup", "write_once")
NAMES = tuple(f"{contract}{sync}" for contract in CONTRACTS for sync in ("", "_sync"))
EVERY = pytest.mark.parametrize("name", NAMES)

LONG_MS = 10**12


class Till:
    """Activities under each contract, which need credentials; `go_on` lets out those that wait."""

    def __init__(self):
        self.called, self.asked, self.found = [], [], None
        self.go_on, self.gives = threading.Event(), threading.Event()
        self.go_on.set()
        self.gives.set()

    def call(self, key):
        self.called.append(key)
        self.go_on.wait(DEADLINE_S)
        return key

    def app(self):
        @credentials
        def vault(access: Access) -> str:
            self.asked.append(access.activity)
            self.gives.wait(DEADLINE_S)
            return "secret"

        def find(key: str) -> str | None:
            return self.found

        contracts = {
            "read": Read(),
            "write_idempotent": Write(idempotent=True),
            "write_lookup": Write(lookup=find, settle="0s"),
            "write_once": Write(),
        }

        async def call(*, key: str, credentials: str) -> str:
            return self.call(key)

        def call_sync(*, key: str, credentials: str) -> str:
            return self.call(key)

        made = [activity(contract=c, name=name)(call) for name, c in contracts.items()]
        made += [activity(contract=c, name=f"{n}_sync")(call_sync) for n, c in contracts.items()]

        async def plain(*, key: str) -> str:
            return self.call(key)

        def plain_sync(*, key: str) -> str:
            return self.call(key)

        made += [activity(contract=contracts["write_idempotent"])(f) for f in (plain, plain_sync)]
        return gather([*made, vault])


@pytest.fixture
def till():
    made = Till()
    yield made
    made.go_on.set()
    made.gives.set()


def publish(bench):
    """One more policy; the end of the control topic then."""
    producer, place = bench.log.producer(), Place(bench.topics.control, 0)
    producer.produce(place.topic, key=POLICY_KEY, value=b"a set", headers=(), partition=0)
    producer.flush(10_000)
    return bench.log.ends([place], Isolation.COMMITTED)[place][1]


def task(bench, name, session="s1", **over):
    contract = name.removesuffix("_sync")
    return bench.task(name, {}, session, contract=contract, **{"start_by_ms": LONG_MS, **over})


def said(bench):
    return [(type(c.body), getattr(c.body, "reason", "")) for c in bench.results()]


def given_back(name):
    """What is said of a task that lay in the log: a worker before may have begun it, if it is one that may run again."""
    taken_over = name.removesuffix("_sync") in ("write_idempotent", "plain")
    return ReturnActivity, TAKEN_OVER if taken_over else AUTHORITY_STALE


@EVERY
def test_what_was_let_go_by_the_newest_policy_runs_once(guarded, run, till, name):
    guarded.put(task(guarded, name, control_offset=publish(guarded)))
    run(till.app())
    until(lambda: guarded.results(), "its result")
    assert [kind for kind, _ in said(guarded)] == [CompleteActivity]
    assert till.called == ["acme/s1/1/1"]


@EVERY
def test_policy_that_was_published_while_it_waited_sends_it_back_unrun(guarded, run, till, name):
    guarded.put(task(guarded, name, control_offset=publish(guarded)))
    publish(guarded)
    first = run(till.app())
    until(lambda: guarded.results(), "it is given back")
    assert said(guarded) == [given_back(name)]
    assert first.stop() is None
    run(till.app(), worker_id="w2")
    guarded.put(task(guarded, name, "s2", idempotency_key="acme/s2/1/1", start_by_ms=None))
    until(lambda: len(guarded.results()) == 2, "what comes behind it")
    assert till.called == ["acme/s2/1/1"], "nobody runs what was given back"


@EVERY
def test_what_no_key_here_could_report_is_not_called_until_one_can(bench, run, till, name):
    of_beta = key("beta", "worker", tenants=frozenset({"beta"}))
    ring = Ring(of_beta)
    bench.put(bench.task(name, {}, contract=name.removesuffix("_sync")))
    beta = {"tenant": "beta", "idempotency_key": "beta/s1/1/1"}
    bench.put(bench.task(name, {}, contract=name.removesuffix("_sync"), **beta))
    run(till.app(), identity=Signed(ring, "memory"))
    until(lambda: bench.results(), "what is of the other tenant goes on")
    assert till.called == ["beta/s1/1/1"]
    ring.keys = Keyring((of_beta, key("all", "worker")))
    until(lambda: len(bench.results()) == 2, "its result, once a key is there")
    assert sorted(till.called) == ["acme/s1/1/1", "beta/s1/1/1"]


@EVERY
def test_what_no_worker_had_before_goes_back_as_unrun(guarded, run, till, name):
    running = run(till.app())
    until(lambda: running.lane.core.offsets.places, "it has its partitions")
    guarded.put(task(guarded, name, start_by_ms=1, control_offset=publish(guarded)))
    until(lambda: guarded.results(), "it is given back")
    assert said(guarded) == [(ReturnActivity, AUTHORITY_STALE)]
    assert till.called == []


@EVERY
def test_what_did_not_begin_in_time_goes_back_and_nobody_is_asked_for_credentials(
    guarded, run, till, name
):
    guarded.put(task(guarded, name, start_by_ms=1, control_offset=publish(guarded)))
    run(till.app())
    until(lambda: guarded.results(), "it is given back")
    assert said(guarded) == [given_back(name)]
    assert (till.called, till.asked) == ([], [])


def test_a_worker_full_of_other_work_gives_back_what_was_outdated_meanwhile(forgetful, run, till):
    till.go_on.clear()
    end = publish(forgetful)
    running = run(till.app(), concurrency=1)
    first = task(forgetful, "write_once_sync", control_offset=end)
    second = task(
        forgetful, "write_idempotent_sync", "s2", idempotency_key="acme/s2/1/1", control_offset=end
    )
    forgetful.put(first)
    until(lambda: till.called, "it has begun")
    forgetful.put(second)
    until(lambda: running.lane.core.running == 2, "the next waits inside the worker")
    publish(forgetful)
    seen_at = running.lane._monotonic()
    until(
        lambda: running.lane._monotonic() - seen_at > standing_module.KNOWN_MS / 1000,
        "what it knew is old",
    )
    till.go_on.set()
    until(lambda: len(forgetful.results()) == 2, "both have their word")
    assert sorted(kind.__name__ for kind, _ in said(forgetful)) == [
        "CompleteActivity",
        "ReturnActivity",
    ], "what had begun is not asked about again"
    assert till.called == ["acme/s1/1/1"]


class Shut:
    """A log whose control topic cannot be read until it is opened."""

    def __init__(self, inner, topic):
        self._inner, self._topic = inner, topic
        self.shut, self.asked = True, 0

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def ends(self, places, isolation):
        if any(place.topic == self._topic for place in places):
            self.asked += 1
            if self.shut:
                raise LogFault("down")
        return self._inner.ends(places, isolation)


@pytest.fixture
def forgetful(guarded, monkeypatch):
    """What is known gets old sooner, though not within two polls."""
    monkeypatch.setattr(standing_module, "KNOWN_MS", 300)
    return guarded


@pytest.fixture
def shut(guarded, monkeypatch):
    """The topic is shut before the worker comes, and tried often."""
    monkeypatch.setattr(standing_module, "AGAIN_MS", 10)
    guarded.log = Shut(guarded.log, guarded.topics.control)
    return guarded


@EVERY
def test_where_policy_cannot_be_read_it_waits_and_others_do_not(shut, run, till, name):
    shut.log.shut = False
    end = publish(shut)
    shut.log.shut = True
    shut.put(task(shut, name, control_offset=end))
    shut.put(task(shut, "read", "s2", idempotency_key="acme/s2/1/1", start_by_ms=None))
    run(till.app())
    until(lambda: shut.results(), "what needs no approval")
    until(lambda: shut.log.asked >= 3, "it tries again")
    assert till.called == ["acme/s2/1/1"]
    shut.log.shut = False
    until(lambda: len(shut.results()) == 2, "it goes on")
    assert till.called == ["acme/s2/1/1", "acme/s1/1/1"]


@EVERY
def test_where_policy_cannot_be_read_in_time_it_goes_back_unrun(shut, run, till, name):
    start_by_ms, now = shut.clock.ms + 60_000, [0]
    shut.put(task(shut, name, control_offset=0, start_by_ms=start_by_ms))
    run(till.app(), now_ms=lambda: now[0])
    until(lambda: shut.log.asked >= 2, "it tries")
    assert said(shut) == []
    now[0] = start_by_ms
    until(lambda: shut.results(), "it is too late")
    assert said(shut) == [given_back(name)]
    assert till.called == []


@pytest.mark.parametrize("name", ["write_lookup", "write_lookup_sync"])
def test_what_another_worker_may_have_called_is_looked_up_before_it_goes_back(
    guarded, run, till, name
):
    guarded.put(task(guarded, name, control_offset=publish(guarded)))
    publish(guarded)
    till.found = "receipt"
    run(till.app())
    until(lambda: guarded.results(), "its word")
    (command,) = guarded.results()
    assert isinstance(command.body, CompleteActivity)
    assert command.body.recovered
    assert till.called == []


@pytest.mark.parametrize("name", ["plain", "plain_sync"])
def test_what_needs_no_credentials_is_asked_about_as_well(guarded, run, till, name):
    fields = {"contract": "write_idempotent", "start_by_ms": LONG_MS}
    guarded.put(guarded.task(name, {}, control_offset=publish(guarded), **fields))
    publish(guarded)
    run(till.app())
    until(lambda: guarded.results(), "it is given back")
    assert said(guarded) == [given_back(name)]
    assert till.called == []


@EVERY
def test_policy_that_comes_while_credentials_are_asked_for_is_newer(forgetful, run, till, name):
    till.gives.clear()
    forgetful.put(task(forgetful, name, control_offset=publish(forgetful)))
    running = run(till.app())
    until(lambda: till.asked, "the provider is asked")
    publish(forgetful)
    asked_at = running.lane._monotonic()
    until(
        lambda: running.lane._monotonic() - asked_at > standing_module.KNOWN_MS / 1000,
        "what it knew is old",
    )
    till.gives.set()
    until(lambda: forgetful.results(), "it is given back")
    assert said(forgetful) == [given_back(name)]
    assert till.called == []
