"""`audit invariants`: each invariant, whether it holds, and what that is said by."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..exits import Exit, Stopped
from .auditing import audited
from .context import AsJson, settings

if TYPE_CHECKING:
    from ...projections.audit.canaries import Canaries
    from ...projections.audit.promises import Judgement, Need

SHOWN = {
    "holds": "holds",
    "in part": "holds in part",
    "broken": "BROKEN",
    "nothing": "nothing there",
    "not judged": "not judged",
}


def invariants(
    *,
    views: Annotated[bool, typer.Option(help="Judge the views in Postgres as well.")] = True,
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="Judge what 'audit export' wrote instead."),
    ] = None,
    quiescent: Annotated[
        bool,
        typer.Option(
            "--quiescent", help="Nothing runs and nothing is due: judge what was left undone, too."
        ),
    ] = False,
    blobs: Annotated[
        bool,
        typer.Option("--blobs", help="Read every payload that lies in the store of blobs, too."),
    ] = False,
    canaries: Annotated[
        Path | None,
        typer.Option(
            "--canaries",
            metavar="FILE",
            help="Secrets that were planted, one a line: none may be in any record or row.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Judge each invariant by all topics and views, and say by what; exits with 1 if one is broken.

    `holds in part` is as far as a history can show it: what it cannot is named. `nothing there` had nothing of the kind to
    judge, `not judged` says why. The same checks as those of 'audit verify', one by one.
    """
    from ...projections.audit.promises import judge
    from ..telling.text import counted
    from .output import note, table, write_json

    planted = None if canaries is None else _canaries(canaries)
    found = audited(
        settings(),
        file=file,
        views=views,
        quiescent=quiescent,
        blobs=blobs,
        watch=None if planted is None else planted.watch,
    )
    there: dict[Need, bool] = {
        "views": views and file is None,
        "whole": found.whole,
        "quiescent": quiescent,
        "blobs": blobs,
        "canaries": planted is not None,
    }
    given = {need for need, is_there in there.items() if is_there}
    violations = [*found.violations, *(() if planted is None else planted.found)]
    judged = judge(violations, {**found.counts, **found.looked_at}, given)
    broken = [one for one in judged if one.verdict == "broken"]
    if as_json:
        write_json([_told(one) for one in judged])
        return Exit.REFUSED if broken else Exit.DONE
    rows = [(one.promise.name, SHOWN[one.verdict], one.promise.title, _by(one)) for one in judged]
    table(("invariant", "verdict", "what", "by"), rows)
    hold = sum(one.verdict in ("holds", "in part") for one in judged)
    told = f"{hold} of {len(judged)} hold; {_others(judged)}"
    if broken:
        names = ", ".join(one.promise.name for one in broken)
        raise Stopped(Exit.REFUSED, f"{counted(len(broken), 'invariant')} broken: {names}; {told}")
    note(told)
    return Exit.DONE


def _canaries(path: Path) -> Canaries:
    from ...projections.audit.canaries import Canaries

    try:
        return Canaries([line for line in path.read_text("utf-8").splitlines() if line])
    except (OSError, ValueError) as error:
        raise Stopped(Exit.USAGE, f"--canaries {path}: {error}") from error


def _others(judged: list[Judgement]) -> str:
    nothing = sum(one.verdict == "nothing" for one in judged)
    unjudged = sum(one.verdict == "not judged" for one in judged)
    return f"of {nothing} there is nothing to judge, {unjudged} are not judged here"


def _by(one: Judgement) -> str:
    """The evidence: the first counterexample, or what was looked at, or why nothing was."""
    from ..telling.text import counted

    if one.first is not None:
        return f"{counted(one.violations, 'violation')}; the first: {one.first}"
    if one.verdict in ("nothing", "not judged"):
        return one.why
    looked_at = ", ".join(_many(count, words) for words, count in one.looked_at.items())
    return f"{looked_at}; {one.why}" if one.why else looked_at


def _many(count: int, words: str) -> str:
    """`1 activity`, `2 activities`."""
    one = f"{words[:-3]}y" if words.endswith("ies") else words.removesuffix("s")
    return f"{count} {one if count == 1 else words}"


def _told(one: Judgement) -> dict[str, Any]:
    first = one.first
    return {
        "invariant": one.promise.number,
        "what": one.promise.title,
        "verdict": one.verdict,
        "looked_at": dict(one.looked_at),
        "why": one.why,
        "violations": one.violations,
        "first": None
        if first is None
        else {
            "invariant": first.invariant,
            "session": first.session,
            "seq": first.seq,
            "offset": first.offset,
            "what": first.sentence,
        },
    }
