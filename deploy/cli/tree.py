"""The part of the tree of commands that a command line names: a start makes that part, which takes a tenth of the time of all.

Options of every command are read from its signature, and there are seventy commands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from functools import cache
from typing import Any

import typer.main
from typer.models import CommandInfo


def command_of(app: typer.Typer, arguments: Sequence[str]) -> Any:
    """What carries these arguments out, and explains them where they will not do; made once per command and process."""
    return _made(app, tuple(_named(app, arguments)))


@cache
def _made(app: typer.Typer, path: tuple[str, ...]) -> Any:
    if not path:  # with what is for the root alone: help, and the options of completion
        return typer.main.get_command(app)
    return typer.main.get_group(_pruned(app, path))


def _named(app: typer.Typer, arguments: Sequence[str]) -> Iterator[str]:
    """The words that are names of groups and of a command: up to the first option, or word that nothing is called."""
    for word in arguments:
        groups = [one.typer_instance for one in app.registered_groups if one.name == word]
        if not groups and word not in map(_name_of, app.registered_commands):
            return
        yield word
        if not groups or groups[0] is None:
            return
        app = groups[0]


def _pruned(app: typer.Typer, path: tuple[str, ...]) -> typer.Typer:
    """A copy in which only the way to the last word is left, and what stands below that."""
    if not path:
        return app
    found = copy(app)
    found.registered_commands = [c for c in app.registered_commands if _name_of(c) == path[0]]
    found.registered_groups = [copy(one) for one in app.registered_groups if one.name == path[0]]
    for one in found.registered_groups:
        if one.typer_instance is not None:
            one.typer_instance = _pruned(one.typer_instance, path[1:])
    return found


def _name_of(command: CommandInfo) -> str:
    return command.name or typer.main.get_command_name(getattr(command.callback, "__name__", ""))
