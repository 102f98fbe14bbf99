"""The agent: it reads a message, looks the order up, has large sums approved, pays back once, writes a letter, answers.

A session is a customer, a turn is a message. Asked for the order's number, a customer may take a year to reply. The model
decides by calls of tools; what it may not decide stands in `RefundDesk`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field

from wakeful import Action, Message, Needs, NothingDone, Read, Retry, Turn, Write, activity
from wakeful.agents import AgentLoop, Conversation
from wakeful.deploy.demo.model import PROMPT, PROMPT_VERSION, NotedModel, model_from
from wakeful.deploy.demo.papers import Letter, Papers
from wakeful.deploy.demo.payments import Payments, PaymentsUnavailable

from .shop import Order, Shop

LIMIT_CENTS = 10_000
"""What is above needs a supervisor."""

PATIENT = Retry(attempts=20, initial="500ms", factor=1.5, cap="5s")


class Desk(Conversation):
    """What a session remembers of its customer, beside what was said: the sums of orders, in cents, and what was paid back."""

    found: dict[str, int] = Field(default_factory=dict)
    refunded: list[str] = Field(default_factory=list)


class Reply(BaseModel):
    """What the customer is told, and what has become of the message."""

    decision: Literal["answered", "asked back", "refunded", "declined"]
    text: str = Field(min_length=1, max_length=4_000)


@activity(contract=Read(), queue="desk", timeout="15s", retry=PATIENT)
def find_order(order_id: str, customer: str) -> Order | None:
    """Finds the order that a customer wants to have paid back."""
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
    """Pays an order back; gives the charge's id."""
    try:
        return (await payments().refund(order_id, cents, key=key)).id
    except PaymentsUnavailable as unavailable:  # it says that it did nothing, and is believed
        raise NothingDone(str(unavailable)) from unavailable


@activity(contract=Write(idempotent=True), queue="desk", timeout="10s", retry=PATIENT)
def write_letter(customer: str, text: str, *, key: str) -> str:
    """Writes a letter to the customer."""
    return papers().write(Letter(key, customer, text)).name


class RefundDesk(AgentLoop[Desk]):
    """An order is refunded once, after it was found, and with its sum; whatever a model thinks of it."""

    def objection(
        self, talk: Desk, action: Action[Any], before: Sequence[Action[Any]]
    ) -> str | None:
        """See `AgentLoop.objection`."""
        if action.activity is not refund:
            return None
        order_id, cents = action.arguments["order_id"], action.arguments["cents"]
        if order_id in talk.refunded:
            return f"order {order_id} was refunded before"
        if any(other.activity is refund for other in before):
            return "refund one order at a time"
        if talk.found.get(order_id) != cents:
            return "find the order first, and refund what it has cost"
        return None

    def observed(self, talk: Desk, action: Action[Any], result: Any) -> str:
        """See `AgentLoop.observed`."""
        if action.activity is find_order and result is not None:
            talk.found[result.id] = result.cents
        if action.activity is refund:
            talk.refunded.append(action.arguments["order_id"])
        return super().observed(talk, action, result)

    async def gave_up(self, turn: Turn, talk: Desk, why: str) -> None:
        """See `AgentLoop.gave_up`."""
        await turn.say({"decision": "unread", "text": "A person will read your message today."})


def customer_of(message: Message) -> str:
    """Who wrote: the model neither sees nor chooses it."""
    return str(message.data.get("customer", "")) if isinstance(message.data, dict) else ""


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


refund_desk = RefundDesk(
    name="refund-desk",
    version=2,
    model=NotedModel(model_from(os.environ), papers),
    prompt=PROMPT,
    prompt_version=PROMPT_VERSION,
    tools=[find_order, refund, write_letter],
    given={"customer": customer_of},
    output=Reply,
    state=Desk,
    timeout="40s",
    retry=Retry(attempts=3, initial="2s"),
)
