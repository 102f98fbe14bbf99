"""What a chaos run expects of each session: anything else that it did, or that the payment service's book says, is told."""

import json
from types import SimpleNamespace

import pytest

from tests.chaos.accounts import ONCE, Account
from tests.chaos.duties import GATED, KINDS, LOOKED_UP, Duties
from wakeful.deploy.demo.payments import Charge


class Book:
    """Charges by key."""

    def __init__(self, **charges):
        self.charges_by_key = {
            key: [Charge(id=one, key=key, order_id="o", cents=1) for one in ids]
            for key, ids in charges.items()
        }


def ended(did, kind="completed"):
    message = SimpleNamespace(inline=json.dumps({"kind": "any", "did": did}).encode())
    return SimpleNamespace(kind=kind, message=message)


def rig_of(kind, number, did, *accounts):
    rig = Duties.__new__(Duties)
    rig.kinds, rig.done = {"s1": (kind, number)}, {"s1": ended(did)}
    rig.accounts = {("s1", one.activity_id): one for one in accounts}
    return rig


def account(name, key, receipt, end="completed"):
    return Account("s1", key, name, key, end=end, receipt=receipt)


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        ("sleeps", 8, 4),
        ("thinks", 8, None),
        ("hands_out", {"film": 4}, {"film": 5}),
        ("delegates", [8, 10], [8]),
    ],
)
def test_what_a_session_did_is_held_against_its_number(kind, right, wrong):
    assert list(rig_of(kind, 4, right).broken(Book())) == []
    (told,) = rig_of(kind, 4, wrong).broken(Book())
    assert told.startswith(f"s1 ({kind}) did {wrong}, expected")


def test_a_session_that_did_not_complete_is_told():
    rig = rig_of("sleeps", 4, 8)
    rig.done = {"s1": ended(8, kind="failed")}
    (told,) = rig.broken(Book())
    assert "did not complete" in told
    rig.done = {}
    assert len(list(rig.broken(Book()))) == 1


def test_refunds_are_held_against_the_book():
    looked_up, once = account(LOOKED_UP, "a", "ch_1"), account(ONCE, "b", "ch_2")
    rig = rig_of("pays", 4, ["ch_1", "ch_2"], looked_up, once)
    assert list(rig.broken(Book(a=["ch_1"], b=["ch_2"]))) == []
    assert len(list(rig.broken(Book(a=["ch_1", "ch_3"], b=["ch_2"])))) == 1  # paid twice
    assert len(list(rig.broken(Book(b=["ch_2"])))) == 1  # not paid
    assert len(list(rig.broken(Book(a=["ch_1"], b=["ch_2"], c=["ch_4"])))) == 1  # nobody asked
    doubtful = rig_of(
        "pays", 4, ["ch_1", "not paid"], looked_up, account(ONCE, "b", None, "failed")
    )
    assert list(doubtful.broken(Book(a=["ch_1"]))) == []
    (told,) = doubtful.broken(Book(a=["ch_1"], b=["ch_2"]))
    assert told == "b failed for certain, and the book has ['ch_2']"


def test_what_was_declined_is_not_paid():
    assert list(rig_of("asks", 3, "rejected").broken(Book())) == []
    assert (
        list(rig_of("asks", 4, "ch_1", account(GATED, "a", "ch_1")).broken(Book(a=["ch_1"]))) == []
    )
    paid = rig_of("asks", 3, "ch_1", account(GATED, "a", "ch_1"))
    assert len(list(paid.broken(Book(a=["ch_1"])))) == 1


def test_every_kind_of_the_load_is_expected_to_do_something():
    for kind in KINDS:
        rig = rig_of(kind, 4, "nonsense", account(LOOKED_UP, "a", "x"), account(ONCE, "b", "y"))
        assert any(told.startswith("s1") for told in rig.broken(Book(a=["x"], b=["y"])))
