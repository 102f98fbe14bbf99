"""An agent that keeps its transcript: however an approval ends, each call has one result, in its place."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from wakeful import ActivityError, Message, Needs, Read, Turn, Write, activity, workflow
from wakeful.testing import Refused, rehearse


class Transcript(BaseModel):
    """What providers want to see: a call, then its result, then anything else."""

    lines: list[dict] = []


@activity(contract=Read())
async def ask(transcript: list[dict]) -> str:
    """The model: it proposes the tool once for each line of a person's that nothing was proposed for."""
    open_lines = sum(line["role"] == "user" for line in transcript)
    return "" if sum(line["role"] == "call" for line in transcript) >= open_lines else "pay"


@activity(contract=Write(idempotent=True), approval=Needs("boss", expires="1h"))
async def pay(cents: int, *, key: str) -> str:
    return f"{cents} paid"


@workflow("agent", version=1)
async def agent(turn: Turn, kept: Transcript, message: Message) -> Transcript:
    lines = [*kept.lines, {"role": "user", "text": message.text}]
    while await turn.run(ask.call(lines)):
        lines.append({"role": "call", "id": str(len(lines))})
        asked = await turn.approval(pay.call(100 + len(lines)))
        said = asked.answer or asked.decision
        if asked.granted:
            try:
                said = await turn.run(asked.action)
            except ActivityError as error:
                said = error.failure.kind
        lines.append({"role": "result", "id": lines[-1]["id"], "text": said})
        lines += [{"role": "user", "text": more.text} for more in await turn.inbox()]
    await turn.say(lines)
    return Transcript(lines=lines)


ENDINGS = {
    "approve": lambda session: session.approve(by="boss"),
    "reject": lambda session: session.reject(by="boss"),
    "edit": lambda session: session.edit({"cents": 7}, by="boss"),
    "respond": lambda session: session.respond("ask again tomorrow", by="boss"),
    "expire": lambda session: session.expire(),
}

STORIES = st.lists(
    st.tuples(st.sampled_from([*ENDINGS, "cancel"]), st.integers(0, 2), st.booleans()),
    min_size=1,
    max_size=6,
)


def assert_whole(transcript: list[dict]) -> None:
    for at, line in enumerate(transcript):
        if line["role"] == "call":
            following = transcript[at + 1]
            assert (following["role"], following["id"]) == ("result", line["id"])
    calls = [line["id"] for line in transcript if line["role"] == "call"]
    results = [line["id"] for line in transcript if line["role"] == "result"]
    assert calls == results
    assert len(set(calls)) == len(calls)


@pytest.mark.case("U21")
@settings(max_examples=25, deadline=None)
@given(STORIES)
def test_every_call_has_its_one_result_whatever_ends_its_approval_and_whoever_writes_meanwhile(
    story: list[tuple[str, int, bool]],
) -> None:
    session = rehearse(agent, ask, pay)
    session.send("first")
    for ending, more, crash in story:
        if session.status != "Waiting":
            session.send("and another")
        for number in range(more):
            session.send(f"by the way, {number}")
        if crash:
            session.redeploy(agent, ask, pay)
        if ending == "cancel":
            session.cancel()
            break
        ENDINGS[ending](session)
    requests = [call.arguments["transcript"] for call in session.calls("ask")]
    for transcript in requests:
        assert_whole(transcript)
    if session.status == "Cancelled":
        with pytest.raises(Refused, match="session_ended"):
            session.send("go on")
        assert len(session.calls("ask")) == len(requests)
    else:
        while session.status == "Waiting":
            session.approve(by="boss")
        assert_whole(session.state.lines)
        assert sum(line["role"] == "call" for line in session.state.lines) >= len(story)
