"""The report is green for a clean run, and red for each planted fault."""

from dataclasses import replace

import pytest

from wakeful.deploy.demo.papers import CallLine
from wakeful.deploy.demo.report import Promises, Report, as_json, as_words, compute
from wakeful.events import records as r
from wakeful.projections.rows import APPROVALS, LEDGER, SESSIONS

from .evidence import changed, clean, payload


def red(report: Report, **numbers) -> str:
    """Checks these numbers and that the report says so; gives its sentences."""
    assert not report.kept
    assert {name: getattr(report, name) for name in numbers} == numbers
    return "\n".join(report.problems)


def nothing(_body) -> None:
    """Takes an event out."""


def test_a_clean_run_is_green() -> None:
    report = compute(clean())
    assert report.problems == []
    assert as_json(report) == {
        "messages": 3,
        "completed_turns": 3,
        "asked_back": 1,
        "model_calls": 3,
        "repeated_model_calls": 0,
        "interrupted_model_calls": 0,
        "failed_model_calls": 0,
        "refunds_due": 2,
        "charges": 2,
        "duplicate_charges": 0,
        "recovered_by_lookup": 1,
        "letters": 2,
        "lost_messages": 0,
        "duplicate_answers": 0,
        "approvals": 1,
        "kills": 2,
        "ledger_rows": 9,
        "refold_equals_views": True,
        "audit_violations": 0,
        "seconds": 2.1,
        "model_error": "",
        "problems": [],
    }
    assert dict(as_words(report))["refold equals views"] == "true"


def test_a_second_charge_of_a_refund_is_a_duplicate() -> None:
    evidence = clean()
    again = evidence.charges[0].model_copy(update={"id": "ch_9"})
    report = compute(replace(evidence, charges=[*evidence.charges, again]))
    assert red(report, charges=3, duplicate_charges=1) == (
        "order 1 was charged 2 times: ch_1, ch_9"
    )


def test_a_refund_that_is_due_and_was_not_charged_is_told() -> None:
    evidence = clean()
    told = red(compute(replace(evidence, charges=evidence.charges[1:])), refunds_due=2, charges=1)
    assert told == "the refund of order 1 is due and was not charged"


def test_a_charge_of_another_sum_is_told() -> None:
    evidence = clean()
    wrong = [evidence.charges[0].model_copy(update={"cents": 1}), evidence.charges[1]]
    assert "paid 1 cents for order 1, due were 25000" in red(
        compute(replace(evidence, charges=wrong))
    )


def test_a_large_refund_that_nobody_approved_was_never_due() -> None:
    evidence = changed(
        clean(), r.ApprovalGranted, lambda body: r.ApprovalRejected(body.proposal_id, b"d", "")
    )
    told = red(compute(evidence), refunds_due=1, charges=2, duplicate_charges=0)
    assert "ch_1 for order 1 was never due" in told


def test_an_order_found_twice_is_due_once() -> None:
    evidence = clean()
    same = {"id": "1", "item": "cup", "cents": 2_500}
    first, last = (e for e in evidence.events if getattr(e.body, "activity_id", "") == "1.2")
    asked = [replace(first.body, activity_id="1.9", step=9), replace(last.body, activity_id="1.9")]
    asked[1] = replace(asked[1], result=payload(same))
    events = [*evidence.events, *(replace(first, body=body) for body in asked)]
    assert compute(replace(evidence, events=events)).refunds_due == 2


def test_a_refund_without_its_letter_is_told() -> None:
    evidence = clean()
    told = red(compute(replace(evidence, letters=evidence.letters[1:])), letters=1)
    assert told == "1 letters are not one for each of 2 refunds"


def test_a_second_letter_for_one_refund_is_told() -> None:
    evidence = clean()
    two = [evidence.letters[0], replace(evidence.letters[0], key="local/s00001/1/7")]
    assert "2 letters are not one for each of 2 refunds" in red(
        compute(replace(evidence, letters=two))
    )


def test_a_run_that_recovered_nothing_says_so_where_answers_get_lost() -> None:
    evidence = changed(
        clean(), r.ActivityCompleted, lambda body: replace(body, recovered=False), which=-2
    )
    told = red(compute(evidence), recovered_by_lookup=0)
    assert told == "0 refunds were recovered by a look-up, expected 1 or more"
    assert compute(replace(evidence, promises=Promises(recovered_min=0))).kept


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
    report = compute(changed(clean(), r.ReplySent, nothing))
    assert "message 1 is lost: it has no answer" in red(report, lost_messages=1)


def test_a_message_whose_turn_is_not_completed_is_lost() -> None:
    told = red(
        compute(changed(clean(), r.TurnCompleted, nothing, which=-1)),
        completed_turns=2,
        lost_messages=1,
    )
    assert "message 3 is lost: its turn is not completed" in told
    assert "3 messages have 2 completed turns" in told


def test_a_message_that_changed_on_its_way_is_lost() -> None:
    other = payload({"text": "something else"})
    report = compute(changed(clean(), r.MessageReceived, lambda body: replace(body, message=other)))
    assert "its text is not in the log" in red(report, lost_messages=1)


def test_a_message_that_nobody_knows_is_lost() -> None:
    evidence = clean()
    more = replace(evidence.messages[0], line=9)
    report = compute(replace(evidence, messages=[*evidence.messages, more]))
    assert "message 9 is lost" in red(report, messages=4, lost_messages=1)


def test_a_second_answer_is_told() -> None:
    evidence = clean()
    reply = next(event for event in evidence.events if isinstance(event.body, r.ReplySent))
    report = compute(replace(evidence, events=[*evidence.events, reply]))
    assert "message 1 has 2 answers" in red(report, duplicate_answers=1, lost_messages=0)


def test_turns_that_the_views_miss_are_told() -> None:
    evidence = clean()
    evidence.rows[SESSIONS]["local", "s00001"]["status"] = "Running"
    assert "3 completed turns, Postgres 2" in red(compute(evidence), completed_turns=3)


def test_views_that_differ_from_the_log_are_told() -> None:
    evidence = clean()
    row = evidence.rows[SESSIONS]["local", "s00001"]
    row["messages"] = 2
    assert "local/s00001" in red(compute(evidence), refold_equals_views=False)


def test_an_approval_that_the_views_miss_is_told() -> None:
    evidence = clean()
    evidence.rows[APPROVALS].clear()
    assert "Postgres has 0" in red(compute(evidence), approvals=1)


def test_an_activity_that_the_ledger_misses_is_told() -> None:
    evidence = clean()
    evidence.rows[LEDGER].popitem()
    assert "9 activities, the ledger has 8" in red(compute(evidence), ledger_rows=8)


def test_kills_after_the_last_answer_count_for_nothing() -> None:
    evidence = clean()
    late = [replace(kill, at_ms=99_000) for kill in evidence.kills]
    calm = replace(evidence, kills=late, promises=Promises(kills_min=0))
    assert "expected 2 or more" in red(compute(replace(evidence, kills=late)), kills=0)
    assert compute(calm).kept


def test_a_run_that_takes_too_long_is_told() -> None:
    evidence = clean()
    told = red(compute(replace(evidence, promises=Promises(seconds_max=2.0))), seconds=2.1)
    assert told == "it took 2.1 seconds, expected 2 or less"
    assert compute(replace(evidence, promises=Promises(seconds_max=None))).kept


def test_what_the_audit_found_turns_the_report_red() -> None:
    told = red(compute(replace(clean(), violations=["I14 a/b: twice"])), audit_violations=1)
    assert told == "audit: I14 a/b: twice"
