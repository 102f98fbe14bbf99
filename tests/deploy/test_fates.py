"""What an approval led to is told: carried out, one vote of several, void, asked again, or never."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from tests.processors.desk import Hand
from tests.processors.test_gate import FREEZE, MINUTE_MS, STOP, later, policy, retrying

from wakeful.commands.sending import Receipt
from wakeful.deploy.cli.asking import Answer, finish
from wakeful.deploy.cli.fates import Fate, fate_of, judged
from wakeful.deploy.cli.watching import Rest, Verdict
from wakeful.deploy.exits import Exit, Stopped
from wakeful.events import records as r

RESTS = Rest("Suspended")
DIGEST = bytes(32)
PAYLOAD = r.Payload("json", b"1", None, b"", 1, None)


def told(
    fate: Fate, rest: Rest | None = RESTS, done: str = "approved", waits: str = ""
) -> tuple[Exit | None, str]:
    return judged(fate, rest, "s1", done=done, waits=waits) or (None, "")


def approved(hand: Hand) -> tuple[Fate, Sequence[r.EventBody]]:
    asked = hand.last(r.ApprovalRequested).proposal_id
    facts = hand.decide(actor="sue")
    return fate_of(asked, facts), facts


def test_what_no_approval_lets_go_exits_with_1_and_names_policy_and_set() -> None:
    hand = retrying()
    hand.handler.go_by(policy(FREEZE), 8)
    hand.wake()
    hand.handler.go_by(policy(STOP), 9)
    fate, _ = approved(hand)
    for rest in (None, RESTS):
        code, why = told(fate, rest)
        assert code == Exit.REFUSED
        assert "void, since refund may not be carried out: forbidden by stopped" in why
        assert f"(policy set {(policy(STOP).set_hash or b'').hex()[:16]})" in why
        assert "nobody is asked again" in why
        assert "'wakeful policy show'" in why
        assert "approval approve" not in why


def test_what_is_asked_again_exits_with_1_and_names_the_one_that_takes_its_place() -> None:
    hand = retrying()
    hand.handler.go_by(policy(FREEZE), 8)
    hand.wake()
    fate, _ = approved(hand)
    again = hand.last(r.ApprovalRequested).proposal_id
    code, why = told(fate, None)
    assert (code, fate.again) == (Exit.REFUSED, again)
    assert "forbidden by frozen" in why
    assert f"look at {again} in 'wakeful approval list --session s1'" in why


def test_what_was_carried_out_says_nothing_more() -> None:
    hand = retrying()
    hand.handler.go_by(policy(FREEZE), 8)
    hand.wake()
    hand.handler.go_by(policy(), 9)
    fate, facts = approved(hand)
    assert fate.activity_id == "1.3"
    fate = fate_of(fate.proposal_id, [*facts, *hand.result("1.3", "paid", attempt=2)])
    assert told(fate) == (None, "")
    failed = r.ActivityFailed("1.3", 2, r.Failure("raised", "ValueError", "no", ""), "w1")
    code, why = told(fate_of(fate.proposal_id, [*facts, failed]))
    assert (code, why) == (
        Exit.REFUSED,
        "approved, and activity 1.3 failed (raised: no): see 'wakeful explain s1'",
    )


def test_what_is_used_later_is_not_carried_out_yet() -> None:
    hand = Hand(later, workflow="later")
    hand.handler.go_by(policy(), 7)
    hand.open()
    fate, _ = approved(hand)
    hand.now_ms += MINUTE_MS
    waits = Rest("Waiting", "timer sleep")
    assert told(fate, waits, waits="for a signal") == (
        Exit.NOT_IN_TIME,
        "approved, and not carried out yet: for a signal",
    )
    assert told(fate, RESTS)[0] == Exit.REFUSED
    assert told(fate, None) == (None, "")
    assert told(fate, Rest()) == (None, "")  # it did not rest in time, which is told anyway


def test_a_doubt_is_told_with_the_way_out() -> None:
    facts = [
        r.ApprovalGranted("1.2-p", DIGEST, ""),
        r.ActivityRetried("1.3", 2),
        r.ActivityUncertain("1.3", 2, r.Failure("cut_off", "", "it died", ""), ""),
    ]
    code, why = told(fate_of("1.2-p", facts), Rest("Waiting"))
    assert code == Exit.REFUSED
    assert "'wakeful activity resolve s1 1.3 --completed JSON'" in why


@pytest.mark.parametrize(("rest", "code"), [(None, Exit.DONE), (Rest(), Exit.NOT_IN_TIME)])
def test_one_vote_says_that_others_must_approve(rest: Rest | None, code: Exit) -> None:
    fate = fate_of("1.2-p", [r.ApprovalVoted("1.2-p", DIGEST, "")])
    assert told(fate, rest) == (
        code,
        "approved, and others must approve 1.2-p as well: see 'wakeful approval list --session s1'",
    )


def asked(proposal_id: str, supersedes: str) -> r.ApprovalRequested:
    return r.ApprovalRequested(
        *(proposal_id, 1, 2, "refund", "write_idempotent", PAYLOAD, DIGEST, "boss", 9),
        supersedes=supersedes,
    )


def test_an_edit_is_followed_to_what_it_proposes() -> None:
    edit = [r.ApprovalVoided("1.2-p", "edited", ("sue changed it",)), asked("1.2.2-q", "1.2-p")]
    fate = fate_of("1.2-p", edit)
    assert "others must approve 1.2.2-q as well" in told(fate, None, "edited")[1]
    granted = [*edit, r.ApprovalGranted("1.2.2-q", DIGEST, "")]
    assert told(fate_of("1.2-p", granted), None, "edited") == (None, "")
    void = [*granted, r.ApprovalVoided("1.2.2-q", "authority", ("frozen",))]
    assert told(fate_of("1.2-p", void), None, "edited")[0] == Exit.REFUSED


def test_what_became_of_another_proposal_is_nothing_of_this_one() -> None:
    others = [r.ApprovalVoided("1.1-x", "authority", ("no",)), asked("1.1.2-y", "1.1-x")]
    assert fate_of("1.2-p", others) == Fate("1.2-p")


@pytest.mark.parametrize("as_json", [False, True])
def test_the_command_exits_by_it(capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    void = r.ApprovalVoided("1.2-p", "authority", ("frozen",))
    fate = fate_of("1.2-p", [r.ApprovalGranted("1.2-p", DIGEST, ""), void, asked("q", "1.2-p")])
    answer = Answer(Receipt("s1", "c1", 1, "t", 0, 0), Verdict("applied"), Rest("Waiting"), fate)
    if as_json:
        assert finish(answer, as_json=True, done="approved") == Exit.REFUSED
        shown = json.loads(capsys.readouterr().out)
        assert (shown["void"], shown["superseded_by"]) == ("frozen", "q")
        return
    with pytest.raises(Stopped, match="void, since frozen") as stopped:
        finish(answer, as_json=False, done="approved")
    assert stopped.value.code == Exit.REFUSED
