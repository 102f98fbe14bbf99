"""An agent that gives its whole conversation to each call: its history grows with what is new, and no state is lost."""

import pytest
from pydantic import BaseModel

from wakeful import Message, Read, Turn, activity, workflow
from wakeful.events import records as r
from wakeful.events.sharing import PARTS
from wakeful.testing import Rehearsal, rehearse

CALLS = 200
WORD = "We have looked into it, number {number}, and this is what came of it: {words}."


class Talk(BaseModel):
    lines: list[dict[str, str]] = []


@activity(contract=Read())
async def ask(messages: list[dict[str, str]], calls: int) -> str:
    words = " ".join(f"{calls}-{word}" for word in range(60))
    return WORD.format(number=len(messages), words=words)


@workflow("agent", version=1)
async def agent(turn: Turn, talk: Talk, message: Message) -> Talk:
    """As many calls as the message says, each in a stretch of its own."""
    wanted, lines = int(message.text), [*talk.lines]
    if not any(line["role"] == "user" and line["at"] == str(turn.number) for line in lines):
        lines.append({"role": "user", "at": str(turn.number), "content": message.text})
    done = sum(line["at"] == str(turn.number) for line in lines) - 1
    prompt = {"role": "system", "content": "Be brief."}
    answer = await turn.run(ask.call([prompt, *lines], done))
    lines.append({"role": "assistant", "at": str(turn.number), "content": answer})
    if done + 1 < wanted:
        return turn.again(Talk(lines=lines))
    await turn.say(answer)
    return Talk(lines=lines)


def sizes(session: Rehearsal) -> list[int]:
    return [len(one.encoded.body) for one in session._engine.log]


def grown(session: Rehearsal, texts: list[str]) -> list[int]:
    """Bytes of history after each message."""
    totals = []
    for text in texts:
        session.send(text)
        totals.append(sum(sizes(session)))
    return totals


@pytest.mark.case("U11")
@pytest.mark.parametrize("each", [1, 20])
def test_a_conversation_grows_the_history_with_what_is_new(each: int) -> None:
    session = rehearse(agent, ask)
    totals = grown(session, [str(each)] * (CALLS // each))
    half = len(totals) // 2
    first, second = totals[half - 1], totals[-1] - totals[half - 1]
    assert second <= 1.1 * first
    assert max(sizes(session)) < 8_000
    assert len(session.calls("ask")) == CALLS
    last = session.calls("ask")[-1].arguments["messages"]
    assert len(last) == 1 + CALLS + len(totals) - 1
    assert [line["content"] for line in session.state.lines[:-1]] == [
        m["content"] for m in last[1:]
    ]


def test_a_crash_anywhere_comes_to_the_same_conversation() -> None:
    plain, broken = rehearse(agent, ask), rehearse(agent, ask)
    for text in ("3", "4", "2"):
        plain.send(text)
        broken.redeploy(agent, ask)
        broken.send(text)
    assert broken.state == plain.state
    assert any(
        isinstance(body, r.ActivityRequested) and body.arguments.encoding == PARTS
        for body in broken.events
    )


def test_a_session_goes_back_to_a_state_that_was_recorded_in_parts() -> None:
    session = rehearse(agent, ask)
    for text in ("3", "4", "2"):
        session.send(text)
    left = session.state
    assert isinstance(session.events[-1], r.TurnCompleted | r.SessionWaiting)
    session.send("5")
    session.reset(3)
    assert session.state == left
    session.send("1")
    assert session.state.lines[: len(left.lines)] == left.lines
