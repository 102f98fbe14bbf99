"""The functions that a contract names beside the activity: its look-up and its undo, checked when it is declared."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from .signatures import CREDENTIALS, KEY, Declined, hints, takes_credentials

DONE_KEY = "done_key"
"""The parameter of an undo that receives the idempotency key of the call to be undone."""


@dataclass(frozen=True, slots=True)
class LookUp:
    """Asks whether a call was carried out; `takes` are those of the activity's parameters that it wants, and the key.

    Its credentials are its own: they never write.
    """

    function: Callable[..., Any]
    name: str
    takes: frozenset[str]
    takes_credentials: bool = False

    @property
    def is_sync(self) -> bool:
        """Whether it needs a thread."""
        return not inspect.iscoroutinefunction(self.function)


def checked_look_up(
    activity: str,
    own: inspect.Signature,
    own_hints: Mapping[str, Any],
    function: Callable[..., Any],
) -> LookUp:
    """The look-up of an activity; `Declined` names both where it could not work."""
    name = str(getattr(function, "__name__", function))
    both = f"the look-up {name!r} of activity {activity!r}"
    if not inspect.isroutine(function):
        raise Declined(f"{both} is not a function: write 'def' or 'async def'")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise Declined(f"{both} yields: it returns the result, or None where there is none")
    theirs = hints(both, function)
    signature = inspect.signature(function)
    credentialed = takes_credentials(both, signature)
    parameters = {n: p for n, p in signature.parameters.items() if n != CREDENTIALS}
    for parameter in parameters.values():
        _check_named(both, parameter)
        if parameter.name != KEY and parameter.name not in own.parameters:
            raise Declined(f"{both} takes {parameter.name!r}: it can be given {_known(own, KEY)}")
    if KEY not in parameters:
        raise Declined(
            f"{both} does not take the key: give it a parameter '{KEY}: str', and look for that"
        )
    _check_types(both, {**own_hints, KEY: str}, theirs)
    _check_answer(both, own_hints["return"], theirs)
    return LookUp(function, name, frozenset(parameters), credentialed)


def check_undo(
    activity: str,
    own: inspect.Signature,
    own_hints: Mapping[str, Any],
    undo: str,
    signature: inspect.Signature,
    theirs: Mapping[str, Any],
) -> None:
    """Whether the undo can be called with what is known of the call it undoes; `Declined` names both where it cannot."""
    both = f"the undo {undo!r} of activity {activity!r}"
    if DONE_KEY in own.parameters:
        raise Declined(
            f"activity {activity!r} takes {DONE_KEY!r}, and its undo {undo!r} gets the key by that name: "
            "give it another"
        )
    for parameter in signature.parameters.values():
        known = parameter.name == DONE_KEY or parameter.name in own.parameters
        if not known and parameter.default is parameter.empty:
            raise Declined(
                f"{both} needs {parameter.name!r}: it can be given {_known(own, DONE_KEY)}"
            )
    _check_types(both, {**own_hints, DONE_KEY: str}, theirs)


def _known(own: inspect.Signature, key: str) -> str:
    return ", ".join(repr(name) for name in (*own.parameters, key))


def _check_named(both: str, parameter: inspect.Parameter) -> None:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise Declined(f"{both} takes *{parameter.name}: name each parameter instead")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise Declined(f"parameter {parameter.name!r} of {both} is positional-only: remove the '/'")


def _check_types(both: str, given: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
    for name, wanted in theirs.items():
        if name == "return" or name not in given or wanted in (Any, object):
            continue
        if not _alternatives(given[name]) <= _alternatives(wanted):
            raise Declined(
                f"{both} takes {name!r} as {_told(wanted)}, and would be given {_told(given[name])}"
            )


def _check_answer(both: str, result: Any, theirs: Mapping[str, Any]) -> None:
    """None says that nothing was found, so the result itself must be something else."""
    if result is Any or NoneType in _alternatives(result):
        raise Declined(
            f"{both} could not tell that nothing was done from a result that is None: "
            "let the activity return something, say the id of what it made"
        )
    wanted = f"'-> {_told(result)} | None'"
    if "return" not in theirs:
        raise Declined(f"{both} does not say what it returns: write {wanted}")
    answer = theirs["return"]
    if answer is not Any and _alternatives(answer) != {*_alternatives(result), NoneType}:
        raise Declined(f"{both} returns {_told(answer)}: write {wanted}")


def _alternatives(kind: Any) -> set[Any]:
    """The members of a union; one that is none stands for itself. Kinds that cannot be hashed are compared as text."""
    parts = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    return {NoneType if part is None else _hashable(part) for part in parts}


def _hashable(kind: Any) -> Any:
    try:
        hash(kind)
    except TypeError:
        return repr(kind)
    return kind


def _told(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)
