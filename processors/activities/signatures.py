"""What a declaration says by its signature: arguments and result as types that can be stored, or why they cannot."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import UnionType
from typing import Annotated, Any, NotRequired, Union, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, PydanticUndefinedAnnotation, PydanticUserError, TypeAdapter
from typing_extensions import TypedDict

from ...events.errors import Rejected
from .aliased import unread_at
from .masked import masked_at

KEY = "key"
"""The keyword-only parameter that receives the idempotency key."""

CREDENTIALS = "credentials"
"""The keyword-only parameter that receives what the app's provider returned for this attempt."""

_typed_dict: Any = TypedDict
"""Called with fields that are data, which type checkers do not follow."""


class Declined(Rejected, TypeError):
    """A declaration that cannot work; raised at import, names the function and what to write instead."""


def hints(told: str, function: Callable[..., Any]) -> dict[str, Any]:
    """The types of its parameters and its result, by name; `told` names it."""
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, AttributeError, TypeError, SyntaxError) as error:
        raise Declined(
            f"the types of {told} cannot be read ({error}): "
            "import them at module level, not under TYPE_CHECKING or inside a function"
        ) from error


def takes_credentials(told: str, signature: inspect.Signature) -> bool:
    """Whether it wants the credentials of its attempt; `told` names it."""
    parameter = signature.parameters.get(CREDENTIALS)
    if parameter is not None and parameter.kind is not parameter.KEYWORD_ONLY:
        raise Declined(
            f"{told} takes {CREDENTIALS!r} by position: write '*, {CREDENTIALS}: …' for what the app's "
            "provider returns, or give an argument of its own another name"
        )
    return parameter is not None


def takes_key(name: str, signature: inspect.Signature, hints: dict[str, Any]) -> bool:
    """Whether it wants the idempotency key, which is text: it names one call for ever, to services as well."""
    key = signature.parameters.get(KEY)
    if key is None:
        return False
    if key.kind is not key.KEYWORD_ONLY:
        raise Declined(
            f"activity {name!r} takes {KEY!r} by position: write '*, {KEY}: str' for the idempotency "
            "key, or give an argument of its own another name"
        )
    kind = hints.get(KEY, str)
    if not _takes_text(kind):
        shown = kind.__name__ if isinstance(kind, type) else kind
        raise Declined(
            f"activity {name!r} takes {KEY!r} as {shown}: the idempotency key is text, so write '*, {KEY}: str', "
            "or give an argument of its own another name"
        )
    return True


def _takes_text(kind: Any) -> bool:
    """Whether a `str` is one of them: as itself, under another name, or as one of several."""
    if kind in (Any, object, str):
        return True
    if get_origin(kind) is Annotated or get_origin(kind) in (Union, UnionType):
        return any(_takes_text(each) for each in get_args(kind))
    return _takes_text(kind.__supertype__) if hasattr(kind, "__supertype__") else False


def all_positional(signature: inspect.Signature) -> tuple[str, ...] | None:
    """The names of the parameters where each can be given by position."""
    parameters = signature.parameters.values()
    if any(p.kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD for p in parameters):
        return None
    return tuple(p.name for p in parameters)


def of_callers(signature: inspect.Signature) -> inspect.Signature:
    """What its callers give: neither key nor credentials."""
    parameters = signature.parameters.values()
    return signature.replace(parameters=[p for p in parameters if p.name not in (KEY, CREDENTIALS)])


def arguments_type(
    name: str, signature: inspect.Signature, hints: dict[str, Any]
) -> TypeAdapter[dict[str, Any]]:
    """What it takes, by name; each parameter needs a name, a type, and a form in JSON."""
    fields: dict[str, Any] = {}
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise Declined(
                f"activity {name!r} takes *{parameter.name}: name each parameter instead"
            )
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise Declined(
                f"parameter {parameter.name!r} of activity {name!r} is positional-only: remove the '/'"
            )
        kind = hints.get(parameter.name)
        if kind is None:
            raise Declined(
                f"parameter {parameter.name!r} of activity {name!r} has no type: annotate it"
            )
        optional = parameter.default is not parameter.empty
        fields[parameter.name] = NotRequired[kind] if optional else kind
    shape = _typed_dict(f"{name}_arguments", fields)
    shape.__pydantic_config__ = ConfigDict(extra="forbid")
    return _adapter(f"the parameters of activity {name!r}", shape)


def result_type(name: str, hints: dict[str, Any]) -> TypeAdapter[Any]:
    """What it returns."""
    if "return" not in hints:
        raise Declined(
            f"activity {name!r} does not say what it returns: write '-> type', or '-> None'"
        )
    return _adapter(f"the result of activity {name!r}", hints["return"])


def _adapter(what: str, kind: Any) -> TypeAdapter[Any]:
    try:
        adapter = TypeAdapter(kind)
    except (PydanticUserError, PydanticUndefinedAnnotation) as error:
        raise Declined(
            f"{what} cannot be stored as JSON: {error.message.splitlines()[0]}"
        ) from error
    check_stored(what, adapter)
    return adapter


def check_stored(what: str, adapter: TypeAdapter[Any], *, whole: bool = False) -> None:
    """`Declined` where storing would lose a secret or a field; `what` names the declaration.

    `whole`: fields that are left out of what is stored are lost as well.
    """
    masked = masked_at(adapter)
    if masked is not None:
        where = f"at {masked!r}" if masked else "in it"
        raise Declined(
            f"{what} cannot be stored: the pydantic secret {where} would be written as '**********', and read back as that; "
            f"let the activity that needs it take '*, {CREDENTIALS}: …' from the app's provider (@credentials)"
        )
    unread = unread_at(adapter, whole=whole)
    if unread is not None:
        at, why = unread
        raise Declined(f"{what} cannot be read back once stored: field {at!r} would be lost; {why}")
