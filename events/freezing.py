"""`dataclass` for records: what the original makes, frozen and with slots, whose values are made in a third of the time.

The original's `__init__` goes round the class, which refuses assignments, with a call for each field. Here a value is of a
twin class while its fields are set, one with the same slots that refuses nothing, and of its own class before anyone sees it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

__all__ = ["dataclass"]


def _dataclass(*, frozen: Literal[True], slots: Literal[True]) -> Callable[[type], type]:
    """The decorator. `TypeError` for a class that is more than fields which are given in order; no class inherits it."""

    def made(plain: type) -> type:
        cls: Any = dataclasses.dataclass(frozen=frozen, slots=slots)(plain)
        fields = dataclasses.fields(cls)
        named = all(f.init and not f.kw_only for f in fields)
        made_up = any(f.default_factory is not dataclasses.MISSING for f in fields)
        if cls.__bases__ != (object,) or hasattr(cls, "__post_init__") or not named or made_up:
            raise TypeError(
                f"{cls.__name__} is more than fields which are given in order: use dataclasses.dataclass"
            )
        cls.__init__ = _quick_init(cls, [f.name for f in fields])
        return cls  # type: ignore[no-any-return]

    return made


def _quick_init(cls: Any, names: list[str]) -> Callable[..., None]:
    """It takes what the original's takes, and does the same."""
    twin = type(cls.__name__, (), {"__slots__": cls.__slots__})
    sets = "".join(f"  self.{name} = {name}\n" for name in names)
    source = (
        "def make(_twin, _cls, _set):\n"
        f" def __init__({', '.join(['self', *names])}):\n"
        f"  _set(self, '__class__', _twin)\n{sets}  self.__class__ = _cls\n"
        " return __init__\n"
    )
    space: dict[str, Any] = {}
    exec(source, space)  # noqa: S102 names of fields and nothing else, as the original does it
    init: Callable[..., None] = space["make"](twin, cls, object.__setattr__)
    for kept in ("__annotations__", "__defaults__", "__qualname__"):
        setattr(init, kept, getattr(cls.__init__, kept))
    return init


if TYPE_CHECKING:  # type checkers know the original, and what it makes
    from dataclasses import dataclass
else:
    dataclass = _dataclass
