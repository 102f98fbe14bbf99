"""A whole agent: a model decides, a person approves, money moves once. Kill what you like, when you like."""

from wakeful import Message, Needs, Read, Turn, Write, activity, workflow

SUPERVISOR = Needs("supervisor", when=lambda cents: cents > 10_000, expires="7d")


@activity(contract=Read(), timeout="30s")
async def think(text: str) -> int:
    return 25_000 if "broken" in text else 900  # your model call: the cents to pay back


@activity(contract=Write(idempotent=True), approval=SUPERVISOR)
async def refund(cents: int, *, key: str) -> str:
    return f"{cents / 100:.2f} paid back as {key}"  # your payment service, which pays a key once


@workflow("hello", version=1)
async def hello(turn: Turn, refunds: int, message: Message) -> int:
    asked = await turn.approval(refund.call(await turn.run(think.call(message.text))))
    if not asked.granted:  # at once, or in a week
        await turn.say("A supervisor declined this refund.")
        return refunds
    await turn.say(f"{await turn.run(asked.action)}: refund {refunds + 1} in this session")
    return refunds + 1
