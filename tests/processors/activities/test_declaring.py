"""`@activity` with the wrong things, or with the right ones in the wrong place, says what was given and what to write."""

from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any, NewType

import pytest

from wakeful.processors.activities.contracts import Read, Write
from wakeful.processors.activities.credentials import credentials
from wakeful.processors.activities.definitions import Activity, Declined, activity
from wakeful.processors.activities.rules import Needs
from wakeful.processors.durations import to_ms

KeyName = NewType("KeyName", str)


async def refund(order_id: str, cents: int = 5, *, key: str) -> str:
    return key


def asks_nobody(order_id: str, cents: int) -> bool:
    return False


def declared(function=refund, **options) -> Activity:
    options.setdefault("contract", Write(idempotent=True))
    return activity(**options)(function)


def test_a_bare_decorator_says_what_to_write():
    with pytest.raises(
        Declined, match=r"'refund' is declared by a bare @activity: write @activity\(c"
    ):
        activity(refund)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (Read(), r"by position: write @activity\(contract=Read\(\)\)"),
        (Write, r"Write by position: write @activity\(contract=Write\(\)\)"),
        ("refund", r"'refund' by position: write @activity\(contract=Read\(\), name='refund'\)"),
        (7, r"7 by position: it takes its options by name"),
    ],
)
def test_what_is_given_by_position_is_told_by_what_name_to_give_it(given, told):
    with pytest.raises(Declined, match=told):
        activity(given)


def test_the_provider_of_credentials_takes_no_brackets():
    with pytest.raises(Declined, match="@credentials has brackets"):
        credentials()


def test_what_is_declared_already_is_not_declared_again():
    with pytest.raises(
        Declined, match=r"'again' is not a function.*<activity 'refund'> is declared"
    ):
        declared(declared(), name="again")


@pytest.mark.parametrize("name", [7, b"refund", refund])
def test_a_name_that_is_no_text_is_declined(name):
    with pytest.raises(Declined, match=r"activity name .* is not allowed"):
        declared(name=name)


@pytest.mark.parametrize("queue", [None, 7, b"payments"])
def test_a_queue_that_is_no_text_is_declined(queue):
    with pytest.raises(Declined, match=rf"'refund' has queue {queue!r}"):
        declared(queue=queue)


@pytest.mark.parametrize("option", ["timeout", "schedule_to_close", "heartbeat"])
@pytest.mark.parametrize("odd", [True, ["10s"], b"10s", float("nan"), 10**400])
def test_a_time_of_the_wrong_type_is_named(option, odd):
    with pytest.raises(Declined, match=f"^{option} of activity 'refund': ") as told:
        declared(**{option: odd})
    assert repr(odd)[:100] in str(told.value)


@pytest.mark.parametrize("odd", [None, "", "10", "1 week", object(), 1j])
def test_what_is_no_duration_says_how_one_is_written(odd):
    with pytest.raises(ValueError, match="is not a duration: write it like '500ms', '10s'"):
        to_ms(odd)


@pytest.mark.parametrize("fine", [90, 90.0, "90s", "1.5 m", timedelta(seconds=90), Decimal(90)])
def test_a_duration_may_be_any_number_of_seconds(fine):
    assert to_ms(fine) == 90_000


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("boss", r"has approval='boss': write approval=Needs\('boss'\)"),
        (True, r"has approval=True: write approval=Needs\('supervisor'\)"),
        (Needs, r"write approval=Needs\('supervisor'\)"),
        (Needs(""), "needs the approval of '': name who is asked"),
        (Needs(7), "needs the approval of 7: name who is asked"),
        (Needs("a\nb"), "needs the approval of .*: name who is asked"),
        (Needs("boss", expires=None), "expires of activity 'refund': None is not a duration"),
        (
            Needs("boss", when="cents > 5"),
            "when='cents > 5': give a function, such as 'lambda order_",
        ),
        (Needs("boss", when=lambda cents: True), "cannot be asked .*'lambda order_id, cents: …'"),
        (Needs("boss", when=lambda order_id, cents, key: True), r"cannot be asked \(missing a r"),
    ],
)
def test_an_approval_rule_that_cannot_work_is_declined(rule, told):
    with pytest.raises(Declined, match=told) as declined:
        declared(approval=rule)
    assert "'refund'" in str(declined.value)


def test_a_rule_whose_answer_would_always_be_true_is_declined():
    async def later(order_id: str, cents: int) -> bool:
        return False

    def one_by_one(order_id: str, cents: int):
        yield False

    for when in (later, one_by_one):
        with pytest.raises(Declined, match="whose answer is always true: write a plain 'def'"):
            declared(approval=Needs("boss", when=when))


@pytest.mark.parametrize("when", [asks_nobody, lambda **given: False, lambda cents, **rest: False])
def test_a_rule_may_take_the_arguments_as_it_likes(when):
    assert not declared(approval=Needs("boss", when=when)).call("A1").needs_approval()


@pytest.mark.parametrize("kind", [int, bytes, list[str], int | None, "int"])
def test_a_key_that_is_no_text_is_declined(kind):
    async def pay(cents: int, *, key) -> str: ...

    pay.__annotations__["key"] = kind
    with pytest.raises(
        Declined, match=r"'pay' takes 'key' as .*: the idempotency key is text, so w"
    ):
        declared(pay)


@pytest.mark.parametrize(
    "kind", [str, "str", str | None, KeyName, Annotated[str, "a"], Any, object]
)
def test_a_key_may_be_text_by_any_name(kind):
    async def pay(cents: int, *, key) -> str: ...

    pay.__annotations__["key"] = kind
    assert declared(pay).takes_key
    del pay.__annotations__["key"]
    assert declared(pay).takes_key


@pytest.mark.parametrize(
    ("times", "told"),
    [
        (
            {"timeout": "10m", "schedule_to_close": "5m"},
            "timeout='10m', and schedule_to_close is '5m', w",
        ),
        (
            {"timeout": "25h"},
            "timeout='25h', and schedule_to_close is '24h' by default, which ends it b",
        ),
        (
            {"timeout": "61m", "contract": Write()},
            "schedule_to_close is '1h' by default, which ends",
        ),
        (
            {"heartbeat": "60s"},
            "heartbeat='60s', and timeout is '60s' by default, which ends it before",
        ),
        (
            {"heartbeat": 31, "timeout": "30s"},
            "heartbeat=31, and timeout is '30s', which ends it before",
        ),
    ],
)
def test_times_that_contradict_each_other_are_declined_with_the_reason(times, told):
    with pytest.raises(Declined, match=f"activity 'refund' has {told}|activity 'refund' .*{told}"):
        declared(**times)


@pytest.mark.parametrize(
    "times",
    [
        {"timeout": "5m", "schedule_to_close": "5m"},
        {"schedule_to_close": "5s"},
        {"heartbeat": "59s"},
        {"heartbeat": "30s", "timeout": "24h"},
    ],
)
def test_times_that_agree_are_as_they_were_written(times):
    made = declared(**times)
    kept = {"timeout": made.start_to_close_ms, "heartbeat": made.heartbeat_ms}
    kept["schedule_to_close"] = made.schedule_to_close_ms
    assert {name: kept[name] for name in times} == {n: to_ms(time) for n, time in times.items()}


@pytest.mark.parametrize("kind", ["list[", "Elsewhere", "timedelta.Gone", "None | 'x'"])
def test_types_that_cannot_be_read_are_declined(kind):
    async def find(order: str) -> str:
        return order

    find.__annotations__["order"] = kind
    with pytest.raises(Declined, match="the types of activity 'find' cannot be read"):
        declared(find)
