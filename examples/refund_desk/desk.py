"""The agent: it reads a message, looks the order up, has large sums approved, pays back once, writes a letter, answers.

A session is a customer, a turn is a message. Asked for the order's number, a customer may take a year to reply.
"""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import BaseModel

from wakeful import (
    ActivityError,
    Message,
    Needs,
    NothingDone,
    Read,
    Retry,
    Turn,
    Write,
    activity,
    workflow,
)
from wakeful.deploy.demo.model import PROMPT_VERSION, Verdict, model_from
from wakeful.deploy.demo.papers import Letter, Papers
from wakeful.deploy.demo.payments import Payments, PaymentsUnavailable

from .shop import Order, Shop

LIMIT_CENTS = 10_000
"""What is above needs a supervisor."""

MODEL = model_from(os.environ)
PATIENT = Retry(attempts=20, initial="500ms", factor=1.5, cap="5s")
MODEL_TRIES, TRY_AGAIN_AFTER = 3, "2s"


class Desk(BaseModel):
    """What a session remembers of its customer, from message to message."""

    asked_about: str = ""
    refunded: list[str] = []


class Judged(Verdict):
    """A verdict, and the id of the call that gave it: evidence of which call it was."""

    call: str


@activity(contract=Read(), queue="models", timeout="40s")
async def judge(text: str, earlier: str, *, key: str) -> Judged:
    """Asks the model what the customer wants."""
    with papers().call(key) as call:
        verdict = await MODEL.judge(text, earlier)
    return Judged(**verdict.model_dump(), call=call)


@activity(contract=Read(), queue="desk", timeout="15s", retry=PATIENT)
def find_order(order_id: str, customer: str) -> Order | None:
    """Looks into the shop's database."""
    schema = f"{os.environ['WAKEFUL_NAMESPACE']}_shop"
    return Shop(os.environ["WAKEFUL_POSTGRES"], schema).find(order_id, customer)


async def find_refund(key: str) -> str | None:
    """The charge with this key, if the service has one."""
    charge = await payments().find(key)
    return charge.id if charge else None


@activity(
    contract=Write(lookup=find_refund, settle="3s"),  # the service charges a key twice
    queue="desk",
    timeout="10s",
    retry=PATIENT,
    approval=Needs("supervisor", when=lambda order_id, cents: cents > LIMIT_CENTS, expires="24h"),
)
async def refund(order_id: str, cents: int, *, key: str) -> str:
    """Pays back; gives the charge's id."""
    try:
        return (await payments().refund(order_id, cents, key=key)).id
    except PaymentsUnavailable as unavailable:  # it says that it did nothing, and is believed
        raise NothingDone(str(unavailable)) from unavailable


@activity(contract=Write(idempotent=True), queue="desk", timeout="10s", retry=PATIENT)
def write_letter(customer: str, text: str, *, key: str) -> str:
    """Puts a letter into the folder of letters, one per key."""
    return papers().write(Letter(key, customer, text)).name


@workflow("refund-desk", version=1, versions={"model": MODEL.name, "prompt": PROMPT_VERSION})
async def refund_desk(turn: Turn, desk: Desk, message: Message) -> Desk:
    """One message: answered, asked back about, or paid back."""
    wish = await judgement(turn, message.text, desk.asked_about)
    if wish is None:
        return await answer(turn, desk, "unread", "A person will read your message today.")
    if wish.kind != "refund":
        return await answer(turn, desk, "answered", wish.answer)
    customer = str(message.data.get("customer", "")) if isinstance(message.data, dict) else ""
    order = await turn.run(find_order.call(wish.order_id, customer)) if wish.order_id else None
    if order is None:
        told = "We are sorry. Which order is it? Its number is on your invoice."
        return await answer(turn, desk, "asked back", told, asked_about=message.text)
    if order.id in desk.refunded:
        return await answer(turn, desk, "answered", f"Order {order.id} was refunded before.")
    asked = await turn.approval(refund.call(order.id, order.cents))
    if not asked.granted:  # at once where the rule asks nobody
        return await answer(turn, desk, "declined", "We cannot refund this. A person will write.")
    charge = await turn.run(asked.action)  # whose cents a supervisor may have changed
    cents = asked.action.arguments["cents"]
    told = f"We have paid back {cents / 100:.2f} for your {order.item}, order {order.id}."
    await turn.run(write_letter.call(customer, f"{told} Our reference is {charge}."))
    desk = desk.model_copy(update={"refunded": [*desk.refunded, order.id]})
    return await answer(turn, desk, "refunded", told)


async def judgement(turn: Turn, text: str, earlier: str) -> Judged | None:
    """The model's verdict; null where it fails again and again."""
    for tried in range(1, MODEL_TRIES + 1):
        try:
            return await turn.run(judge.call(text, earlier))
        except ActivityError:
            if tried < MODEL_TRIES:
                await turn.sleep(TRY_AGAIN_AFTER)
    return None


async def answer(
    turn: Turn, desk: Desk, decision: str, text: str, *, asked_about: str = ""
) -> Desk:
    """The turn's one reply, and the state that it leaves."""
    await turn.say({"decision": decision, "text": text})
    return desk.model_copy(update={"asked_about": asked_about})


def papers() -> Papers:
    """The folder that the environment names."""
    return Papers(Path(_given("REFUND_DESK_FOLDER", "a folder for letters and model calls")))


def payments() -> Payments:
    """The payment service that the environment names."""
    return Payments(_given("REFUND_DESK_PAYMENTS", "the payment service's URL"), answer_limit_s=2.0)


def _given(name: str, what: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise RuntimeError(f"{name} is not set: give it {what}")
    return value
