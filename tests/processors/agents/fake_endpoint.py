"""An HTTP endpoint on the loopback that answers from a script, piece by piece, and breaks off where it is told to."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

STALL_LIMIT_S = 30.0


@dataclass
class Says:
    """One response. `cut`: the connection ends without the end of the body; `stall`: nothing more comes; `silent`: nothing at all."""

    pieces: list[str] = field(default_factory=list)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    kind: str = "text/event-stream"
    cut: bool = False
    stall: bool = False
    silent: bool = False


class Endpoint:
    """The script, and what was asked."""

    def __init__(self) -> None:
        self.url = ""
        self.script: list[Says] = []
        self.asked: list[dict] = []
        self.headers: list[dict[str, str]] = []
        self.over = threading.Event()

    def says(self, *script: Says) -> None:
        self.script = list(script)


def events(*data: object, names: bool = False) -> list[str]:
    """Server-sent events, one per value: JSON, or a string as it is."""
    told = [one if isinstance(one, str) else json.dumps(one) for one in data]
    if not names:
        return [f"data: {one}\n\n" for one in told]
    return [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in data]


@contextmanager
def serving() -> Iterator[Endpoint]:
    endpoint = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            endpoint.asked.append({"path": self.path, **json.loads(body)})
            endpoint.headers.append({k.lower(): v for k, v in self.headers.items()})
            answer(self, endpoint)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    endpoint.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield endpoint
    finally:
        endpoint.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


def answer(handler: BaseHTTPRequestHandler, endpoint: Endpoint) -> None:
    says = endpoint.script.pop(0)
    handler.close_connection = True
    if says.silent:
        endpoint.over.wait(STALL_LIMIT_S)
        return
    try:
        handler.send_response(says.status)
        for name, value in {"Content-Type": says.kind, **says.headers}.items():
            handler.send_header(name, value)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.send_header("Connection", "close")
        handler.end_headers()
        for piece in says.pieces:
            data = piece.encode()
            handler.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            handler.wfile.flush()
        if says.stall:
            endpoint.over.wait(STALL_LIMIT_S)
        if not says.cut:
            handler.wfile.write(b"0\r\n\r\n")
    except OSError:
        pass  # the client has gone, as some tests want
