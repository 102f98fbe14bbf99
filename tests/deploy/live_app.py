"""A workflow whose activities say what they make while they make it, and sometimes lose.

A message is a JSON object: `session` is its own, `mood` is what becomes of the first attempt (`ok`, `flaky`, `dies`), `words` what is said, and
`pause_ms` how long each word takes. `LIVE` in the environment is a folder: a mood works once per session.
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


@activity(contract=Read(), retry=Retry(attempts=3, initial="50ms"))
async def says(session: str, mood: str, words: list[str], pause_ms: int) -> str:
    loses = mood != "ok" and first_time(f"{session}-{mood}")
    for word in words:
        emit(word)
        await asyncio.sleep(pause_ms / 1000)
    if pause_ms:
        await asyncio.sleep(0.5)  # tokens of what is over are not shown: machines may be busy
    if loses and mood == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if loses:
        raise ConnectionError("the line went dead")
    return "".join(words)


@activity(contract=Read())
async def leaks(*, credentials: Login) -> str:
    secret = credentials.token.get_secret_value()
    for cut in range(1, len(secret)):
        emit(f"[{secret[:cut]}")
        emit(f"{secret[cut:]}]")
    emit(secret[:-1])
    await asyncio.sleep(0.5)  # the same
    return "done"


@workflow("says", version=1)
async def says_all(turn: Turn, said: Said, message: Message) -> Said:
    told = message.data
    if told["mood"] == "leaks":
        await turn.say(await turn.run(leaks.call()))
    elif told["mood"] == "ends":
        await turn.complete({"turns": said.turns})
    else:
        call = says.call(told["session"], told["mood"], told["words"], told.get("pause_ms", 0))
        await turn.say(await turn.run(call))
    return Said(turns=said.turns + 1)
