"""Strangers who can write to the commands topic, and keys that are not theirs to use, or not for that.

Each of their commands could do harm: it answers what is asked, ends a session, or reports a result. Its id begins with
`FORGED`, and no event may come of it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256

from ...commands import models as m
from ...commands.identity import Signed
from ...commands.keyring import ACTIVE, KINDS, RETIRED, REVOKED, ROLES, Key, Keyring
from ...commands.signatures import HMAC_SHA256, KEY_HEADER, SIGNATURE_HEADER
from ...commands.wire import encode_command
from ...events.avro import Encoded
from ...events.codec import decode_task
from ...events.headers import FINGERPRINT, Header, record_headers
from ...events.keys import session_key
from ...events.log.protocol import Isolation, Log, Place, Record
from ...events.payloads import json_payload
from ...events.records import ActivityTask
from ...events.topics import Topics

FORGED = "forged:"

TENANT = "acme"

FORGERS = (3, 11, 24, 29, 37)
"""Of so many kinds of seeds those with forgers in them; in the others everybody is who he says."""

KINDS_OF_SEEDS = 39

SHARE = 0.4
"""Forged commands per real one."""

NEWEST = 3
"""Of the attempts that he has seen handed out, the ones whose results he forges."""


def make_key(kid: str, role: str, **more: object) -> Key:
    """A key of the simulation's tenant, the same for ever."""
    secret = sha256(f"simulation/{kid}".encode()).digest()
    key = Key(kid, HMAC_SHA256, secret, None, None, ROLES[role], role=role)
    return replace(key, **{"tenants": frozenset({TENANT}), **more})  # type: ignore[arg-type]


ENGINE = make_key("engine", "processor", tenants=None)
WORKER = make_key("worker", "worker")
PEOPLE = make_key("people", "client", tenants=frozenset({TENANT, "flood"}))
OTHERS = make_key("others", "client", tenants=frozenset({"other"}))
CAROL = make_key("carol", "client", actor="carol")
OLD = make_key("old", "client", status=RETIRED)
STOLEN = make_key("stolen", "client", status=REVOKED)
ENDED = make_key("ended", "client", not_after_ms=1)
UNKNOWN = make_key("unknown", "client")
PUBLISHER = make_key("publisher", "publisher", tenants=None)
CAROLS_SETS = make_key("carol's sets", "publisher", tenants=None, actor="carol")
LEAKED = make_key("leaked", "publisher", tenants=None, status=REVOKED)

RING = Keyring(
    (ENGINE, WORKER, PEOPLE, OTHERS, CAROL, OLD, STOLEN, ENDED, PUBLISHER, CAROLS_SETS, LEAKED)
)


class Forger:
    """Turns some of the real commands into harmful ones of his own; his dice are his own, too."""

    def __init__(self, seed: int, log: Log, topics: Topics, tasks: Sequence[Place]) -> None:
        """`tasks` are where attempts are handed out: he reads along."""
        self.active = seed % KINDS_OF_SEEDS in FORGERS
        self._rng = random.Random(f"forger/{seed}")
        self._cluster_id = log.cluster_id()
        self._topic = topics.commands
        self._number = 0
        self._seen: list[ActivityTask] = []
        if self.active:
            self._reader = log.reader(Isolation.COMMITTED)
            self._reader.assign(dict.fromkeys(tasks, 0))

    def forge(
        self, real: m.Command, digest_key: bytes
    ) -> tuple[bytes, bytes, tuple[Header, ...]] | None:
        """Key, value and headers of a record, or nothing."""
        if not self.active or real.header.tenant != TENANT or self._rng.random() >= SHARE:
            return None
        self._number += 1
        session_id, body = self._harm(real, digest_key)
        header = replace(
            real.header,
            command_id=f"{FORGED}{self._number}",
            session_id=session_id,
            expected_seq=None,
        )
        command = m.Command(header, body)
        encoded = encode_command(command)
        key = session_key(TENANT, header.session_id)
        headers = record_headers(encoded, header.command_id)
        way = self._rng.choice(_ways(body))
        return key, encoded.value, (*way(self, command, key, encoded, headers),)

    def _harm(self, real: m.Command, digest_key: bytes) -> tuple[str, m.CommandBody]:
        """What a forger is after, and in which session: the decision that was given, a result of his own, an end."""
        there = [one for one in self._reader.poll(100, 0) if isinstance(one, Record)]
        tasks = (one for one in there if b"#" in (one.key or b""))
        self._seen += [decode_task(one.value, one.headers) for one in tasks]
        roll, session_id = self._rng.random(), real.header.session_id
        result = json_payload("forged", digest_key)
        if isinstance(real.body, m.DecideApproval):
            return session_id, real.body
        if roll < 0.6 and self._seen:
            task = self._rng.choice(self._seen[-NEWEST:])
            forged = m.CompleteActivity(task.activity_id, task.attempt, result, "eve")
            return task.session_id, forged
        if roll < 0.8:
            return session_id, m.ReleaseSession("go on")
        return session_id, m.SendMessage(result) if roll < 0.9 else m.CancelSession("enough")

    def signed_by(
        self, signer: Key, command: m.Command, key: bytes, value: bytes, topic: str, cluster: str
    ) -> tuple[Header, ...]:
        """The mark that this key makes, whether or not it may: the forger has it in his hands."""
        willing = replace(
            signer,
            kinds=frozenset(KINDS),
            tenants=None,
            actor=None,
            status=ACTIVE,
            not_after_ms=None,
        )
        return Signed(lambda: Keyring((willing,)), cluster).sign(command, topic, key, value)

    @property
    def here(self) -> tuple[str, str]:
        """Topic and cluster, as they are."""
        return self._topic, self._cluster_id


Way = Callable[[Forger, m.Command, bytes, Encoded, list[Header]], list[Header]]


def _ways(body: m.CommandBody) -> tuple[Way, ...]:
    """All ways to get by that no right of this command's own kind covers."""
    reported = isinstance(body, m.CompleteActivity)
    misused = (PEOPLE,) if reported else (WORKER, OTHERS, CAROL, STOLEN, ENDED)
    own = WORKER if reported else PEOPLE
    ways = [_unsigned, _elsewhere(own, topic="sim.other.v1"), _elsewhere(own, cluster="other")]
    ways += [_tampered(own), *map(_by, (*misused, UNKNOWN))]
    if isinstance(body, m.ReleaseSession):
        ways += [_read_otherwise] * 4
    return tuple(ways)


def _unsigned(
    forger: Forger, command: m.Command, key: bytes, encoded: Encoded, headers: list[Header]
) -> list[Header]:
    del forger, command, key, encoded
    return headers


def _by(signer: Key) -> Way:
    """A key that is unknown, over, another's, or for other things."""

    def way(
        forger: Forger, command: m.Command, key: bytes, encoded: Encoded, headers: list[Header]
    ) -> list[Header]:
        return [*headers, *forger.signed_by(signer, command, key, encoded.value, *forger.here)]

    return way


def _elsewhere(signer: Key, *, topic: str = "", cluster: str = "") -> Way:
    """Copied from where it was right."""

    def way(
        forger: Forger, command: m.Command, key: bytes, encoded: Encoded, headers: list[Header]
    ) -> list[Header]:
        where = (topic or forger.here[0], cluster or forger.here[1])
        return [*headers, *forger.signed_by(signer, command, key, encoded.value, *where)]

    return way


def _tampered(signer: Key) -> Way:
    """Another's signature under words of one's own."""

    def way(
        forger: Forger, command: m.Command, key: bytes, encoded: Encoded, headers: list[Header]
    ) -> list[Header]:
        mark = dict(forger.signed_by(signer, command, key, encoded.value + b"!", *forger.here))
        return [
            *headers,
            (KEY_HEADER, mark[KEY_HEADER]),
            (SIGNATURE_HEADER, mark[SIGNATURE_HEADER]),
        ]

    return way


def _read_otherwise(
    forger: Forger, command: m.Command, key: bytes, encoded: Encoded, headers: list[Header]
) -> list[Header]:
    """A real release under the schema of a cancellation, whose bytes are the same."""
    other = encode_command(m.Command(command.header, m.CancelSession("go on"))).fingerprint
    told = [(name, other if name == FINGERPRINT else value) for name, value in headers]
    told = [(n, b"wakeful.v1.CancelSession" if n == "ce_type" else v) for n, v in told]
    return [*told, *forger.signed_by(PEOPLE, command, key, encoded.value, *forger.here)]
