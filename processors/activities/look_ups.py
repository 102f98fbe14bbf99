"""What is said of a look-up: what it found (a result), that it found nothing (None), or that nobody could be asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...commands.models import CompleteActivity, FailActivity
from ...events.failures import LOOK_UP_FAILED
from ...events.records import ActivityTask, Failure
from .definitions import KEY
from .runner import Body, Call, Runner
from .telling import DETAIL_MAX, MESSAGE_MAX, cut

TOLD_MAX = MESSAGE_MAX // 2 - 50
"""Of each cause where there are two."""


class LookUps:
    """See `Words`, and the module."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def prepare(self, call: Call) -> Call | FailActivity:
        """The look-up for this call; a failure where the loaded code has none."""
        look_up, task = call.activity.look_up, call.task
        if look_up is None:
            told = (
                f"activity {task.name} has no look-up in the loaded code, and its task asks for it"
            )
            return self._runner.fail(task, LOOK_UP_FAILED, "", told)
        known = {**call.arguments, KEY: task.idempotency_key}
        arguments = {name: value for name, value in known.items() if name in look_up.takes}
        name = f"look-up {look_up.name}"
        return replace(
            call, arguments=arguments, function=look_up.function, name=name, is_sync=look_up.is_sync
        )

    def completed(self, call: Call, result: Any) -> Body | None:
        """The report of what was found; None where nothing was."""
        return None if result is None else self._found(call, self._runner.completed(call, result))

    async def completed_aside(self, call: Call, result: Any) -> Body | None:
        """See `Words`."""
        if result is None:
            return None
        return self._found(call, await self._runner.completed_aside(call, result))

    def failed(self, task: ActivityTask, error: BaseException) -> FailActivity:
        """The report that nobody knows: the look-up raised."""
        return self.unseen(task, self._runner.failed(task, error).failure)

    def timed_out(self, task: ActivityTask) -> FailActivity:
        """The same: it was cancelled at the limit."""
        return self.unseen(task, self._runner.timed_out(task).failure)

    def _found(self, call: Call, body: Body) -> Body:
        if isinstance(body, CompleteActivity):
            return replace(body, recovered=True)
        return self.unseen(call.task, body.failure)

    def unseen(
        self, task: ActivityTask, why: Failure, *, before: Failure | None = None
    ) -> FailActivity:
        """The report that nobody knows whether it was done; `before` is how the call itself had failed."""
        told, detail, later_ms = why.message, why.detail, why.retry_after_ms
        if why.kind != LOOK_UP_FAILED:
            told = f"whether {task.name} was carried out is not known, since looking it up failed ({why.kind}): {told}"
        if before is not None:
            told = (
                f"{before.kind} {before.type}: {before.message[:TOLD_MAX]}; then {told[:TOLD_MAX]}"
            )
            detail = "\n".join(
                cut(each, DETAIL_MAX // 2 - 1) for each in (before.detail, detail) if each
            )
            later_ms = before.retry_after_ms if later_ms is None else later_ms
        return self._runner.fail(
            task, LOOK_UP_FAILED, why.type, told, detail=detail, retry_after_ms=later_ms
        )
