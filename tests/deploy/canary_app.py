"""Activities that tell their credentials in every way that they can think of, fail, and take their worker with them.

`CANARY` in the environment is a folder: `word` is in each secret that the provider gives, `revoked` is there once the
first secret of a session is revoked, and `used` has a line per call, which names the secret's number and not the secret.
"""

import base64
import logging
import os
import signal
from pathlib import Path
from urllib.parse import quote

import structlog
from pydantic import BaseModel, SecretStr

from wakeful import (
    Access,
    ActivityError,
    Message,
    Read,
    Retry,
    Turn,
    Write,
    activity,
    credentials,
    emit,
    heartbeat,
    workflow,
)

FOLDER = Path(os.environ["CANARY"])
WORD = (FOLDER / "word").read_text("utf-8")

own_lines = logging.StreamHandler()  # as many apps set it up for themselves, while they are loaded
logging.getLogger("client").addHandler(own_lines)


class Login(BaseModel):
    """What a provider of a company gives."""

    user: str
    token: SecretStr


class Client:
    """A client of some service, which knows its secret and shows it to everybody who looks."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.headers = {"Authorization": f"Bearer {token}", "X-Key": token}

    def __repr__(self) -> str:
        return f"Client({self.token!r}, {self.headers})"

    @property
    def url(self) -> str:
        return f"https://bank.example/pay?token={quote(self.token, safe='')}"

    @property
    def basic(self) -> str:
        return "Basic " + base64.b64encode(f"desk:{self.token}".encode()).decode()


@credentials
def vault(access: Access) -> object:
    """The first secret, or the second once that is revoked; in the shape that the activity likes."""
    number = 2 if (FOLDER / "revoked").exists() else 1
    if access.activity == "refused" and number == 2:
        raise PermissionError(f"{WORD}: this access was revoked")
    token = f'{WORD}/{number} "of" {access.activity}\nits second line {WORD}'
    if access.activity == "bytes_of":
        return token.encode()
    return Login(user="desk", token=token) if access.activity == "pays" else {"token": token}


def used(name: str, token: str) -> None:
    """Notes which of the secrets this call has used."""
    with (FOLDER / "used").open("a", encoding="utf-8") as notes:
        notes.write(f"{name} {token.partition('/')[2][:1]}\n")


def tells(token: str) -> Client:
    """Logs, prints and tells as progress whatever it can."""
    client = Client(token)
    for log in (logging.getLogger("client"), logging.getLogger("wakeful.app")):
        log.error("asks %r at %s with %s", client, client.url, client.headers)
    structlog.get_logger("app").error(f"asks {client.url}", client=client, basic=client.basic)
    print(client, client.basic, token)
    for cut in range(1, len(token)):
        emit(token[:cut])
        emit(f"{token[cut:]} ")
    heartbeat({"page": 1, "client": repr(client), "url": client.url, "headers": client.headers})
    return client


def breaks(client: Client) -> None:
    """Raises with the secret in words, cause, note and address."""
    try:
        raise KeyError(client.token)
    except KeyError as error:
        error.add_note(client.basic)
        told = ConnectionError(f"401 for {client!r} at {client.url}")
        logging.getLogger("client").exception("broken: %s", client.url)
        raise told from error


class Report(BaseModel):
    """Of a size that lies in the store of blobs."""

    headers: dict[str, str]
    lines: list[str]


@activity(contract=Read())
async def echoes(*, credentials: dict) -> Report:
    client = tells(credentials["token"])
    return Report(headers={**client.headers, client.url: client.basic}, lines=[repr(client)] * 4000)


@activity(contract=Read(), retry=Retry(attempts=3, initial="50ms"))
def bytes_of(*, credentials: bytes) -> str:
    token = credentials.decode()
    used("bytes_of", token)
    client = tells(token)
    if not (FOLDER / "revoked").exists():
        (FOLDER / "revoked").touch()
        breaks(client)
    return f"{credentials!r} and {client.basic}"


@activity(contract=Read(), retry=Retry(attempts=2, initial="50ms"))
async def refused(*, credentials: dict) -> str:
    return credentials["token"]


@activity(contract=Write(idempotent=True))
async def pays(cents: int, *, key: str, credentials: Login) -> str:
    client = tells(credentials.token.get_secret_value())
    breaks(client)
    return key


@activity(contract=Read())
async def dies(*, credentials: dict) -> str:
    client = tells(credentials["token"])
    if not (FOLDER / "died").exists():
        (FOLDER / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return repr(client)


@workflow("leaky", version=1)
async def leaky(turn: Turn, state: list, message: Message) -> list:
    """Says and keeps whatever each of them gives."""
    told: list[object] = []
    for action in (bytes_of.call(), dies.call(), refused.call(), pays.call(100), echoes.call()):
        try:
            told.append(await turn.run(action))
        except ActivityError as error:
            told.append([error.failure.kind, error.failure.message, error.failure.detail])
        await turn.say(repr(told[-1]))
    await turn.complete({"told": repr(told)})
    return state
