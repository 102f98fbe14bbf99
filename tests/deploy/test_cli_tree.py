"""The part of the tree that a command line names is what stands there in the whole of it."""

from typing import Any

import pytest
import typer.main

from wakeful.deploy.cli import app
from wakeful.deploy.cli.tree import command_of

TREE = typer.main.get_command(app)


def branches(command: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    inner = getattr(command, "commands", {})
    return [path, *(found for name in inner for found in branches(inner[name], (*path, name)))]


def at(command: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        command = command.commands[name]
    return command


def told(command: Any) -> Any:
    """What it takes, what its help says, and the same of what stands below it."""
    inner = getattr(command, "commands", {})
    return (
        type(command),
        command.name,
        command.help,
        command.epilog,
        command.no_args_is_help,
        command.context_settings,
        command.hidden,
        [
            (p.name, p.opts, p.secondary_opts, p.required, getattr(p, "help", None))
            for p in command.params
        ],
        {name: told(inner[name]) for name in inner},
    )


def test_every_part_is_what_it_is_in_the_tree() -> None:
    paths = branches(TREE)
    assert len(paths) > 70
    for path in paths:
        made = command_of(app, (*path, "--help"))
        assert told(at(made, path)) == told(at(TREE, path)), path
        for depth, name in enumerate(path):
            assert list(at(made, path[:depth]).commands) == [name]


@pytest.mark.parametrize(
    ("arguments", "known"),
    [
        ((), ()),
        (("--help",), ()),
        (("--install-completion", "keys"), ()),
        (("kes", "list"), ()),
        (("keys",), ("keys",)),
        (("keys", "lits"), ("keys",)),
        (("keys", "--json", "list"), ("keys",)),
        (("keys", "list", "new"), ("keys", "list")),
        (("version", "keys"), ("version",)),
    ],
)
def test_it_is_named_up_to_the_first_word_that_is_no_command(
    arguments: tuple[str, ...], known: tuple[str, ...]
) -> None:
    assert command_of(app, arguments) is command_of(app, known)
    assert list(getattr(at(command_of(app, known), known), "commands", {})) == list(
        getattr(at(TREE, known), "commands", {})
    )
