"""One dead letter may stand for many commands: for those that are there, of its key or tenant, and for no others."""

import pytest

from wakeful.commands import models as m
from wakeful.events.keys import partition_of, session_key

NOBODY = ("acme", "nobody")


def flood(chronicle, count, sessions=(NOBODY,)):
    """So many commands of strangers, of which nothing became; the first and the last."""
    for number in range(count):
        body = m.SendMessage(chronicle.scribe.payload(number))
        chronicle.ask(body, session=sessions[number % len(sessions)])
    return chronicle.commands[-count], chronicle.commands[-1]


def partition(chronicle, session):
    return partition_of(session_key(*session), chronicle.scribe.partitions)


def test_a_letter_stands_for_as_many_as_it_says(begin, found):
    chronicle = begin().story()
    first, last = flood(chronicle, 5)
    chronicle.bury(first, count=5, last=last.offset)
    assert found(chronicle.evidence()) == set()


@pytest.mark.parametrize("count", [1, 4, 6])
def test_a_letter_that_tells_of_fewer_or_more_than_there_are_is_found(begin, found, count):
    chronicle = begin().story()
    first, last = flood(chronicle, 5)
    chronicle.bury(first, count=count, last=last.offset)
    assert found(chronicle.evidence()) == {3}


def test_a_letter_stands_for_none_beyond_its_last_offset(begin, found):
    chronicle = begin().story()
    first, last = flood(chronicle, 5)
    chronicle.bury(first, count=5, last=last.offset - 1)
    assert found(chronicle.evidence()) == {3}


def test_a_letter_stands_for_none_of_another_key(begin, found):
    chronicle = begin().story()
    others = (("acme", f"n{n}") for n in range(99))
    other = next(one for one in others if partition(chronicle, one) == partition(chronicle, NOBODY))
    first, last = flood(chronicle, 6, (NOBODY, other))
    chronicle.bury(first, count=6, last=last.offset)
    assert found(chronicle.evidence()) == {3}
    whole = begin().story()
    first, last = flood(whole, 6, (NOBODY, other))
    whole.bury(first, "over_quota", count=6, last=last.offset)
    assert found(whole.evidence()) == set()
