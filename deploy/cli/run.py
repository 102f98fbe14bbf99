"""`run`, `processor`, `worker`, `projector`: the processes, together or one by one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from ..exits import Exit, Stopped
from ..settings import Settings, load_settings
from .context import AppTarget, kafka

Concurrency = Annotated[
    int | None, typer.Option(min=1, help="Activities that run at once, per queue.")
]
SyncConcurrency = Annotated[
    int | None, typer.Option(min=1, help="Of these, sync ones: each has a thread.")
]


def run(
    target: AppTarget,
    *,
    processors: Annotated[int, typer.Option(min=0, help="Session processors to start.")] = 1,
    workers: Annotated[int, typer.Option(min=0, help="Workers to start, per queue.")] = 1,
    projector: Annotated[bool, typer.Option(help="Keep the views in Postgres.")] = True,
    concurrency: Concurrency = None,
    sync_concurrency: SyncConcurrency = None,
    spares: Annotated[
        int,
        typer.Option(min=0, help="Loaded processes (40 MB each) that wait to replace a dead one."),
    ] = 2,
) -> None:
    """Run an app: processors, workers and the projector as child processes, restarted when they end.

    Creates missing topics first. Ctrl-C or SIGTERM drains and ends all. Logs: WAKEFUL_HOME/logs.
    """
    from ..identity import identity_of
    from ..loading import load_user_app
    from ..processes import apply_topics, on_signal
    from ..supervisor import Supervisor
    from .output import note, prefixed

    given = with_logs("supervisor")
    app = load_user_app(target, need_workflows=processors > 0)
    with kafka(given, may_be_empty=True) as log:
        for role, count in (("processor", processors), ("worker", workers)):
            if count:
                identity_of(given, log, role=role)  # said once, here, and not by every child
        created = apply_topics(log, given, app.queues)
    if created:
        note(f"created {len(created)} topics of namespace {given.namespace}")
    if projector:
        _prepare_views(given)
    supervisor = Supervisor(
        given,
        target,
        queues=app.queues,
        processors=processors,
        workers=workers,
        projector=projector,
        concurrency=concurrency,
        sync_concurrency=sync_concurrency,
        spares_max=spares,
        echo=prefixed,
    )
    with on_signal(supervisor.request_stop), supervisor:
        names = ", ".join(f"{name} {workflows}" for name, workflows in _offered(app.workflows))
        note(
            f"running {target}: workflows {names or 'none'}; queues {', '.join(app.queues) or 'none'}"
        )
        if given.default_digest_key:
            note(
                "digests are keyed with what everybody knows: set WAKEFUL_DIGEST_KEY elsewhere than here"
            )
        if given.insecure:
            note("commands are believed whoever sends them: WAKEFUL_INSECURE=1 is set")
        note(
            "Ctrl-C ends it; open a session from another terminal: 'wakeful session open WORKFLOW'"
        )
        supervisor.wait()
        note("ending: running activities may finish")
    if supervisor.gave_up is not None:
        raise supervisor.gave_up
    note("ended")


def processor(
    target: AppTarget,
    *,
    ordinal: Annotated[
        int, typer.Option(min=0, help="Its stable number: one process per number.")
    ] = 0,
) -> int:
    """Run one session processor in this process."""
    given = with_logs("processor")

    def work() -> Exit:
        from ..loading import load_user_app
        from ..processes import run_processor

        return run_processor(given, load_user_app(target, need_workflows=True), ordinal)

    return ended(work)


def worker(
    target: AppTarget,
    *,
    queue: Annotated[
        list[str] | None, typer.Option(help="A queue to serve; repeat for more. (default: all)")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Its name in the record. (default: host and pid)")
    ] = None,
    instance: Annotated[
        str | None,
        typer.Option(
            help="Comes back under this name at once after a kill; no two at a time. (default: none)"
        ),
    ] = None,
    concurrency: Concurrency = None,
    sync_concurrency: SyncConcurrency = None,
) -> int:
    """Run one worker in this process; it runs the app's activities."""
    given = with_logs("worker")
    _mask_output()

    def work() -> Exit:
        from ...processors.activities.worker import CONCURRENCY_DEFAULT, SYNC_CONCURRENCY_DEFAULT
        from ..loading import load_user_app
        from ..processes import run_worker

        app = load_user_app(target)
        unknown = sorted(set(queue or ()) - set(app.queues))
        if unknown:
            known = ", ".join(app.queues) or "none"
            raise Stopped(
                Exit.USAGE,
                f"{target} has no activity on queue {unknown[0]!r}: its queues are {known}",
            )
        if not app.activities:
            raise Stopped(
                Exit.APP,
                f"{target} declares no activity, so there is nothing for a worker: decorate one with @activity(…)",
            )
        return run_worker(
            given,
            app,
            queue,
            name=name,
            instance=instance,
            concurrency=concurrency or CONCURRENCY_DEFAULT,
            sync_concurrency=sync_concurrency or SYNC_CONCURRENCY_DEFAULT,
        )

    return ended(work)


def projector() -> int:
    """Run the projector in this process; it keeps the views in Postgres."""
    given = with_logs("projector")

    def work() -> Exit:
        from ..processes import run_projector

        return run_projector(given)

    return ended(work)


def _prepare_views(given: Settings) -> None:
    from ..processes import prepare_views

    try:
        prepare_views(given)
    except Stopped as stopped:
        told = f"{stopped.message}; or run without views: '--no-projector'"
        raise Stopped(stopped.code, told) from None


def with_logs(process: str) -> Settings:
    """Settings, with this process's logs set up."""
    from .. import lifeline, logs

    lifeline.hold(os.environ)
    given = load_settings(os.environ)
    logs.configure(given.log, given.log_format, process=process)
    return given


def _mask_output() -> None:
    """Keeps the credentials of activities out of what this process prints and logs, whoever does so."""
    from ...processors.activities.hidden import OUTPUT
    from ..logs import mask

    mask(OUTPUT.hide)


def ended(work: Callable[[], Exit]) -> int:
    """Under a supervisor what went wrong goes to the log, else to whoever started this by hand."""
    import structlog

    from .. import lifeline
    from ..processes import ending

    try:
        return int(ending(work))
    except Stopped as stopped:
        if lifeline.VARIABLE not in os.environ:
            raise
        structlog.get_logger("wakeful.process").error(stopped.message)
        return int(stopped.code)


def _offered(workflows: Mapping[str, Mapping[int, object]]) -> list[tuple[str, str]]:
    return [
        (name, "v" + "+v".join(str(v) for v in sorted(versions)))
        for name, versions in sorted(workflows.items())
    ]
