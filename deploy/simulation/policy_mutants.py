"""Planted mistakes about policies: see `mutants.py`."""

from __future__ import annotations

from typing import Any

from ...commands import decisions as deciding
from ...commands import identity
from ...commands.keyring import Evidence
from ...commands.policy import EVERYBODY, Policy
from ...events.log.protocol import Record
from ...processors import control
from ...processors.control import Control
from ...processors.handler import CommandHandler
from ...processors.published import Ignored, Unusable, read_policy
from .planting import Mutant, plant

_LOOK, _GO_BY, _CONTROL = Control.look, CommandHandler.go_by, Control.__init__


def _open_until_then(self: Control, *of: Any, unpublished: Policy, **more: Any) -> None:
    """Everybody may decide as long as nobody has published who may."""
    del unpublished
    _CONTROL(self, *of, unpublished=EVERYBODY, **more)


def _keeps_its_first(self: Control) -> None:
    """It reads on, and decides by what it read when it started."""
    before = self.policy
    _LOOK(self)
    self.policy = before


def _first_only(self: CommandHandler, policy: Policy, control_offset: int) -> None:
    """It tells of every set, and decides by the first."""
    if self._facts.control_offset is None:
        _GO_BY(self, policy, control_offset)


def _forgets_the_good_one(self: Control, record: Record, told: str) -> None:
    """A set that cannot be read is taken for none at all."""
    del record, told
    self.policy = self._unpublished


def _goes_back(record: Record, judge: identity.Identity, _version: int | None) -> object:
    """Whatever a publisher has ever signed is in force again when it comes again."""
    return read_policy(record, judge, None)


def _stops(record: Record, judge: identity.Identity, version: int | None) -> object:
    """Whoever appends what nobody vouches for has damaged the policy."""
    found = read_policy(record, judge, version)
    return Unusable(found.told) if isinstance(found, Ignored) else found


POLICY_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "lets everybody decide until there is a policy",
        plant((Control, "__init__", _open_until_then)),
        seed=3996,
    ),
    Mutant("lets anybody decide", plant((deciding, "check_authority", lambda *_: None)), seed=66),
    Mutant("goes by a stale policy", plant((Control, "look", _keeps_its_first)), seed=54),
    Mutant("never looks at policies again", plant((Control, "look", lambda _: None)), seed=0),
    Mutant(
        "tells of a policy that it does not go by",
        plant((CommandHandler, "go_by", _first_only)),
        seed=54,
    ),
    Mutant(
        "takes a damaged policy for none",
        plant((Control, "_damaged", _forgets_the_good_one)),
        seed=66,
    ),
    Mutant(
        "believes whoever publishes",
        plant((identity.Signed, "check_published", lambda *_: Evidence(None))),
        seed=69,
    ),
    Mutant("goes back to an older set", plant((control, "read_policy", _goes_back)), seed=69),
    Mutant(
        "takes a forged set for a damaged one", plant((control, "read_policy", _stops)), seed=883
    ),
)
