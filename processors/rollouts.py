"""Which records of the control topic say on which version turns begin: the newest that a publisher vouches for, per workflow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..commands.check import Refusal
from ..commands.identity import INSECURE, Identity
from ..commands.keyring import REVOKED_KEY, ROLLED_OUT
from ..commands.rollouts import Rollout, why_unusable
from ..events.codec import decode_control
from ..events.errors import Undecodable
from ..events.log.protocol import Record
from ..events.records import RolloutSet
from .published import OLDER_VERSION

ROLLOUT_PREFIX = "rollout/"
SEEN_PREFIX = "rollout-seen/"


def rollout_key(workflow: str) -> bytes:
    """The key of what is set for this workflow."""
    return f"{ROLLOUT_PREFIX}{workflow}".encode()


def rollout_seen_key(processor: str) -> bytes:
    """The key under which a processor tells which rollouts it goes by, and what it has loaded."""
    return f"{SEEN_PREFIX}{processor}".encode()


def is_rollout(record: Record) -> bool:
    """Whether this record is for the table."""
    return (record.key or b"").startswith(ROLLOUT_PREFIX.encode())


@dataclass(slots=True)
class RolloutTable:
    """Filled by `take`, record by record, in their order; `identity` judges who may set one.

    A record that cannot be read or used changes nothing, and neither does one that nobody vouches for, or that is older
    than what is in force: the reason is in `ignored`. One of a key that was revoked since does not count either.
    """

    identity: Identity = INSECURE
    in_force: Mapping[str, Rollout] = field(default_factory=dict)
    """By workflow; another object after each change."""
    offset: int = -1
    """The newest record that was looked at, whatever came of it."""
    numbers: dict[str, dict[int, int]] = field(default_factory=dict)
    """By workflow, of each that somebody vouches for, or did with a key that is revoked since: its offset and number."""
    ignored: list[str] = field(default_factory=list)

    def take(self, record: Record) -> str:
        """Takes one record in; why it does not count, empty where it does."""
        self.offset = max(self.offset, record.offset)
        why = self._take(record)
        if why:
            self.ignored.append(f"the rollout at offset {record.offset} is ignored: {why}")
        return why

    def _take(self, record: Record) -> str:
        workflow = (record.key or b"").decode(errors="replace").removeprefix(ROLLOUT_PREFIX)
        said, told = _decoded(record)
        found = self.identity.check_published(said, record, ROLLED_OUT)
        if isinstance(found, Refusal):
            if found.reason == REVOKED_KEY and said is not None:
                self._note(workflow, record.offset, said.number)
            return f"{found.reason} ({found.detail})"
        if record.value is None:
            self.in_force = {name: one for name, one in self.in_force.items() if name != workflow}
            return ""
        if said is None:
            return told
        if said.workflow != workflow:
            return f"its key is of workflow {workflow!r}, and it speaks of {said.workflow!r}"
        if told := why_unusable(said):
            return told
        before = self.in_force.get(workflow)
        if before is not None and said.number < before.said.number:
            return (
                f"{OLDER_VERSION} (it is number {said.number}, and {before.said.number} is in force: an old record was "
                "appended again; to go back to what it says, set that anew)"
            )
        self._note(workflow, record.offset, said.number)
        self.in_force = {**self.in_force, workflow: Rollout(said, record.offset)}
        return ""

    def _note(self, workflow: str, offset: int, number: int) -> None:
        self.numbers.setdefault(workflow, {})[offset] = number


def _decoded(record: Record) -> tuple[RolloutSet | None, str]:
    """What it says, or why it says nothing."""
    try:
        found = decode_control(record.value, record.headers)
    except Undecodable as error:
        return None, str(error)
    if isinstance(found, RolloutSet):
        return found, ""
    return None, f"it is a {type(found).__name__}"
