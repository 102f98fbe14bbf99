"""An agent of Pydantic AI, durable: a person approves what costs. AGENT_MODEL names a real model. AGENT_BOOK is where it pays."""

from os import environ
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from wakeful import Needs, Read, Write
from wakeful.pydantic_ai import Rules, durable, idempotency_key

ANSWERS = [ToolCallPart("last_order", {}), ToolCallPart("pay_back", {"cents": 25_000})]


def script(messages, info):
    answered = sum(isinstance(message, ModelResponse) for message in messages)
    return ModelResponse(parts=[[*ANSWERS, TextPart("It is on its way.")][answered % 3]])


agent = Agent(environ.get("AGENT_MODEL") or FunctionModel(script), name="desk")


@agent.tool_plain
def last_order() -> str:
    return "a lamp for 25000 cents, paid in full"  # your shop


@agent.tool_plain
def pay_back(cents: int) -> str:
    """Pays so much of the order back to the customer."""
    with Path(environ.get("AGENT_BOOK", "book.txt")).open("a", encoding="utf-8") as book:
        book.write(f"{idempotency_key()} {cents}\n")  # your payment service
    return f"paid back {cents / 100:.2f}"


RULES = {
    "last_order": Rules(Read()),
    "pay_back": Rules(Write(idempotent=True), approval=Needs("supervisor")),
}
desk = durable(agent, version=1, tools=RULES)
