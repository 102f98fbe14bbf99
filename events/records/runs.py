"""Facts about runs: sessions that another one sets to work when it is time, and does not wait for."""

from __future__ import annotations

from ..freezing import dataclass
from .envelope import Attribute, Payload


@dataclass(frozen=True, slots=True)
class RunStarted:
    """It was time: the command that opens the session `run_id`, or asks it for a turn, goes out with this.

    `where_open` says what becomes of it where that session is there; see `verdicts.WHERE_OPEN`.
    """

    run_id: str
    turn: int
    step: int
    workflow: str
    trigger: str
    reason: str
    data: Payload
    where_open: str
    attributes: tuple[Attribute, ...] = ()
