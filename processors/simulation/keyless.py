"""Workers that lose their key now and then, as where it is revoked before the next one is made; or have it replaced.

Where it is replaced, the key that signs until then is revoked in the same moment, so that what it signed and nobody
has read counts for nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from ...commands.identity import Identity, Signed
from ...commands.keyring import ACTIVE, REVOKED, Keyring
from ...events.log.protocol import Log
from .clock import START_MS
from .forgers import KINDS_OF_SEEDS, RING, WORKER, make_key

KEYLESS = (21, 34)
"""Of so many kinds of seeds those whose workers lose their key; in the others they always have it."""

REPLACED = (8, 17)
"""Of so many kinds of seeds those in which the workers' key is replaced and revoked, again and again."""

SPELL_MS = 700
"""With a key and without, by turns; and how long each of several keys lasts."""

SPELLS_MAX = 60
"""After so many there is a key for good, so that what was kept is told in the end."""

WITHOUT = Keyring(key for key in RING.keys if key is not WORKER)


def replaces_keys(seed: int) -> bool:
    """Whether this seed's workers get one key after another."""
    return seed % KINDS_OF_SEEDS in REPLACED


def identity_of(seed: int, log: Log, now_ms: Callable[[], int]) -> Identity:
    """What all of ours sign and judge with at this moment."""
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


@cache
def _ring_of(spell: int) -> Keyring:
    """The workers' keys so far, the last of which counts."""
    keys = [
        replace(make_key(f"worker {n}", "worker"), status=ACTIVE if n == spell else REVOKED)
        for n in range(spell + 1)
    ]
    return Keyring((*WITHOUT.keys, *keys))
