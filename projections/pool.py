"""Connections to the views that many threads share, each question as one tenant's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, LifoQueue

import psycopg

from .queries import Queries

NOBODY = ""
"""The tenant of a connection that is not lent: it is shown nothing."""


class Pool:
    """As many connections as were ever needed at once; safe to use from several threads."""

    def __init__(self, url: str, namespace: str) -> None:
        self._url, self._namespace = url, namespace
        self._idle: LifoQueue[Queries] = LifoQueue()

    @contextmanager
    def queries(self, tenant: str) -> Iterator[Queries]:
        """The views as this tenant is shown them; a connection that met a fault is not lent again."""
        try:
            lent = self._idle.get_nowait()
        except Empty:
            lent = Queries(self._url, self._namespace, tenant=NOBODY)
        lent.tenant = tenant
        try:
            yield lent
        except psycopg.Error:
            lent.close()
            raise
        finally:
            lent.tenant = NOBODY
            if not lent.closed:
                self._idle.put(lent)

    def close(self) -> None:
        """Frees those that are not lent."""
        while not self._idle.empty():
            self._idle.get_nowait().close()
