"""A worker's result that died with its key: the session says so, and a person who has looked at it lets it in."""

import json
from contextlib import contextmanager
from dataclasses import replace

import pytest
from tests.commands.keys import Ring, key
from tests.deploy.test_explain import found
from tests.processors.loops import Cluster

from wakeful.commands.identity import Signed
from wakeful.commands.keyring import REVOKED, Keyring
from wakeful.commands.signatures import SIGNATURE_HEADER
from wakeful.deploy import identity as identities
from wakeful.deploy.cli import letters
from wakeful.deploy.cli.explaining import _show
from wakeful.deploy.cli.main import invoke
from wakeful.deploy.exits import Exit
from wakeful.deploy.telling.dealing import letters_of
from wakeful.deploy.telling.explained import explained, folded
from wakeful.deploy.telling.not_let_in import SHOWN_MAX
from wakeful.deploy.telling.story import tell
from wakeful.events.headers import dead_letter_in

PEOPLE, ENGINE = key("people"), key("engine", "processor")
WORKER, NEXT = key("worker", "worker"), key("next", "worker")
GONE = replace(WORKER, status=REVOKED)


@pytest.fixture
def ring():
    return Ring(PEOPLE, ENGINE, WORKER)


@pytest.fixture
def cluster(ring):
    made = Cluster(identity=Signed(ring, "memory"))
    made.start()
    return made


@pytest.fixture
def cli(cluster, monkeypatch, capsys, alone):
    """Runs `dlq` over the cluster with the keys of the ring; gives code, stdout and stderr."""
    del alone
    monkeypatch.setenv("WAKEFUL_NAMESPACE", cluster.topics.namespace)
    monkeypatch.setenv("WAKEFUL_ACTOR", "ann")
    monkeypatch.setenv("WAKEFUL_TENANT", "acme")

    @contextmanager
    def opened(_given):
        yield cluster.log

    monkeypatch.setattr(letters, "kafka", opened)
    monkeypatch.setattr(identities, "identity_of", lambda *_, **__: cluster.identity)

    def run(*arguments):
        capsys.readouterr()
        code = invoke(("dlq", *arguments))
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def stuck(cluster, ring):
    """The session waits for a result that was signed by a key which is revoked before it is read; its letter's id."""
    cluster.open()
    cluster.run()
    cluster.answer()
    ring.keys = Keyring((PEOPLE, ENGINE, GONE, NEXT))
    cluster.run()
    assert [letter.reason for letter in cluster.dead()] == ["revoked_key"]
    return "0@" + str(cluster.log.dump(cluster.topics.dead_letters)[-1].offset)


def told(cluster):
    events = cluster.events("s1")
    open_letters = letters_of(cluster.log, cluster.topics, b"acme/s1", 0)
    return explained(found(), tell(events), folded(events), open_letters)


def test_explain_says_that_the_result_was_not_let_in_and_the_way_out(cluster, stuck, capsys):
    (letter,) = told(cluster)["not_let_in"]
    assert (letter["id"], letter["reason"], letter["awaited"]) == (stuck, "revoked_key", True)
    _show(told(cluster), 5)
    out = capsys.readouterr().out
    assert "not let in (1 in dead letters)" in out
    assert (
        "a CompleteActivity of worker:w1 about 1.1, attempt 1, which is waited for: revoked_key"
        in out
    )
    assert f"'wakeful dlq redrive {stuck} --vouch'" in out


def test_of_many_letters_the_one_that_is_waited_for_is_shown(cluster, stuck, capsys):
    (awaited,) = told(cluster)["not_let_in"]
    others = [{**awaited, "id": f"1@{n}", "awaited": False} for n in range(SHOWN_MAX)]
    _show({**told(cluster), "not_let_in": [awaited, *others]}, 5)
    out = capsys.readouterr().out
    assert f"not let in ({SHOWN_MAX + 1} in dead letters, of which {SHOWN_MAX} are shown)" in out
    assert out.count("which is waited for") == 1
    assert out.count("revoked_key") == SHOWN_MAX


def test_a_person_who_vouches_for_it_lets_it_in(cluster, cli, stuck):
    before = cluster.facts()
    code, _, err = cli("redrive", stuck, "--vouch", "--yes")
    assert (code, "1 letter vouched for" in err) == (Exit.DONE, True)
    cluster.run()
    added = cluster.events("s1")[len(before) :]
    assert type(added[0].body).__name__ == "ActivityCompleted"
    assert added[0].envelope.vouched_by == "next"
    assert told(cluster)["not_let_in"] == []


def test_a_repeat_says_who_vouched_and_does_nothing(cluster, cli, stuck):
    cli("redrive", stuck, "--vouch", "--yes")
    sent = len(cluster.log.dump(cluster.topics.commands))
    code, out, err = cli("redrive", stuck, "--vouch", "--yes", "--actor", "sue")
    assert (code, out) == (Exit.DONE, "")
    assert f"{stuck} was vouched for by ann at " in err
    assert len(cluster.log.dump(cluster.topics.commands)) == sent


def test_without_vouching_it_comes_back_as_it_went(cluster, cli, stuck):
    cli("redrive", stuck, "--yes")
    cluster.run()
    assert [letter.reason for letter in cluster.dead()] == ["revoked_key", "revoked_key"]


def test_nobody_vouches_without_a_key_for_it(cluster, cli, stuck, ring):
    ring.keys = Keyring((PEOPLE, ENGINE, GONE))
    code, out, err = cli("redrive", stuck, "--vouch", "--yes")
    assert (code, out) == (Exit.USAGE, "")
    assert "no active key here vouches for CompleteActivity" in err
    assert "wakeful keys new --role worker" in err
    listed = json.loads(cli("list", "--json")[1])
    assert [(one["id"], one["handled"]) for one in listed] == [(stuck, None)]


def test_nobody_vouches_for_what_nobody_has_said(cluster, cli, ring):
    cluster.open()
    record = cluster.log.dump(cluster.topics.commands)[0]
    tampered = [(n, b"!" * 32 if n == SIGNATURE_HEADER else v) for n, v in record.headers]
    cluster.raw(record.key, record.value, tampered)
    cluster.run()
    (letter,) = cluster.log.dump(cluster.topics.dead_letters)
    assert dead_letter_in(letter.headers).reason == "bad_signature"
    code, _, err = cli("redrive", f"0@{letter.offset}", "--vouch", "--yes")
    assert code == Exit.REFUSED
    assert "it died of bad_signature, and one can vouch for what died of unsigned" in err
