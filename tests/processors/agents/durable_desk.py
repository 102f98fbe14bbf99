"""The agents of Pydantic AI that the tests of `wakeful.pydantic_ai` make durable, and what their tools did."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel
from pydantic_ai import Agent, ModelRetry, RunContext, ToolFailed
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from wakeful import Access, Needs, Read, Write
from wakeful.pydantic_ai import DurableAgent, Rules, durable, idempotency_key
from wakeful.testing import Rehearsal, rehearse

SUPERVISOR = Needs("supervisor", expires="24h")


class Verdict(BaseModel):
    paid: int
    why: str


@dataclass
class Book:
    """What happened outside: by key, so that a call made again with its key counts once."""

    paid: dict[str, int] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    asked: int = 0


def called(*calls: tuple[str, dict[str, Any]]) -> ModelResponse:
    """An answer that wants calls, under ids that say which they are."""
    return ModelResponse(
        parts=[ToolCallPart(name, given, f"{name}-{n}") for n, (name, given) in enumerate(calls)]
    )


def said(text: str) -> ModelResponse:
    return ModelResponse(parts=[TextPart(text)])


def results(messages: list[ModelMessage]) -> list[ToolReturnPart]:
    """All results that the model has been shown."""
    return [part for one in messages for part in one.parts if isinstance(part, ToolReturnPart)]


def scripted(*answers: ModelResponse, book: Book | None = None) -> FunctionModel:
    """Answers by how many answers the history holds, so a repeat gets the same; `{}` is the last result."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if book is not None:
            book.asked += 1
        number = sum(isinstance(one, ModelResponse) for one in messages)
        return deepcopy(answers[number])  # the library writes into it which run it is of

    return FunctionModel(answer)


def desk(model: FunctionModel, book: Book, *, version: int = 1, **options: Any) -> DurableAgent:
    """An agent with a tool that reads, one that pays when it was approved, and others."""
    agent = Agent(
        model, name="desk", instructions="Be brief.", deps_type=Access, **options.pop("agent", {})
    )

    @agent.tool
    def find_order(ctx: RunContext[Access], order: int) -> dict[str, Any]:
        """Finds an order."""
        book.calls.append("find_order")
        return {"order": order, "of": ctx.deps.on_behalf_of, "writes": ctx.deps.writes}

    @agent.tool_plain(requires_approval=True)
    async def refund(order: int, cents: int) -> str:
        """Pays back."""
        book.calls.append("refund")
        if cents > 1_000:
            raise ModelRetry("at most 1000 cents")
        book.paid[idempotency_key()] = cents
        return f"{cents} paid back for {order}"

    @agent.tool_plain
    def look(what: str) -> str:
        """Looks."""
        if what == "broken":
            raise OSError("no line")
        if what == "empty":
            raise ToolFailed("there is nothing")
        return f"{what} seen"

    rules = {
        "find_order": Rules(Read()),
        "refund": Rules(Write(idempotent=True), approval=SUPERVISOR),
        "look": Rules(Read()),
    }
    return durable(
        agent,
        version=version,
        tools=rules | options.pop("tools", {}),
        deps=lambda access: access,
        **options,
    )


def asked_for(
    *answers: ModelResponse, text: str = "Order 7 came broken.", **options: Any
) -> tuple[Rehearsal, Book]:
    """A session of the desk that has had one message, by ann."""
    book = Book()
    session = rehearse(desk(scripted(*answers, book=book), book, **options))
    session.send(text, by="ann")
    return session, book
