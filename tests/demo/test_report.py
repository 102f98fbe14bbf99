"""The report is green for a clean run, and red for each planted fault."""

from dataclasses import replace

import pytest

from wakeful.deploy.demo.outbox import CallLine
from wakeful.deploy.demo.report import Report, as_json, as_words, compute
from wakeful.events import records as r
from wakeful.projections.rows import APPROVALS, SESSIONS

from .evidence import clean, with_text, without_events


def red(report: Report, **numbers) -> str:
    """Checks these numbers and that the report says so; gives its sentences."""
    assert not report.kept
    assert {name: getattr(report, name) for name in numbers} == numbers
    return "\n".join(report.problems)


def test_a_clean_run_is_green() -> None:
    report = compute(clean())
    assert report.problems == []
    assert as_json(report) == {
        "messages": 3,
        "sessions_finished": 3,
        "model_calls": 3,
        "repeated_model_calls": 0,
        "interrupted_model_calls": 0,
        "failed_model_calls": 0,
        "answers": 3,
        "duplicate_answers": 0,
        "lost_messages": 0,
        "approvals": 1,
        "unapproved_answers": 0,
        "kills": 2,
        "refold_equals_views": True,
        "audit_violations": 0,
        "model_error": "",
        "problems": [],
    }
    assert dict(as_words(report))["refold equals views"] == "true"


def test_a_second_answer_is_a_duplicate() -> None:
    evidence = clean()
    again = replace(evidence.answers[0], key=evidence.answers[0].key + "9")
    report = compute(replace(evidence, answers=[*evidence.answers, again]))
    assert "m00001 has 2 answers" in red(report, answers=4, duplicate_answers=1)


def test_an_answer_that_nobody_asked_for_is_told() -> None:
    evidence = clean()
    stray = replace(evidence.answers[0], key="local/m00001/9/9")
    assert "never asked for" in red(
        compute(replace(evidence, answers=[stray, *evidence.answers[1:]]))
    )


def test_a_call_after_its_result_was_recorded_is_a_repeat() -> None:
    evidence = clean()
    key = evidence.calls[0].key
    late = CallLine("start", "again", key, 5_000, 9)
    report = compute(replace(evidence, calls=[*evidence.calls, late]))
    assert f"asked again for {key}" in red(report, model_calls=4, repeated_model_calls=1)


@pytest.mark.parametrize("ended", [False, True])
def test_a_call_cut_before_its_result_was_recorded_is_no_repeat(ended: bool) -> None:
    evidence = clean()
    key = evidence.calls[0].key
    cut = [CallLine("start", "cut", key, 1_030, 6)]
    cut += [CallLine("end", "cut", key, 1_035, 6)] if ended else []
    report = compute(replace(evidence, calls=[*cut, *evidence.calls]))
    assert report.kept
    assert (report.model_calls, report.interrupted_model_calls) == (4, 1)


def test_a_call_that_the_model_refused_is_a_failed_one() -> None:
    evidence = clean()
    key = evidence.calls[0].key
    failed = [CallLine("start", "f", key, 1_030, 6), CallLine("failed", "f", key, 1_031, 6)]
    report = compute(replace(evidence, calls=[*failed, *evidence.calls]))
    assert report.kept
    assert report.failed_model_calls == 1


def test_a_result_without_its_call_is_told() -> None:
    evidence = clean()
    assert "which nobody noted" in red(compute(replace(evidence, calls=evidence.calls[2:])))


def test_a_message_without_an_answer_is_lost() -> None:
    evidence = clean()
    report = compute(replace(evidence, answers=evidence.answers[1:]))
    assert "message 1 is lost: it has no answer" in red(report, answers=2, lost_messages=1)


def test_a_message_whose_session_has_not_ended_is_lost() -> None:
    report = compute(without_events(clean(), "m00002", r.SessionCompleted))
    assert "message 2 is lost" in red(report, sessions_finished=2, lost_messages=1)


def test_a_message_that_changed_on_its_way_is_lost() -> None:
    report = compute(with_text(clean(), "something else"))
    assert "its text is not in the log" in red(report, lost_messages=1)


def test_a_message_that_nobody_knows_is_lost() -> None:
    evidence = clean()
    more = replace(evidence.messages[0], line=9)
    report = compute(replace(evidence, messages=[*evidence.messages, more]))
    assert "message 9 is lost" in red(report, messages=4, lost_messages=1)


def test_a_costly_answer_without_an_approval_is_told() -> None:
    evidence = clean()
    costly = replace(evidence.answers[1], kind="refund")
    told = red(
        compute(replace(evidence, answers=[evidence.answers[0], costly, evidence.answers[2]])),
        unapproved_answers=1,
    )
    assert "without an approval" in told


def test_views_that_differ_from_the_log_are_told() -> None:
    evidence = clean()
    row = evidence.rows[SESSIONS]["local", "m00001"]
    row["messages"] = 2
    assert "local/m00001" in red(compute(evidence), refold_equals_views=False)


def test_an_approval_that_the_views_miss_is_told() -> None:
    evidence = clean()
    evidence.rows[APPROVALS].clear()
    assert "Postgres has 0" in red(compute(evidence), approvals=1)


def test_kills_after_the_last_session_count_for_nothing() -> None:
    evidence = clean()
    late = [replace(kill, at_ms=99_000) for kill in evidence.kills]
    assert "expected 2 or more" in red(compute(replace(evidence, kills=late)), kills=0)


def test_what_the_audit_found_turns_the_report_red() -> None:
    told = red(compute(replace(clean(), violations=["I14 a/b: twice"])), audit_violations=1)
    assert told == "audit: I14 a/b: twice"
