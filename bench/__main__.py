"""`make bench`, or `python -m bench [MEASURE …]`: one JSON line per measure on stdout, and a table at the end on stderr.

    throughput  64 and 500 sessions open at once: steps per second, CPU per step by process
    latency     one session at a time: step to step, approval to next step
    parked      memory and CPU of sessions that wait, approvals out of them
    next_step   the next step of a session in memory, on disk, and after a restart
    recovery    kill -9 in the middle of work

docs/benchmarks.md says what each figure means.
"""

import argparse
from pathlib import Path

from bench import parked, recovery, turns
from bench.durability import CHOICES, in_force
from bench.measure import Report, say
from bench.rig import Bed, made_bed, rigged
from bench.table import table

MEASURES = ("throughput", "latency", "parked", "next_step", "recovery")
QUICK = {"n": 60, "window": [8, 32], "reps": 1, "parked": 60, "history": [10], "recovery": 40}
"""Whether all of it works, and nothing about speed."""


def main() -> None:
    """Runs what is asked for on a stack of its own."""
    asked = arguments()
    report = Report(asked.out)
    with made_bed(report) as bed:
        if {"throughput", "latency"} & set(asked.measures):
            for durability in asked.durability:
                steps(bed, asked, durability)
        if "parked" in asked.measures:
            parked.measure(bed, sessions=asked.parked)
        if "next_step" in asked.measures:
            parked.measure_next_step(bed, histories=asked.history, reps=asked.reps)
        if "recovery" in asked.measures:
            recovery.measure(bed, sessions=asked.recovery, reps=asked.reps)
            recovery.measure_calls(bed, reps=asked.reps)
    say("\n" + table(report.lines))


def steps(bed: Bed, asked: argparse.Namespace, durability: str) -> None:
    """What a step costs, at one durability, after a warm-up that lets the JVM compile."""
    name = f"turns-{CHOICES.index(durability)}"
    with rigged(bed, name, durability=durability, processors=asked.processors) as rig:
        found = in_force(bed.kafka, rig.settings.topics.events)
        if found != durability:
            raise RuntimeError(f"the broker keeps topics as {found}, asked for was {durability}")
        turns.warm_up(rig, max(asked.window))
        for rep in range(asked.reps):
            if "throughput" in asked.measures:
                for window in asked.window:
                    turns.throughput(rig, sessions=asked.n, window=window, rep=rep)
            if "latency" in asked.measures:
                turns.latency(rig, rep=rep)


def arguments() -> argparse.Namespace:
    """What was asked for; `--quick` gives small numbers to all that is not given."""
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("measures", nargs="*", metavar="MEASURE", help="all by default")
    parser.add_argument("--n", type=int, default=1_000, help="sessions of throughput")
    parser.add_argument("--window", type=int, nargs="+", default=[64, 500], help="open at once")
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--processors", type=int, default=1)
    parser.add_argument("--parked", type=int, default=1_500, help="sessions, and again as many")
    parser.add_argument("--history", type=int, nargs="+", default=[10, 100, 1_000])
    parser.add_argument("--recovery", type=int, default=200, help="sessions in flight")
    parser.add_argument("--durability", nargs="+", choices=CHOICES, default=list(CHOICES))
    parser.add_argument("--out", type=Path, help="a file to add the lines to")
    parser.add_argument("--quick", action="store_true", help="small numbers: does it all work?")
    if parser.parse_known_args()[0].quick:
        parser.set_defaults(**QUICK)
    asked = parser.parse_args()
    unknown = sorted(set(asked.measures) - set(MEASURES))
    if unknown:
        parser.error(f"no measure {', '.join(unknown)}: there are {', '.join(MEASURES)}")
    asked.measures = asked.measures or list(MEASURES)
    return asked


if __name__ == "__main__":
    main()
