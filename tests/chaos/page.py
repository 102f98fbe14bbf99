"""docs/chaos.md: what a chaos run is, the table of what came of the last one, and what chaos would not have found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from tests.chaos.faults import FAULTS
from tests.chaos.run import Met, Result
from wakeful.deploy.simulation.on_kafka import KINDS, TRIED, notes

HEAD = """# Chaos

`make chaos MINUTES=20 SEED=7` starts a Kafka, a Postgres and a Redis of its own, three processors, three workers and a projector under a supervisor, and a payment service that charges a key as often as it is asked
to and loses answers. Clients open sessions that pay, ask for approval, sleep, hand out jobs and open children, and what must come of each is known beforehand. Meanwhile it inflicts the faults below, in an order that follows from
the seed: all of them come before any comes again. It needs a checkout ([ARCHITECTURE.md](ARCHITECTURE.md) has what each process does, [semantics.md](semantics.md) what is promised).

This page is written by that command, whatever it has found.

"""

LAST = "## The last run\n\n"

CHECKED = """## What is checked

After each fault a session is opened in each partition, and must end: the time from the fault's end to that is the recovery. Then the views must show it. A reader of committed events runs all the while, on connections of its own: it
must see each (session, seq) once, in order, and nothing that is not there at the end. Each run of four minutes ends with everything healed, and then

- every session has ended, with the outcome that was expected of its kind; who was in doubt has been answered from the payment service's book;
- that book has each refund once, with the receipt that the log has; of those without a look-up at most once, and none that failed for certain;
- all that `wakeful audit invariants --quiescent` judges holds, by the same checks ([audit.md](audit.md#which-invariants-hold-and-by-what)): nothing is lost, doubled, torn or stranded, and the views equal a rebuild;
- at least two sessions have ended for each fault.

Where something is found the command exits with 1, keeps the logs, the journal of faults and the violations in `chaos/<seed>` of `WAKEFUL_HOME`, and prints the command that repeats it. The order of faults and what is drawn in them
repeats; how processes interleave does not. A child that was killed rests half a second at most before it is started again, where `wakeful run` would let it rest longer and longer.

`make chaos-slice` is a short form with a fixed seed, which `.ci/run` has, too. `make test` has single faults of it: crash points of each process, commits that come late, and kills under payments. `make chaos-tests` has those in their
long form, and what takes minutes: a minute without a broker, a commit that outlives its transaction, members that come and go.

## What is not inflicted

- **The clock of the operating system.** Clocks step where Wakeful reads them, in all of its processes or in every other one; librdkafka, the broker and Postgres keep theirs.
  A worker that is started with a clock far ahead does not begin what is past its deadline by that, and the session goes on at the deadline by the log; where the clock leaps later, it goes by the time that has passed.
  `wakeful doctor` tells of such clocks.
- **`p.abandoned`, `p.starting` and `p.pending_offsets`**, which only a fault inside a fault leads to; the simulator crashes there. There are no crash points in the gateway, which keeps nothing; timers fire in the processors.
- **Two projectors side by side**: the views have one writer. A second one takes over, and the first ends: that is among the faults.
- **More than one broker**, a full disk, and deploys: `make chaos-tests` rolls a deploy over running sessions, the simulator meets versions by the thousand.

"""


def page_of(told: str) -> str:
    """The whole page around what is told of a run."""
    return HEAD + told + CHECKED + "\n".join(of_mutants()) + "\n"


def write_page(path: Path, results: Sequence[Result], day: str) -> None:
    """Writes it; without results, what it told of the last run stays, and the rest is made anew."""
    if results:
        told = "\n".join(last_run(results, day)) + "\n\n"
    else:
        before = path.read_text(encoding="utf-8")
        told = LAST + before.partition(LAST)[2].partition("## What is checked\n")[0]
    path.write_text(page_of(told), encoding="utf-8")


def last_run(results: Sequence[Result], day: str) -> Iterator[str]:
    """The numbers and the table of one call of the command."""
    faults = sum(len(result.faults) for result in results)
    seeds = ", ".join(str(result.seed) for result in results)
    minutes = sum(result.seconds for result in results) / 60
    yield LAST.rstrip()
    yield ""
    yield (
        f"{day}, seeds {seeds}, {minutes:.0f} minutes: {faults} faults, {sum(r.ends for r in results)} ends of processes, "
        f"{sum(r.sessions for r in results)} sessions, {sum(r.events for r in results)} events, "
        f"{sum(r.doubts for r in results)} refunds that somebody had to look up, {sum(len(r.found) for r in results)} violations. "
        "Recovery is in seconds, on a machine that is busy with other things; most of it is the time in which a process starts."
    )
    yield ""
    yield from table_of(results)
    broken = [(result.seed, told) for result in results for told in result.found]
    if broken:
        yield ""
        yield "Found, and kept with its logs:"
        yield ""
        yield from (f"- seed {seed}: {told.splitlines()[-1]}" for seed, told in broken)


def table_of(results: Sequence[Result]) -> Iterator[str]:
    """One line per fault, as Markdown: how often, how long all took to go on, and what was wrong."""
    found: dict[str, list[Met]] = {}
    for result in results:
        for met in result.faults:
            found.setdefault(met.name, []).append(met)
    yield "| fault | runs | first event after | all partitions after, median | longest | views after, longest | violations |"
    yield "|---|---|---|---|---|---|---|"
    for name in [fault.name for fault in FAULTS if fault.name in found]:
        mets = found[name]
        yield (
            f"| {name} | {len(mets)} | {median(m.first_s for m in mets):.1f} | {median(m.all_s for m in mets):.1f} | "
            f"{max(m.all_s for m in mets):.1f} | {max(m.views_s for m in mets):.1f} | {sum(bool(m.wrong) for m in mets)} |"
        )


def of_mutants() -> Iterator[str]:
    """What chaos would have found of the simulator's planted mistakes."""
    told = list(notes())
    chances = Counter(note.chance for _, _, note in told)
    yield "## What chaos would not have found"
    yield ""
    yield (
        f"The simulator has {len(told)} planted mistakes, and each dies in it. Would chaos on Kafka have found them? `likely`: what a mistake needs happens in every "
        f"run, and is checked ({chances['likely']}). `seldom`: it needs a moment that a run of minutes may not meet ({chances['seldom']}). `no`: neither load nor faults "
        f"bring it about ({chances['no']}). That is a judgement, but for those that were tried; "
        "`deploy/simulation/on_kafka.py` has it for each."
    )
    yield ""
    yield "| kind | mutants | likely | seldom | no | why not |"
    yield "|---|---|---|---|---|---|"
    for kind in KINDS:
        of_kind = Counter(kind.of(mutant).chance for mutant in kind.mutants)
        whys = dict.fromkeys(note.why for m in kind.mutants if (note := kind.of(m)).chance == "no")
        yield (
            f"| {kind.title} | {len(kind.mutants)} | {of_kind['likely']} | {of_kind['seldom']} | {of_kind['no']} | {'; '.join(whys)} |"
        )
    for chance in ("likely", "seldom"):
        yield ""
        yield f"| {chance} | why |"
        yield "|---|---|"
        for _, mutant, note in told:
            if note.chance == chance:
                yield f"| {mutant.name} | {note.why} |"
    if TRIED:
        yield ""
        yield "Tried, by `python -m tests.chaos --mutant NAME`, with the mistake in every process:"
        yield ""
        yield "| mutant | what came of it |"
        yield "|---|---|"
        for name, what in TRIED.items():
            yield f"| {name} | {what} |"
