"""Whether a command may be applied: the resume checks, in their fixed order.

Identity and scope come first, then ordering (is it a repeat, is it too old), then freshness (does it name what is
current), then authority (`authority.py`). The first that fails is the refusal. Pure: the same session and command, the
same answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..events.blobs import Blobs, is_foreign, payloads_in, why_no_reference
from ..events.errors import InvalidPayload
from ..events.limits import KEPT_BYTES_MAX, KEPT_COMMANDS_MAX, PAYLOAD_MAX
from ..events.payloads import load_json
from ..events.records import Payload
from ..events.state import (
    CLOCK_SKEW_MS,
    DEDUPE_MS,
    MESSAGE,
    Head,
    OpenApproval,
    QueuedMessage,
    SessionState,
    State,
)
from ..events.verdicts import (
    APPROVE,
    COMPLETED,
    DECISIONS,
    EDIT,
    FAILED,
    REJECT,
    RESOLUTIONS,
    RESPOND,
    UNCERTAIN,
)
from . import jobs, recovering, repairs, runs
from . import models as m
from .actors import is_reserved
from .next_valid import why_ended, why_ending
from .policy import NOBODY, Policy
from .rollouts import NO_ROLLOUTS, Rollouts
from .succession import how_it_ended, in_its_place

NAME_LENGTH_MAX = 200
"""Characters of a name: a signal's or a trigger's, a workflow's or an activity's, and with the client any id, actor or channel."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the shell looks up once per transaction and the core may use; and the store of large payloads, if any.

    What the store holds cannot change, so asking it is no less a fact than what it was asked for.
    """

    digest_key: bytes
    control_offset: int | None = None
    blobs: Blobs | None = None
    policy: Policy = NOBODY
    rollouts: Rollouts = field(default_factory=lambda: NO_ROLLOUTS)


@dataclass(frozen=True, slots=True)
class Refusal:
    """The check that failed, the reason in one word, and a sentence with the next step.

    Refused at `identity` or `scope`: no event, so that strangers cannot grow a history.
    """

    check: str
    reason: str
    detail: str


def is_repeat(head: Head, command: m.Command, command_hash: bytes) -> bool:
    """Whether this very command (same id, same bytes) was disposed of before."""
    return any(
        s.command_id == command.header.command_id and s.command_hash == command_hash
        for s in head.dedupe
    )


def check_scope(command: m.Command) -> Refusal | None:
    """Whether all data that the command refers to is its own tenant's; by the names, no store is asked.

    And whether nobody speaks in a name that is the engine's own, nor sets to work for somebody else: what follows from a
    message is done with the rights of its actor, and is that one's own request.
    """
    tenant, actor = command.header.tenant, command.header.actor
    for_whom = command.header.on_behalf_of
    if not isinstance(command.body, m.INTERNAL) and is_reserved(actor):
        told = f"actor {actor[:NAME_LENGTH_MAX]!a} is a name of the engine's own: speak in another"
        return Refusal("identity", "forged_actor", told)
    if isinstance(command.body, m.SendMessage | m.StartTurn) and for_whom not in (None, actor):
        told = f"{actor[:NAME_LENGTH_MAX]!a} sets to work for {(for_whom or '')[:NAME_LENGTH_MAX]!a}: let that one be its actor"
        return Refusal("identity", "acts_for_another", told)
    for payload in payloads_in(command.body):
        if is_foreign(payload, tenant):
            told = f"reference {(payload.ref or '')[:NAME_LENGTH_MAX]!a} is not of tenant {tenant!r}: send your own data"
            return Refusal("scope", "foreign_payload", told)
    return None


def check(
    session: SessionState, command: m.Command, command_hash: bytes, now_ms: int
) -> Refusal | None:
    """The first check that an external command to an existing session fails; none if it may be applied."""
    return (
        _reused(session.head, command, command_hash)
        or check_age(session.head, command.header.issued_at_ms, now_ms)
        or _ended(session.state, command)
        or _expected_seq(session.head, command)
        or _freshness(session.state, command)
    )


def check_kept(session: SessionState, command: m.Command, command_hash: bytes) -> Refusal | None:
    """The same for a command kept while its session was held: its age was fine when it was kept."""
    return (
        _reused(session.head, command, command_hash)
        or _ended(session.state, command)
        or _expected_seq(session.head, command)
        or _freshness(session.state, command)
    )


def check_room(state: State, *, spare_commands: int = 0, spare_bytes: int = 0) -> Refusal | None:
    """Whether one more message or kept command has room; a flood must not grow a state without bound."""
    kept = len(state.queue) + len(state.parked) + len(state.signals)
    size = sum(map(queued_bytes, state.queue)) + sum(len(p.command) for p in state.parked)
    size += sum(_data_size(signal.data) + len(signal.signal_id) for signal in state.signals)
    if kept < KEPT_COMMANDS_MAX + spare_commands and size < KEPT_BYTES_MAX + spare_bytes:
        return None
    why = "release it first" if state.hold is not None else "wait until it has taken some"
    return Refusal(
        "freshness",
        "queue_full",
        f"{kept} commands of {size} bytes wait in this session already: {why}",
    )


def _reused(head: Head, command: m.Command, command_hash: bytes) -> Refusal | None:
    command_id = command.header.command_id
    for seen in head.dedupe:
        if seen.command_id == command_id and seen.command_hash != command_hash:
            told = f"command id {command_id!r} was used for another command: give each command its own id"
            return Refusal("ordering", "command_id_reused", told)
    return None


def check_age(head: Head, issued_at_ms: int, now_ms: int) -> Refusal | None:
    """Whether the command is young enough for dedupe to know if it was applied, and not from the future."""
    floor_ms = max(head.dedupe_floor_ms, now_ms - DEDUPE_MS)
    if issued_at_ms < floor_ms:
        told = (
            f"issued at {issued_at_ms}, before {floor_ms}: whether it was applied is no longer known; "
            "look at the session and issue it anew"
        )
        return Refusal("ordering", "too_old", told)
    if issued_at_ms > now_ms + CLOCK_SKEW_MS:
        told = f"issued at {issued_at_ms}, but the log's time is {now_ms}: set the sender's clock"
        return Refusal("ordering", "issued_in_future", told)
    return None


def _ended(state: State, command: m.Command) -> Refusal | None:
    if isinstance(command.body, m.OpenSession):
        told = (
            f"session {command.header.session_id!r} exists already (workflow {state.workflow!r}): "
            "send it a message, or open one with another id"
        )
        return Refusal("ordering", "already_open", told)
    if state.ended:
        return Refusal("freshness", "session_ended", why_ended(state))
    ending = why_ending(state, type(command.body).__name__)
    return Refusal("freshness", "session_ending", ending) if ending else None


def _expected_seq(head: Head, command: m.Command) -> Refusal | None:
    expected = command.header.expected_seq
    if expected is None or expected == head.seq:
        return None
    return Refusal(
        "freshness",
        "stale_state",
        f"expected state version {expected}, the session is at {head.seq}: look again",
    )


def _freshness(state: State, command: m.Command) -> Refusal | None:
    tenant = command.header.tenant
    match command.body:
        case m.SendMessage(message=payload):
            return _message(payload, tenant) or check_room(state)
        case m.DecideApproval() as decision:
            return _decision(state, decision, command.header)
        case m.SendSignal(name=name, data=payload):
            return _name("signal", name) or _message(payload, tenant) or check_room(state)
        case m.StartTurn(trigger=trigger, data=payload):
            return _trigger(trigger) or _message(payload, tenant) or check_room(state)
        case m.StartRun() as run:
            why = runs.why_not(state, run)
            return Refusal("freshness", *why) if why else check_room(state)
        case m.ResolveActivity() as resolving:
            return _resolution(state, resolving, tenant)
        case m.CompleteJob() as completing:
            refused = jobs.why_not(state, completing)
            if refused is not None:
                return Refusal(*refused)
            return None if completing.result is None else _message(completing.result, tenant)
        case m.ChangeArtifact() as change:
            return _change(state, change)
        case m.ResetSession() | m.PinSession() as repair if wrong := repairs.why_not(state, repair):
            return Refusal(*wrong)
        case m.RecoverSession() as asked if nothing := recovering.why_not(state, asked):
            return Refusal("freshness", *nothing)
        case m.ReleaseSession() if state.hold is None:
            told = f"the session is {state.status.lower()} and not held: there is nothing to release, go on without"
            return Refusal("freshness", "not_held", told)
        case _:
            return None


def _name(what: str, name: str) -> Refusal | None:
    if 1 <= len(name) <= NAME_LENGTH_MAX and name.isprintable():
        return None
    told = (
        f"{what} name {name[:NAME_LENGTH_MAX]!a}: use 1 to {NAME_LENGTH_MAX} printable characters"
    )
    return Refusal("freshness", "invalid_name", told)


def _trigger(trigger: str) -> Refusal | None:
    if trigger != MESSAGE:
        return _name("trigger", trigger)
    return Refusal(
        "freshness", "invalid_name", f"trigger {MESSAGE!r} is for messages: send one, or name it"
    )


def _resolution(state: State, body: m.ResolveActivity, tenant: str) -> Refusal | None:
    if body.resolution not in RESOLUTIONS:
        told = f"resolution {body.resolution[:NAME_LENGTH_MAX]!r} is neither {COMPLETED!r} nor {FAILED!r}: say which it was"
        return Refusal("freshness", "unknown_resolution", told)
    if any(u.activity_id == body.activity_id for u in state.uncertain):
        if (body.resolution == COMPLETED) == (body.result is not None):
            return None if body.result is None else _message(body.result, tenant)
        came, advice = (
            ("without", "give what it would have returned")
            if body.result is None
            else ("with", "leave the result out")
        )
        told = f"activity {body.activity_id!r} is resolved as {body.resolution!r} {came} a result: {advice}"
        return Refusal("freshness", "wrong_result", told)
    for past in reversed(state.settled):
        if past.activity_id == body.activity_id:
            told = f"activity {body.activity_id!r} is {past.outcome} already: nothing is left to resolve"
            if past.outcome == UNCERTAIN:
                told = (
                    f"activity {body.activity_id!r} does not wait to be resolved: its workflow was told "
                    "that it is uncertain, or its turn has ended since"
                )
            return Refusal("ordering", "already_settled", told)
    open_ids = ", ".join(u.activity_id for u in state.uncertain)
    told = (
        f"activity {body.activity_id!r} is not uncertain here (uncertain: {open_ids or 'none'}): "
    )
    told += "resolve one of these" if open_ids else "nothing is to be resolved"
    return Refusal("freshness", "not_uncertain", told)


def _message(payload: Payload, tenant: str) -> Refusal | None:
    """Whether a workflow could read it: one that cannot would hold the session, release after release.

    What a reference refers to is looked at when it is read: here no store is asked.
    """
    if payload.ref is not None:
        told = why_no_reference(payload, tenant)
        advice = "send the data inline, or put it into the store and refer to it as the client does"
        return (
            None if told is None else Refusal("freshness", "invalid_payload", f"{told}: {advice}")
        )
    if payload.inline is not None and len(payload.inline) > PAYLOAD_MAX:
        told = f"a message of {len(payload.inline)} bytes is over the limit of {PAYLOAD_MAX}: send a reference"
        return Refusal("freshness", "payload_too_large", told)
    try:
        load_json(payload)
    except InvalidPayload as error:
        return Refusal("freshness", "invalid_payload", f"{error}: send inline json, as UTF-8")
    return None


def queued_bytes(queued: QueuedMessage) -> int:
    """What a message that queues takes in a record, near enough."""
    texts = queued.message_id + queued.actor + queued.reason
    return _data_size(queued.message) + len(texts.encode())


def _data_size(payload: Payload) -> int:
    return len(payload.inline or b"") + len(payload.digest) + len((payload.ref or "").encode())


def _decision(state: State, decision: m.DecideApproval, header: m.CommandHeader) -> Refusal | None:
    if decision.decision not in DECISIONS:
        told = f"decision {decision.decision[:NAME_LENGTH_MAX]!r} is none of {', '.join(DECISIONS)}: say one of them"
        return Refusal("freshness", "unknown_decision", told)
    for proposal in state.approvals:
        if proposal.proposal_id == decision.proposal_id:
            return (
                _shown(proposal, decision)
                or _decision_data(decision, header.tenant)
                or _to_whom(proposal, decision)
                or _voter(proposal, decision, header.actor)
            )
    for past in reversed(state.decided):
        if past.proposal_id == decision.proposal_id:
            told = f"{decision.proposal_id} {how_it_ended(past)}, and that stands: "
            told += in_its_place(state, past, header.session_id) or "look at what became of it"
            return Refusal("ordering", "already_decided", told)
    open_ids = ", ".join(a.proposal_id for a in state.approvals)
    told = f"no proposal {decision.proposal_id!r} is open here (open: {open_ids or 'none'}): "
    told += "decide one of these" if open_ids else "nothing is to be decided"
    return Refusal("freshness", "unknown_proposal", told)


def _shown(proposal: OpenApproval, decision: m.DecideApproval) -> Refusal | None:
    if proposal.digest == decision.digest:
        return None
    told = (
        f"the decision is about digest {decision.digest.hex()}, but {decision.proposal_id} proposes "
        f"{proposal.digest.hex()}: show the current action and decide on it"
    )
    return Refusal("freshness", "wrong_digest", told)


def _decision_data(decision: m.DecideApproval, tenant: str) -> Refusal | None:
    """Whether what comes with the decision is what such a decision needs."""
    wanted = {EDIT: "the arguments as they should be", RESPOND: "what the workflow is to be told"}
    needs = wanted.get(decision.decision)
    if needs is None and decision.data is not None:
        told = f"decision {decision.decision!r} came with data: leave it out, or say {EDIT!r} or {RESPOND!r}"
        return Refusal("freshness", "wrong_data", told)
    if needs is not None and decision.data is None:
        told = f"decision {decision.decision!r} came without data: give {needs}"
        return Refusal("freshness", "wrong_data", told)
    return None if decision.data is None else _message(decision.data, tenant)


def _to_whom(proposal: OpenApproval, decision: m.DecideApproval) -> Refusal | None:
    """Whether there is somebody to take what the decision says: policy asks for a call as it was requested already."""
    if proposal.activity_id is None or decision.decision not in (EDIT, RESPOND):
        return None
    told = (
        f"{decision.proposal_id} was asked for by policy, and its workflow waits for activity {proposal.activity_id} as it "
        f"is: say {APPROVE!r} or {REJECT!r}"
    )
    return Refusal("freshness", "not_for_the_workflow", told)


def _voter(proposal: OpenApproval, decision: m.DecideApproval, actor: str) -> Refusal | None:
    """Whether this person may say yes to it, alone or as one of several."""
    if decision.decision not in (APPROVE, EDIT):
        return None
    if proposal.requester and actor == proposal.requester:
        told = f"{decision.proposal_id} is for {actor!r}, who may not approve it: let somebody else decide"
        return Refusal("authority", "own_request", told)
    if decision.decision == APPROVE and actor in proposal.votes:
        told = (
            f"{actor!r} has approved {decision.proposal_id} already, and it needs {proposal.quorum} people: "
            "let another one decide"
        )
        return Refusal("ordering", "already_voted", told)
    return None


def _change(state: State, change: m.ChangeArtifact) -> Refusal | None:
    known = [a.version for a in state.artifacts if a.artifact_id == change.artifact_id]
    if not known:
        told = f"the session relies on no artifact {change.artifact_id[:NAME_LENGTH_MAX]!r}: there is nothing to change"
        return Refusal("freshness", "unknown_artifact", told)
    if known[0] == change.version:
        told = f"artifact {change.artifact_id!r} is known in version {change.version!r}: nothing has changed"
        return Refusal("freshness", "same_version", told)
    return None
