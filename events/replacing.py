"""`replace` for the folds: what `dataclasses.replace` does, at a fifth of the price for a value with many fields.

The copy is made by a function of its class, of a twin that refuses no assignment, as in `freezing.py`. `__init__` is not
run again: nothing in it but assignments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["replace"]

T = TypeVar("T")


@cache
def _copier_of(kind: Any) -> Callable[[Any, dict[str, Any]], Any]:
    """What copies such a value, with some fields changed."""
    names = [field.name for field in fields(kind)]
    if hasattr(kind, "__post_init__") or len(names) < 2:
        raise TypeError(
            f"{kind.__name__} is not made of two slots or more and nothing else: use dataclasses.replace"
        )
    twin = type(kind.__name__, (), {"__slots__": kind.__slots__})
    source = (
        "def copier(value, changes):\n copy = _twin()\n"
        + "".join(f" copy.{name} = value.{name}\n" for name in names)
        + " for name in changes: setattr(copy, name, changes[name])\n"
        " copy.__class__ = _kind\n return copy\n"
    )
    space: dict[str, Any] = {"_twin": twin, "_kind": kind}
    exec(source, space)  # noqa: S102 names of fields and nothing else, as dataclasses do it
    copier: Callable[[Any, dict[str, Any]], Any] = space["copier"]
    return copier


def _replace(value: T, /, **changes: Any) -> T:
    """A copy with these fields changed. Raises `AttributeError` for a field that the value has not."""
    kind: Any = value.__class__
    copy: T = _copier_of(kind)(value, changes)
    return copy


if TYPE_CHECKING:  # the type checker knows the fields of each class from the original only
    from dataclasses import replace
else:
    replace = _replace
