"""One run of the demo: a stack, a fresh namespace, supervised processes, the drive, the evidence, the report."""

from __future__ import annotations

import json
import secrets
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import Any

from ...commands.client import Client
from ...events.errors import Transient
from ...events.log.kafka import KafkaLog
from ...processors.app import load_app
from ..blobs import blobs_of
from ..clock import SystemClock
from ..processes import apply_topics, check_cluster, prepare_views
from ..settings import Settings, load_settings
from ..supervisor import Supervisor
from . import evidence
from .drive import Drive
from .messages import Incoming
from .model import model_from
from .outbox import Outbox
from .report import Evidence, Report, as_json, compute
from .shared_stack import remember, remove, shared_stack
from .triage import APP, OUTBOX
from .view import View

PROCESSORS = 2
SUPERVISOR = "demo-supervisor"
CUSTOMERS = "demo-customers"
DRAIN_S = 8.0


@dataclass(frozen=True, slots=True)
class Result:
    """The report, and where it comes from."""

    report: Report
    namespace: str
    outbox: Path
    seconds: float
    removed: bool

    def to_json(self) -> dict[str, Any]:
        """One object."""
        numbers = as_json(self.report)
        problems = numbers.pop("problems")
        return {
            **numbers,
            "seconds": self.seconds,
            "namespace": self.namespace,
            "outbox": str(self.outbox),
            "problems": problems,
        }


def run(messages: Sequence[Incoming], environ: Mapping[str, str], *, asks: bool) -> Result:
    """Runs the demo over these messages and reports; everything it started has ended when it returns."""
    since_s = monotonic()
    base = load_settings(environ)
    namespace = f"demo-{secrets.token_hex(3)}"
    home = base.home / "demo" / namespace
    outbox = Outbox(home / "outbox")
    with ExitStack() as ending, View() as view:
        ending.enter_context(_undisturbed_end())
        ending.enter_context(shared_stack(base.home, environ, view))
        settings = load_settings(environ).model_copy(update={"namespace": namespace, "home": home})
        outbox.prepare()
        remember(settings)
        view.line(
            f"namespace {namespace}, model {model_from(environ).name}, outbox {outbox.folder}"
        )
        try:
            found = _play(settings, environ, messages, outbox, view, asks=asks)
        except KeyboardInterrupt:
            view.line("stopped; every process of the demo has ended")
            raise
        report = compute(found)
        removed = report.kept and bool(environ.get("WAKEFUL_KAFKA"))
        if removed:
            remove(settings)
            view.line(f"removed the topics and views of {namespace}: the broker is not ours")
    seconds = round(monotonic() - since_s, 1)
    result = Result(report, namespace, outbox.folder, seconds, removed)
    (home / "report.json").write_text(json.dumps(result.to_json(), indent=2), encoding="utf-8")
    return result


def _play(
    settings: Settings,
    environ: Mapping[str, str],
    messages: Sequence[Incoming],
    outbox: Outbox,
    view: View,
    *,
    asks: bool,
) -> Evidence:
    queues = load_app(APP).queues
    with KafkaLog(settings.kafka_servers, client_id=f"{settings.namespace}.demo") as log:
        check_cluster(settings, log.cluster_id())
        apply_topics(log, settings, queues)
        prepare_views(settings)
        supervisor = Supervisor(
            settings,
            APP,
            queues=queues,
            processors=PROCESSORS,
            environ={**environ, OUTBOX: str(outbox.folder.absolute())},
        )
        with ExitStack() as opened:
            supervisor.start()
            opened.callback(supervisor.stop, DRAIN_S)
            view.line(f"started {', '.join(supervisor.names)}")
            drive = Drive(
                log=log,
                topics=settings.topics,
                supervisor=supervisor,
                customers=opened.enter_context(_client(log, settings, CUSTOMERS)),
                decider=opened.enter_context(
                    _client(log, settings, settings.actor if asks else SUPERVISOR)
                ),
                outbox=outbox.folder,
                messages=messages,
                view=view,
                asks=asks,
                now_ms=SystemClock().now_ms,
            )
            if drive.run():
                view.line("every session has ended; waiting for the views")
            else:
                view.line("nothing moves any more: the report says what is missing")
            try:
                evidence.wait_for_views(log, settings)
            except Transient as late:
                view.line(str(late))
        view.line("processes ended; reading topics, Postgres and the outbox for the report")
        return evidence.gather(
            log, settings, queues, messages, outbox, drive.kills, supervisor.exit_codes
        )


def _client(log: KafkaLog, settings: Settings, actor: str) -> Client:
    return Client(
        log,
        settings.topics,
        tenant=settings.tenant,
        actor=actor,
        channel="demo",
        digest_key=settings.digest_key,
        blobs=blobs_of(settings),
        now_ms=SystemClock().now_ms,
    )


@contextmanager
def _undisturbed_end() -> Iterator[None]:
    """Ctrl-C and SIGTERM end the run in order; a second one does not disturb that."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return

    def end(_number: int, _frame: FrameType | None) -> None:
        for number in before:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
