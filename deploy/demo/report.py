"""What the run is worth: computed from the topics' events, Postgres, the payment service's book and the papers alone.

| field | from | must be |
|---|---|---|
| `messages` | the input | |
| `completed_turns` | `TurnCompleted` in the events, and the sessions in Postgres | `messages` |
| `asked_back` | replies that ask the customer for the order's number | |
| `model_calls` | start lines in the papers | |
| `repeated_model_calls` | calls begun after their key's result was recorded | 0 |
| `interrupted_model_calls` | calls whose result never reached the log: cut by a kill | |
| `failed_model_calls` | calls that the model itself did not answer | |
| `refunds_due` | orders found whose sum is small or was approved, each once | |
| `charges` | the payment service's book | `refunds_due`, one for each, of its sum |
| `duplicate_charges` | charges of a refund beyond its first | 0 |
| `recovered_by_lookup` | results that a look-up found, in the events | 1 or more, where answers get lost |
| `letters` | files in the papers | one per refund |
| `lost_messages` | inputs whose text is not in the log, or that have no answer or no completed turn | 0 |
| `duplicate_answers` | replies of a turn beyond its first | 0 |
| `approvals` | decided proposals, in events and rows alike | |
| `kills` | processes that ended by SIGKILL while there was work | 2 or more, but for --calm |
| `ledger_rows` | the ledger in Postgres | one per activity in the events |
| `refold_equals_views` | rows rebuilt from the events, against Postgres | true |
| `audit_violations` | what the audit of all topics found | 0 |
| `seconds` | from the first event to the last, by the log's clock | 120 or less, for the messages that come with it |
| `model_error` | the last failure of the model, for people | |

A result names the call that gave it, so which call was recorded is known without comparing clocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...events import records as r
from ...projections.audit.rebuild import differences, rebuild_rows
from ...projections.rows import APPROVALS, LEDGER, SESSIONS, Rows
from .account import Account, Due, accounts_of, as_stored
from .messages import Incoming
from .papers import CallLine, Letter
from .payments import Charge
from .refund_desk.desk import refund_desk

PROBLEMS_MAX = 20
"""Sentences shown; a run that is broken in more ways says no more by listing them."""


@dataclass(frozen=True, slots=True)
class Promises:
    """What is promised beyond what always is: it depends on how the run was asked for."""

    kills_min: int = 2
    recovered_min: int = 1
    seconds_max: float | None = 120.0


@dataclass(frozen=True, slots=True)
class Kill:
    """A process that was ended by SIGKILL, as its supervisor saw it."""

    process: str
    pid: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that a report is made from. `violations` are those of the audit, as sentences."""

    tenant: str
    messages: Sequence[Incoming]
    promises: Promises
    events: Sequence[r.Event]
    rows: Rows
    charges: Sequence[Charge]
    letters: Sequence[Letter]
    calls: Sequence[CallLine]
    kills: Sequence[Kill]
    violations: Sequence[str] = ()


@dataclass(slots=True)
class Report:
    """The numbers, and in words what is wrong with them."""

    messages: int = 0
    completed_turns: int = 0
    asked_back: int = 0
    model_calls: int = 0
    repeated_model_calls: int = 0
    interrupted_model_calls: int = 0
    failed_model_calls: int = 0
    refunds_due: int = 0
    charges: int = 0
    duplicate_charges: int = 0
    recovered_by_lookup: int = 0
    letters: int = 0
    lost_messages: int = 0
    duplicate_answers: int = 0
    approvals: int = 0
    kills: int = 0
    ledger_rows: int = 0
    refold_equals_views: bool = False
    audit_violations: int = 0
    seconds: float = 0.0
    model_error: str = ""
    problems: list[str] = field(default_factory=list)

    @property
    def kept(self) -> bool:
        """Whether every promise was kept."""
        return not self.problems


def compute(evidence: Evidence) -> Report:
    """The report of this evidence."""
    accounts = accounts_of(evidence.events)
    report = Report(messages=len(evidence.messages), audit_violations=len(evidence.violations))
    _messages(report, evidence, accounts)
    _turns(report, evidence, accounts)
    _money(report, evidence, accounts)
    _calls(report, evidence, accounts)
    _approvals(report, evidence, accounts)
    _kills(report, evidence, accounts)
    _views(report, evidence, accounts)
    _time(report, evidence)
    report.problems += [f"audit: {violation}" for violation in evidence.violations]
    del report.problems[PROBLEMS_MAX:]
    return report


def _messages(report: Report, evidence: Evidence, accounts: dict[str, Account]) -> None:
    for message in evidence.messages:
        account = accounts[message.session_id]
        turn = account.turns.get(message.message_id)
        replies = [] if turn is None else account.replies[turn]
        missing = [
            *(
                ["its text is not in the log once"]
                if account.texts[message.message_id] != [as_stored(message.text)]
                else []
            ),
            *(["it has no answer"] if not replies else []),
            *(["its turn is not completed"] if turn not in account.completed_ms else []),
        ]
        if missing:
            report.lost_messages += 1
            report.problems.append(f"message {message.line} is lost: {', '.join(missing)}")
        if len(replies) > 1:
            report.duplicate_answers += len(replies) - 1
            report.problems.append(f"message {message.line} has {len(replies)} answers")
        report.asked_back += any(reply.get("decision") == "asked back" for reply in replies)


def _turns(report: Report, evidence: Evidence, accounts: dict[str, Account]) -> None:
    report.completed_turns = sum(len(account.completed_ms) for account in accounts.values())
    if report.completed_turns != report.messages:
        told = f"{report.messages} messages have {report.completed_turns} completed turns"
        report.problems.append(told)
    rows = evidence.rows.get(SESSIONS, {}).values()
    asleep = sum(row["turn"] or 0 for row in rows if row["status"] == "Suspended")
    if asleep != report.completed_turns:
        told = f"the log has {report.completed_turns} completed turns, Postgres {asleep}"
        report.problems.append(f"{told} in sessions at rest")


def _money(report: Report, evidence: Evidence, accounts: dict[str, Account]) -> None:
    due = {one.place: one for account in accounts.values() for one in account.due}
    report.refunds_due, report.charges = len(due), len(evidence.charges)
    paid: dict[tuple[str, int], list[Charge]] = {}
    for charge in evidence.charges:
        paid.setdefault(_place(charge.key), []).append(charge)
    for place, charges in paid.items():
        _charged(report, due.get(place), charges)
    for place, one in due.items():
        if place not in paid:
            report.problems.append(f"the refund of order {one.order_id} is due and was not charged")
    report.letters = len(evidence.letters)
    if sorted(_place(letter.key) for letter in evidence.letters) != sorted(due):
        told = f"{report.letters} letters are not one for each of {report.refunds_due} refunds"
        report.problems.append(told)
    report.recovered_by_lookup = sum(account.recovered for account in accounts.values())
    if report.recovered_by_lookup < (wanted := evidence.promises.recovered_min):
        told = f"{report.recovered_by_lookup} refunds were recovered by a look-up"
        report.problems.append(f"{told}, expected {wanted} or more")


def _charged(report: Report, due: Due | None, charges: list[Charge]) -> None:
    named = ", ".join(charge.id for charge in charges)
    if len(charges) > 1:
        report.duplicate_charges += len(charges) - 1
        told = f"order {charges[0].order_id} was charged {len(charges)} times: {named}"
        report.problems.append(told)
    if due is None:
        report.problems.append(f"{named} for order {charges[0].order_id} was never due")
        return
    for charge in charges:
        if (charge.order_id, charge.cents) != (due.order_id, due.cents):
            told = f"{charge.id} paid {charge.cents} cents for order {charge.order_id}"
            report.problems.append(f"{told}, due were {due.cents} for {due.order_id}")


def _place(key: str) -> tuple[str, int]:
    """Session and turn of an idempotency key: `tenant/session/turn/step`."""
    _, session_id, turn, _ = key.split("/")
    return session_id, int(turn)


def _calls(report: Report, evidence: Evidence, accounts: dict[str, Account]) -> None:
    recorded = {
        key: (at_ms, str(result.get("id")))
        for account in accounts.values()
        for key, at_ms, result in account.results_of(refund_desk.thinks.name)
    }
    failed = {line.call for line in evidence.calls if line.at == "failed"}
    started: dict[str, str] = {}
    for line in evidence.calls:
        if line.at != "start":
            continue
        started[line.call] = line.key
        at_ms, call = recorded.get(line.key, (None, ""))
        if line.call == call:
            continue
        if at_ms is not None and line.ms > at_ms:
            report.repeated_model_calls += 1
            told = f"the model was asked again for {line.key}, whose result was recorded"
            report.problems.append(told)
        elif line.call in failed:
            report.failed_model_calls += 1
        else:
            report.interrupted_model_calls += 1
    report.model_calls = len(started)
    for key, (_, call) in recorded.items():
        if started.get(call) != key:
            report.problems.append(f"the result of {key} names call {call!r}, which nobody noted")
    asks = refund_desk.thinks.name
    errors = [told for account in accounts.values() for told in account.failures_of(asks)]
    report.model_error = errors[-1] if errors else ""


def _approvals(report: Report, evidence: Evidence, accounts: dict[str, Account]) -> None:
    report.approvals = sum(len(account.decisions) for account in accounts.values())
    rows = evidence.rows.get(APPROVALS, {}).values()
    in_views = sum(row["status"] in ("granted", "rejected") for row in rows)
    if in_views != report.approvals:
        told = f"the log has {report.approvals} decided approvals, Postgres has {in_views}"
        report.problems.append(told)


def _kills(report: Report, evidence: Evidence, accounts: dict[str, Account]) -> None:
    ends = [at_ms for account in accounts.values() for at_ms in account.completed_ms.values()]
    last_ms = max(ends, default=0)
    report.kills = sum(kill.at_ms < last_ms for kill in evidence.kills)
    if report.kills < (wanted := evidence.promises.kills_min):
        told = f"{report.kills} processes were killed while there was work"
        report.problems.append(f"{told}, expected {wanted} or more")


def _views(report: Report, evidence: Evidence, accounts: dict[str, Account]) -> None:
    report.ledger_rows = len(evidence.rows.get(LEDGER, {}))
    asked = sum(len(account.requests) for account in accounts.values())
    if report.ledger_rows != asked:
        told = f"the log has {asked} activities, the ledger has {report.ledger_rows}"
        report.problems.append(told)
    found = list(differences(evidence.rows, rebuild_rows(evidence.events)))
    report.refold_equals_views = not found
    report.problems += [f"{'/'.join(key)}: {told}" for _, key, told in found]


def _time(report: Report, evidence: Evidence) -> None:
    times = [event.envelope.at_ms for event in evidence.events]
    report.seconds = round((max(times) - min(times)) / 1000, 1) if times else 0.0
    wanted = evidence.promises.seconds_max
    if wanted is not None and report.seconds > wanted:
        report.problems.append(f"it took {report.seconds} seconds, expected {wanted:g} or less")


def as_words(report: Report) -> Iterator[tuple[str, str]]:
    """The report for people: name and value."""
    for name, value in as_json(report).items():
        if name not in ("problems", "model_error"):
            shown = str(value).lower() if isinstance(value, bool) else str(value)
            yield name.replace("_", " "), shown


def as_json(report: Report) -> dict[str, Any]:
    """The report as one object; `problems` is empty where every promise was kept."""
    return {name: getattr(report, name) for name in Report.__dataclass_fields__}
