"""Contracts: how a tool may be retried; there is no default, since a wrong guess pays twice. And how often it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...events import contracts as words
from ...events.records import RetryPolicy
from ..durations import Duration, to_ms

ATTEMPTS_MAX = 1_000
"""Attempts that a policy may have: more is a schedule, for which a workflow has `sleep`."""

FACTOR_MAX = 1_000.0
NEVER_MAX = 100
"""Types of failure that a policy may name; they are stored with every request."""


SETTLE_DEFAULT = "10s"
"""How long after a call its effect may still be invisible to a look-up."""


@dataclass(frozen=True, slots=True)
class Read:
    """The tool changes nothing; it may run again at any time."""

    word = words.READ


@dataclass(frozen=True, slots=True)
class Write:
    """The tool changes something. What is known about a call that was cut off says how it goes on; at most one of:

    - `idempotent=True`: it honours the key, so it may run again with the same key.
    - `lookup=f`: whether a call was carried out can be looked up. `f` is a plain function, async or sync, of `key: str`
      and any of the activity's own parameters, and returns the result, or None where there is none. It is asked before
      a call that may be a repeat, and after one that failed, `settle` after the last moment it could have been sent.
    - `undo=g`: called at most once; where nobody knows what came of it, the activity `g` can undo it. `g` takes any of
      the parameters by name, and the key of what it undoes as `done_key: str` if it has such a parameter.
    - none of them: called at most once; where nobody knows what came of it, the workflow or a person decides.
    """

    idempotent: bool = False
    lookup: Callable[..., Any] | None = None
    settle: Duration = SETTLE_DEFAULT
    undo: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.idempotent, bool):
            raise TypeError(f"idempotent is {self.idempotent!r}: it is True or False")
        for what, function in (("lookup", self.lookup), ("undo", self.undo)):
            if function is not None and not callable(function):
                raise TypeError(f"{what} is {function!r}: it is a function")
        given = [what for what in ("idempotent", "lookup", "undo") if getattr(self, what)]
        if len(given) > 1:
            told = " and ".join(given)
            raise ValueError(f"a Write has {told}: it is one of idempotent, lookup and undo")
        if _ms("settle", self.settle) != to_ms(SETTLE_DEFAULT) and self.lookup is None:
            raise ValueError(
                f"settle is {self.settle!r}, and no lookup waits for it: give lookup=…"
            )

    @property
    def word(self) -> str:
        """As it is stored in requests and tasks."""
        if self.idempotent:
            return words.IDEMPOTENT
        if self.lookup is not None:
            return words.LOOKUP
        return words.AT_MOST_ONCE if self.undo is None else words.UNDO


Contract = Read | Write


@dataclass(frozen=True, slots=True)
class Retry:
    """How a failed activity is tried again: up to `attempts` in all, with a rest between them.

    The first rest is `initial`; each later one is `factor` times the one before, up to `cap`. Up to a quarter of a
    rest is left out, by a number derived from the attempt's id, so that sessions that failed together do not come
    back together. An attempt that raised or ran into its `timeout` is followed by another, unless the exception's
    name stands in `never` (`"ValueError"`, or with its module `"shop.tools.CardDeclined"`; exactly that class).
    Arguments or results that do not fit their types are never tried again, and no attempt is begun at or after the
    activity's `schedule_to_close`. A tool that knows better when to come back raises `RetryLater`.
    """

    attempts: int = 5
    initial: Duration = "1s"
    factor: float = 2.0
    cap: Duration = "1m"
    never: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.attempts, bool) or not isinstance(self.attempts, int):
            raise TypeError(f"attempts is {self.attempts!r}: it is a whole number")
        if not 1 <= self.attempts <= ATTEMPTS_MAX:
            raise ValueError(f"attempts is {self.attempts}: it must be 1 to {ATTEMPTS_MAX}")
        if isinstance(self.factor, bool) or not isinstance(self.factor, int | float):
            raise TypeError(f"factor is {self.factor!r}: it is a number, 1 to {FACTOR_MAX:.0f}")
        if not 1.0 <= self.factor <= FACTOR_MAX:
            raise ValueError(f"factor is {self.factor}: it must be 1 to {FACTOR_MAX:.0f}")
        initial_ms, cap_ms = _ms("initial", self.initial), _ms("cap", self.cap)
        if initial_ms < 1 or cap_ms < initial_ms:
            told = f"initial is {self.initial!r} and cap {self.cap!r}"
            raise ValueError(f"{told}: initial must be at least 1 ms, and cap no less than it")
        if not isinstance(self.never, tuple | list) or not all(
            isinstance(name, str) and name for name in self.never
        ):
            raise TypeError(f"never is {self.never!r}: it is a tuple of names, ('ValueError',)")
        if len(self.never) > NEVER_MAX:
            raise ValueError(f"never has {len(self.never)} names: at most {NEVER_MAX}")

    @property
    def policy(self) -> RetryPolicy | None:
        """As it is recorded with a request; none where there is one attempt."""
        if self.attempts == 1:
            return None
        return RetryPolicy(
            self.attempts,
            to_ms(self.initial),
            round(self.factor * 1000),
            to_ms(self.cap),
            tuple(self.never),
        )


def _ms(what: str, duration: Duration) -> int:
    try:
        return to_ms(duration)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from error


class RetryLater(Exception):
    """Raised by a tool that was told when to come back (HTTP's `Retry-After`): the next attempt waits so long at least.

    Any exception that holds a number `retry_after_ms` says the same. It is a failure like any other, so without a
    `retry` policy, or with no attempt left, the activity has failed.
    """

    def __init__(self, after: Duration, message: str = "") -> None:
        self.retry_after_ms = to_ms(after)
        super().__init__(message or f"the tool asks to come back in {self.retry_after_ms} ms")


class NothingDone(Exception):
    """Raised by a tool that knows that it changed nothing: a card was declined, a connection refused.

    The attempt has failed for certain, so that no look-up and no uncertainty follows, whatever the contract. Derive
    from it to name what happened; `Retry.never` goes by that name.
    """


class ResourceLost(Exception):
    """Raised by a tool that finds the resource gone (a sandbox, a browser) which its session holds by the name of `kind`.

    The attempt has failed and is not tried again. The session holds the resource no more, so that the workflow, which sees
    an `ActivityError` that says so (`.lost`), sets it up again by asking for it: see `Turn.resource`.
    """

    def __init__(self, kind: str, message: str = "") -> None:
        self.kind = kind
        super().__init__(message or f"resource {kind!r} is gone")
