"""`rollout`: set, clear and show on which version of a workflow turns begin."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..exits import Exit, Stopped
from .asking import WAIT_MAX_S, Actor
from .context import AsJson, kafka, settings

if TYPE_CHECKING:
    from ...events.log.protocol import Log
    from ...events.records import RolloutSet
    from ..rollouts import Shown
    from ..settings import Settings

app = typer.Typer(
    help="Rollouts: on which version of a workflow turns begin, for a share of sessions.",
    no_args_is_help=True,
)

TIMEOUT_S = 30.0

Workflow = Annotated[str, typer.Argument(metavar="WORKFLOW", help="The workflow's name.")]
Comment = Annotated[str, typer.Option(help="For the record.")]
Timeout = Annotated[
    float, typer.Option(min=0, max=WAIT_MAX_S, help="Seconds to wait for the processors.")
]


@app.command("set")
def set_(
    workflow: Workflow,
    *,
    version: Annotated[int, typer.Option(min=1, help="The version that is rolled out.")],
    percent: Annotated[
        int, typer.Option(min=0, max=100, help="For so many per cent of sessions, by hash.")
    ] = 100,
    rest: Annotated[
        int | None,
        typer.Option(min=1, help="The version of the others. (default: the one they are on)"),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also where no live processor has loaded it.")
    ] = False,
    comment: Comment = "",
    actor: Actor = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Say on which version turns begin, and return when every live processor goes by it.

    A turn that has begun ends on its version. A higher percentage only adds sessions, and those that were on the new version
    stay there.
    """
    from ..identity import judge_of
    from ..rollouts import LOADED_S, rest_of, show, wait_until_loaded

    given = settings()
    with kafka(given) as log:
        live = _live(given)
        judge = judge_of(given, log)
        wanted = [one for one in (version, rest) if one is not None]
        limit_s = 0.0 if force else min(timeout, LOADED_S)
        shown = wait_until_loaded(lambda: show(log, given, judge), workflow, wanted, live, limit_s)
        others = rest if percent < 100 and rest is not None else None
        others = others or rest_of(shown, workflow, version, percent, live)
        for one in [version] if others is None else [version, others]:
            _check_loaded(shown, workflow, one, live, force=force)
        _publish(
            log,
            given,
            _made(given, workflow, version, percent, others, comment, actor),
            timeout,
            as_json=as_json,
        )


@app.command("clear")
def clear(
    workflow: Workflow,
    *,
    comment: Comment = "",
    actor: Actor = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Let turns begin on the highest version that is loaded, as where nothing was ever set."""
    given = settings()
    with kafka(given) as log:
        made = _made(given, workflow, None, 100, None, comment, actor)
        _publish(log, given, made, timeout, as_json=as_json)


@app.command("show")
def show(*, as_json: AsJson = False) -> None:
    """Show the rollouts in force, and which processors go by them on which versions."""
    from ..identity import judge_of
    from ..rollouts import show as read
    from ..telling.text import when
    from .output import note, table, write_json

    given = settings()
    with kafka(given) as log:
        shown = read(log, given, judge_of(given, log))
        live = _live(given)
    if as_json:
        write_json(_plain(shown, live))
        return
    for told in shown.table.ignored:
        note(told)
    in_force = sorted(shown.table.in_force.items())
    table(
        ("workflow", "rollout", "number", "offset", "set", "by", "comment"),
        [
            (
                name,
                _told(one.said),
                one.said.number,
                one.offset,
                when(one.said.set_at_ms),
                one.said.set_by,
                one.said.comment,
            )
            for name, one in in_force
        ],
    )
    if not in_force:
        note("no rollout is set: turns begin on the highest version that is loaded")
    table(
        ("processor", "goes by", "loaded"),
        [(one, _goes_by(shown, one), _loaded(shown, one)) for one in live],
    )


def _publish(log: Log, given: Settings, made: RolloutSet, timeout: float, *, as_json: bool) -> None:
    from ..identity import identity_of
    from ..policies import wait_until_seen
    from ..rollouts import SHOW, Shown, set_next
    from .output import note, write_json

    published, offset = set_next(log, given, made, identity_of(given, log))
    live = wait_until_seen(
        log,
        given,
        offset,
        lambda: _live(given),
        timeout_s=timeout,
        progress=lambda missing: note(f"waiting for {', '.join(missing)}"),
        told_by=Shown(),
        see=SHOW,
    )
    if as_json:
        write_json({**_one(published), "offset": offset, "processors": live})
        return
    where = (
        f"in force in {', '.join(live)}"
        if live
        else "no processor runs: it holds from the next start"
    )
    told = f"{published.workflow}: {_told(published)}"
    sys.stdout.write(f"{told}; number {published.number} at offset {offset}: {where}\n")


def _made(
    given: Settings,
    workflow: str,
    version: int | None,
    percent: int,
    rest: int | None,
    comment: str,
    actor: str | None,
) -> RolloutSet:
    from ...commands import inputs
    from ...events.records import RolloutSet
    from ..clock import SystemClock

    name = inputs.name("workflow", workflow)
    now_ms, by = SystemClock().now_ms(), actor or given.actor
    return RolloutSet(0, now_ms, by, comment, name, version, percent, rest)


def _check_loaded(
    shown: Shown, workflow: str, version: int, live: list[str], *, force: bool
) -> None:
    """Refuses what would hold every session, and says aloud what would hold some."""
    from ..rollouts import unloaded
    from .output import note

    missing = unloaded(shown, workflow, version, live)
    if not missing:
        return
    if len(missing) == len(live) and not force:
        have = "; ".join(f"{one}: {_versions(shown, one, workflow)}" for one in live)
        raise Stopped(
            Exit.REFUSED,
            f"no live processor has loaded version {version} of {workflow} ({have}): deploy it first, or --force, and each "
            "session whose turn is to begin there is held until it is loaded and the session released",
        )
    note(
        f"{', '.join(missing)} has not loaded version {version} of {workflow}: sessions there whose turn is to begin on it "
        "are held, until it is deployed and they are released"
    )


def _live(given: Settings) -> list[str]:
    from ...events.log.kafka_survey import members
    from ..processes import processors_group

    return members(given.kafka_servers, processors_group(given))


def _told(said: RolloutSet) -> str:
    if said.version is None:
        return "the highest version that is loaded"
    if said.rest is None:
        return f"version {said.version}"
    return f"version {said.version} for {said.percent}% of sessions, version {said.rest} for the others"


def _versions(shown: Shown, processor: str, workflow: str) -> str:
    return ", ".join(map(str, shown.loaded(processor, workflow))) or "none"


def _goes_by(shown: Shown, processor: str) -> str:
    seen = shown.seen.get(processor)
    if seen is None:
        return "nothing that it has told of"
    newest = max((one.offset for one in shown.table.in_force.values()), default=-1)
    if seen.rollout_offset >= newest:
        return "all of these" if newest >= 0 else "no rollout"
    return f"those up to offset {seen.rollout_offset}"


def _loaded(shown: Shown, processor: str) -> str:
    seen = shown.seen.get(processor)
    names = dict.fromkeys(v.name for v in seen.loaded) if seen is not None else {}
    return "; ".join(f"{name} {_versions(shown, processor, name)}" for name in names) or "-"


def _one(said: RolloutSet) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(said)


def _plain(shown: Shown, live: list[str]) -> dict[str, Any]:
    return {
        "rollouts": [
            {**_one(one.said), "offset": one.offset}
            for _, one in sorted(shown.table.in_force.items())
        ],
        "ignored": shown.table.ignored,
        "processors": {
            one: {
                "rollout_offset": seen.rollout_offset,
                "loaded": [f"{v.name}:{v.version}" for v in seen.loaded],
            }
            if (seen := shown.seen.get(one)) is not None
            else None
            for one in live
        },
    }
