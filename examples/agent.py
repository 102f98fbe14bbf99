"""An agent: a model looks up, acts and answers; people approve what costs. AGENT_MODEL names a real model."""

from os import environ

from wakeful import Needs, Read, Write, activity
from wakeful.agents import AgentLoop, OpenAIModel, ScriptedModel, ToolCall

PROMPT = "You work for a shop's customers. Look an order up before you pay it back."
LOOK, PAY = ToolCall("", "last_order", {}), ToolCall("", "pay_back", {"cents": 25_000})
SCRIPT = {"key": "It is on its way.", "lamp": PAY, "^not": "I may not do that.", ".*": LOOK}
MODEL = OpenAIModel(environ["AGENT_MODEL"]) if "AGENT_MODEL" in environ else ScriptedModel(SCRIPT)


@activity(contract=Read())
async def last_order() -> str:
    return "a lamp for 25000 cents, paid in full"  # your shop


@activity(contract=Write(idempotent=True), approval=Needs("supervisor"))
async def pay_back(cents: int, *, key: str) -> str:
    """Pays so much of the order back to the customer."""
    return f"paid back {cents / 100:.2f} under the key {key}"  # your payment service


desk = AgentLoop(name="agent", version=1, model=MODEL, prompt=PROMPT, tools=[last_order, pay_back])
