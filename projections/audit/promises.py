"""The 39 invariants, one by one: which checks show each, what was looked at for it, and what no history can show.

The list is the product's own; `CHECKS` finds what is broken. What has no number there goes by its name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from .evidence import Violation
from .history import History

Verdict = Literal["holds", "in part", "broken", "nothing", "not judged"]
"""`in part`: as far as a history can show it. `nothing`: there was nothing of the kind."""

Need = Literal["views", "whole", "quiescent", "blobs", "canaries"]

WITHOUT: Mapping[Need, str] = {
    "views": "an export has no views: judge them on the cluster",
    "whole": "records of other sessions belong to these transactions: export the whole namespace",
    "quiescent": "something may run or be due: give --quiescent once all is quiet",
    "blobs": "payloads beside the log were not read: give --blobs",
    "canaries": "nobody said which secrets were planted: give them with --canaries",
}

Looked = tuple[str, tuple[str, ...]]
"""What was looked at, in words, and the counts that it is the sum of."""

EVENTS: Looked = ("events", ("events",))
SESSIONS: Looked = ("sessions", ("sessions",))
COMMANDS: Looked = ("commands", ("commands",))
TASKS: Looked = ("tasks", ("activities",))
OUTCOMES: Looked = ("outcomes", ("outcomes",))
RECORDS: Looked = ("records", ("events", "activities", "outcomes", "snapshots", "dead_letters"))
ACTIVITIES: Looked = ("activities", ("ActivityRequested",))
ATTEMPTS: Looked = ("attempts", ("ActivityRequested", "ActivityRetried", "ActivityReturned"))
PROPOSALS: Looked = ("proposals", ("ApprovalRequested",))
DECISIONS: Looked = (
    "decisions",
    ("ApprovalGranted", "ApprovalVoted", "ApprovalRejected", "ApprovalAnswered"),
)
WAITS: Looked = ("waits", ("SessionWaiting", "TurnCompleted"))
TIMERS: Looked = ("timers", ("TimerSet",))
ROWS: Looked = ("rows", ("rows",))
BOOK = "what a service did is in its own book"


@dataclass(frozen=True, slots=True)
class Promise:
    """One invariant. `shown_by` are the promises whose checks show it; `beyond` is what no history shows of it.

    `why_not` is why it is judged nowhere here; then nothing else is given.
    """

    number: int | str
    title: str
    shown_by: tuple[int | str, ...] = ()
    looks_at: tuple[Looked, ...] = ()
    needs: Need | None = None
    beyond: str = ""
    why_not: str = ""

    @property
    def name(self) -> str:
        """How people call it: `I14`, or its name."""
        return f"I{self.number}" if isinstance(self.number, int) else self.number


def _own(
    number: int | str,
    title: str,
    *looks_at: Looked,
    needs: Need | None = None,
    beyond: str = "",
    also: tuple[int | str, ...] = (),
) -> Promise:
    return Promise(number, title, (number, *also), looks_at, needs, beyond)


PROMISES: tuple[Promise, ...] = (
    _own(1, "events are numbered without a gap or a repeat", EVENTS, SESSIONS),
    _own(2, "every record of a session lies in the partition of its key", RECORDS, COMMANDS),
    _own(3, "every command was disposed of, once", COMMANDS),
    _own(4, "what was decided is below the committed offset, and all of it", COMMANDS),
    _own(5, "a command takes effect once", COMMANDS),
    _own(6, "an id that comes with another content is refused", COMMANDS),
    _own(7, "who expects a version meets that one", ("expectations", ("expected",))),
    _own(8, "a fold gives the states that were recorded", ("snapshots", ("snapshots",))),
    Promise(
        9,
        "folding again writes nothing and calls nobody",
        why_not="it is of the code, which folds without a log or a network at hand; no history shows it",
    ),
    _own(10, "each status follows another by an arrow of the lifecycle", EVENTS),
    _own(11, "the views show nothing that is not committed", ROWS, needs="views"),
    _own(12, "of a transaction all is there, or nothing", RECORDS, needs="whole"),
    _own(13, "each fact that asks for a task or an outcome has one, and back", TASKS, OUTCOMES),
    _own(14, "an activity ends once", ACTIVITIES),
    _own(15, "only the newest attempt decides", ATTEMPTS),
    _own(16, "the key of an effect is that of its step, in each attempt", ACTIVITIES, TASKS),
    _own(17, "what must not run twice does not", ACTIVITIES, also=("17c",), beyond=BOOK),
    _own(18, "recorded work is not begun again", ATTEMPTS, beyond=BOOK),
    Promise(
        19,
        "what is to be done is recorded before it is done",
        (12, 13),
        (TASKS,),
        beyond="when a service heard of it is in its own book",
    ),
    Promise(
        20,
        "attempts count up, and no two of them run",
        (15,),
        (ATTEMPTS,),
        beyond="leases in Redis are hints, and leave no trace; the attempt is the fence",
    ),
    _own(21, "timers fire once, and not before their time", TIMERS),
    _own(
        22,
        "a session that waits holds nothing of a worker",
        WAITS,
        beyond="memory and connections are the processes'",
    ),
    _own(23, "a proposal is decided once", PROPOSALS),
    _own(24, "what was approved is what runs", PROPOSALS, DECISIONS),
    _own(
        25,
        "nobody approves what is done for himself, and as many do as must",
        DECISIONS,
        beyond="what the policy of then said is in the control topic",
    ),
    _own(26, "what needs an approval starts after it", ACTIVITIES, PROPOSALS),
    _own(
        27,
        "who speaks is who was vouched for",
        EVENTS,
        beyond="whether a signature is right, processors have judged: they hold the keys",
    ),
    Promise(
        28,
        "key, envelope and row are of one tenant",
        (2, 11, 34),
        (SESSIONS, ROWS),
        beyond="what a login may read, 'wakeful doctor' tells",
    ),
    _own(29, "no secret is in any record or row", RECORDS, COMMANDS, ROWS, needs="canaries"),
    Promise(
        30,
        "credentials are resolved late",
        why_not="they are resolved in a worker's memory, and leave no trace",
    ),
    Promise(31, "what is erased is gone everywhere", why_not="nothing is erased: it is not built"),
    _own(32, "each event names the hash of the one before", EVENTS),
    _own(33, "the views are where their position says", ROWS, needs="views"),
    _own(34, "a rebuild gives the views", ROWS, needs="views"),
    Promise(
        35,
        "the ledger adds up to what the events say",
        (34,),
        (("ledger rows", ("rows of ledger",)),),
        "views",
    ),
    Promise(
        36,
        "Redis is optional",
        why_not="it takes two runs of the same commands, with Redis and without",
    ),
    _own(37, "what cannot be decided is put aside whole", ("letters", ("dead_letters",))),
    _own(38, "once all is quiet nobody is stranded", SESSIONS, needs="quiescent"),
    _own(
        39,
        "a stretch ends with nothing open, and the next goes on",
        ("stretches", ("TurnContinued",)),
    ),
    _own("labels", "what stands around an event's bytes says what they are", EVENTS),
    _own(
        "receiving",
        "messages and signals are taken once, in order",
        ("messages", ("MessageReceived", "SignalReceived", "TriggerReceived")),
    ),
    _own("attributes", "a session is found by the attributes that it has", SESSIONS),
    _own("jobs", "a job ends once", ("jobs", ("JobAwaited",))),
    _own("versions", "turns count up, on the version that is pinned", ("turns", ("TurnStarted",))),
    _own("recovery", "only what somebody named is given up", SESSIONS),
    _own("children", "a child is opened once, and ends once", ("children", ("ChildStarted",))),
    _own(
        "resources", "a session holds one of a kind at a time", ("resources", ("ResourceAttached",))
    ),
    _own("blobs", "what lies beside the log is there", EVENTS, needs="blobs"),
)


@dataclass(frozen=True, slots=True)
class Judgement:
    """How one promise stands: `looked_at` says how many of what were looked at, `why` why it was not judged, or not wholly."""

    promise: Promise
    verdict: Verdict
    looked_at: Mapping[str, int]
    why: str
    violations: int
    first: Violation | None


def judge(
    violations: Iterable[Violation], counts: Mapping[str, int], given: Collection[Need]
) -> list[Judgement]:
    """Each promise, by what an audit found and has looked at; `given` is what there was to judge by."""
    broken: dict[int | str, list[Violation]] = {}
    for violation in sorted(violations, key=lambda one: one.order):
        broken.setdefault(violation.invariant, []).append(violation)
    return [_judged(promise, broken, counts, given) for promise in PROMISES]


def _judged(
    promise: Promise,
    broken: Mapping[int | str, list[Violation]],
    counts: Mapping[str, int],
    given: Collection[Need],
) -> Judgement:
    found = [one for number in promise.shown_by for one in broken.get(number, ())]
    looked_at = {word: sum(counts.get(key, 0) for key in keys) for word, keys in promise.looks_at}
    verdict, why = _verdict(promise, found, looked_at, given)
    return Judgement(promise, verdict, looked_at, why, len(found), found[0] if found else None)


def _verdict(
    promise: Promise,
    found: list[Violation],
    looked_at: Mapping[str, int],
    given: Collection[Need],
) -> tuple[Verdict, str]:
    if found:
        return "broken", ""
    if promise.why_not:
        return "not judged", promise.why_not
    if promise.needs is not None and promise.needs not in given:
        return "not judged", WITHOUT[promise.needs]
    if not any(looked_at.values()):
        return "nothing", "there is nothing of the kind"
    return ("in part", promise.beyond) if promise.beyond else ("holds", "")


def looked_at(history: History) -> Counter[str]:
    """How much of what there is to look at: sessions, events by type, expectations, and rows, in all and by table."""
    found = Counter(type(fact.event.body).__name__ for fact in history.facts)
    found["sessions"] = len(history.sessions)
    found["expected"] = sum(
        asked is not None and asked.expected_seq is not None for _, asked in history.requests
    )
    for table, rows in (history.evidence.rows or {}).items():
        found[f"rows of {table}"] = len(rows)
        found["rows"] += len(rows)
    return found
