"""What was let in, who spoke, what was put aside, and what the views may show: each check finds what was planted for it."""

from dataclasses import replace

import pytest

from wakeful.commands import models as m
from wakeful.commands.wire import encode_command
from wakeful.events import records as r
from wakeful.events.headers import DEAD
from wakeful.events.signed import KEY_HEADER
from wakeful.projections.rows import LEDGER, SESSIONS, TIMERS

S = ("acme", "s1")


def expecting(chronicle, seq):
    """The chronicle's commands, the second of which expects this version."""
    first, second, *rest = chronicle.commands
    header = m.CommandHeader(*S, "m1", chronicle.scribe.now_ms, "ann", None, "test", seq)
    body = m.SendMessage(chronicle.scribe.payload("hi"))
    value = encode_command(m.Command(header, body)).value
    return [first, replace(second, value=value), *rest]


def test_7_a_command_that_met_another_version_than_it_expected_is_found(begin, found):
    chronicle = begin().story()
    assert found(chronicle.evidence(commands=expecting(chronicle, 1))) == set()
    assert found(chronicle.evidence(commands=expecting(chronicle, 2))) == {7}


def test_11_a_row_of_an_event_that_was_never_committed_is_found(begin, found):
    chronicle = begin().story()
    evidence = chronicle.evidence()
    for table in (SESSIONS, LEDGER, TIMERS):
        rows = dict(evidence.rows)
        (key, row), *rest = rows[table].items()
        rows[table] = {key: {**row, "seq": 99}, **dict(rest)}
        assert 11 in found(replace(evidence, rows=rows))


def test_27_an_event_that_names_another_key_than_its_command_is_found(begin, found):
    chronicle = begin().story()
    signed = [
        replace(one, headers=(*one.headers, (KEY_HEADER, b"k1"))) for one in chronicle.commands
    ]
    assert found(chronicle.evidence(commands=signed)) == {27}


@pytest.mark.parametrize("kind", [r.MessageReceived, r.ApprovalGranted])
def test_27_what_is_said_by_another_than_who_sent_the_command_is_found(begin, found, kind):
    chronicle = begin()
    fact = chronicle.fact

    def forged(cause, *bodies, **more):
        if any(isinstance(body, kind) for body in bodies):
            chronicle.actors[cause.partition, cause.offset] = "mallory"
        fact(cause, *bodies, **more)

    chronicle.fact = forged
    assert 27 in found(chronicle.story().evidence())


def altered(record, name, value):
    """A dead letter that says something else."""
    headers = [(key, value if key == DEAD + name else told) for key, told in record.headers]
    return replace(record, headers=tuple(headers))


def test_37_a_letter_without_a_reason_is_found(begin, found):
    chronicle = begin().story()
    first, *rest = chronicle.dead
    assert found(chronicle.evidence(dead_letters=[altered(first, "reason", b""), *rest])) == {37}


def test_37_a_letter_with_other_bytes_than_it_says_is_found(begin, found):
    chronicle = begin().story()
    first, *rest = chronicle.dead
    other = altered(first, "sha256", b"0" * 64)
    assert found(chronicle.evidence(dead_letters=[other, *rest])) == {37}


def test_37_a_letter_with_other_bytes_than_lie_where_it_came_from_is_found(begin, found):
    chronicle = begin().story()
    *rest, last = chronicle.dead
    assert last.value == b"garbage"
    moved = altered(last, "offset", b"0")
    assert 37 in found(chronicle.evidence(dead_letters=[*rest, moved]))
