"""What can be seen of a rehearsal: replies, waits, history, and where the session stands, in words."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from ...commands.next_valid import next_valid, obligations
from ...events import records as r
from ...events.attributes import plain
from ...events.payloads import load_json
from ...events.sharing import wholes
from ...events.state import Hold, State
from ..workflow.upgrading import StateUnreadable, read_state
from .engine import Engine, StepAt
from .errors import Misuse
from .given import EPOCH
from .stage import Called, Stage

LEAVES_STATE = (r.TurnCompleted, r.TurnContinued, r.SessionCompleted)


class Story:
    """One session, as it is now and as it came to be."""

    def __init__(self, engine: Engine, stage: Stage) -> None:
        self._engine = engine
        self._stage = stage

    def __repr__(self) -> str:
        return f"<rehearsal: {self._told()}>"

    @property
    def now(self) -> datetime:
        """The log's time, the only one there is."""
        return _at(self._engine.now_ms)

    @property
    def status(self) -> str:
        """Opened, Running, Waiting, Suspended, Recovering (held), Compensating, Completed, Failed or Cancelled."""
        return self._state.status

    @property
    def replies(self) -> list[Any]:
        """What the workflow said, in order: texts, or the JSON it gave."""
        said = (self._load(body.message) for body in self.events if isinstance(body, r.ReplySent))
        return [_text_or_data(content) for content in said]

    @property
    def outcome(self) -> Any:
        """What the session was completed with; none while it is not."""
        ends = [body for body in self.events if isinstance(body, r.SessionCompleted)]
        return self._load(ends[-1].outcome) if ends else None

    @property
    def failure(self) -> r.Failure | None:
        """Why the session failed; none where it did not."""
        ends = [body for body in self.events if isinstance(body, r.SessionFailed)]
        return ends[-1].failure if ends else None

    @property
    def hold(self) -> Hold | None:
        """Why the session is held; none where it is not."""
        state = self._engine.session.state
        return state.hold if state is not None else None

    @property
    def state(self) -> Any:
        """What the next turn starts from, as the workflow's own class."""
        state = self._state
        workflow = self._stage.app.newest(state.workflow)
        if workflow is None:
            raise Misuse(f"workflow {state.workflow!r} is not loaded: redeploy it")
        data = state.data
        if state.ended:  # the fold keeps none: what it ended with stands in its history
            left = [e.body.state for e in self._wholes if isinstance(e.body, LEAVES_STATE)]
            data = left[-1] if left else None
        if data is None:
            return workflow.initial()
        stored = self._engine.inline(data).inline or b"null"
        try:
            return read_state(workflow, stored, state.data_version)
        except StateUnreadable as error:
            raise Misuse(str(error)) from error

    @property
    def tainted_by(self) -> tuple[str, ...]:
        """The activities that have brought in content which nobody vouches for, by name."""
        return self._state.tainted_by

    @property
    def attributes(self) -> dict[str, Any]:
        """What the session is found by, as the views show it; of one that has ended, too."""
        ends = [b for b in self.events if isinstance(b, r.SessionOpened | r.AttributesSet)]
        return {one.name: plain(one) for one in ends[-1].attributes} if ends else {}

    @property
    def waits(self) -> tuple[r.Obligation, ...]:
        """What the session owes or awaits: kind, id, name, when it expires, and what happens then."""
        return obligations(self._state)

    @property
    def next_valid(self) -> tuple[r.NextValid, ...]:
        """Which commands it would take now, and why not the others."""
        return next_valid(self._state)

    @property
    def events(self) -> tuple[r.EventBody, ...]:
        """The history: every fact, in order."""
        return tuple(one.event.body for one in self._engine.log)

    @property
    def facts(self) -> list[str]:
        """The history as the names of its facts."""
        return [type(body).__name__ for body in self.events]

    def calls(self, name: str) -> list[Called]:
        """The calls of this activity that were made, in order."""
        self._stage.find(name)
        return [called for called in self._stage.calls if called.name == name]

    @property
    def crashes(self) -> list[StepAt]:
        """Where it crashed."""
        return list(self._engine.crashes)

    @property
    def _wholes(self) -> list[r.Event]:
        """The history, each fact with all that it says."""
        return list(wholes(one.event for one in self._engine.log))

    def _load(self, payload: r.Payload) -> Any:
        return load_json(self._engine.inline(payload))

    @property
    def _state(self) -> State:
        state = self._engine.session.state
        if state is None:
            raise Misuse("the session could not be opened")
        return state

    def _told(self) -> str:
        """Where the session stands, what is open, and what may come next."""
        state = self._state
        waits = [f"{w.kind} {w.name} ({w.id}) until {_when(w)}" for w in obligations(state)]
        may = [f"{n.command} ({n.reason})" for n in next_valid(state) if n.allowed]
        return (
            f"the session is {state.status}, open: {', '.join(waits) or 'nothing'}; "
            f"next may come: {', '.join(may) or 'nothing'}"
        )


def _at(ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=ms)


def _when(wait: r.Obligation) -> str:
    return "ever" if wait.expires_at_ms is None else f"{_at(wait.expires_at_ms):%Y-%m-%d %H:%M:%S}"


def _text_or_data(content: Any) -> Any:
    if isinstance(content, dict) and content.keys() == {"text"}:
        return content["text"]
    return content
