"""What Redis gives a process, where there is one: nothing depends on it, so neither does a start."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from ..processors.activities.leases import Leases, NoLeases
from ..processors.activities.tokens import NO_TOKENS, Tokens
from .settings import Settings

logger = structlog.get_logger("wakeful.process")


@contextmanager
def opened_leases(settings: Settings, worker_id: str) -> Iterator[Leases]:
    """A worker's leases."""
    if settings.redis is None:
        yield NoLeases()
        return
    try:
        from ..processors.activities.redis_leases import RedisLeases

        leases = RedisLeases(
            settings.redis,
            namespace=settings.namespace,
            worker_id=worker_id,
            monotonic=time.monotonic,
        )
    except (ImportError, ValueError) as error:
        logger.warning("the worker starts without redis", why=type(error).__name__)
        yield NoLeases()
        return
    try:
        yield leases
    finally:
        leases.close()


@contextmanager
def opened_tokens(settings: Settings) -> Iterator[Tokens]:
    """What a worker's activities say while they run."""
    if settings.redis is None:
        yield NO_TOKENS
        return
    try:
        from ..processors.activities.redis_tokens import RedisTokens

        tokens = RedisTokens(settings.redis, namespace=settings.namespace, monotonic=time.monotonic)
    except (ImportError, ValueError) as error:
        logger.warning("nobody sees tokens of this worker", why=type(error).__name__)
        yield NO_TOKENS
        return
    try:
        yield tokens
    finally:
        tokens.close()
