"""Drops a producer's client without waiting for it."""

from __future__ import annotations

import threading

from confluent_kafka import Producer as Client


def discard(client: Client) -> None:
    """Forgets what is queued, and lets a daemon thread run the destructor.

    The destructor joins librdkafka's threads, and after a hang these may never end: then the daemon thread hangs in
    the caller's stead, until the process does. `close()` is not used: it aborts an open transaction and waits for the
    answer, and the next `start` settles that transaction anyway.
    """
    client.purge(blocking=False)
    coffin = [client]
    threading.Thread(target=coffin.clear, name="discard-producer", daemon=True).start()
