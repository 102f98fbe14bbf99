"""One dead letter may stand for many commands: for those that are there, of its key or tenant, and for no others."""

from dataclasses import replace

import pytest

from wakeful.commands import models as m
from wakeful.events.keys import partition_of, session_key
from wakeful.events.log.protocol import Place

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


def misplaced(chronicle, count, session=NOBODY):
    """So many commands of strangers in a partition that is not their key's, at its end."""
    flood(chronicle, count, (session,))
    home = partition(chronicle, session)
    last = max((one.offset for one in chronicle.commands if one.partition != home), default=-1)
    moved = [
        replace(one, partition=1 - home, offset=last + 1 + number)
        for number, one in enumerate(chronicle.commands[-count:])
    ]
    chronicle.commands[-count:] = moved
    return moved[0], moved[-1]


def test_given_a_flood_of_misplaced_commands_when_one_letter_tells_of_all_then_none_is_a_violation(
    begin, found
):
    chronicle = begin().story()
    first, last = misplaced(chronicle, 5)
    chronicle.bury(first, "wrong_partition", count=5, last=last.offset)
    assert found(chronicle.evidence()) == set()


def test_given_misplaced_commands_when_the_letter_tells_of_fewer_then_the_rest_is_found(
    begin, found
):
    chronicle = begin().story()
    first, last = misplaced(chronicle, 5)
    chronicle.bury(first, "wrong_partition", count=4, last=last.offset - 1)
    assert found(chronicle.evidence()) == {2, 3}


def test_given_a_misplaced_command_that_no_processor_has_read_then_it_is_no_violation_yet(
    begin, found
):
    chronicle = begin().story()
    first, _ = misplaced(chronicle, 1)
    evidence = chronicle.evidence()
    place = Place(first.topic, first.partition)
    unread = replace(
        evidence, committed={**evidence.committed, place: first.offset}, quiescent=False
    )
    assert found(unread) == set()
    assert found(evidence) == {2, 3}
