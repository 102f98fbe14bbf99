"""A declaration that cannot work fails at import, names its function, and says what to write."""

import subprocess
import sys
import textwrap
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from pydantic import BaseModel

from wakeful.processors.activities.contracts import Read, Write
from wakeful.processors.activities.definitions import Activity, Declined, activity
from wakeful.processors.activities.rules import Needs
from wakeful.processors.workflow.definitions import workflow


class Order(BaseModel):
    id: str
    cents: int


class Unstorable:
    pass


async def refund(order_id: str, cents: int = 5, *, key: str) -> Order:
    return Order(id=order_id, cents=cents)


def declared(function=refund, **options) -> Activity:
    options.setdefault("contract", Write(idempotent=True))
    return activity(**options)(function)


@pytest.mark.parametrize("name", ["", "a\x00b", "x" * 201, "line\nline"])
def test_a_name_that_no_client_could_ask_for_is_declined(name):
    with pytest.raises(Declined, match=r"activity name .* is not allowed"):

        @activity(contract=Read(), name=name)
        async def find() -> None: ...

    with pytest.raises(Declined, match=r"workflow name .* is not allowed"):
        workflow(name, version=1)


def test_a_version_that_no_record_holds_is_declined():
    with pytest.raises(Declined, match="versions count from 1, up to"):
        workflow("desk", version=2**31)


def test_a_missing_contract_fails_and_names_the_function():
    with pytest.raises(Declined, match=r"'refund' has no contract: write contract=Read\(\)"):
        declared(contract=None)


def test_a_contract_class_instead_of_a_contract_is_refused():
    with pytest.raises(Declined, match="'refund' has contract <class"):
        declared(contract=Read)


def test_a_gated_read_is_refused():
    with pytest.raises(Declined, match=r"'refund' is a Read\(\) with an approval rule"):
        declared(contract=Read(), approval=Needs("supervisor"))


@pytest.mark.parametrize("expires", ["0s", "soon", -1])
def test_an_approval_that_can_never_be_given_is_refused(expires):
    with pytest.raises(Declined, match="expires"):
        declared(contract=Write(idempotent=True), approval=Needs("supervisor", expires=expires))


def test_a_sync_function_is_an_activity_like_an_async_one():
    def find(order_id: str, *, key: str) -> Order:
        return Order(id=order_id, cents=len(key))

    found = declared(find)
    assert (found.is_sync, declared().is_sync) == (True, False)
    assert found.takes_key
    assert found.call("A1").arguments == {"order_id": "A1"}


def test_what_is_no_function_is_refused():
    class Finder:
        def __call__(self, order_id: str) -> str:
            return order_id

    with pytest.raises(Declined, match="'find' is not a function: write 'def' or 'async def'"):
        declared(Finder(), name="find")


def test_a_generator_is_refused():
    def lines(order_id: str) -> list[str]:
        yield order_id

    async def later(order_id: str) -> list[str]:
        yield order_id

    for function in (lines, later):
        with pytest.raises(Declined, match="yields: an activity has one result, return it"):
            declared(function)


def test_a_parameter_without_a_type_is_refused():
    async def find(order_id) -> str:
        return order_id

    with pytest.raises(Declined, match="parameter 'order_id' of activity 'find' has no type"):
        declared(find)


def test_a_function_that_does_not_say_what_it_returns_is_refused():
    async def find(order_id: str):
        return order_id

    with pytest.raises(Declined, match="'find' does not say what it returns"):
        declared(find)


def test_star_parameters_are_refused():
    async def find(*order_ids: str) -> str:
        return ""

    with pytest.raises(Declined, match=r"'find' takes \*order_ids"):
        declared(find)


def test_positional_only_parameters_are_refused():
    async def find(order_id: str, /) -> str:
        return order_id

    with pytest.raises(Declined, match="positional-only"):
        declared(find)


def test_a_key_by_position_is_refused():
    async def find(key: str) -> str:
        return key

    with pytest.raises(Declined, match=r"takes 'key' by position: write '\*, key: str'"):
        declared(find)


def test_a_parameter_that_json_cannot_hold_is_refused():
    async def find(order: Unstorable) -> str:
        return ""

    with pytest.raises(
        Declined, match="the parameters of activity 'find' cannot be stored as JSON"
    ):
        declared(find)


def test_a_result_that_json_cannot_hold_is_refused():
    async def find() -> Unstorable:
        return Unstorable()

    with pytest.raises(Declined, match="the result of activity 'find' cannot be stored as JSON"):
        declared(find)


def test_types_that_exist_for_the_type_checker_only_are_refused():
    async def find(order: "Elsewhere") -> str:  # noqa: F821
        return ""

    with pytest.raises(Declined, match=r"'find' cannot be read .*import them at module level"):
        declared(find)


@pytest.mark.parametrize("queue", ["", "Payments", "a.b", "a/b", "-a", "x" * 65])
def test_a_queue_that_cannot_be_part_of_a_topic_is_refused(queue):
    with pytest.raises(Declined, match="a queue is part of a topic's name"):
        declared(queue=queue)


@pytest.mark.parametrize("option", ["timeout", "schedule_to_close"])
@pytest.mark.parametrize("duration", ["soon", 0, "-1s", "0ms"])
def test_a_duration_that_is_none_is_refused_by_name(option, duration):
    with pytest.raises(Declined, match=f"{option}.*'refund'|'refund'.*{option}"):
        declared(**{option: duration})


def test_arguments_are_kept_by_name_with_defaults_and_without_the_key():
    assert declared().call("A1").arguments == {"order_id": "A1", "cents": 5}


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((), {}), (("A1", 5, 6), {}), (("A1",), {"colour": "red"}), (("A1",), {"key": "k"})],
)
def test_unknown_or_missing_arguments_raise_where_the_call_is_written(args, kwargs):
    with pytest.raises(TypeError, match=r"refund\(order_id: str, cents: int = 5\)"):
        declared().call(*args, **kwargs)


def test_an_argument_of_the_wrong_type_is_named_without_its_value():
    with pytest.raises(TypeError, match="cents: Input should be a valid integer") as raised:
        declared().call("A1", "secret")
    assert "secret" not in str(raised.value)


def test_parameters_may_be_called_what_they_like():
    async def odd(model_name: str, schema: int, copy: bool, json: str, _private: int = 1) -> str:
        return model_name

    action = declared(odd).call("m", 1, copy=True, json="j")
    assert action.arguments == {
        "model_name": "m",
        "schema": 1,
        "copy": True,
        "json": "j",
        "_private": 1,
    }


def test_typed_arguments_come_back_as_they_went_in():
    async def pay(order: Order, at: datetime, amount: Decimal, tags: set[str]) -> None: ...

    given = {"order": Order(id="A", cents=1), "at": datetime(2026, 1, 1, tzinfo=UTC)}
    given |= {"amount": Decimal("1.10"), "tags": {"x"}}
    pay_activity = declared(pay)
    assert pay_activity.typed(pay_activity.call(**given).arguments) == given


def test_a_parameter_added_since_with_a_default_may_be_absent_in_what_was_recorded():
    assert declared().typed({"order_id": "A1"}) == {"order_id": "A1"}


def test_a_rule_with_when_asks_by_typed_arguments():
    rule = Needs("supervisor", when=lambda order_id, cents: cents > 10)
    gated = declared(approval=rule)
    assert gated.call("A1", 11).needs_approval()
    assert not gated.call("A1", 10).needs_approval()


def test_a_rule_without_when_always_asks():
    assert declared(approval=Needs("supervisor")).call("A1").needs_approval()


def test_calling_an_activity_directly_says_what_to_write():
    with pytest.raises(TypeError, match=r"await turn\.run\(refund\.call\(…\)\)"):
        declared()("A1")


@pytest.mark.slow
def test_the_result_of_run_has_the_activitys_type_for_the_type_checker(tmp_path):
    """The example of the documentation, under mypy --strict, with the types it reveals."""
    module = tmp_path / "desk.py"
    module.write_text(
        textwrap.dedent(
            """
            from pydantic import BaseModel
            from wakeful.processors.activities.contracts import Read, Write
            from wakeful.processors.activities.definitions import activity
            from wakeful.processors.activities.rules import Needs
            from wakeful.processors.workflow.definitions import Message, workflow
            from wakeful.processors.workflow.turn import Turn

            class Desk(BaseModel):
                refunded_cents: int = 0

            class Order(BaseModel):
                id: str
                cents: int

            @activity(contract=Read(), timeout="10s")
            async def find_order(order_id: str) -> Order:
                return Order(id=order_id, cents=1)

            @activity(contract=Write(idempotent=True), queue="payments",
                      approval=Needs("supervisor", when=lambda order_id, cents: cents > 10_000, expires="24h"))
            async def refund(order_id: str, cents: int, *, key: str) -> int:
                return cents

            @activity(contract=Read())
            def count_orders(customer: str) -> list[int]:
                return [len(customer)]

            @workflow("refund-desk", version=1)
            async def refund_desk(turn: Turn, desk: Desk, message: Message) -> Desk:
                order = await turn.run(find_order.call(message.text))
                reveal_type(order)
                reveal_type(await turn.run(count_orders.call("ann")))
                action = refund.call(order.id, order.cents)
                if not (await turn.approval(action)).granted:
                    await turn.say("A supervisor declined this refund.")
                    return desk
                receipt = await turn.run(action)
                reveal_type(receipt)
                return desk.model_copy(update={"refunded_cents": desk.refunded_cents + receipt})
            """
        )
    )
    checked = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--no-incremental",
            "--follow-imports=silent",
            str(module),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=tmp_path,
    )
    assert checked.returncode == 0, checked.stdout
    assert 'Revealed type is "desk.Order"' in checked.stdout
    revealed = checked.stdout.replace("builtins.", "")
    assert 'Revealed type is "int"' in revealed
    assert 'Revealed type is "list[int]"' in revealed
