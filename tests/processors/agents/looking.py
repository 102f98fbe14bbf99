"""An agent that looks at things, and a model that has it do so, for the tests of the loop."""

from typing import Any

from wakeful import Needs, Read, Write, activity
from wakeful.agents import (
    AgentLoop,
    Answer,
    ChatMessage,
    FunctionModel,
    ToolCall,
    Usage,
)


@activity(contract=Read())
async def look(thing: str) -> str:
    """Looks at a thing.

    It may take a while.
    """
    return f"{thing} is there"


@activity(contract=Write(idempotent=True), approval=Needs("boss"))
async def pay(customer: str, cents: int = 100, *, key: str) -> str:
    return f"{cents} paid to {customer}"


def looks(times: int = 10**9, **usage: int) -> FunctionModel:
    """Looks at something so many times in each turn, and then says how often."""

    def answer(messages: list[ChatMessage]) -> Answer:
        turn = max(n for n, m in enumerate(messages) if m.role == "user")
        looked = sum(len(message.calls) for message in messages[turn:])
        if looked < times:
            calls = (ToolCall("", "look", {"thing": f"whale {len(messages)}"}),)
            return Answer("", "m-1", Usage(**usage), "tool", calls)
        return Answer(f"looked {looked} times", "m-1", Usage(**usage))

    return FunctionModel(answer)


def agent_of(model: Any, **more: Any) -> AgentLoop:
    told = {"name": "agent", "version": 1, "prompt": "Look.", "tools": [look]}
    return AgentLoop(**{**told, "model": model, **more})


def asked(session: Any, agent: AgentLoop) -> list[list[dict]]:
    return [call.arguments["messages"] for call in session.calls(agent.thinks.name)]
