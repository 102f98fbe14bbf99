"""`schedule`: create, list, show, pause, resume, trigger, delete."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..exits import Exit, Stopped
from .asking import Actor, of_session
from .context import AsJson, check_limit, settings
from .scheduled import LIST, coming, has_ended, looked_up, next_generation, open_one, standing

if TYPE_CHECKING:
    from ...processors.schedules.spec import Spec
    from ..settings import Settings
    from .asking import Answer

app = typer.Typer(
    help="Schedules: sessions that sleep until it is time, and then set a workflow to work.",
    no_args_is_help=True,
)

_MADE_BY_OTHERS = ("already_open", "command_id_reused")
"""Refusals of whoever makes a schedule of a name that another one makes at the same time."""

Name = Annotated[str, typer.Argument(metavar="NAME", help="The schedule's name.")]


@app.command("create")
def create(
    name: Name,
    *,
    cron: Annotated[
        str,
        typer.Option(help="Minute, hour, day of month, month, day of week: '0 9 * * MON-FRI'."),
    ],
    timezone: Annotated[
        str, typer.Option(help="Whose clock that is, such as Europe/Berlin.")
    ] = "UTC",
    workflow: Annotated[str, typer.Option(help="The workflow that is set to work.")],
    session_id: Annotated[
        str | None,
        typer.Option(
            "--session",
            help="Always in this session, a turn each time. (default: a new session each time)",
            callback=of_session,
        ),
    ] = None,
    data: Annotated[
        str, typer.Option(metavar="JSON", help="What to hand it; '-' reads it from stdin.")
    ] = "null",
    catch_up: Annotated[
        str, typer.Option(help="Of times that were missed: none, the last, or all (100 at most).")
    ] = "last",
    overlap: Annotated[
        str | None,
        typer.Option(
            help="With --session, while its last turn is open: skip, or allow, which queues. (default: skip)"
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="When it ends, such as 2027-12-31T18:00.")
    ] = None,
    actor: Actor = None,
    as_json: AsJson = False,
) -> int:
    """Make a schedule. What it sets to work acts for whoever makes it."""
    from ...processors.schedules.spec import schedule_id
    from . import typed
    from .asking import ask, finish

    given = settings()
    described = {
        "name": name,
        "cron": cron,
        "timezone": timezone,
        "workflow": workflow,
        "session": session_id,
        "data": typed.json_value("--data", data),
        "catch_up": catch_up,
        "overlap": overlap,
        "until": _until(until, timezone),
    }
    spec = _spec(described)
    _check_loaded(given, workflow)
    own = schedule_id(name, next_generation(given, name))
    done = f"{name}: {_next_told(spec)}, and 'wakeful schedule show {name}' says what comes after"
    answer = _opened(given, name, own, actor)
    if answer.verdict is not None and answer.verdict.kind in ("applied", "repeat"):
        answer = ask(given, own, lambda client: client.send(own, described, "create"), actor=actor)
    if answer.verdict is not None and answer.verdict.reason in _MADE_BY_OTHERS:
        raise Stopped(
            Exit.REFUSED,
            f"schedule {name!r} has been made meanwhile, as 'wakeful schedule show {name}' says: "
            f"'wakeful schedule delete {name}' ends it, or take another name",
        )
    return finish(answer, as_json=as_json, done=done)


@app.command("list")
def list_(
    *,
    limit: Annotated[int, typer.Option(help="Rows at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List the schedules, those that are due first before the others."""
    from ...processors.schedules.spec import WORKFLOW
    from .context import queries
    from .output import note, table, write_json
    from .showing import catch_up

    given = settings()
    check_limit(limit, most=1_000)
    with queries(given) as views:
        notes = catch_up(given, views, None)
        rows = views.ask(LIST, tenant=given.tenant, workflow=WORKFLOW, limit=limit)
    for told in notes:
        note(told)
    if as_json:
        write_json(rows)
        return
    table(
        ("schedule", "cron", "time zone", "workflow", "session", "next", "status"),
        [
            (
                found["schedule"],
                found.get("cron", "-"),
                found.get("timezone", "-"),
                found.get("target", "-"),
                found.get("session", "a new one"),
                found.get("next", "-"),
                standing(row),
            )
            for row in rows
            for found in [row["attributes"]]
        ],
    )
    if not rows:
        note(f"no schedules of tenant {given.tenant}: 'wakeful schedule create' makes one")


@app.command("show")
def show(name: Name, *, as_json: AsJson = False) -> None:
    """Show one: when it is due, the next five times, and its last runs."""
    from .output import facts, table, write_json

    given = settings()
    row, runs, refused = looked_up(given, name)
    found = row["attributes"]
    times = [] if has_ended(row) else coming(found)
    if as_json:
        write_json({**row, "upcoming": times, "runs": runs, "refused": refused})
        return
    facts(
        [
            ("schedule", name),
            ("session", row["session_id"]),
            ("status", standing(row)),
            ("made by", row["opened_by"]),
            ("cron", f"{found.get('cron')}, {found.get('timezone')}"),
            ("workflow", found.get("target")),
            ("in session", found.get("session", "a new one each time")),
            ("until", found.get("until")),
            ("held because", row["held_detail"]),
            ("last said", (row["last_reply"] or {}).get("text")),
            ("last refused", f"{refused['refused_at']}: {refused['detail']}" if refused else None),
            *(("next" if not at else "then", one) for at, one in enumerate(times)),
        ]
    )
    table(
        ("run", "due", "status", "updated"),
        [
            (run["session_id"], run["attributes"].get("due"), run["status"], run["updated_at"])
            for run in runs
        ],
    )


def _told(name: str, do: str, actor: str | None, *, as_json: bool, done: str) -> int:
    """Sends one word to a schedule that has not ended."""
    from ...processors.schedules.spec import CONTROL
    from .asking import ask_and_tell

    own = open_one(settings(), name)
    return ask_and_tell(
        own,
        lambda client: client.signal(own, CONTROL, {"do": do}),
        actor=actor,
        as_json=as_json,
        done=f"{name}: {done}",
    )


@app.command("pause")
def pause(name: Name, *, actor: Actor = None, as_json: AsJson = False) -> int:
    """Let it run nothing until it is resumed. What is due meanwhile is not caught up on."""
    done = f"paused, until 'wakeful schedule resume {name}'"
    return _told(name, "pause", actor, as_json=as_json, done=done)


@app.command("resume")
def resume(name: Name, *, actor: Actor = None, as_json: AsJson = False) -> int:
    """Let it go on, from now."""
    return _told(name, "resume", actor, as_json=as_json, done="goes on from now")


@app.command("trigger")
def trigger(name: Name, *, actor: Actor = None, as_json: AsJson = False) -> int:
    """Let it run once, now, also while it is paused. When it is due next stays as it is."""
    return _told(name, "trigger", actor, as_json=as_json, done="runs now")


@app.command("delete")
def delete(
    name: Name,
    *,
    reason: Annotated[str, typer.Option(help="For the record.")] = "",
    actor: Actor = None,
    as_json: AsJson = False,
) -> int:
    """End it for good. What it has set to work goes on."""
    from .asking import ask_and_tell

    own = open_one(settings(), name)
    return ask_and_tell(
        own,
        lambda client: client.cancel(own, reason),
        actor=actor,
        as_json=as_json,
        done=f"{name} is deleted; its runs go on",
    )


def _spec(described: dict[str, Any]) -> Spec:
    from ...processors.schedules.spec import BadSpec, read_spec
    from ..clock import SystemClock

    try:
        return read_spec(described, SystemClock().now_ms())
    except BadSpec as wrong:
        raise Stopped(Exit.USAGE, f"no schedule: {wrong}") from None


def _next_told(spec: Spec) -> str:
    from ...processors.schedules.spec import first_due
    from ...processors.schedules.times import moment, zone_of
    from ..clock import SystemClock

    due_ms = first_due(spec, SystemClock().now_ms())
    if due_ms is None:
        return "is never due again"
    return f"due at {moment(due_ms).astimezone(zone_of(spec.timezone)).isoformat()}"


def _opened(given: Settings, name: str, own: str, actor: str | None) -> Answer:
    """Opens its session, which runs nothing yet. By the same person it may be said again. `Stopped` where nobody decides."""
    from ...processors.schedules.spec import BY_NAME, PAUSED, WORKFLOW
    from .asking import ask

    attributes = {BY_NAME: name, PAUSED: False}
    opened = ask(
        given, own, lambda client: client.open(WORKFLOW, own, attributes=attributes), actor=actor
    )
    if opened.verdict is not None and opened.verdict.kind == "undecided":
        raise Stopped(
            Exit.NOT_IN_TIME,
            f"no processor has decided yet to open schedule {name!r}, and it runs nothing so far: see with "
            "'wakeful status' whether 'wakeful run' is running, and give the same command again, which goes on from here",
        )
    return opened


def _until(text: str | None, timezone: str) -> str | None:
    """The end with its zone: that of the schedule, where none is written."""
    from ...processors.schedules.times import BadTime, zone_of

    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo else at.replace(tzinfo=zone_of(timezone))).isoformat()
    except BadTime as wrong:
        raise Stopped(Exit.USAGE, f"no schedule: {wrong}") from None
    except ValueError:
        raise Stopped(
            Exit.USAGE, f"--until {text[:60]!r} is no time: write it like 2027-12-31T18:00"
        ) from None


def _check_loaded(given: Settings, workflow: str) -> None:
    """Refuses a workflow that none of the processors that run has loaded: nobody would hear of it before it is due."""
    from ...events.log.kafka_survey import members
    from ..identity import judge_of
    from ..loading import RESERVED
    from ..processes import processors_group
    from ..rollouts import LOADED_S, show, wait_until_told
    from .context import kafka
    from .output import note

    live = members(given.kafka_servers, processors_group(given))
    if not live:
        note(f"no processor runs: whether {workflow} is loaded is seen when it is due")
        return
    with kafka(given) as log:
        judge = judge_of(given, log)
        shown = wait_until_told(lambda: show(log, given, judge), live, LOADED_S)
    if not any(shown.loaded(one, workflow) for one in live):
        told = [v.name for one in live if one in shown.seen for v in shown.seen[one].loaded]
        names = {name for name in told if not name.startswith(RESERVED)}
        raise Stopped(
            Exit.REFUSED,
            f"no processor has loaded workflow {workflow!r} (loaded: {', '.join(sorted(names)) or 'none'}): "
            "name one of these, or deploy it first",
        )
