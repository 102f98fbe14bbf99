"""`python -m bench.checking`: what signature, checks and policy cost per worker result and per approval, beside the bare fold.

No broker: the processor's own code folds results of one session, and decisions of many sessions that wait, without
signatures and open to everybody; in the same round each check is made of the same commands. One line of JSON; times are
microseconds of processor time per command, the median over `ROUNDS`, and `ratio` is what is added over what is bare.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from bench import vouching
from bench.app import gated_tool, model, tool, turns
from bench.vouching import DIGEST_KEY, NOW_MS, TOPICS
from wakeful.commands import models as m
from wakeful.commands.authority import check_authority, rule
from wakeful.commands.check import Facts, Refusal, check, check_scope, is_repeat
from wakeful.commands.identity import INSECURE, Identity, Signed
from wakeful.commands.keyring import ROLES
from wakeful.commands.policy import EVERYBODY, Policy
from wakeful.commands.signatures import HMAC_SHA256
from wakeful.commands.wire import command_hash, encode_command, read_command
from wakeful.deploy.keyfile import KeyFile, new_key, write_keys
from wakeful.events import records as r
from wakeful.events.headers import record_headers
from wakeful.events.keys import session_key
from wakeful.events.log.memory import MemoryLog
from wakeful.events.log.protocol import Record
from wakeful.events.payloads import json_payload
from wakeful.events.state import SessionState
from wakeful.events.verdicts import APPROVE, GRANTED
from wakeful.processors.app import App, gather
from wakeful.processors.gate import look
from wakeful.processors.handler import CommandHandler
from wakeful.processors.journal import Journal
from wakeful.processors.outputs import Folder
from wakeful.processors.partition import Partition
from wakeful.processors.policies.cedar import load
from wakeful.processors.policies.sets import default_policies
from wakeful.processors.proposals import OpenProposals

ROUNDS = 7
SESSIONS = 200
GOALS_US = {"result": 20.0, "approval": 200.0}
"""What is to be added at most, on a machine that has nothing else to do."""

PARTS = ("sign_us", "verify_us", "check_us", "policy_us", "look_us")

POLICY = """
@id("small-steps-only")
forbid (principal, action == Action::"decide", resource == Tool::"gated_tool")
when { context.arguments has step && context.arguments.step > 1000 };
"""


def main(emit: Callable[[str], object] = sys.stdout.write) -> None:
    """Keys from a file, as processes have them."""
    with tempfile.TemporaryDirectory(prefix="wakeful-bench-") as folder:
        path = Path(folder) / "keys.json"
        kinds = frozenset().union(*ROLES.values())
        write_keys(path, [replace(new_key("worker", algorithm=HMAC_SHA256), kinds=kinds)])
        identity = Signed(KeyFile(path).ring, "bench")
        rounds = [(results(identity), Approvals(identity).took()) for _ in range(ROUNDS)]
    names = zip(GOALS_US, zip(*rounds, strict=True), strict=True)
    emit(json.dumps({name: _summary(name, told) for name, told in names}) + "\n")


def _summary(name: str, rounds: Iterable[Mapping[str, float]]) -> dict[str, float]:
    told = list(rounds)
    found = {word: median(took[word] for took in told) for word in told[0]}
    adds = [sum(took.get(part, 0.0) for part in PARTS) for took in told]
    found["adds_us"] = median(adds)
    found["ratio"] = median(one / took["fold_us"] for one, took in zip(adds, told, strict=True))
    found["goal_us"] = GOALS_US[name]
    return {word: round(value, 3 if word == "ratio" else 1) for word, value in found.items()}


def results(identity: Identity) -> dict[str, float]:
    """One round of worker results."""
    commands = vouching.said()
    bare, _ = vouching.signed(commands, INSECURE)
    records, sign_us = vouching.signed(commands, identity)
    began = time.process_time()
    strangers = [one for one in commands if check_scope(one) is not None]
    check_us = (time.process_time() - began) / len(commands) * 1e6
    _all_let_in(strangers)
    return {
        "fold_us": vouching.folded(bare, INSECURE),
        "sign_us": sign_us,
        "verify_us": vouching.verified(records, identity),
        "check_us": check_us,
    }


class Approvals:
    """Sessions that wait for an approval each, and the decisions that they will get."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._app: App = gather((turns, model, tool, gated_tool))
        handler = CommandHandler(self._app, Facts(DIGEST_KEY, policy=EVERYBODY))
        log = MemoryLog(now_ms=lambda: NOW_MS)
        self._folder = Folder(TOPICS, handler, identity=INSECURE)
        self._partition = Partition(0, TOPICS, log, "b", None)
        self._partition.store.write([], position=0, open_from=0, cause_high=-1)
        self._offset = 0
        self._keys = [session_key("acme", f"s{number}") for number in range(SESSIONS)]
        for number in range(SESSIONS):
            message = m.SendMessage(json_payload({"before": 0}, DIGEST_KEY))
            for body in (m.OpenSession("turns"), message):
                self._give(self._record(f"s{number}", body, "ann", INSECURE))

    def took(self) -> dict[str, float]:
        """One round: each check of all decisions, and then their fold."""
        commands = [self._decision(number) for number in range(SESSIONS)]
        encoded = [encode_command(one) for one in commands]
        places = list(zip(commands, encoded, self._keys, strict=True))
        began = time.process_time()
        for one, bare, key in places:
            self._identity.sign(one, TOPICS.commands, key, bare.value)
        found = {"sign_us": _per_command(began)}
        records = [self._record_of(one, self._identity) for one in commands]
        found["verify_us"] = vouching.verified(records, self._identity)
        found |= self._checked(records)
        bare_records = [self._record_of(one, INSECURE) for one in commands]
        began = time.process_time()
        events = sum(self._give(one) for one in bare_records)
        found["fold_us"] = _per_command(began)
        found["look_us"] = self._looked_at()
        self._partition.close()
        if events < 2 * SESSIONS:
            raise RuntimeError(f"{events} events of {SESSIONS} decisions: not all were granted")
        return found

    def _checked(self, records: list[Record]) -> dict[str, float]:
        """Scope, ordering and freshness; and authority, with the arguments of the proposal."""
        sessions = [self._partition.session(key) for key in self._keys]
        read = [read_command(one.value, one.headers) for one in records]
        began = time.process_time()
        refused = []
        for session, (command, stored) in zip(sessions, read, strict=True):
            hashed = command_hash(stored)
            if session.state is None or is_repeat(session.head, command, hashed):
                raise RuntimeError("a session does not wait for its decision: nothing is measured")
            folded = SessionState(session.head, session.state)
            refused.append(check_scope(command) or check(folded, command, hashed, NOW_MS))
        found = {"check_us": _per_command(began)}
        _all_let_in([one for one in refused if one is not None])
        facts = Facts(DIGEST_KEY, policy=load(_policy()))
        began = time.process_time()
        denied = []
        for session, (command, _) in zip(sessions, read, strict=True):
            body, state = command.body, session.state
            if not isinstance(body, m.DecideApproval) or state is None:
                raise RuntimeError(f"{type(body).__name__} is no decision: nothing is measured")
            proposals = OpenProposals(self._app, facts, "acme", session.journal, NOW_MS)
            ruling = rule(state, command.header, body, proposals.authority(body.proposal_id))
            denied.append(check_authority(state, command.header, body, ruling))
        found["policy_us"] = _per_command(began)
        _all_let_in([one for one in denied if one is not None])
        return found

    def _looked_at(self) -> float:
        """The last look at each approved attempt, by the policy under which it was approved."""
        policy = load(_policy())
        facts = Facts(DIGEST_KEY, policy=policy)
        attempts = []
        for key in self._keys:
            session = self._partition.session(key)
            session.journal = Journal(_approved_under(policy, each) for each in session.journal)
            attempts.append((session, _approved_attempt(session.journal)))
        began = time.process_time()
        looked = [look(s, self._app, facts, NOW_MS, attempt)[0] for s, attempt in attempts]
        took_us = _per_command(began)
        if not all(isinstance(b, r.ActivityRequested) and b.policy_ids for b in looked):
            raise RuntimeError("an attempt is withheld, or nobody was asked: nothing is measured")
        return took_us

    def _decision(self, number: int) -> m.Command:
        state = self._partition.session(self._keys[number]).state
        if state is None or not state.approvals:
            raise RuntimeError(f"session s{number} asks nobody: nothing is measured")
        asked = state.approvals[0]
        body = m.DecideApproval(asked.proposal_id, asked.digest, APPROVE, "fine")
        return self._command(f"s{number}", body, "sue")

    def _command(self, session: str, body: m.CommandBody, actor: str) -> m.Command:
        self._offset += 1
        id_ = f"c{self._offset}"
        return m.Command(
            m.CommandHeader("acme", session, id_, NOW_MS, actor, None, "b", None), body
        )

    def _record(self, session: str, body: m.CommandBody, actor: str, by: Identity) -> Record:
        return self._record_of(self._command(session, body, actor), by)

    def _record_of(self, command: m.Command, by: Identity) -> Record:
        self._offset += 1
        bare, key = encode_command(command), session_key("acme", command.header.session_id)
        mark = by.sign(command, TOPICS.commands, key, bare.value)
        headers = [*record_headers(bare, command.header.command_id), *mark]
        return Record(TOPICS.commands, 0, self._offset, NOW_MS, key, bare.value, headers)

    def _give(self, record: Record) -> int:
        share = self._folder.fold(self._partition, [record])
        kept = share.changes()
        self._partition.keep(kept, position=0, open_from=0, cause_high=share.cause_high)
        return share.events


def _approved_under(policy: Policy, event: r.Event) -> r.Event:
    if not isinstance(event.body, r.ApprovalGranted):
        return event
    return replace(event, body=replace(event.body, policy_hash=policy.set_hash))


def _approved_attempt(journal: Sequence[r.Event]) -> r.ActivityRequested:
    """The call that was approved, as its workflow will ask for it."""
    bodies = [event.body for event in journal]
    asked = next(body for body in bodies if isinstance(body, r.ApprovalRequested))
    like = next(body for body in bodies if isinstance(body, r.ActivityRequested))
    return replace(
        like,
        name=asked.name,
        contract=asked.contract,
        arguments=asked.arguments,
        digest=asked.digest,
        approval=GRANTED,
        proposal_id=asked.proposal_id,
    )


def _policy() -> r.PolicyPublished:
    roles = (r.RoleMembers("acme", "anybody", ("sue",)),)
    arguments = (r.ToolArgument("gated_tool", "step", "Long"),)
    return r.PolicyPublished(1, 0, "b", "", default_policies() + POLICY, roles, arguments)


def _per_command(began: float) -> float:
    return (time.process_time() - began) / SESSIONS * 1e6


def _all_let_in(refused: list[Refusal] | list[m.Command]) -> None:
    if refused:
        raise RuntimeError(f"{len(refused)} are refused, first {refused[0]}: nothing is measured")


if __name__ == "__main__":
    main()
