"""What a person wrote as arguments, what has changed since a page was shown, and charts."""

import json
from dataclasses import replace

import pytest

from wakeful.deploy.gateway.console.charts import bars
from wakeful.deploy.gateway.console.proposals import Proposal, changes, difference, edited
from wakeful.deploy.gateway.problems import Problem

BEFORE = {"order_id": "A-7", "cents": 500, "express": False, "note": None}

ROW = {
    "status": "requested",
    "digest": "ab",
    "decided_by": None,
    "comment": None,
    "activity_id": None,
}

SHOWN = Proposal(
    row=ROW,
    arguments=BEFORE,
    session={"messages": 1, "tainted_by": [], "held_reason": None},
    relies_on=(),
    now_at={"prices": "1"},
    votes=(),
    since=(),
    successor=None,
    predecessor=None,
)


def test_arguments_are_taken_as_they_were_written():
    after = {**BEFORE, "cents": 250, "note": "half"}
    assert edited(json.dumps(after), BEFORE) == after


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "no JSON"),
        ("[]", "an object by name"),
        ('{"cents": 1}', "missing: express, note, order_id"),
        (json.dumps({**BEFORE, "sents": 1}), "unknown: sents"),
        (
            json.dumps({**BEFORE, "cents": "500"}),
            "cents is a text, and the tool was to be given a number",
        ),
        (json.dumps({**BEFORE, "cents": True}), "cents is true or false"),
        (json.dumps({**BEFORE, "order_id": None}), "order_id is null"),
        (json.dumps(BEFORE), "approve it instead"),
        ('{"cents": 1, "cents": 2}', "stands in it twice"),
        ('{"cents": NaN}', "NaN is no number"),
        ("[" * 100_000, "no JSON"),
    ],
)
def test_what_are_no_arguments_is_said(text, said):
    with pytest.raises(Problem) as caught:
        edited(text, BEFORE)
    assert said in caught.value.detail
    assert caught.value.status == 422


def test_nothing_has_changed_where_all_is_as_it_was_shown():
    assert changes(SHOWN.shown, SHOWN) == []


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (
            replace(SHOWN, row={**ROW, "status": "granted", "decided_by": "sue", "comment": "ok"}),
            "it was granted by sue meanwhile: ok",
        ),
        (replace(SHOWN, row={**ROW, "digest": "cd"}), "the proposed action is another one by now"),
        (replace(SHOWN, now_at={"prices": "2"}), "prices was version 1, and is version 2 now"),
        (
            replace(SHOWN, now_at={**SHOWN.now_at, "list": "9"}),
            "list was not known, and is version 9 now",
        ),
        (replace(SHOWN, votes=("tom",)), "tom has approved it meanwhile"),
        (
            replace(SHOWN, session={**SHOWN.session, "messages": 3}),
            "2 more messages came in from the conversation",
        ),
        (
            replace(SHOWN, session={**SHOWN.session, "tainted_by": ["browse"]}),
            "browse has brought in content that nobody vouches for",
        ),
        (
            replace(SHOWN, session={**SHOWN.session, "held_reason": "does_not_fold"}),
            "the session is held by now: does_not_fold",
        ),
    ],
)
def test_each_change_is_said(now, said):
    assert changes(SHOWN.shown, now) == [said]


@pytest.mark.parametrize(
    "shown",
    [
        *("", "null", "[]", "{}", '{"data": 1, "votes": []}', '"x"', "[" * 100_000),
        *(
            json.dumps({"data": {}, "votes": [], "tainted": [], "messages": said})
            for said in ("x", float("inf"), None)
        ),
    ],
    ids=lambda shown: shown[:12],
)
def test_a_form_that_does_not_say_what_it_showed_decides_nothing(shown):
    assert changes(shown, SHOWN) == [
        "the form did not say what it had shown: decide from this page"
    ]


def test_a_difference_has_the_lines_of_both():
    assert [line for line in difference({"a": 1}, {"a": 2}) if line[0] != " "] == [
        ("-", '  "a": 1'),
        ("+", '  "a": 2'),
    ]


def test_a_chart_without_anything_says_so_and_one_with_something_stays_in_its_frame():
    assert bars("t", [("a", (("steps", 0),))], words="", labels=[0]).empty
    found = bars(
        "t", [(str(n), (("steps", n), ("failed", 7))) for n in range(30)], words="", labels=[0]
    )
    assert all(box.y >= 0 and box.y + box.height <= found.floor + 0.1 for box in found.boxes)
    assert all(found.left <= box.x and box.x + box.width <= found.width for box in found.boxes)
    assert len(found.boxes) == 59
