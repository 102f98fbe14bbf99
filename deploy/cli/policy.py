"""`policy`: check, test, publish and show who may decide what."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..exits import Exit, Stopped
from .asking import WAIT_MAX_S, Actor
from .context import AsJson, kafka, settings

if TYPE_CHECKING:
    from ...events.records import PolicyPublished
    from ..policies import Shown
    from ..settings import Settings

app = typer.Typer(help="Policies: who may decide what, as Cedar policies.", no_args_is_help=True)

TIMEOUT_S = 30.0

SetFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="A TOML file: names of Cedar files, roles, and arguments of tools."
    ),
]


@app.command("check")
def check(file: SetFile, *, as_json: AsJson = False) -> int:
    """Check a policy set against the schema, without publishing it; every fault is told with its file and line."""
    from ...processors.policies.cedar import CedarPolicy
    from ...processors.policies.files import UnusableSet, read_set
    from ...processors.policies.sets import set_hash
    from .output import note, write_json

    try:
        found = read_set(file)
    except UnusableSet as error:
        if as_json:
            write_json({"ok": False, "problems": error.problems})
        else:
            sys.stdout.write("".join(f"{line}\n" for line in error.problems))
            note("this set cannot be published")
        return Exit.REFUSED
    ids = CedarPolicy(found).policy_ids
    if as_json:
        write_json({"ok": True, "hash": set_hash(found), "policies": ids})
    else:
        sys.stdout.write("".join(f"{policy_id}\n" for policy_id in ids))
        note(f"{len(ids)} policies in order; publish them with 'wakeful policy publish {file}'")
    return Exit.DONE


@app.command("test")
def run_cases(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="A folder with policy.toml and files *.test.toml."),
    ],
    *,
    as_json: AsJson = False,
) -> int:
    """Ask a policy set the questions of the test files beside it, and compare its rulings with those expected."""
    from ...processors.policies.cases import SET_FILE, read_cases, run_case
    from ...processors.policies.cedar import CedarPolicy
    from ...processors.policies.files import UnusableSet
    from .output import note, write_json

    try:
        policy = CedarPolicy(_read(folder / SET_FILE))
        told = [run_case(policy, case) for case in read_cases(folder)]
    except UnusableSet as error:
        raise Stopped(Exit.USAGE, str(error)) from error
    failed = [one for one in told if one.wrong]
    if as_json:
        write_json(
            [
                {
                    "file": one.case.file,
                    "name": one.case.name,
                    "ok": not one.wrong,
                    "allowed": one.ruling.allowed,
                    "policies": one.ruling.policy_ids,
                    "told": one.wrong,
                }
                for one in told
            ]
        )
    else:
        for one in told:
            mark = "wrong" if one.wrong else "ok   "
            detail = f": {one.wrong}" if one.wrong else ""
            sys.stdout.write(f"{mark} {one.case.file}  {one.case.name}{detail}\n")
        note(f"{len(told) - len(failed)} of {len(told)} as expected")
    return Exit.REFUSED if failed else Exit.DONE


@app.command("publish")
def publish(
    file: SetFile,
    *,
    comment: Annotated[str, typer.Option(help="For the record.")] = "",
    actor: Actor = None,
    timeout: Annotated[
        float, typer.Option(min=0, max=WAIT_MAX_S, help="Seconds to wait for the processors.")
    ] = TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Sign and publish a policy set, and return when every live processor decides by it."""
    from dataclasses import replace

    from ...events.log.kafka_survey import members
    from ...processors.policies.sets import set_hash
    from ..clock import SystemClock
    from ..identity import identity_of
    from ..policies import publish_next, taken_over, wait_until_seen
    from ..processes import processors_group
    from .output import note, write_json

    made, given = _read(file), settings()
    with kafka(given) as log:
        identity = identity_of(given, log)
        ours = replace(
            made,
            published_at_ms=SystemClock().now_ms(),
            published_by=actor or given.actor,
            comment=comment,
        )
        published, offset = publish_next(log, given, ours, identity)
        live = wait_until_seen(
            log,
            given,
            offset,
            lambda: members(given.kafka_servers, processors_group(given)),
            timeout_s=timeout,
            progress=lambda missing: note(f"waiting for {', '.join(missing)}"),
        )
        lost = taken_over(log, given, published, offset, identity)
    if lost:
        raise Stopped(Exit.REFUSED, lost)
    if as_json:
        told = {"version": published.version, "hash": set_hash(published), "offset": offset}
        write_json({**told, "processors": live})
        return
    where = (
        f"in force in {', '.join(live)}"
        if live
        else "no processor runs: it holds from the next start"
    )
    sys.stdout.write(f"version {published.version} at offset {offset}: {where}\n")


@app.command("show")
def show(
    *,
    all_tenants: Annotated[
        bool, typer.Option("--all-tenants", help="Also who has which role in other tenants.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the policy set in force: its policies, who has which role, and which processors decide by it."""
    from ...events.log.kafka_survey import members
    from ..identity import judge_of
    from ..policies import show as read
    from ..processes import processors_group
    from .output import block, facts, note, table, write_json

    given = settings()
    with kafka(given) as log:
        shown = read(log, given, judge_of(given, log))
        live = members(given.kafka_servers, processors_group(given))
    if as_json:
        write_json(_plain(shown, live, None if all_tenants else given.tenant))
        return
    for told in shown.ignored:
        note(told)
    if shown.damaged:
        stays = (
            "the last good one stays in force" if shown.published else "nobody may decide approvals"
        )
        note(f"{shown.damaged}, so {stays}: publish a set with 'wakeful policy publish FILE'")
    found = shown.published
    if found is None:
        if not shown.damaged:
            note(_why_none(shown, given))
        return
    from ...processors.policies.sets import set_hash
    from ..telling.text import when

    facts(
        [
            ("version", found.version),
            ("hash", set_hash(found).hex()),
            ("offset", shown.offset),
            ("published", f"{when(found.published_at_ms)} by {found.published_by}"),
            ("comment", found.comment),
        ]
    )
    block(found.policies)
    table(
        ("tenant", "role", "who has it"),
        [
            (one.tenant, one.role, ", ".join(one.actors))
            for one in found.roles
            if all_tenants or one.tenant == given.tenant
        ],
    )
    table(("processor", "decides by"), [(name, _by(shown, name)) for name in live])


def _why_none(shown: Shown, given: Settings) -> str:
    if shown.revoked:
        return (
            "no set is in force where its publisher's key is revoked, so nobody may decide approvals in processors that "
            "start now: publish what shall hold with 'wakeful policy publish FILE'"
        )
    who = "everybody may decide" if given.open_policy else "nobody may decide"
    return f"no policy is published, so {who} approvals: 'wakeful policy publish FILE' makes one"


def _read(file: Path) -> PolicyPublished:
    from ...processors.policies.files import UnusableSet, read_set

    try:
        return read_set(file)
    except UnusableSet as error:
        raise Stopped(Exit.USAGE, str(error)) from error


def _by(shown: Shown, processor: str) -> str:
    seen = shown.seen.get(processor)
    if seen is None:
        return "nothing that it has told of"
    return (
        "this set"
        if seen.policy_offset == shown.offset
        else f"the one at offset {seen.policy_offset}"
    )


def _plain(shown: Shown, live: list[str], tenant: str | None) -> dict[str, Any]:
    found = shown.published
    processors = {
        name: shown.seen[name].policy_offset if name in shown.seen else None for name in live
    }
    if found is None:
        return {
            "version": None,
            "damaged": shown.damaged,
            "ignored": shown.ignored,
            "revoked": shown.revoked,
            "processors": processors,
        }
    from ...processors.policies.sets import set_hash

    return {
        "version": found.version,
        "hash": set_hash(found),
        "offset": shown.offset,
        "published_at_ms": found.published_at_ms,
        "published_by": found.published_by,
        "comment": found.comment,
        "damaged": shown.damaged,
        "ignored": shown.ignored,
        "policies": found.policies,
        "roles": [
            {"tenant": one.tenant, "role": one.role, "actors": one.actors}
            for one in found.roles
            if tenant in (None, one.tenant)
        ],
        "arguments": [
            {"tool": one.tool, "name": one.name, "kind": one.kind} for one in found.arguments
        ],
        "processors": processors,
    }
