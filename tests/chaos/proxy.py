"""A TCP proxy in front of one broker: every client goes through it, and a request of one kind can be kept back."""

from __future__ import annotations

import socket
import struct
import threading
import time
from contextlib import suppress
from queue import Queue
from types import TracebackType
from typing import Self

LOOPBACK = "127.0.0.1"
JOIN_GROUP = 11
"""Kafka's number of the request by which a member comes to a rebalance."""

END_TXN = 26
"""Kafka's number of the request that ends a transaction."""


class Proxy:
    """What brokers say of their address is changed to the proxy's, so that clients come here for all they ask."""

    def __init__(self, broker: str) -> None:
        host, _, port = broker.rpartition(":")
        self._broker = (host, int(port))
        self._listener = socket.create_server((LOOPBACK, 0))
        self._port = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._late: list[tuple[socket.socket, bytes]] = []
        self._kept_back: int | None = None
        self._one_only = False
        self._is_cut = False
        self.delay_s = 0.0
        """How long each request is on its way, from now on."""
        self._arrived = threading.Event()
        self._asked: set[tuple[int, bytes]] = set()
        self._answers: Queue[bytes] = Queue()

    @property
    def address(self) -> str:
        """Where clients connect."""
        return f"{LOOPBACK}:{self._port}"

    def keep_back(self, kind: int, *, one: bool = False) -> None:
        """From now on requests of this kind wait, or the first of them; others pass."""
        self._arrived.clear()
        self._one_only = one
        self._kept_back = kind

    def wait_for_one(self, seconds: float) -> bool:
        """Whether a request came that waits."""
        return self._arrived.wait(seconds)

    def let_go(self, seconds: float) -> list[bytes]:
        """Sends what waits, each on the connection that it came on, though its client may be gone; gives the answers."""
        with self._lock:
            late, self._late, self._kept_back = self._late, [], None
        sent = 0
        for upstream, frame in late:
            with suppress(OSError):  # the broker is another by now, and never hears of it
                self._asked.add((upstream.fileno(), frame[8:12]))
                upstream.sendall(frame)
                sent += 1
        return [self._answers.get(timeout=seconds) for _ in range(sent)]

    def cut(self) -> None:
        """Ends all connections, and lets none begin."""
        with self._lock:
            self._is_cut = True
            ended, self._sockets = self._sockets, []
        _end(ended)

    def mend(self) -> None:
        """Lets connections begin again."""
        with self._lock:
            self._is_cut = False

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _end([self._listener])
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    upstream = socket.create_connection(self._broker)
                except OSError:  # no broker at the moment
                    _end([client])
                    continue
                with self._lock:
                    if not self._is_cut:
                        self._sockets += [client, upstream]
                if client not in self._sockets:
                    _end([client, upstream])
                    continue
                threading.Thread(target=self._ask, args=(client, upstream), daemon=True).start()
                threading.Thread(target=self._answer, args=(upstream, client), daemon=True).start()

    def _ask(self, client: socket.socket, upstream: socket.socket) -> None:
        waits = False
        with suppress(OSError):
            while frame := _frame(client):
                (kind,) = struct.unpack_from(">h", frame, 4)
                with self._lock:
                    late = kind == self._kept_back
                    if late:
                        self._late.append((upstream, frame))
                        if self._one_only:
                            self._kept_back = None
                if late:
                    waits = True
                    self._arrived.set()
                else:
                    if self.delay_s:
                        time.sleep(self.delay_s)
                    upstream.sendall(frame)
        if not waits:  # else the network has something of this client that is still on its way
            with suppress(OSError):
                upstream.shutdown(socket.SHUT_WR)

    def _answer(self, upstream: socket.socket, client: socket.socket) -> None:
        ours = LOOPBACK.encode() + struct.pack(">i", self._port)
        theirs = self._broker[0].encode() + struct.pack(">i", self._broker[1])
        while True:
            try:
                frame = _frame(upstream)
            except OSError:
                frame = b""
            if not frame:
                _end([client, upstream])
                return
            if (upstream.fileno(), frame[4:8]) in self._asked:
                self._answers.put(frame)
            with suppress(OSError):  # the client is gone, and the broker answers it all the same
                client.sendall(frame.replace(theirs, ours))


def _end(sockets: list[socket.socket]) -> None:
    for one in sockets:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()


def _frame(source: socket.socket) -> bytes:
    """One request or response with its length; empty at the end of the connection."""
    head = _exactly(source, 4)
    if not head:
        return b""
    return head + _exactly(source, struct.unpack(">i", head)[0])


def _exactly(source: socket.socket, count: int) -> bytes:
    found = bytearray()
    while len(found) < count:
        part = source.recv(count - len(found))
        if not part:
            return b""
        found += part
    return bytes(found)
