"""A text that comes in pieces, told without the secrets in it, also those that lie across two pieces.

```
piece ─▶ kept ─▶ what cannot be the beginning of a secret any more ─▶ masked, told
              └─ the rest waits for the next piece, or for the end
```

The masking is that of progress (`Hidden.hide_in`). What waits at the end is told where it is no more than the first few
characters of a secret, and stands as `***` where it is more. A character that was cut in two is put together again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .hidden import LENGTH_MIN, STAND_IN, Hidden

FIRST_OF_TWO = ("\ud800", "\udbff")
"""The halves of characters beyond U+FFFF that another has to follow."""


class HeldBack:
    """Of one run of an attempt; not for several threads at once. `hidden` is asked each time: it may learn more."""

    def __init__(self, hidden: Callable[[], Hidden]) -> None:
        self._hidden = hidden
        self._kept = ""

    def add(self, text: str) -> str:
        """What may be told now, masked; empty where all of it has to wait."""
        self._kept = _whole(self._kept + text)
        secrets = self._hidden().in_data
        at = _safe_until(self._kept, secrets)
        told, self._kept = self._kept[:at], self._kept[at:]
        return self._masked(told)

    def end(self) -> str:
        """What waited, now that nothing comes behind it."""
        kept, self._kept = self._kept, ""
        told = str(self._hidden().hide_in(kept))
        begun = _begun_at(told, self._hidden().in_data)
        if len(told) - begun >= LENGTH_MIN:
            told = told[:begun] + STAND_IN
        return _storable(told)

    def _masked(self, text: str) -> str:
        return _storable(str(self._hidden().hide_in(text)))


def _safe_until(text: str, secrets: Sequence[str]) -> int:
    """Up to where nothing is part of a secret that may still come to be whole."""
    at = _begun_at(text, secrets)
    if text and FIRST_OF_TWO[0] <= text[-1] <= FIRST_OF_TWO[1]:
        at = min(at, len(text) - 1)
    while at < len(text):  # a whole secret that lies across the cut waits with what it overlaps
        cut = min((first for one in secrets if (first := _across(text, one, at)) >= 0), default=at)
        if cut == at:
            break
        at = cut
    return at


def _begun_at(text: str, secrets: Sequence[str]) -> int:
    """Where the longest end of the text begins that is the beginning of a secret, and not all of it."""
    found = len(text)
    for secret in secrets:
        at = text.find(secret[0], max(0, len(text) - len(secret) + 1))
        while 0 <= at < found:
            if secret.startswith(text[at:]):
                found = at
                break
            at = text.find(secret[0], at + 1)
    return found


def _across(text: str, secret: str, cut: int) -> int:
    """Where this secret begins, whole, if it lies on both sides of the cut; else less than 0."""
    return text.find(secret, max(0, cut - len(secret) + 1), cut + len(secret) - 1)


def _whole(text: str) -> str:
    """With the halves of characters put together."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _storable(text: str) -> str:
    """Without halves of characters whose other half never came."""
    return text.encode("utf-8", "replace").decode("utf-8") if not text.isascii() else text
