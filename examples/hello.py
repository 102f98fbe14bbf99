"""The smallest agent: it thinks on a worker, answers, and remembers how often it was asked."""

from pydantic import BaseModel

from wakeful import Message, Read, Turn, activity, workflow


class Memory(BaseModel):
    questions: int = 0


@activity(contract=Read(), timeout="30s")
async def think(question: str) -> str:
    return f"you said: {question}"  # your model call goes here


@workflow("hello", version=1)
async def hello(turn: Turn, memory: Memory, message: Message) -> Memory:
    answer = await turn.run(think.call(message.text))
    await turn.say(f"{answer} (question {memory.questions + 1})")
    return Memory(questions=memory.questions + 1)
