"""`up`, `down`, `reset`, `status`: Kafka, Postgres and Valkey on this machine."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..exits import Exit, Stopped
from .context import AsJson

if TYPE_CHECKING:
    from ..run_file import Running
    from ..stack import ServiceStatus, Stack
    from .behind import Behind


def up(*, as_json: AsJson = False) -> None:
    """Start Kafka, Postgres and Valkey here (or check those that WAKEFUL_KAFKA and so on name).

    A repeat changes nothing; what has died is started again on its port and data.
    """
    from .output import note, write_json

    found = _stack().up(lambda line: note(line, quiet=as_json))
    if as_json:
        from dataclasses import asdict

        write_json(asdict(found))
    else:
        note("the stack is up: next, 'wakeful run APP'")


def down() -> None:
    """Stop what 'up' started; its data stays."""
    from .output import note

    running = _running()
    if running is not None:
        raise Stopped(
            Exit.BUSY,
            f"'wakeful run' (pid {running.pid}, {running.app}) uses this stack: end it first",
        )
    _stack().down()
    note("the stack is down; 'wakeful up' starts it with its data, 'wakeful reset' removes them")


def reset(*, yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False) -> None:
    """Stop the stack and remove all its data: every session, event and log file under WAKEFUL_HOME, keys and payloads too.

    What you keep elsewhere stays: files that WAKEFUL_API_KEYS, WAKEFUL_HOOKS or WAKEFUL_KEYS name, and a store of
    payloads that WAKEFUL_BLOBS names.
    """
    from .. import leftovers
    from .output import note

    stack = _stack()
    running = _running()
    if running is not None:
        raise Stopped(
            Exit.BUSY,
            f"'wakeful run' (pid {running.pid}, {running.app}) uses this stack: end it first",
        )
    if not yes and not sys.stdin.isatty():
        raise Stopped(
            Exit.USAGE, "reset asks before it removes data, and nobody can answer here: give --yes"
        )
    if not yes:
        typer.confirm(f"remove all sessions and data in {stack.home}?", abort=True, err=True)
    removed = leftovers.remove(stack.home)
    stack.reset()
    for one in removed:
        note(f"removed {one}")
    note("the stack and its data are gone")


def status(*, as_json: AsJson = False) -> int:
    """Show what runs: services, the processes of 'wakeful run', and how many records they are behind.

    Exits with 5 if a service is stopped.
    """
    from .output import note, table, write_json

    services = [_or_environment(service) for service in _stack().status()]
    running = _run_file()
    complete = all(service.state != "stopped" for service in services)
    rows = [
        {
            "name": s.name,
            "state": s.state,
            "pid": s.pid,
            "address": s.address,
            "detail": s.detail,
        }
        for s in services
    ]
    processes = _processes(running)
    late = _behind(services)
    if as_json:
        app = None
        if running is not None and running.alive:
            app = {"pid": running.pid, "app": running.app, "namespace": running.namespace}
        lags = {"lag": late.lags, "lag_unknown": late.unknown}
        write_json({"services": rows, "run": app, "processes": processes, **lags})
    else:
        table(
            ("service", "state", "pid", "address", "detail"), [list(row.values()) for row in rows]
        )
        if processes:
            table(
                ("process", "state", "pid", "restarts", "log"),
                [list(p.values()) for p in processes],
            )
        table(("reader", "topic", "partition", "lag"), [list(one.values()) for one in late.lags])
        for why in late.unknown:
            note(f"lag unknown: {why}")
        if complete and not processes:
            note("no app runs here: 'wakeful run APP' starts one")
        if not complete:
            note("'wakeful up' starts what is stopped")
    return Exit.DONE if complete else Exit.UNAVAILABLE


def _behind(services: list[ServiceStatus]) -> Behind:
    """Nobody is asked where no broker is."""
    from .behind import Behind, behind

    reached = any(s.name == "kafka" and s.state != "stopped" for s in services)
    return behind() if reached else Behind()


def _or_environment(service: ServiceStatus) -> ServiceStatus:
    """A service whose URL is set is used without 'up', which would only check it."""
    from dataclasses import replace

    from ..stack.external import without_password

    url = os.environ.get(f"WAKEFUL_{service.name.upper()}", "")
    if service.state != "stopped" or not url:
        return service
    told = "from the environment, not checked ('wakeful up' does)"
    return replace(service, state="external", address=without_password(url), detail=told)


def _processes(running: Running | None) -> list[dict[str, Any]]:
    if running is None:
        return []
    supervised = running.alive
    found = []
    if supervised:
        found.append(
            {
                "name": "supervisor",
                "state": "running",
                "pid": running.pid,
                "restarts": 0,
                "log": "",
            }
        )
    for child in running.children:
        alive = child.alive
        if alive or supervised:
            state = "running" if alive else "restarting"
            found.append(
                {
                    "name": child.name,
                    "state": state,
                    "pid": child.pid or None,
                    "restarts": child.restarts,
                    "log": child.log,
                }
            )
    return found


def _stack() -> Stack:
    from ..stack import Stack, stack_home

    return Stack(stack_home(os.environ), environ=os.environ)


def _run_file() -> Running | None:
    from ..run_file import RunFile
    from ..stack import stack_home

    return RunFile(stack_home(os.environ)).load()


def _running() -> Running | None:
    found = _run_file()
    return found if found is not None and found.alive else None
