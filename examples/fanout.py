"""An issue of a magazine: one session per article, and one more for each source of it. Each is opened once, whatever crashes.

Run it with `python examples/fanout.py`, a rehearsal without Kafka, or as an app: `wakeful run examples/fanout.py`.
"""

from pydantic import BaseModel

from wakeful import ChildError, Message, Read, Turn, activity, workflow
from wakeful.testing import rehearse


class Article(BaseModel):
    title: str
    words: int


class Issue(BaseModel):
    articles: int = 0


@activity(contract=Read(), untrusted=True)
async def read_source(source: str) -> int:
    return 100 * len(source)  # your model, or your search: how many words it is worth


@workflow("source", version=1)
async def source(turn: Turn, seen: Issue, message: Message) -> Issue:
    await turn.complete(await turn.run(read_source.call(message.text)))
    return seen


@workflow("article", version=1)
async def article(turn: Turn, seen: Issue, message: Message) -> Issue:
    sources = [f"{message.text}-{n}" for n in range(3)]
    read = [turn.child(source, one, within="10m", expect=int) for one in sources]
    words = sum(await turn.gather(*read))
    await turn.complete(Article(title=message.text, words=words))
    return seen


@workflow("magazine", version=1)
async def magazine(turn: Turn, issue: Issue, message: Message) -> Issue:
    asked = [turn.child(article, title, within="1h", expect=Article) for title in message.data]
    try:
        written = await turn.gather(*asked)
    except ChildError as error:
        await turn.say(f"no issue this month: {error}")
        return issue
    await turn.say(", ".join(f"{one.title} ({one.words} words)" for one in written))
    return Issue(articles=issue.articles + len(written))


if __name__ == "__main__":
    titles, session = ["whales", "seals"], rehearse(magazine)
    session.send(titles)
    for title, wait in zip(titles, session.waits, strict=True):
        one = rehearse(
            article
        )  # a rehearsal is of one session: its children are sessions of their own
        one.send(title)
        for inner in one.waits:
            one.complete_child(inner.id, 700)
        session.complete_child(wait.id, one.outcome)
    print(session.replies[0])
