"""A policy set as files: a TOML file that names Cedar files, says who has which role, and what policies may know of arguments.

policies = ["default", "desk.cedar"]       # beside the TOML file; "default" is the set that comes with Wakeful

[roles.acme]                               # of tenant acme: the role, and who has it
supervisor = ["sue", "eve"]

[arguments.refund]                         # of the tool refund: Long, String or Bool
cents = "Long"
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...events import records as r
from ...events.codec import decode_control, encode_control
from ...events.errors import Undecodable
from ...events.headers import record_headers
from .sets import Problem, default_policies, problems

DEFAULT = "default"

PARTS = ("policies", "roles", "arguments")


class UnusableSet(Exception):
    """Files that are no set; `problems` has a sentence for each fault, with its file and line where that is known."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class _Piece:
    """The policies of one file, which begin at this line of the whole text."""

    name: str
    text: str
    line: int


def read_set(path: Path) -> r.PolicyPublished:
    """The set in a TOML file and the Cedar files beside it, not published yet; `UnusableSet` says all that is wrong."""
    content = read_toml(path)
    _refuse_strangers(path.name, content, PARTS)
    pieces = list(_pieces(path, content.get("policies")))
    made = r.PolicyPublished(
        version=0,
        published_at_ms=0,
        published_by="",
        comment="",
        policies="\n".join(piece.text for piece in pieces),
        roles=tuple(
            r.RoleMembers(tenant, role, tuple(actors))
            for tenant, role, actors in _leaves(path.name, content, "roles", _are_names)
        ),
        arguments=tuple(
            r.ToolArgument(tool, name, kind)
            for tool, name, kind in _leaves(path.name, content, "arguments", _is_name)
        ),
    )
    found = [_told(path.name, pieces, problem) for problem in problems(made)]
    if found:
        raise UnusableSet(found)
    _refuse_unreadable(path.name, made)
    return made


def _refuse_unreadable(file: str, made: r.PolicyPublished) -> None:
    """Published, such a set would be damaged for all who read it: it has more in it than a record may."""
    encoded = encode_control(made)
    try:
        decode_control(encoded.value, record_headers(encoded, file))
    except Undecodable as error:
        told = f"{file}: no processor could read it ({error}): give roles to fewer people, or fewer roles"
        raise UnusableSet([told]) from error


def read_toml(path: Path) -> dict[str, Any]:
    """What a TOML file holds; `UnusableSet` where it cannot be read."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise UnusableSet(
            [f"no file {str(path)!r}: give a TOML file that names policies"]
        ) from error
    except OSError as error:
        raise UnusableSet([f"{path}: {(error.strerror or 'it cannot be read').lower()}"]) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UnusableSet([f"{path.name} is not TOML: {error}"]) from error


def _pieces(path: Path, named: object) -> Iterator[_Piece]:
    if not isinstance(named, list) or not named or not all(isinstance(n, str) for n in named):
        raise UnusableSet(
            [f'{path.name}: write policies = ["default"], or the names of Cedar files beside it']
        )
    line = 1
    for name in named:
        text = default_policies() if name == DEFAULT else _text(path.parent / name, path.name)
        yield _Piece(name, text, line)
        line += text.count("\n") + 1


def _text(path: Path, named_by: str) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        why = (error.strerror or "it cannot be read").lower()
        raise UnusableSet([f"{named_by} names {path.name!r}: {why}"]) from error
    except UnicodeDecodeError as error:
        raise UnusableSet([f"{path.name} is not UTF-8: {error}"]) from error


def _leaves(
    file: str, content: Mapping[str, Any], part: str, fits: Callable[[object], str]
) -> Iterator[tuple[str, str, Any]]:
    """The two levels of tables below `part`."""
    tables = content.get(part, {})
    if not isinstance(tables, dict) or not all(isinstance(t, dict) for t in tables.values()):
        raise UnusableSet(
            [f"{file}: {part} is not made of tables: write [{part}.NAME] above its lines"]
        )
    for outer, table in tables.items():
        for inner, value in table.items():
            expected = fits(value)
            if expected:
                raise UnusableSet(
                    [f"{file}: {part}.{outer}.{inner} is {value!r}: write {expected}"]
                )
            yield outer, inner, value


def _are_names(value: object) -> str:
    good = isinstance(value, list) and all(isinstance(each, str) and each for each in value)
    return "" if good else 'a list of names, such as ["sue", "eve"]'


def _is_name(value: object) -> str:
    return "" if isinstance(value, str) else 'a type: "Long", "String" or "Bool"'


def _refuse_strangers(file: str, content: Mapping[str, Any], known: tuple[str, ...]) -> None:
    strangers = [name for name in content if name not in known]
    if strangers:
        raise UnusableSet([f"{file}: {strangers[0]!r} is none of {', '.join(known)}"])


def _told(file: str, pieces: list[_Piece], problem: Problem) -> str:
    """The problem's sentence, with the file and line that its author sees."""
    if problem.line is None:
        return f"{file}: {problem.told}"
    piece = next(p for p in reversed(pieces) if p.line <= problem.line)
    at = f"{piece.name}:{problem.line - piece.line + 1}"
    named = f" {problem.policy_id}" if problem.policy_id else ""
    return f"{at}{named}: {problem.told}"
