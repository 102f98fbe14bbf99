"""One run of the demo: a stack, a namespace, a payment service, supervised processes, the drive, the report."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

from ...commands.client import Client
from ...events.errors import Transient
from ...events.log.kafka import KafkaLog
from ...processors.app import load_app
from ..blobs import blobs_of
from ..clock import SystemClock
from ..identity import identity_of
from ..processes import apply_topics, check_cluster, prepare_views
from ..settings import Settings, load_settings
from ..supervisor import Supervisor
from . import evidence
from .approver import Approver
from .board import Board
from .console import Beside, Console, console
from .customers import Customers
from .drive import Drive
from .killer import VICTIMS, CallWatch, Killer
from .messages import Incoming
from .model import model_from
from .papers import CALLS, LETTERS
from .payments import Service
from .refund_desk import desk
from .report import Evidence, Report, as_json, compute
from .runs import Options, Run
from .shared_stack import shared_stack
from .view import View
from .visitor import Visitor, enter_pressed

APP = desk.__name__
PROCESSORS = 2
SUPERVISOR = "demo-supervisor"
CUSTOMERS = "demo-customers"
DRAIN_S = 8.0


@dataclass(frozen=True, slots=True)
class Result:
    """The report, and where it comes from; `removed` says that topics and views are gone."""

    report: Report
    namespace: str
    folder: Path
    removed: bool

    def to_json(self) -> dict[str, Any]:
        """One object."""
        numbers = as_json(self.report)
        problems = numbers.pop("problems")
        where = {"namespace": self.namespace, "folder": str(self.folder)}
        return {**numbers, **where, "problems": problems}


def run(messages: Sequence[Incoming], environ: Mapping[str, str], options: Options) -> Result:
    """Runs the demo over these messages and reports; everything it started has ended when it returns."""
    home = load_settings(environ).home
    with ExitStack() as ending, View() as view:
        ending.enter_context(_undisturbed_end())
        asked = options.digest(messages)
        one = ending.enter_context(shared_stack(home, environ, asked, view))
        namespace, folder = one.settings.namespace, one.settings.home
        view.line(f"{namespace} in {folder}, model {model_from(environ).name}")
        try:
            found = _play(one, environ, messages, options, view)
        except KeyboardInterrupt:
            one.end()
            view.line("stopped; every process of the demo has ended")
            raise
        report = compute(found)
        one.end()
        removed = report.kept and bool(environ.get("WAKEFUL_KAFKA"))
        if removed:
            one.remove()
            view.line(f"removed the topics and views of {namespace}: the broker is not ours")
        result = Result(report, namespace, folder, removed)
        told = json.dumps(result.to_json(), indent=2)
        (folder / "report.json").write_text(told, encoding="utf-8")
    return result


def _play(
    one: Run, environ: Mapping[str, str], messages: Sequence[Incoming], options: Options, view: View
) -> Evidence:
    settings, queues = one.settings, load_app(APP).queues
    with ExitStack() as opened:
        log = opened.enter_context(
            KafkaLog(settings.kafka_servers, client_id=f"{settings.namespace}.demo")
        )
        check_cluster(settings, log.cluster_id())
        apply_topics(log, settings, queues)
        prepare_views(settings)
        one.shop.create()
        payments = opened.enter_context(Service(one.book, *options.payment_flags))
        view.line(f"payment service {payments.pid} charges {_keys(options)}{_faults(options)}")
        supervisor = Supervisor(
            settings,
            APP,
            queues=queues,
            processors=PROCESSORS,
            environ={**environ, **_outside(one, payments)},
        )
        with _running(supervisor), console(settings, environ, options.console) as beside:
            named = [f"{name} {pid}" for name, pid in supervisor.pids().items()]
            view.line(f"started {', '.join(named[:3])},")
            view.line(f"        {', '.join(named[3:])}; this is {os.getpid()}")
            killer = _drive(one, log, supervisor, messages, options, view, beside)
        view.line("processes ended; reading topics, Postgres and the book for the report")
        promises = options.promises
        if one.resumed:  # whatever it had killed before, it was killed itself
            promises = replace(promises, kills_min=0, recovered_min=0, seconds_max=None)
        return evidence.gather(
            log,
            settings,
            queues,
            messages=messages,
            promises=promises,
            papers=one.papers,
            book=one.book,
            kills=evidence.seen_kills(killer.kills, supervisor.exit_codes),
        )


def _drive(
    one: Run,
    log: KafkaLog,
    supervisor: Supervisor,
    messages: Sequence[Incoming],
    options: Options,
    view: View,
    beside: Console,
) -> Killer:
    settings, board = one.settings, Board(len(messages))
    killer = Killer(
        supervisor,
        CallWatch(one.papers.folder / CALLS),
        board,
        view,
        SystemClock().now_ms,
        () if options.calm else VICTIMS,
    )
    decides = settings.actor if options.ask else SUPERVISOR
    with _client(log, settings, CUSTOMERS) as wrote, _client(log, settings, decides) as decider:
        customers = Customers(wrote, messages)
        leaves = int(options.console is Beside.YOURS)
        approver = Approver(decider, view, options.ask, customers.text_of, leaves=leaves)
        visitor = Visitor(
            how=options.console,
            console=beside,
            approver=approver,
            letters=one.papers.folder / LETTERS,
            view=view,
            at_terminal=sys.stdin.isatty(),
            entered=enter_pressed,
        )
        drive = Drive(
            log=log,
            topics=settings.topics,
            supervisor=supervisor,
            customers=customers,
            approver=approver,
            visitor=visitor,
            killer=killer,
            board=board,
            book=one.book,
            view=view,
        )
        came_to_its_end = drive.run()
        view.last(board)
        if came_to_its_end:
            view.line("every message has its answer; waiting for the views")
        else:
            view.line("nothing moves any more: the report says what is missing")
        try:
            evidence.wait_for_views(log, settings)
        except Transient as late:
            view.line(str(late))
        visitor.stay()
    return killer


def _outside(one: Run, payments: Service) -> dict[str, str]:
    """Where the agent finds what is not Wakeful's."""
    folder = str(one.papers.folder.absolute())
    return {"REFUND_DESK_FOLDER": folder, "REFUND_DESK_PAYMENTS": payments.url}


def _keys(options: Options) -> str:
    return "each key once" if options.dedupe else "a key twice"


def _faults(options: Options) -> str:
    if options.late_commit:
        return ", 1 refund in 5 after it has hung up"
    return "" if options.calm else ", loses 1 answer in 5"


@contextmanager
def _running(supervisor: Supervisor) -> Iterator[None]:
    """Stops it with less patience than it has of its own."""
    supervisor.start()
    try:
        yield
    finally:
        supervisor.stop(DRAIN_S)


def _client(log: KafkaLog, settings: Settings, actor: str) -> Client:
    return Client(
        log,
        settings.topics,
        tenant=settings.tenant,
        actor=actor,
        channel="demo",
        digest_key=settings.digest_key,
        blobs=blobs_of(settings),
        identity=identity_of(settings, log),
        now_ms=SystemClock().now_ms,
    )


@contextmanager
def _undisturbed_end() -> Iterator[None]:
    """Ctrl-C, SIGTERM and a closed terminal end the run in order; a second one does not disturb that."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return

    def end(_number: int, _frame: FrameType | None) -> None:
        for number in before:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = {number: signal.getsignal(number) for number in numbers}
    before = {n: handler for n, handler in handlers.items() if handler is not signal.SIG_IGN}
    for number in before:  # what nohup ignores stays ignored
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
