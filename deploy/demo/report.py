"""What the run is worth: computed from the topics' events, the rows in Postgres and the outbox, and nothing else.

| field | from | must be |
|---|---|---|
| `messages` | the input | |
| `sessions_finished` | events and rows that both say Completed | `messages` |
| `model_calls` | start lines in the outbox | |
| `repeated_model_calls` | calls begun after their key's result was recorded | 0 |
| `interrupted_model_calls` | calls whose result never reached the log: cut by a kill | |
| `failed_model_calls` | calls that the model itself did not answer | |
| `answers` | files in the outbox | `messages` |
| `duplicate_answers` | answers of a session beyond its first | 0 |
| `lost_messages` | inputs without their text in the log, their answer, or their session's end | 0 |
| `approvals` | decided proposals, in events and rows alike | |
| `unapproved_answers` | costly answers that no recorded approval allowed | 0 |
| `kills` | processes that ended by SIGKILL while sessions were open | 2 or more |
| `refold_equals_views` | rows rebuilt from the events, against Postgres | true |
| `model_error` | the last failure of the model, for people | |
| `audit_violations` | what the audit of all topics found | 0 |

A result names the call that gave it, so which call was recorded is known without comparing clocks.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...events import records as r
from ...projections.audit.rebuild import differences, rebuild_rows
from ...projections.rows import APPROVALS, SESSIONS, Rows
from .messages import Incoming
from .outbox import Answer, CallLine
from .triage import GATED, send_answer, understand

KILLS_MIN = 2
PROBLEMS_MAX = 20
"""Sentences shown; a run that is broken in more ways says no more by listing them."""


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
    events: Sequence[r.Event]
    rows: Rows
    answers: Sequence[Answer]
    calls: Sequence[CallLine]
    kills: Sequence[Kill]
    violations: Sequence[str] = ()


@dataclass(slots=True)
class Report:
    """The numbers, and in words what is wrong with them."""

    messages: int = 0
    sessions_finished: int = 0
    model_calls: int = 0
    repeated_model_calls: int = 0
    interrupted_model_calls: int = 0
    failed_model_calls: int = 0
    answers: int = 0
    duplicate_answers: int = 0
    lost_messages: int = 0
    approvals: int = 0
    unapproved_answers: int = 0
    kills: int = 0
    refold_equals_views: bool = False
    audit_violations: int = 0
    model_error: str = ""
    problems: list[str] = field(default_factory=list)

    @property
    def kept(self) -> bool:
        """Whether every promise was kept."""
        return not self.problems


@dataclass(slots=True)
class _Told:
    """What the events say of one session."""

    texts: list[str] = field(default_factory=list)
    completed_ms: int | None = None
    names: dict[str, r.ActivityRequested] = field(default_factory=dict)
    results: dict[str, tuple[int, Any]] = field(default_factory=dict)
    decided: int = 0


def compute(evidence: Evidence) -> Report:
    """The report of this evidence."""
    told = _read(evidence)
    report = Report(messages=len(evidence.messages), audit_violations=len(evidence.violations))
    _sessions(report, evidence, told)
    _answers(report, evidence, told)
    _calls(report, evidence, told)
    report.model_error = _model_error(evidence, told)
    _approvals(report, evidence, told)
    _kills(report, evidence, told)
    _views(report, evidence)
    report.problems += [f"audit: {violation}" for violation in evidence.violations]
    del report.problems[PROBLEMS_MAX:]
    return report


def _read(evidence: Evidence) -> Mapping[str, _Told]:
    told: dict[str, _Told] = defaultdict(_Told)
    for event in evidence.events:
        session, body = told[event.envelope.session_id], event.body
        match body:
            case r.MessageReceived():
                session.texts.append(str(_json(body.message).get("text")))
            case r.ActivityRequested():
                session.names[body.activity_id] = body
            case r.ActivityCompleted():
                session.results[body.activity_id] = (event.envelope.at_ms, _json(body.result))
            case r.ApprovalGranted() | r.ApprovalRejected():
                session.decided += 1
            case r.SessionCompleted():
                session.completed_ms = event.envelope.at_ms
            case _:
                pass  # says nothing that the report counts
    return told


def _sessions(report: Report, evidence: Evidence, told: Mapping[str, _Told]) -> None:
    rows = evidence.rows.get(SESSIONS, {})
    answered = Counter(answer.session_id for answer in evidence.answers)
    for message in evidence.messages:
        session = told.get(message.session_id, _Told())
        row = rows.get((evidence.tenant, message.session_id), {})
        finished = session.completed_ms is not None and row.get("status") == "Completed"
        report.sessions_finished += finished
        missing = [
            *(
                ["its text is not in the log once"]
                if session.texts != [_as_stored(message)]
                else []
            ),
            *(["it has no answer"] if not answered[message.session_id] else []),
            *(["its session has not finished"] if not finished else []),
        ]
        if missing:
            report.lost_messages += 1
            report.problems.append(f"message {message.line} is lost: {', '.join(missing)}")


def _answers(report: Report, evidence: Evidence, told: Mapping[str, _Told]) -> None:
    report.answers = len(evidence.answers)
    per_session = Counter(answer.session_id for answer in evidence.answers)
    for session_id, count in per_session.items():
        if count > 1:
            report.duplicate_answers += count - 1
            report.problems.append(f"session {session_id} has {count} answers")
    if report.answers != report.messages:
        report.problems.append(f"{report.messages} messages have {report.answers} answers")
    for answer in evidence.answers:
        request = _request_of(answer, told)
        if request is None:
            report.problems.append(f"answer {answer.key} was never asked for")
        elif answer.kind in GATED and request.approval != "granted":
            report.unapproved_answers += 1
            report.problems.append(
                f"answer {answer.key} ({answer.kind}) went out without an approval"
            )


def _request_of(answer: Answer, told: Mapping[str, _Told]) -> r.ActivityRequested | None:
    session = told.get(answer.session_id, _Told())
    for request in session.names.values():
        if request.name == send_answer.name and request.idempotency_key == answer.key:
            return request
    return None


def _calls(report: Report, evidence: Evidence, told: Mapping[str, _Told]) -> None:
    recorded = {
        request.idempotency_key: (at_ms, str(result.get("call")))
        for session in told.values()
        for activity_id, (at_ms, result) in session.results.items()
        if (request := session.names.get(activity_id)) and request.name == understand.name
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
            report.problems.append(
                f"the model was asked again for {line.key}, whose result was recorded"
            )
        elif line.call in failed:
            report.failed_model_calls += 1
        else:
            report.interrupted_model_calls += 1
    report.model_calls = len(started)
    for key, (_, call) in recorded.items():
        if started.get(call) != key:
            report.problems.append(f"the result of {key} names call {call!r}, which nobody noted")


def _model_error(evidence: Evidence, told: Mapping[str, _Told]) -> str:
    for event in reversed(evidence.events):
        if isinstance(event.body, r.ActivityFailed):
            request = told[event.envelope.session_id].names.get(event.body.activity_id)
            if request is not None and request.name == understand.name:
                return event.body.failure.message
    return ""


def _approvals(report: Report, evidence: Evidence, told: Mapping[str, _Told]) -> None:
    report.approvals = sum(session.decided for session in told.values())
    rows = evidence.rows.get(APPROVALS, {}).values()
    in_views = sum(row["status"] in ("granted", "rejected") for row in rows)
    if in_views != report.approvals:
        report.problems.append(
            f"the log has {report.approvals} decided approvals, Postgres has {in_views}"
        )


def _kills(report: Report, evidence: Evidence, told: Mapping[str, _Told]) -> None:
    ended = [session.completed_ms for session in told.values() if session.completed_ms is not None]
    last_ms = max(ended, default=0)
    report.kills = sum(kill.at_ms < last_ms for kill in evidence.kills)
    if report.kills < KILLS_MIN:
        report.problems.append(
            f"{report.kills} processes were killed while sessions were open, expected {KILLS_MIN} or more"
        )


def _views(report: Report, evidence: Evidence) -> None:
    found = list(differences(evidence.rows, rebuild_rows(evidence.events)))
    report.refold_equals_views = not found
    report.problems += [f"{'/'.join(key)}: {told}" for _, key, told in found]


def _json(payload: r.Payload) -> dict[str, Any]:
    value = json.loads(payload.inline or b"{}")
    return value if isinstance(value, dict) else {}


def _as_stored(message: Incoming) -> str:
    """The text after a trip through JSON: halves of a character that stand side by side are one there."""
    return str(json.loads(json.dumps(message.text)))


def as_words(report: Report) -> Iterator[tuple[str, str]]:
    """The report for people: name and value."""
    for name, value in as_json(report).items():
        if name not in ("problems", "model_error"):
            yield (
                name.replace("_", " "),
                str(value).lower() if isinstance(value, bool) else str(value),
            )


def as_json(report: Report) -> dict[str, Any]:
    """The report as one object; `problems` is empty where every promise was kept."""
    return {name: getattr(report, name) for name in Report.__dataclass_fields__}
