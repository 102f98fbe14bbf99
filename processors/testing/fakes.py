"""Fakes of activities: whether they fit what they stand for, and how they are called."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from ..activities.definitions import CREDENTIALS, KEY, Activity, problems
from ..activities.runner import Call
from .errors import Misuse
from .limited import to_the_end


def called(fake: Callable[..., Any], call: Call) -> Any:
    """What the fake makes of the call: arguments as the activity takes them, the key where the fake wants it."""
    positional, named = _split(call.activity, call.arguments)
    _drop_unwanted(fake, named)
    answer = fake(*positional, **named)
    return to_the_end(answer) if inspect.isawaitable(answer) else answer


def _split(
    activity: Activity[Any], arguments: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """By position what the activity takes by position, by name the rest."""
    positional, left = [], dict(arguments)
    for parameter in inspect.signature(activity.function).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY or parameter.name not in left:
            break
        positional.append(left.pop(parameter.name))
    return positional, left


def _drop_unwanted(fake: Callable[..., Any], named: dict[str, Any]) -> None:
    """A fake need not take what no caller gives."""
    if not _wants_key(fake):
        named.pop(KEY, None)
    if not takes_credentials(fake):
        named.pop(CREDENTIALS, None)


def takes_credentials(fake: object) -> bool:
    """Whether a function takes credentials by that name; one that takes anything is not worth asking a vault for."""
    if not callable(fake) or is_exception(fake):
        return False
    try:
        return CREDENTIALS in inspect.signature(fake).parameters
    except (TypeError, ValueError):
        return False


def _wants_key(fake: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(fake).parameters
    except (TypeError, ValueError):
        return False
    return KEY in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def check_parameters(activity: Activity[Any], fake: object) -> None:
    """Whether a function, or each of a list, takes what it will be called with."""
    if isinstance(fake, list | deque):
        for one in fake:
            check_parameters(activity, one)
    if not callable(fake) or is_exception(fake) or isinstance(fake, Activity):
        return
    try:
        signature = inspect.signature(fake)
    except (TypeError, ValueError):
        return  # written in C, without a signature: the call will tell
    parameters = inspect.signature(activity.function).parameters
    positional, named = _split(activity, dict.fromkeys(parameters))
    _drop_unwanted(fake, named)
    try:
        signature.bind(*positional, **named)
    except TypeError as error:
        wanted = ", ".join(name for name in parameters if name not in (KEY, CREDENTIALS))
        raise Misuse(
            f"the fake of {activity.name!r} cannot take ({wanted}): {error}; its signature is {signature}"
        ) from error


def fitting(activity: Activity[Any], answer: Any) -> Any:
    """The answer as the activity's own type; a fake that gives something else tests nothing."""
    try:
        return activity.result_type.validate_python(answer)
    except ValidationError as error:
        told = f"the fake of {activity.name!r} gives {answer!r}, which is not what it returns"
        raise Misuse(f"{told}: {problems(error)}") from error


def is_exception(given: object) -> bool:
    """Whether it is to be raised: an exception, or a class of them."""
    return isinstance(given, Exception) or (
        isinstance(given, type) and issubclass(given, Exception)
    )


def instance(given: Any) -> Exception:
    """The exception itself."""
    raised: Exception = given() if isinstance(given, type) else given
    return raised
