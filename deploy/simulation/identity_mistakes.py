"""Mistakes about who is believed, and the mutants that have them."""

# ruff: noqa: SLF001 - a mistake goes where it would be made, and that is seldom public

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace

from ...commands import identity, keyring
from ...commands.check import Refusal
from ...commands.identity import INSECURE
from ...commands.keyring import Evidence, Key, NoKey
from ...commands.signatures import signed_bytes
from ...events import evolve
from ...processors import handler
from ...processors.activities import reports, retold, unsaid
from ...processors.activities.jobs import Job
from ...schemas import bundled
from .planting import Mutant, plant

_beyond = keyring._beyond
_parked = evolve._parked


def _lenient(*reasons: str) -> Callable[..., Refusal | None]:
    """A check of a key's rights that overlooks some."""

    def beyond(key: Key, *said: object) -> Refusal | None:
        found = _beyond(key, *said)  # type: ignore[arg-type]
        return None if found is not None and found.reason in reasons else found

    return beyond


def _lets_the_unsigned_pass(
    self: keyring.Keyring, message: bytes, mark: tuple[str, bytes] | None, *said: object
) -> Evidence | Refusal:
    return Evidence(None) if mark is None else _verify(self, message, mark, *said)  # type: ignore[arg-type]


_verify = keyring.Keyring.verify


def _without_topic(cluster_id: str, topic: str, key: bytes | None, value: bytes | None) -> bytes:
    del topic
    return signed_bytes(cluster_id, "", key, value)


def _without_cluster(cluster_id: str, topic: str, key: bytes | None, value: bytes | None) -> bytes:
    del cluster_id
    return signed_bytes("", topic, key, value)


def _believes_the_header(self: identity.Signed, command, stored, record):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Whatever schema the header names is the one the value was signed with."""
    framed = bundled().of_fingerprint(stored.fingerprint)
    if framed is None:
        return _check(self, command, stored, record)
    honest = replace(stored, value=stored.value[:1] + framed.id.to_bytes(4, "big") + stored.body)
    return _check(self, command, honest, record)


_check = identity.Signed.check


def _forgets_who_vouched(*said: object) -> object:
    return replace(_parked(*said), vouched_by=None)  # type: ignore[arg-type]


def _speaks_unsigned(self: reports.Reports, task, command_id, body):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Whoever has no key says it all the same."""
    try:
        return _command(self, task, command_id, body)
    except NoKey:
        believing = copy(self)
        believing._identity = INSECURE
        return _command(believing, task, command_id, body)


_command = reports.Reports.command


def _forgets_what_waits(self: unsaid.Unsaid) -> list[Job]:
    """There is a key again, and nobody thinks of what was kept."""
    self.mute = False
    return []


IDENTITY_MUTANTS: tuple[Mutant, ...] = (
    Mutant("verifies no signature", plant((keyring, "verifies", lambda *_: True)), seed=3),
    Mutant(
        "lets unsigned commands pass",
        plant((keyring.Keyring, "verify", _lets_the_unsigned_pass)),
        seed=42,
    ),
    Mutant(
        "checks no tenant of a key", plant((keyring, "_beyond", _lenient("wrong_tenant"))), seed=3
    ),
    Mutant(
        "lets each key say everything", plant((keyring, "_beyond", _lenient("wrong_kind"))), seed=24
    ),
    Mutant(
        "believes the actor in the command",
        plant((keyring, "_beyond", _lenient("forged_actor"))),
        seed=3,
    ),
    Mutant(
        "believes keys that are over",
        plant((keyring, "_beyond", _lenient("revoked_key", "expired_key"))),
        seed=3,
    ),
    Mutant("leaves the topic unsigned", plant((identity, "signed_bytes", _without_topic)), seed=24),
    Mutant(
        "leaves the cluster unsigned", plant((identity, "signed_bytes", _without_cluster)), seed=3
    ),
    Mutant(
        "reads a signed value by any schema",
        plant((identity.Signed, "check", _believes_the_header)),
        seed=3,
    ),
    Mutant(
        "sends what no key signs",
        plant((reports.Reports, "command", _speaks_unsigned)),
        seed=21,
    ),
    Mutant(
        "forgets what waits for a key",
        plant((unsaid.Unsaid, "look", _forgets_what_waits)),
        seed=21,
    ),
    Mutant(
        "says nothing again",
        plant((retold.Retold, "look", lambda _: None)),
        seed=8,
    ),
    Mutant(
        "says it again under the key that is revoked",
        plant((reports.Reports, "again", lambda _, send: send)),
        seed=8,
    ),
    Mutant(
        "takes what was kept under a key that is revoked by now",
        plant((handler, "disowned", lambda *_: None)),
        seed=491,
    ),
    Mutant(
        "forgets who vouched for what it keeps",
        plant((evolve, "_parked", _forgets_who_vouched)),
        seed=16,
    ),
)
