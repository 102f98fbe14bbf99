"""`python -m wakeful.deploy.simulation`: many seeds, then every planted mistake, then a short report."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from dataclasses import dataclass

from .met import FACTS, GATES, ROWS, unmet
from .mutants import MUTANTS
from .planting import Mutant
from .run import ARROWS, Arrow, Result, quiet, run_seed, run_seeds

FINDINGS_SHOWN = 5
ABSENT = "no session"


@dataclass(frozen=True, slots=True)
class Death:
    """How a mutant died: the seed, the promise it broke, and the sentence; without a seed it lives."""

    mutant: Mutant
    seed: int | None
    promise: str = ""
    sentence: str = ""


def main(arguments: list[str] | None = None) -> int:
    """Runs what was asked for; 0 when nothing was found and every mutant died."""
    options = _parser().parse_args(arguments)
    quiet()
    if options.seed is not None:
        return _one(options.seed, trace=options.trace, mutant=options.mutant)
    started = time.monotonic()
    total = Result()
    for result in run_seeds(range(options.first, options.first + options.seeds), jobs=options.jobs):
        total.add(result)
    seconds = time.monotonic() - started
    print(
        f"schedules      {total.schedules} in {seconds:.0f} s ({total.schedules / seconds:.0f}/s)"
    )
    _report(total)
    deaths = [] if options.no_mutants else [kill(mutant, options.seeds) for mutant in MUTANTS]
    _report_deaths(deaths)
    _report_findings(total)
    lives = [death for death in deaths if death.seed is None]
    return 1 if total.findings or lives or _report_dirty(deaths) else 0


def kill(mutant: Mutant, seeds: int) -> Death:
    """Looks for a seed that kills the mutant, its known one first."""
    for seed in (mutant.seed, *range(seeds)):
        findings = run_seed(seed, mistake=mutant.mistake, compare=False).findings
        if findings:
            return Death(mutant, *findings[0])
    return Death(mutant, None)


def _report_dirty(deaths: list[Death]) -> bool:
    """Whether a seed that is said to kill a mutant kills the engine without it, too."""
    seeds = {death.seed: death.mutant.name for death in deaths if death.seed is not None}
    dirty = {seed: run_seed(seed, compare=False).findings for seed in seeds}
    for seed, findings in dirty.items():
        if findings:
            print(f"  no proof     {seeds[seed]}: seed {seed} kills the right engine, too")
    return any(dirty.values())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m wakeful.deploy.simulation", description=__doc__
    )
    parser.add_argument("--seeds", type=_positive, default=2_000, help="how many schedules")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=_positive, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--no-mutants", action="store_true", help="leave the planted mistakes out")
    parser.add_argument("--seed", type=int, help="this one schedule only")
    parser.add_argument("--trace", action="store_true", help="print each of its steps")
    parser.add_argument("--mutant", help="with this planted mistake (any part of its name)")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is below 1")
    return number


def _one(seed: int, *, trace: bool, mutant: str | None) -> int:
    found = [m for m in MUTANTS if mutant is not None and mutant in m.name]
    if mutant is not None and not found:
        names = "\n  ".join(m.name for m in MUTANTS)
        print(f"no mutant is called {mutant!r}; there are:\n  {names}", file=sys.stderr)
        return 2
    say = print if trace else None
    result = (
        run_seed(seed, mistake=found[0].mistake, compare=False, trace=say)
        if found
        else run_seed(seed, trace=say)
    )
    for _, promise, sentence in result.findings:
        print(f"{promise}: {sentence}")
    print(f"seed {seed}: {result.steps} steps, {len(result.findings)} findings")
    return 1 if result.findings else 0


def _report(total: Result) -> None:
    counts = total.counts
    accepted = counts["commands"] - counts["commands refused"]
    print(f"steps          {total.steps}")
    print(f"sessions       {counts['sessions']}, events {counts['events']}")
    print(
        f"commands       {counts['commands']}: refused {counts['commands refused']}, others {accepted}"
    )
    print(f"attempts       {counts['attempts']}")
    for title in ("crash", "exit", "fault"):
        named = Counter(
            {
                name.partition(": ")[2]: n
                for name, n in counts.items()
                if name.startswith(title + ":")
            }
        )
        told = ", ".join(f"{name} {n}" for name, n in sorted(named.items()))
        print(f"{title + 'es' if title == 'crash' else title + 's':14} {named.total()}: {told}")
    walked = total.arrows & ARROWS
    print(f"arrows         {len(walked)} of {len(ARROWS)} walked")
    for arrow in sorted(ARROWS - walked, key=_name):
        print(f"  not walked   {_name(arrow)}")
    missing, wanted = unmet(counts), FACTS | ROWS | GATES
    print(f"facts, rows    {len(wanted) - len(missing & wanted)} of {len(wanted)} met")
    for name in sorted(missing):
        print(f"  not met      {name}")


def _report_deaths(deaths: list[Death]) -> None:
    if not deaths:
        return
    dead = [death for death in deaths if death.seed is not None]
    print(f"mutants        {len(dead)} of {len(deaths)} killed")
    for death in deaths:
        how = "LIVES" if death.seed is None else f"seed {death.seed}, {death.promise}"
        print(f"  {death.mutant.name:50} {how}")


def _report_findings(total: Result) -> None:
    if not total.findings:
        print("findings       none")
        return
    print(f"findings       {len(total.findings)}")
    for seed, promise, sentence in sorted(total.findings)[:FINDINGS_SHOWN]:
        print(f"  seed {seed} {promise}: {sentence}")
        print(f"    python -m wakeful.deploy.simulation --seed {seed} --trace")


def _name(arrow: Arrow) -> str:
    source, event, target = arrow
    return f"{source or ABSENT} --{event}--> {target}"


if __name__ == "__main__":
    sys.exit(main())
