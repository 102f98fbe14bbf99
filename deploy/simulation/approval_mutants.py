"""Planted mistakes about approvals: see `mutants.py`."""

# ruff: noqa: SLF001 - a mistake goes where it would be made, and that is seldom public

from __future__ import annotations

from typing import Any

from ...commands import check as checking
from ...commands import decisions as deciding
from ...commands import models as m
from ...commands.check import Refusal
from ...events import records as r
from ...processors import gate
from ...processors.workflow.asking import Asking
from .planting import Mutant, plant

_VOTER, _LEARN = checking._voter, Asking.learn


def _approves_what_was_shown(
    state: Any, command: Any, decision: m.DecideApproval, fresh: Any
) -> list[r.EventBody]:
    """An edit is taken for a yes."""
    del state, command, fresh
    return [r.ApprovalGranted(decision.proposal_id, decision.digest, "", ("open-to-all",))]


def _only_news(state: Any, command: Any, change: m.ChangeArtifact, proposals: Any) -> Any:
    """The proposals stay as they are."""
    del state, command, proposals
    return [r.ArtifactChanged(change.artifact_id, change.version)]


def _votes_again(proposal: Any, decision: m.DecideApproval, actor: str) -> Refusal | None:
    refusal = _VOTER(proposal, decision, actor)
    return None if refusal is not None and refusal.reason == "already_voted" else refusal


def _votes_for_himself(proposal: Any, decision: m.DecideApproval, actor: str) -> Refusal | None:
    refusal = _VOTER(proposal, decision, actor)
    return None if refusal is not None and refusal.reason == "own_request" else refusal


def _learns_no_proposal(self: Asking, body: r.EventBody) -> None:
    """Its workflow goes on waiting for the proposal that is void."""
    if not isinstance(body, r.ApprovalRequested):
        _LEARN(self, body)


def _one_is_enough(
    proposal_id: str, digest: bytes, votes: int, quorum: int, comment: str, ruling: Any
) -> r.ApprovalGranted:
    del votes, quorum
    by = ruling.policy_ids, ruling.set_hash
    return r.ApprovalGranted(proposal_id, digest, comment, *by)


APPROVAL_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "takes an edit for a yes", plant((deciding, "_edited", _approves_what_was_shown)), seed=4
    ),
    Mutant("lets a proposal outlive its data", plant((deciding, "changed", _only_news)), seed=30),
    Mutant(
        "runs on an approval of other data",  # twice, as it is looked at in the turn, and before the dispatch
        plant((Asking, "_drift", lambda *_: ""), (gate._Gate, "_drift", lambda *_: ("", ()))),
        seed=90,
    ),
    Mutant("counts a vote twice", plant((checking, "_voter", _votes_again)), seed=417),
    Mutant(
        "lets people approve their own", plant((checking, "_voter", _votes_for_himself)), seed=9
    ),
    Mutant(
        "forgets whom a proposal supersedes", plant((Asking, "learn", _learns_no_proposal)), seed=4
    ),
    Mutant("grants at the first vote", plant((deciding, "_approved", _one_is_enough)), seed=9),
)
