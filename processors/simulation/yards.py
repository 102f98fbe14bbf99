"""Those in whose turns sessions say by what they are found.

Only in some seeds, and by random numbers of their own.
"""

from __future__ import annotations

import random

YARDS = (31, 35, 37)
"""Of so many kinds of seeds those with such words in them."""

KINDS = 47

WORDS = ("found:calm", "found:odd", "found:gone")


class Yard:
    """Adds words to the turns of its seeds."""

    def __init__(self, seed: int) -> None:
        self.works = seed % KINDS in YARDS
        self._rng = random.Random(f"yard/{seed}")

    def script(self, text: str) -> str:
        """The same turn, with something for the yard before or behind it."""
        if not self.works:
            return text
        words = [*self._rng.choices(WORDS, k=self._rng.randint(1, 3)), text]
        return " ".join(words if self._rng.random() < 0.7 else reversed(words))
