"""Sends one command and tells what became of it: shared by all commands that ask for something."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..exits import Exit, Stopped
from ..settings import Settings
from .context import CHANNEL, client, kafka

if TYPE_CHECKING:
    from ...commands.client import Client
    from ...commands.sending import Receipt
    from ...events.log.protocol import Log
    from ..telling.watching import Rest, Verdict, Watch
    from .fates import Fate

DECIDED_MS = 5_000
"""How long a command's fate is awaited: processors that run answer in a fraction of it."""

WAIT_MAX_S = 7 * 24 * 3600
"""The longest wait: no terminal stays open longer, and infinity is no number of milliseconds."""

UNKNOWN = ("unknown_session", "unknown_proposal")
"""Refusals that mean that there is no such thing."""

NEXT_STEPS = {
    "not_uncertain": "see 'wakeful activity list {session_id}'",
    **dict.fromkeys(
        ("unknown_job", "job_completed", "job_failed", "job_expired", "job_withdrawn"),
        "see 'wakeful job list {session_id}'",
    ),
    "already_settled": "see 'wakeful activity list {session_id}'",
    "wrong_result": "give --completed what the tool would have returned",
    "not_held": "see 'wakeful session show {session_id}'",
}
"""What to do about refusals whose own words do not say it."""


def _not_both(context: typer.Context, value: bool) -> bool:  # noqa: FBT001 as the parser calls it
    from . import typed

    other = context.params.get("detach") or context.params.get("wait")
    typed.wait_or_detach(wait=value, detach=bool(other))
    return value


def named(parameter: typer.CallbackParam, value: str | None) -> str | None:
    """Refuses an id or a name that no record can hold, by the name of its option."""
    from ...commands import inputs

    return None if value is None else inputs.name(parameter.opts[0], value)


def of_session(value: str | None) -> str | None:
    """The same for the id of a session."""
    from ...events.keys import check_id

    return None if value is None else check_id("session id", value)


def one_session(argument: str | None, option: str | None) -> str | None:
    """The session of a list that takes it in either way; `Stopped` where the two name different ones."""
    if None not in (argument, option) and argument != option:
        raise Stopped(
            Exit.USAGE, f"sessions {argument} and {option} are both named: give one of them"
        )
    return argument if option is None else option


OfSession = Annotated[
    str | None,
    typer.Argument(
        metavar="[SESSION]", help="Of one session.", show_default=False, callback=of_session
    ),
]
OnlySession = Annotated[
    str | None,
    typer.Option("--session", help="Of one session, as an option.", callback=of_session),
]
SessionId = Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")]
ExpectedSeq = Annotated[
    int | None,
    typer.Option(
        min=0, max=2**63 - 1, help="Refuse unless the session's last event has this number."
    ),
]
CommandId = Annotated[
    str | None,
    typer.Option("--command-id", help="Your id of it: a repeat changes nothing.", callback=named),
]
Detach = Annotated[
    bool,
    typer.Option(
        "--detach",
        help="Return once Kafka has it, before it is decided.",
        callback=_not_both,
    ),
]
Wait = Annotated[
    bool,
    typer.Option(
        "--wait",
        "-w",
        help="Wait until the session rests, and show its replies.",
        callback=_not_both,
    ),
]
Timeout = Annotated[
    float, typer.Option(min=0.1, max=WAIT_MAX_S, help="Seconds that --wait may take.")
]
Actor = Annotated[
    str | None,
    typer.Option(
        help="Who asks, in the record. (default: WAKEFUL_ACTOR, else you)", callback=named
    ),
]


@dataclass(slots=True)
class Answer:
    """All that is known of a command: where it lies, its verdict, and where the session came to rest."""

    receipt: Receipt
    verdict: Verdict | None = None
    rest: Rest | None = None
    fate: Fate | None = None
    """Of the approval that it gave."""


def ask_and_tell(
    session_id: str,
    send: Callable[[Client], Receipt],
    *,
    done: str,
    actor: str | None,
    as_json: bool,
    detach: bool = False,
    wait: bool = False,
    timeout: float = 0.0,
    follow_message: bool = False,
    approves: str | None = None,
) -> int:
    """Asks with the settings of the environment, tells what became of it, and gives the exit code.

    `done` says in words what was applied. With `wait`, the rest of the session is awaited for `timeout` seconds: with
    `follow_message` that of the turn which takes what was sent. `approves` is the proposal that the command approves, or
    edits: what becomes of it is told.
    """
    from .context import settings

    answer = ask(
        settings(),
        session_id,
        send,
        actor=actor,
        detach=detach,
        wait_s=timeout if wait else None,
        follow_message=follow_message,
        approves=approves,
    )
    return finish(answer, as_json=as_json, done=done)


def ask(
    given: Settings,
    session_id: str,
    send: Callable[[Client], Receipt],
    *,
    actor: str | None = None,
    detach: bool = False,
    wait_s: float | None = None,
    follow_message: bool = False,
    approves: str | None = None,
    channel: str = CHANNEL,
) -> Answer:
    """Sends and awaits the verdict, and with `wait_s` the session's rest (that of the turn which takes what was sent).

    `approves` as of `ask_and_tell`. Of one vote of several no rest is awaited: the session waits on as before.
    """
    from ...events.keys import check_id

    check_id("session id", session_id)
    with kafka(given) as log, client(given, log, actor=actor, channel=channel) as asking:
        if detach:
            return Answer(send(asking))
        from ..telling.watching import Watch
        from .fates import fate_of

        with Watch(log, given.topics, given.tenant, session_id) as watch:
            receipt = send(asking)
            timeout_ms = max(DECIDED_MS, int((wait_s or 0) * 1000))
            verdict = _verdict(given, watch, receipt, timeout_ms)
            if verdict.kind == "repeat":
                verdict = _earlier(given, log, receipt) or verdict
            answer = Answer(receipt, verdict)
            if verdict.kind != "applied":
                return answer
            if approves is not None:
                answer.fate = fate_of(approves, watch.together())
            if wait_s is not None and not (answer.fate and answer.fate.is_one_vote):
                message_id = receipt.command_id if follow_message else None
                answer.rest = watch.rest(int(wait_s * 1000), message_id=message_id)
                if approves is not None:
                    answer.fate = fate_of(approves, answer.rest.facts)
            return answer


def _verdict(given: Settings, watch: Watch, receipt: Receipt, timeout_ms: int) -> Verdict:
    """The verdict; where a longer wait than usual is allowed, it is told once after the usual one that nobody decided yet."""
    from ...events.log.kafka_survey import committed_offsets
    from ...events.log.protocol import Place
    from ..processes import processors_group
    from ..telling.watching import awaited
    from .output import note

    def next_offset(place: Place) -> int:
        asked = committed_offsets(given.kafka_servers, processors_group(given), [place])
        return asked.get(place, 0)

    return awaited(
        watch,
        receipt,
        timeout_ms=timeout_ms,
        next_offset=next_offset,
        late_ms=DECIDED_MS,
        late=lambda: note(f"{_undecided(receipt)}; waiting on"),
    )


def _earlier(given: Settings, log: Log, receipt: Receipt) -> Verdict | None:
    """The refusal of the command that this one repeats; null where it was not refused."""
    from ...events.state import DEDUPE_MS
    from ..clock import SystemClock
    from ..telling.reading import refusal_of
    from ..telling.watching import Verdict

    since_ms = max(0, SystemClock().now_ms() - DEDUPE_MS)  # nothing older is known as a repeat
    session = (given.tenant, receipt.session_id)
    found = refusal_of(log, given.topics, session, receipt.command_id, since_ms)
    return None if found is None else Verdict("refused", found.reason, found.detail)


def finish(answer: Answer, *, as_json: bool, done: str) -> int:
    """Tells the answer and gives the exit code. `done` says in words what was applied."""
    from .output import note, write_json

    code, told = _judge(answer, done)
    if as_json:
        write_json(answer_json(answer))
        return code
    if answer.rest is not None:
        _show_rest(answer.rest)
    if code in (Exit.DONE, Exit.NOT_IN_TIME):
        note(told)
        return code
    raise Stopped(code, told)


def _judge(answer: Answer, done: str) -> tuple[Exit, str]:
    from ..telling.text import last_line

    session_id, verdict, rest = answer.receipt.session_id, answer.verdict, answer.rest
    if verdict is None:
        return Exit.DONE, f"kafka has it: command {answer.receipt.command_id}"
    if verdict.kind == "refused":
        code = Exit.NOT_FOUND if verdict.reason in UNKNOWN else Exit.REFUSED
        following = NEXT_STEPS.get(verdict.reason, "").format(session_id=session_id)
        told = "; ".join(filter(None, (verdict.detail, following)))
        return code, f"refused ({verdict.reason}): {told}"
    if verdict.kind == "undecided":
        return Exit.NOT_IN_TIME, _undecided(answer.receipt)
    if verdict.kind == "repeat":
        return Exit.DONE, "nothing changed: the session has had this command before"
    if verdict.kind == "kept":
        if verdict.reason:  # the session was held over this very command
            return Exit.REFUSED, (
                f"kept, and the session is held over it ({verdict.reason}: {last_line(verdict.detail)}): mend it, "
                f"restart 'wakeful run', then 'wakeful session release {session_id}', or end it with "
                f"'wakeful session cancel {session_id}'"
            )
        return Exit.DONE, (
            f"kept: session {session_id} is held and decides it once released; see 'wakeful session show {session_id}'"
        )
    if verdict.kind == "held":
        return Exit.REFUSED, (
            f"released, and held again at once ({verdict.reason}: {last_line(verdict.detail)}): "
            f"mend it, restart 'wakeful run', release again, or end it with 'wakeful session cancel {session_id}'"
        )
    if answer.fate is not None:
        from .fates import judged

        waits = _awaited(rest, session_id) if rest is not None and rest.obligations else ""
        found = judged(answer.fate, rest, session_id, done=done, waits=waits)
        if found is not None:
            return found
    if rest is None:
        return Exit.DONE, done
    if rest.status == "Failed":
        return Exit.REFUSED, f"the session failed: {last_line(rest.detail)}"
    if rest.status == "Held":
        return Exit.REFUSED, (
            f"the session is held ({last_line(rest.detail)}): mend it, then 'wakeful session release {session_id}', "
            f"or end it with 'wakeful session cancel {session_id}'"
        )
    if not rest.status:
        return Exit.NOT_IN_TIME, (
            f"the session has not come to rest in time: see 'wakeful session show {session_id}'"
        )
    if rest.status == "Waiting":
        return Exit.DONE, _awaited(rest, session_id)
    return Exit.DONE, f"{rest.status.lower()}{': ' + rest.detail if rest.detail else ''}"


def _undecided(receipt: Receipt) -> str:
    return (
        f"kafka has it as command {receipt.command_id}, and no processor has decided it yet: see with "
        "'wakeful status' whether 'wakeful run' is running; it needs not be sent again"
    )


def _awaited(rest: Rest, session_id: str) -> str:
    """What a waiting session wants of somebody, what came up last first, and how to give it."""
    from ..telling.words import wanting

    if rest.approvals:
        proposal = rest.approvals[-1]
        return (
            f"waiting for approval of {proposal.name} by {proposal.approver}: "
            f"'wakeful approval approve {proposal.proposal_id} --session {session_id}'"
        )
    for owed in reversed(rest.obligations):
        told = wanting(owed.kind, owed.id, owed.name, session_id, why=rest.doubts.get(owed.id, ""))
        if told:
            return told
    return f"waiting: {rest.detail}"


def _show_rest(rest: Rest) -> None:
    from ..telling.text import shown_text
    from ..telling.words import as_json

    for reply in rest.replies:
        typer.echo(shown_text(as_json(reply), 10_000))
    if rest.outcome is not None:
        typer.echo(f"outcome: {shown_text(as_json(rest.outcome), 10_000)}")


def answer_json(answer: Answer) -> dict[str, Any]:
    """The answer, as scripts and assistants read it."""
    from ..telling.words import as_json

    receipt, verdict, rest = answer.receipt, answer.verdict, answer.rest
    found: dict[str, Any] = as_json(receipt)
    if verdict is not None:
        found["verdict"] = verdict.kind
        if verdict.kind in ("refused", "held"):
            found |= {"reason": verdict.reason, "detail": verdict.detail}
    if answer.fate is not None and (answer.fate.void or answer.fate.is_one_vote):
        fate = answer.fate
        found |= {"void": fate.void or None, "superseded_by": fate.again, "one_vote": not fate.void}
    if rest is not None:
        found |= {
            "status": rest.status or None,
            "replies": [as_json(reply) for reply in rest.replies],
            "outcome": as_json(rest.outcome),
            "approvals": [
                {"proposal_id": a.proposal_id, "action": a.name, "digest": a.digest.hex()}
                for a in rest.approvals
            ],
        }
        if rest.obligations:
            found["waiting_for"] = as_json(rest.obligations)
        if rest.detail:
            found["detail"] = rest.detail
    return found
