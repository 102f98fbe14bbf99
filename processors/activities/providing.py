"""Asking the provider for the credentials of one call: how it is called, and what is said where it gives none."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ...commands.models import FailActivity
from ...events.failures import NO_CREDENTIALS, START_TO_CLOSE
from ...events.records import ActivityTask
from .credentials import Access
from .runner import Call, Runner
from .telling import FRAMES_MAX, Hang, cut, retry_after_of, type_of


@dataclass(frozen=True, slots=True)
class Given:
    """What the provider returned; shown to nobody."""

    credentials: Any = field(repr=False)


class Providing:
    """The provider's answers for the calls of one attempt; `runner` is told what to hide."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def prepare(self, call: Call, *, writes: bool) -> Call | FailActivity:
        """The question for this call; a failure where nobody can be asked."""
        provider, task = self._runner.provider, call.task
        if provider is None:
            told = f"{call.name} takes credentials, and no provider of them is loaded here"
            return self._runner.fail(task, NO_CREDENTIALS, "", told)
        access = Access(
            activity=task.name,
            writes=writes,
            tenant=task.tenant,
            session_id=task.session_id,
            on_behalf_of=task.on_behalf_of,
            attempt=task.attempt,
            key=task.idempotency_key,
        )
        return replace(
            call,
            arguments={},
            function=partial(provider.function, access),
            name=f"provider {provider.name}",
            is_sync=provider.is_sync,
        )

    def completed(self, call: Call, result: Any) -> Given | FailActivity:
        """The credentials, which are hidden from now on; a failure where they cannot be."""
        try:
            self._runner.hide(result)
        except BaseException as error:  # noqa: BLE001 foreign code, run only to see what is secret
            told = f"what it returned cannot be read to keep it secret ({type_of(error)})"
            return self._none(call.task, type_of(error), told)
        return Given(result)

    async def completed_aside(self, call: Call, result: Any) -> Given | FailActivity:
        """The same: credentials are put nowhere."""
        return self.completed(call, result)

    def failed(self, task: ActivityTask, error: BaseException) -> FailActivity:
        """The report that it raised; without the exception's own words, since they may hold what nobody must see."""
        places = traceback.extract_tb(error.__traceback__, limit=-FRAMES_MAX)
        detail = "".join(f"{at.filename}:{at.lineno} in {at.name}\n" for at in places)
        name, later_ms = type_of(error), retry_after_of(error)
        return self._none(
            task, name, f"it raised {name}", detail=cut(detail), retry_after_ms=later_ms
        )

    def timed_out(self, task: ActivityTask) -> FailActivity:
        """The report that it did not answer within the attempt's limit."""
        told = f"it did not answer within {task.start_to_close_ms} ms"
        return self._none(task, START_TO_CLOSE, told)

    def hung(self, task: ActivityTask, hang: Hang) -> FailActivity:
        """The same, and nothing can stop it."""
        why = self._runner.hung(task, hang).failure
        return self._none(task, why.type, why.message, detail=why.detail)

    def _none(self, task: ActivityTask, type_: str, why: str, **more: Any) -> FailActivity:
        provider = self._runner.provider
        name = "" if provider is None else f" {provider.name!r}"
        told = f"provider{name} gave no credentials for {task.name}, so it did not run: {why}"
        return self._runner.fail(task, NO_CREDENTIALS, type_, told, **more)
