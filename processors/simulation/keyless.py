"""Workers that lose their key now and then, as where it is revoked before the next one is made."""

from __future__ import annotations

from collections.abc import Callable

from ...commands.identity import Identity, Signed
from ...commands.keyring import Keyring
from ...events.log.protocol import Log
from .clock import START_MS
from .forgers import KINDS_OF_SEEDS, RING, WORKER

KEYLESS = (21, 34)
"""Of so many kinds of seeds those whose workers lose their key; in the others they always have it."""

SPELL_MS = 700
"""With a key and without, by turns."""

SPELLS_MAX = 60
"""After so many there is a key for good, so that what was kept is told in the end."""

WITHOUT = Keyring(key for key in RING.keys if key is not WORKER)


def workers_identity(seed: int, log: Log, now_ms: Callable[[], int]) -> Identity:
    """What workers sign with by this clock."""
    loses = seed % KINDS_OF_SEEDS in KEYLESS

    def ring() -> Keyring:
        spell = (now_ms() - START_MS) // SPELL_MS
        return WITHOUT if loses and spell < SPELLS_MAX and spell % 2 else RING

    return Signed(ring, log.cluster_id())
