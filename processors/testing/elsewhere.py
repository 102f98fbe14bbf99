"""What becomes, in a rehearsal, of what is done elsewhere: jobs that others do, and children, which are sessions of their own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, TypeVar

from ...commands import models as m
from ...commands.actors import WORKFLOW
from ...events import records as r
from ...events.failures import CHILD_FAILED, JOB_FAILED
from ...events.state import State
from ...events.verdicts import CANCELLED, COMPLETED, FAILED
from . import given

T = TypeVar("T")


class Elsewhere(ABC):
    """The half of a rehearsal that speaks for those."""

    @abstractmethod
    def _command(self, body: m.CommandBody, *, actor: str) -> None: ...

    @abstractmethod
    def _data(self, what: str, value: object) -> r.Payload: ...

    @abstractmethod
    def _the_one(
        self, what: str, how: str, name: str | None, known: list[tuple[str, str, T]]
    ) -> T: ...

    @property
    @abstractmethod
    def _state(self) -> State: ...

    def complete_job(self, name: str | None, result: Any = None, *, by: str = "service") -> None:
        """Says that an external job is done; `name` (the job's, or its id) where several are awaited."""
        payload = self._data("a job's result", result)
        self._command(m.CompleteJob(self._job_id(name), payload, None), actor=given.actor(by))

    def fail_job(self, name: str | None, message: str, *, by: str = "service") -> None:
        """Says that an external job will not be done, and why."""
        failure = r.Failure(JOB_FAILED, "", given.sentence("message", message), "")
        self._command(m.CompleteJob(self._job_id(name), None, failure), actor=given.actor(by))

    def complete_child(self, name: str | None, outcome: Any = None) -> None:
        """Lets a child complete with this outcome; `name` (its workflow's, or its id) where several are open."""
        child = self._child_id(name)
        payload = self._data("a child's outcome", outcome)
        self._end(m.EndChild(child, COMPLETED, payload, None))

    def fail_child(self, name: str | None, message: str, kind: str = "raised") -> None:
        """Lets a child fail; `kind` is that of the failure in it."""
        child = self._child_id(name)
        told = given.sentence("message", message)
        failure = r.Failure(CHILD_FAILED, given.text("kind", kind), told, "")
        self._end(m.EndChild(child, FAILED, None, failure))

    def cancel_child(self, name: str | None) -> None:
        """Lets somebody else cancel a child. One that is cancelled by this session ends so by itself."""
        self._end(m.EndChild(self._child_id(name), CANCELLED, None, None))

    def _end(self, body: m.EndChild) -> None:
        self._command(body, actor=f"{WORKFLOW}child")

    def _job_id(self, name: str | None) -> str:
        """That of the job which is meant; one that is none of these is the engine's to refuse."""
        if name is not None and all(name != job.name for job in self._state.jobs):
            return given.text("the id of a job", name)
        known = [(job.name, job.job_id, job.job_id) for job in self._state.jobs]
        return self._the_one("job", "awaited", name, known)

    def _child_id(self, name: str | None) -> str:
        known = [(one.workflow, one.child_id, one.child_id) for one in self._state.children]
        return self._the_one("child", "open", name, known)
