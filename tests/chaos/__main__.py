"""`python -m tests.chaos`: faults by seed on a real Kafka, Postgres and Redis, and a table of what came of them."""

from __future__ import annotations

import argparse
import faulthandler
import os
import secrets
import shutil
import signal
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

from tests.chaos.page import table_of, write_page
from tests.chaos.run import Result, Say, run
from wakeful.deploy.stack.stack import Stack, stack_home

RUN_S = 240.0
"""Of one run; a longer time is given to several, each with a cluster and a seed of its own."""

SHOWN = 20


def main(arguments: list[str] | None = None) -> int:
    """Runs; 0 where nothing was found."""
    options = _parser().parse_args(arguments)
    faulthandler.register(signal.SIGUSR1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was started is ended
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    left_s = options.minutes * 60
    began_s, results = monotonic(), list[Result]()

    def say(line: str) -> None:
        print(f"{monotonic() - began_s:6.0f} s  {line}", flush=True)

    while left_s > 0:
        seconds = left_s if left_s < RUN_S * 1.5 else RUN_S
        folder = stack_home(os.environ).absolute() / "chaos" / str(seed)
        _clear(folder)
        folder.mkdir(parents=True)
        say(f"seed {seed}, {seconds:.0f} s, logs in {folder}")
        result = _run(seed, seconds, folder, options, say)
        results.append(result)
        left_s -= seconds
        if result.holds and not options.keep:
            _clear(folder)
        if not result.holds:
            _tell(result, folder, seconds, options)
            break
        seed += 1
    print("\n".join(table_of(results)))
    if options.write is not None:
        write_page(options.write, results, datetime.now(UTC).date().isoformat())
    return 0 if all(result.holds for result in results) else 1


def _clear(folder: Path) -> None:
    """Removes what a run has left, also where its database lies elsewhere."""
    Stack(folder / "stack", environ={}).reset()
    shutil.rmtree(folder, ignore_errors=True)


def _run(seed: int, seconds: float, folder: Path, options: argparse.Namespace, say: Say) -> Result:
    """One run; what broke it off is a finding, and can be repeated like any other."""
    try:
        return run(
            seed,
            seconds,
            folder,
            say=say,
            only=options.faults,
            short=options.short,
            mutant=options.mutant,
        )
    except Exception:
        return Result(seed, violations=[f"the run broke off: {traceback.format_exc()}"])


def _tell(result: Result, folder: Path, seconds: float, options: argparse.Namespace) -> None:
    found = result.found
    for sentence in found[:SHOWN]:
        print(f"  {sentence}")
    if len(found) > SHOWN:
        print(f"  and {len(found) - SHOWN} more")
    (folder / "violations.txt").write_text("\n".join(found) + "\n")
    also = f" --faults {options.faults!r}" if options.faults else ""
    also += " --short" if options.short else ""
    print(f"logs, journal and violations: {folder}")
    print(f"again: python -m tests.chaos --minutes {seconds / 60:g} --seed {result.seed}{also}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument(
        "--minutes",
        type=float,
        default=20.0,
        help="how long, without the checks at the end of each run; 0 makes the page anew around the last run",
    )
    parser.add_argument("--seed", type=int, help="of the first run; each next one has the next")
    parser.add_argument(
        "--faults", help="only faults with one of these words in their names, with commas"
    )
    parser.add_argument(
        "--short", action="store_true", help="no faults that take half a minute or more"
    )
    parser.add_argument("--keep", action="store_true", help="the logs also where nothing was found")
    parser.add_argument("--write", type=Path, help="the page to write")
    parser.add_argument(
        "--mutant", help="with this one of the simulator's planted mistakes: it should be found"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
