"""Dead letters on the command line: sent back once and byte for byte, or dropped, and then out of the list."""

import json
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from tests.commands.keys import command, key, record, signed
from tests.processors.loops import Cluster

from wakeful.commands.identity import Signed
from wakeful.commands.keyring import Keyring
from wakeful.commands.models import OpenSession
from wakeful.deploy.cli import letters
from wakeful.deploy.cli.main import invoke
from wakeful.deploy.exits import Exit
from wakeful.deploy.keyfile import ensure_local_keys
from wakeful.deploy.telling.dealing import deal, find_letter, newest_letters, open_letters
from wakeful.deploy.telling.reading import to_the_end
from wakeful.events.headers import batch_headers, dead_letter_headers
from wakeful.events.log.memory import MemoryLog
from wakeful.events.log.protocol import LogFault, Place, Record
from wakeful.events.topics import Topics

TOPICS = Topics("desk")
OWN = [("traceparent", b"00-1"), *batch_headers("b-0", 7)]


@pytest.fixture
def log():
    found = MemoryLog(now_ms=lambda: 1_000)
    found.create_topics(TOPICS.specs(["default"], 2))
    return found


@pytest.fixture
def cli(log, monkeypatch, capsys, alone):
    """Runs commands over the log in memory; gives code, stdout and stderr."""
    del alone
    monkeypatch.setenv("WAKEFUL_NAMESPACE", "desk")
    monkeypatch.setenv("WAKEFUL_ACTOR", "ann")
    monkeypatch.setenv("WAKEFUL_TENANT", "acme")

    @contextmanager
    def opened(_given):
        yield log

    monkeypatch.setattr(letters, "kafka", opened)

    def run(*arguments):
        capsys.readouterr()
        code = invoke(("dlq", *arguments))
        out, err = capsys.readouterr()
        return code, out, err

    return run


def put(log, value=b"\x00bytes", *, reason="unreadable", topic=None, key=b"acme/s1", partition=0):
    """A letter, as a processor writes it; its id."""
    producer = log.producer()
    record = Record(topic or TOPICS.commands, 1, 41, 900, key, value, OWN)
    headers = [*dead_letter_headers(record, reason, "why"), *batch_headers("b-1", 3)]
    placed = []
    producer.produce(
        *(TOPICS.dead_letters,),
        key=key,
        value=value,
        headers=headers,
        partition=partition,
        delivered=lambda place, offset, _: placed.append(f"{place.partition}@{offset}"),
    )
    producer.flush(1_000)
    return placed[0]


def everything(log, topic):
    return list(to_the_end(log, {Place(topic, n): 0 for n in range(log.partitions(topic))}))


def test_a_letter_goes_back_byte_for_byte_without_the_headers_of_its_death(log, cli):
    letter = put(log)
    code, out, err = cli("redrive", letter, "--yes")
    assert (code, out) == (Exit.DONE, f"{letter}\n")
    assert "1 letter redriven" in err
    assert "is a repeat and changes nothing" in err
    (sent,) = everything(log, TOPICS.commands)
    assert (sent.key, sent.value) == (b"acme/s1", b"\x00bytes")
    assert list(sent.headers) == [("traceparent", b"00-1"), ("wakeful_redriven", letter.encode())]


def test_a_repeat_sends_nothing_and_says_who_did_it(log, cli):
    letter = put(log)
    cli("redrive", letter, letter, "--yes")
    code, out, err = cli("redrive", letter, "--yes", "--actor", "sue")
    assert (code, out) == (Exit.DONE, "")
    assert f"{letter} was redriven by ann at 1970-01-01 00:00:01: nothing was done again" in err
    assert cli("drop", letter, "--yes")[1] == ""
    assert len(everything(log, TOPICS.commands)) == 1


def test_what_is_dealt_with_leaves_the_list_and_can_still_be_shown(log, cli):
    redriven, dropped, left = put(log), put(log, partition=1), put(log, b"else")
    cli("redrive", redriven, "--yes")
    assert cli("drop", dropped, "--yes", "--json")[0] == Exit.DONE
    assert [row["id"] for row in json.loads(cli("list", "--json")[1])] == [left]
    shown = {row["id"]: row["handled"] for row in json.loads(cli("list", "--all", "--json")[1])}
    assert {letter: mark and mark["how"] for letter, mark in shown.items()} == {
        redriven: "redriven",
        dropped: "dropped",
        left: None,
    }
    assert "handled  dropped by ann at" in cli("show", dropped)[1]
    assert [r.value for r in everything(log, TOPICS.commands)] == [b"\x00bytes"]


def test_all_of_a_reason_go_back_and_others_stay(log, cli):
    wanted = {put(log, b"%d" % n, reason="unknown_session", partition=n % 2) for n in range(250)}
    other = put(log)
    code, out, _ = cli("redrive", "--reason", "unknown_session", "--yes", "--json")
    assert code == Exit.DONE
    assert set(json.loads(out)["redriven"]) == wanted
    assert {int(r.value) for r in everything(log, TOPICS.commands)} == set(range(250))
    assert [row["id"] for row in json.loads(cli("list", "--json")[1])] == [other]
    assert json.loads(cli("redrive", "--reason", "unknown_session", "--json")[1])["redriven"] == []


def test_a_reason_that_no_letter_has_is_told_with_those_there_are(log, cli):
    code, out, err = cli("redrive", "--reason", "bogus", "--yes")
    assert (code, out) == (Exit.NOT_FOUND, "")
    assert "no dead letter has the reason 'bogus': there are no letters" in err
    put(log), put(log, reason="unknown_session")
    assert "there are unknown_session, unreadable" in cli("drop", "--reason", "bogus", "--yes")[2]
    assert everything(log, TOPICS.commands) == []


def test_only_commands_are_taken_back_and_nothing_is_sent_where_one_is_not(log, cli):
    command, attempt = put(log), put(log, topic=TOPICS.activities("default"))
    code, out, err = cli("redrive", command, attempt, "--yes")
    assert (code, out) == (Exit.REFUSED, "")
    assert "desk.activities.default.v1, and only commands are taken back" in err
    assert f"'wakeful dlq drop {attempt}'" in err
    assert everything(log, TOPICS.commands) == []
    code, out, _ = cli("redrive", "--reason", "unreadable", "--yes", "--json")
    assert code == Exit.REFUSED
    assert json.loads(out)["redriven"] == [command]
    assert list(json.loads(out)["refused"]) == [attempt]
    assert cli("drop", attempt, "--yes")[0] == Exit.DONE


def test_a_letter_of_a_stranger_and_one_that_was_changed_are_not_sent_back(log, cli):
    producer = log.producer()
    changed = dead_letter_headers(Record(TOPICS.commands, 0, 1, 9, b"k", b"then", ()), "x", "y")
    for headers in ([], changed):
        producer.produce(TOPICS.dead_letters, key=b"k", value=b"now", headers=headers, partition=0)
    producer.flush(1_000)
    assert "nothing says where it came from" in cli("redrive", "0@0", "--yes")[2]
    assert "its bytes are not those that died" in cli("redrive", "0@1", "--yes")[2]


def test_it_asks_first_and_nobody_to_ask_means_no(log, cli, monkeypatch):
    letter = put(log)
    code, _, err = cli("redrive", letter)
    assert (code, "give --yes" in err) == (Exit.USAGE, True)
    answers = iter("ny")
    stdin = SimpleNamespace(isatty=lambda: True, readline=lambda: next(answers) + "\n")
    monkeypatch.setattr(sys, "stdin", stdin)
    monkeypatch.setattr("builtins.input", lambda _="": next(answers))
    assert cli("drop", letter)[0] == Exit.INTERRUPTED
    assert find_letter(log, TOPICS, letter)[1] is None
    assert cli("drop", letter)[0] == Exit.DONE
    assert find_letter(log, TOPICS, letter)[1].how == "dropped"


def test_the_list_reads_back_past_marks_until_it_has_as_many_as_were_asked_for(log):
    old = [put(log, b"old %d" % n) for n in range(3)]
    done = [find_letter(log, TOPICS, put(log))[0] for _ in range(40)]
    deal(log, TOPICS, done, "dropped", "ann")
    found = newest_letters(log, TOPICS, 2)
    assert [f"{r.partition}@{r.offset}" for r in found.records] == old[1:]
    assert len(newest_letters(log, TOPICS, 50).records) == 3
    assert len(newest_letters(log, TOPICS, 50, all_of_them=True).records) == 43


def test_a_command_that_looks_like_a_mark_is_a_letter(log):
    producer = log.producer()
    forged = Record(TOPICS.commands, 0, 1, 9, b"0@0", None, [("wakeful_letter_handled", b"x")])
    headers = dead_letter_headers(forged, "unreadable", "")
    producer.produce(TOPICS.dead_letters, key=b"0@0", value=None, headers=headers, partition=0)
    producer.flush(1_000)
    assert len(open_letters(log, TOPICS, "unreadable")) == 1


def test_of_two_who_send_back_at_once_one_is_stopped_and_the_letter_goes_once(log, monkeypatch):
    letter = find_letter(log, TOPICS, put(log))[0]
    made = log.transactional

    def overtaken(name):
        producer = made(name)
        commit = producer.commit

        def late():
            monkeypatch.setattr(log, "transactional", made)
            assert deal(log, TOPICS, [letter], "redriven", "sue").now
            return commit()

        producer.commit = late
        return producer

    monkeypatch.setattr(log, "transactional", overtaken)
    with pytest.raises(LogFault):
        deal(log, TOPICS, [letter], "redriven", "ann")
    assert len(everything(log, TOPICS.commands)) == 1
    assert deal(log, TOPICS, [letter], "redriven", "ann").before["0@0"].by == "sue"


def test_a_signed_letter_goes_back_under_its_own_signature_and_nothing_is_signed_for_a_stranger():
    late, engine = key("late"), key("engine", "processor")
    ring = [Keyring([engine])]
    cluster = Cluster(identity=Signed(lambda: ring[0], "memory"))
    cluster.start()
    for session, by in (("s1", late), ("s2", None)):
        said = command(OpenSession("desk"), session=session, at_ms=cluster.clock.ms)
        mark = () if by is None else signed(by, said, topic=cluster.topics.commands)
        found = record(said, *mark)
        cluster.raw(found.key, found.value, found.headers)
    cluster.run()
    assert [letter.reason for letter in cluster.dead()] == ["unknown_key", "unsigned"]
    ring[0] = Keyring([engine, late])
    letters = everything(cluster.log, cluster.topics.dead_letters)
    assert len(deal(cluster.log, cluster.topics, letters, "redriven", "ann").now) == 2
    cluster.run()
    assert [e.envelope.vouched_by for e in cluster.events("s1")] == ["late"]
    assert cluster.events("s2") == []
    assert [letter.reason for letter in cluster.dead()] == ["unknown_key", "unsigned", "unsigned"]


def test_letters_of_another_tenant_are_as_if_there_were_none(log, cli):
    mine = put(log, reason="too_large")
    theirs = put(log, key=b"beta/s1", partition=1)
    nobodys = [put(log, key=key, partition=1) for key in (b"\xff\x00", None, b"noise")]
    _, out, _ = cli("list", "--json")
    assert sorted(one["id"] for one in json.loads(out)) == sorted([mine, *nobodys])
    for asked in (("show",), ("redrive", "--yes"), ("drop", "--yes")):
        name, *rest = asked
        code, out, err = cli(name, theirs, *rest)
        _, _, nothing = cli(name, "1@99", *rest)
        assert (code, out) == (Exit.NOT_FOUND, "")
        assert err == nothing.replace("1@99", theirs)
    code, out, _ = cli("drop", "--reason", "unreadable", "--yes")
    assert (code, sorted(out.split())) == (Exit.DONE, sorted(nobodys))
    _, out, _ = cli("list", "--all-tenants", "--json")
    assert sorted(one["id"] for one in json.loads(out)) == sorted([mine, theirs])
    assert cli("redrive", theirs, "--yes", "--all-tenants")[0] == Exit.DONE


@pytest.mark.parametrize("has_key", [True, False])
def test_who_vouches_without_a_key_where_everybody_is_believed_is_told_so(
    has_key, log, cli, monkeypatch, tmp_path
):
    said = record(command(OpenSession("desk")))
    letter = put(log, said.value, reason="unsigned", key=said.key)
    monkeypatch.setenv("WAKEFUL_INSECURE", "1")
    if has_key:
        ensure_local_keys(tmp_path / "keys.json")
        monkeypatch.setenv("WAKEFUL_KEYS", str(tmp_path / "keys.json"))
    code, out, err = cli("redrive", letter, "--vouch", "--yes")
    assert (code, out) == (Exit.DONE, f"{letter}\n")
    (sent,) = everything(log, TOPICS.commands)
    assert ("wakeful_signature" in dict(sent.headers)) == has_key
    told = "WAKEFUL_INSECURE=1 is set and no key here signs for 1 letter: sent unsigned"
    assert (told in err) == (not has_key)
