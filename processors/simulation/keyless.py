"""Workers that lose their key now and then, as where it is revoked before the next one is made; or have it replaced.

Where it is replaced, the key that signs until then is revoked in the same moment, so that what it signed and nobody
has read counts for nothing. So is that of the people in other seeds: what they said to a session that is held counts
for nothing then, either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from ...commands.identity import Identity, Signed
from ...commands.keyring import ACTIVE, REVOKED, Keyring
from ...events.log.protocol import Log
from .clock import START_MS
from .forgers import KINDS_OF_SEEDS, PEOPLE, RING, WORKER, make_key

KEYLESS = (21, 34)
"""Of so many kinds of seeds those whose workers lose their key; in the others they always have it."""

REPLACED = (8, 17)
"""Of so many kinds of seeds those in which the workers' key is replaced and revoked, again and again."""

TURNED = (23, 38)
"""Of so many kinds of seeds those in which the people's key is replaced and revoked."""

TURN_MS = 2_500
"""How long each of the people's keys lasts."""

TURNS_MAX = 8
"""After so many there is a key for good."""

SPELL_MS = 700
"""With a key and without, by turns; and how long each of several keys lasts."""

SPELLS_MAX = 60
"""After so many there is a key for good, so that what was kept is told in the end."""

WITHOUT = Keyring(key for key in RING.keys if key is not WORKER)
NOBODYS = Keyring(key for key in RING.keys if key is not PEOPLE)


def replaces_keys(seed: int) -> bool:
    """Whether this seed's workers get one key after another."""
    return seed % KINDS_OF_SEEDS in REPLACED


def turns_keys(seed: int) -> bool:
    """Whether this seed's people get one key after another."""
    return seed % KINDS_OF_SEEDS in TURNED


def by_the_clock(seed: int) -> bool:
    """Whether it hangs on the moment who is believed: whoever looks later finds other keys."""
    return replaces_keys(seed) or turns_keys(seed)


def ended_at_ms(seed: int, kid: str) -> int | None:
    """From when on this key of the people is revoked; null where it is none of theirs, or the last one."""
    name, _, number = kid.partition(" ")
    if not turns_keys(seed) or name != PEOPLE.kid or not number or int(number) >= TURNS_MAX:
        return None
    return START_MS + (int(number) + 1) * TURN_MS


def identity_of(seed: int, log: Log, now_ms: Callable[[], int]) -> Identity:
    """What all of ours sign and judge with at this moment."""
    if turns_keys(seed):
        return Signed(lambda: _turned(_turn(now_ms)), log.cluster_id())
    if not replaces_keys(seed):
        return Signed(lambda: RING, log.cluster_id())
    return Signed(lambda: _ring_of(_spell(now_ms)), log.cluster_id())


def workers_identity(seed: int, log: Log, now_ms: Callable[[], int]) -> Identity:
    """What workers sign with at this moment."""
    if seed % KINDS_OF_SEEDS not in KEYLESS:
        return identity_of(seed, log, now_ms)

    def ring() -> Keyring:
        spell = _spell(now_ms)
        return WITHOUT if spell < SPELLS_MAX and spell % 2 else RING

    return Signed(ring, log.cluster_id())


def _spell(now_ms: Callable[[], int]) -> int:
    return min((now_ms() - START_MS) // SPELL_MS, SPELLS_MAX)


def _turn(now_ms: Callable[[], int]) -> int:
    return min((now_ms() - START_MS) // TURN_MS, TURNS_MAX)


@cache
def _turned(turn: int) -> Keyring:
    """The people's keys so far, the last of which counts."""
    keys = [
        replace(
            make_key(f"{PEOPLE.kid} {n}", "client"),
            tenants=PEOPLE.tenants,
            status=ACTIVE if n == turn else REVOKED,
        )
        for n in range(turn + 1)
    ]
    return Keyring((*NOBODYS.keys, *keys))


@cache
def _ring_of(spell: int) -> Keyring:
    """The workers' keys so far, the last of which counts."""
    keys = [
        replace(make_key(f"worker {n}", "worker"), status=ACTIVE if n == spell else REVOKED)
        for n in range(spell + 1)
    ]
    return Keyring((*WITHOUT.keys, *keys))
