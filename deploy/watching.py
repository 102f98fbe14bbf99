"""Runs a watcher with its real clock, broker and signals. Only this module of ours loads Faust, through its one place."""

from __future__ import annotations

import asyncio
import logging
import re

from ..events.log.protocol import Fatal, Log
from ..processors.durations import to_ms
from ..processors.watchers.prices import Prices
from .clock import SystemClock
from .exits import Exit, Stopped
from .processes import on_signal, opened_log
from .settings import Settings

LIBRARIES = ("aiokafka", "faust", "mode")
"""They tell each step of each rebalance; what an operator decides by is in their warnings."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


def run_watcher(settings: Settings, name: str, *, session_timeout_ms: int) -> Exit:
    """Watches until SIGTERM or SIGINT. It writes to the topics of watchers, and to nothing else."""
    try:
        from ..processors.watchers.faust_app import Watcher, WatcherFailed, WatcherSettings
    except ImportError as error:
        raise Stopped(
            Exit.USAGE,
            f"watchers need {error.name}, which is not installed: pip install 'wakeful[watch]'",
        ) from None
    with opened_log(settings, f"{settings.namespace}.watcher.{name}") as log:
        check_topics(log, settings)
        session_timeout_ms = log.session_timeout_ms(session_timeout_ms)
    if settings.log != "debug":
        for library in LIBRARIES:
            logging.getLogger(library).setLevel(logging.WARNING)
    folder = settings.home.absolute() / "watchers" / f"{settings.namespace}.{name}"
    folder.mkdir(parents=True, exist_ok=True)
    watcher = Watcher(
        WatcherSettings(
            servers=settings.kafka_servers,
            topics=settings.topics,
            name=name,
            folder=folder,
            stalled_after_ms=to_ms(settings.watch_stalled_after),
            session_timeout_ms=session_timeout_ms,
            prices=Prices.from_text(settings.model_prices),
        ),
        SystemClock().now_ms,
    )
    try:
        with on_signal(watcher.stop):
            asyncio.run(watcher.run())
    except WatcherFailed as failed:
        raise Stopped(Exit.FAULT, str(failed)) from failed
    return Exit.DONE


def check_topics(log: Log, settings: Settings) -> None:
    """Refuses topics that are missing, which Faust would wait for, or that differ in their partitions."""
    topics = settings.topics
    counts = {}
    for topic in (topics.events, topics.watch_windows, topics.watch_proposals):
        try:
            counts[topic] = log.partitions(topic)
        except Fatal:
            raise Stopped(
                Exit.NOT_FOUND,
                f"topic {topic} is missing: run 'wakeful topics apply', or set WAKEFUL_NAMESPACE to another",
            ) from None
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{topic} has {count}" for topic, count in counts.items())
        raise Stopped(
            Exit.USAGE,
            f"topics of a watcher need the same number of partitions, but {told}: delete the topics of watchers, "
            "which can be made anew, and run 'wakeful topics apply'",
        )


def check_name(name: str) -> str:
    """A watcher's name, which names a folder, too."""
    if NAME.fullmatch(name) is None:
        raise Stopped(
            Exit.USAGE,
            f"--name is {name!r}: use up to 64 of A-Z a-z 0-9 . _ -, and start with a letter or digit",
        )
    return name
