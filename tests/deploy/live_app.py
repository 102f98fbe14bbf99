"""A workflow whose activities say what they make while they make it, and sometimes lose.

A message is a JSON object: `session` is its own, `mood` is what becomes of the first attempt (`ok`, `flaky`, `dies`), `words` what is said, and
`pause_ms` how long each word takes. An attempt that `waits` ends once a file says that it was heard: tokens of what is
over are not shown. `LIVE` in the environment is the folder: a mood works once per session.
"""

import asyncio
import os
import signal
from pathlib import Path

from pydantic import BaseModel, SecretStr

from wakeful import Access, Message, Read, Retry, Turn, activity, credentials, emit, workflow

FOLDER = Path(os.environ["LIVE"])


class Said(BaseModel):
    turns: int = 0


class Login(BaseModel):
    token: SecretStr


@credentials
def vault(access: Access) -> Login:
    return Login(token=(FOLDER / "secret").read_text("utf-8"))


def first_time(what: str) -> bool:
    try:
        (FOLDER / what).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


async def heard(what: str) -> None:
    while not (FOLDER / what).exists():  # noqa: ASYNC110 - another process writes it
        await asyncio.sleep(0.02)


@activity(contract=Read(), retry=Retry(attempts=3, initial="50ms"))
async def says(session: str, mood: str, words: list[str], pause_ms: int, waits: bool) -> str:
    loses = mood != "ok" and first_time(f"{session}-{mood}")
    for word in words:
        emit(word)
        await asyncio.sleep(pause_ms / 1000)
    if waits:
        await heard(f"{session}-{'lost' if loses else 'kept'}")
    if loses and mood == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if loses:
        raise ConnectionError("the line went dead")
    return "".join(words)


@activity(contract=Read())
async def leaks(session: str, *, credentials: Login) -> str:
    secret = credentials.token.get_secret_value()
    for cut in range(1, len(secret)):
        emit(f"[{secret[:cut]}")
        emit(f"{secret[cut:]}]")
    emit(secret[:-1])
    await heard(f"{session}-kept")
    return "done"


@workflow("says", version=1)
async def says_all(turn: Turn, said: Said, message: Message) -> Said:
    told = message.data
    if told["mood"] == "leaks":
        await turn.say(await turn.run(leaks.call(told["session"])))
    elif told["mood"] == "ends":
        await turn.complete({"turns": said.turns})
    else:
        how = told.get("pause_ms", 0), told.get("waits", False)
        call = says.call(told["session"], told["mood"], told["words"], *how)
        await turn.say(await turn.run(call))
    return Said(turns=said.turns + 1)
