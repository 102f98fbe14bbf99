"""`python -m wakeful.deploy.demo.payments --file PATH`: serves until its parent is gone, SIGTERM or Ctrl-C.

Prints one line, its URL, once it accepts connections. What was acknowledged is in the file, whatever ends it.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import NoReturn

from ... import lifeline
from ...exits import Exit
from .book import BookBroken, BookHeld, OpenBook
from .desk import Desk
from .faults import Fault, Plan
from .server import PaymentServer

POLL_S = 0.2
"""How soon an orphan without a lifeline notices."""

_SHARES: dict[str, tuple[Fault, str]] = {
    "--errors": ("error", "answered with 503, not charged"),
    "--errors-after": ("error-after", "charged, then answered with 500"),
    "--hang": ("hang", "neither charged nor answered, until the client goes away"),
    "--drop": ("drop", "charged, then the connection closes without an answer"),
    "--late": ("late", "the connection closes without an answer, charged --late-ms later"),
}


def main(arguments: list[str] | None = None) -> int:
    """Serves; the exit code is one of `Exit`."""
    lifeline.hold(os.environ)
    options = _parser().parse_args(arguments)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    try:
        plan = _plan(options)
        book = OpenBook(options.file)
    except BookHeld as held:
        return _refuse(Exit.BUSY, str(held))
    except (BookBroken, OSError, ValueError) as error:
        return _refuse(Exit.USAGE, str(error))
    try:
        server = PaymentServer(options.port, Desk(book, plan, once=options.dedupe))
    except (OSError, OverflowError) as error:
        book.close()
        return _refuse(Exit.USAGE, f"port {options.port} cannot be listened at: {error}")
    try:
        with server:
            print(server.url, flush=True)
            server.serve_forever(POLL_S)
    finally:
        book.close()
    return Exit.DONE


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(Exit.DONE)


def _refuse(code: Exit, message: str) -> int:
    sys.stderr.write(f"payments: {message}\n")
    return code


def _plan(options: argparse.Namespace) -> Plan:
    return Plan(
        seed=options.seed,
        shares={fault: getattr(options, fault) for fault, _ in _SHARES.values()},
        look_up_errors=options.look_up_errors,
        slow_ms=options.slow,
        late_ms=options.late_ms,
        hang_ms=options.hang_ms,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m wakeful.deploy.demo.payments",
        description="A payment service that charges the same key twice. SHARE is 0 to 1, of the refunds.",
        allow_abbrev=False,
    )
    parser.add_argument("--file", type=Path, required=True, help="the book: a line per charge")
    parser.add_argument("--port", type=int, default=0, help="0: the system chooses")
    parser.add_argument("--dedupe", action="store_true", help="honour keys: charge each once")
    parser.add_argument("--seed", type=int, default=0, help="another seed hits other requests")
    for flag, (fault, help_) in _SHARES.items():
        parser.add_argument(flag, dest=fault, type=float, default=0.0, metavar="SHARE", help=help_)
    parser.add_argument(
        "--look-up-errors",
        type=float,
        default=Plan().look_up_errors,
        metavar="SHARE",
        help="of the look-ups, answered with 503",
    )
    for flag, default, help_ in (
        ("--slow", Plan().slow_ms, "charged at once, answered so much later"),
        ("--late-ms", Plan().late_ms, "how late --late charges"),
        ("--hang-ms", Plan().hang_ms, "when --hang gives up on a patient client"),
    ):
        parser.add_argument(flag, type=int, default=default, metavar="MS", help=help_)
    return parser


if __name__ == "__main__":
    sys.exit(main())
