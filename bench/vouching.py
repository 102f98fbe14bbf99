"""`python -m bench.vouching`: what signing and verifying a worker's result costs, beside the fold of that result.

No broker: one session's results are folded by the processor's own code, round by round without signatures, with HMAC
and with Ed25519, so that all meet the same machine. One line of JSON; times are microseconds of processor time per
result, the median over `ROUNDS`.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median

from bench.app import model, tool, turns
from bench.bodies import model_answer
from wakeful.commands.check import Facts, Refusal
from wakeful.commands.identity import INSECURE, Identity, Signed
from wakeful.commands.models import (
    Command,
    CommandBody,
    CommandHeader,
    CompleteActivity,
    OpenSession,
    SendMessage,
)
from wakeful.commands.signatures import ED25519, HMAC_SHA256
from wakeful.commands.wire import encode_command, read_command
from wakeful.deploy.keyfile import KeyFile, new_key, write_keys
from wakeful.events.headers import record_headers
from wakeful.events.log.memory import MemoryLog
from wakeful.events.log.protocol import Record
from wakeful.events.payloads import json_payload
from wakeful.events.topics import Topics
from wakeful.processors.app import gather
from wakeful.processors.handler import CommandHandler
from wakeful.processors.outputs import Folder
from wakeful.processors.partition import Partition

ROUNDS = 7
RESULTS = 300
TOPICS, KEY = Topics("bench"), b"acme/s1"
DIGEST_KEY = b"bench digest key"
NOW_MS = 1_700_000_000_000


def command(body: CommandBody, name: str) -> Command:
    """A command of one session: what a worker reports, or somebody asks for."""
    actor = "worker:w1" if isinstance(body, CompleteActivity) else "ann"
    return Command(CommandHeader("acme", "s1", name, NOW_MS, actor, None, "bench", None), body)


def said() -> list[Command]:
    """A session that is opened, and the results of its steps, each of about 1 KiB."""
    message = SendMessage(json_payload({"before": RESULTS + 1}, DIGEST_KEY))
    asked = [command(OpenSession("turns"), "open"), command(message, "message")]
    for step in range(RESULTS):
        answer = json_payload(model_answer("s1", step), DIGEST_KEY)
        asked.append(command(CompleteActivity(f"1.{step + 1}", 1, answer, "w1"), f"r{step}"))
    return asked


def signed(commands: list[Command], identity: Identity) -> tuple[list[Record], float]:
    """The records as they lie in the log, and what it took to sign one."""
    encoded = [encode_command(one) for one in commands]
    began = time.process_time()
    marks = [
        identity.sign(one, TOPICS.commands, KEY, bare.value)
        for one, bare in zip(commands, encoded, strict=True)
    ]
    took_us = (time.process_time() - began) / len(commands) * 1e6
    return [
        Record(
            TOPICS.commands,
            0,
            offset,
            NOW_MS + offset,
            KEY,
            bare.value,
            [*record_headers(bare, one.header.command_id), *mark],
        )
        for offset, (one, bare, mark) in enumerate(zip(commands, encoded, marks, strict=True))
    ], took_us


def folded(records: list[Record], identity: Identity) -> float:
    """What it takes to decide and fold one result, by a processor with this identity; with what judging it takes."""
    log = MemoryLog(now_ms=lambda: NOW_MS)
    handler = CommandHandler(gather((turns, model, tool)), Facts(DIGEST_KEY))
    folder, partition = (
        Folder(TOPICS, handler, identity=identity),
        Partition(0, TOPICS, log, "b", None),
    )
    partition.store.write([], position=0, open_from=0, cause_high=-1)
    _give(folder, partition, records[:2])
    began = time.process_time()
    events = sum(_give(folder, partition, [record]) for record in records[2:])
    took_us = (time.process_time() - began) / RESULTS * 1e6
    partition.close()
    if events < 2 * RESULTS:
        raise RuntimeError(
            f"{events} events of {RESULTS} results: the load is not what it should be"
        )
    return took_us


def _give(folder: Folder, partition: Partition, records: list[Record]) -> int:
    share = folder.fold(partition, records)
    partition.keep(share.changes(), position=0, open_from=0, cause_high=share.cause_high)
    return share.events


def verified(records: list[Record], identity: Identity) -> float:
    """What it takes to judge one command that has been read."""
    read = [(*read_command(one.value, one.headers), one) for one in records]
    began = time.process_time()
    refused = [one for one in read if isinstance(identity.check(*one), Refusal)]
    took_us = (time.process_time() - began) / len(read) * 1e6
    if refused:
        raise RuntimeError(
            f"{len(refused)} of {len(read)} commands are refused: nothing is measured"
        )
    return took_us


def rounds(identities: dict[str, Identity]) -> dict[str, dict[str, float]]:
    """All of them in turns."""
    commands = said()
    found: dict[str, dict[str, list[float]]] = {name: {} for name in identities}
    for _ in range(ROUNDS):
        for name, identity in identities.items():
            records, sign_us = signed(commands, identity)
            took = {"sign_us": sign_us, "verify_us": verified(records, identity)}
            took["fold_us"] = folded(records, identity)
            for word, value in took.items():
                found[name].setdefault(word, []).append(value)
    return {
        name: {word: round(median(values), 1) for word, values in told.items()}
        for name, told in found.items()
    }


def main(emit: Callable[[str], object] = sys.stdout.write) -> None:
    """Keys from a file, as processes have them, and no signatures at all."""
    with tempfile.TemporaryDirectory(prefix="wakeful-bench-") as folder:
        identities: dict[str, Identity] = {"bare": INSECURE}
        for algorithm in (HMAC_SHA256, ED25519):
            path = Path(folder) / f"{algorithm}.json"
            kinds = frozenset(type(one.body).__name__ for one in said())
            write_keys(path, [replace(new_key("worker", algorithm=algorithm), kinds=kinds)])
            identities[algorithm] = Signed(KeyFile(path).ring, "bench")
        emit(json.dumps(rounds(identities)) + "\n")


if __name__ == "__main__":
    main()
