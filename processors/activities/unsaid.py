"""What a worker has to say and no key signs: kept until one does, since what goes out unsigned is refused.

Its tasks stay uncommitted meanwhile, so that a worker that dies with it loses nothing. Where no key signs any result,
the worker is mute, and takes no tasks: what they would do could not be told to anybody.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from ...commands.keyring import NoKey
from ...commands.models import CommandBody
from .beats import Beat
from .jobs import Job
from .reports import Reports
from .retold import Again, Retold
from .sending import Send

logger = structlog.get_logger("wakeful.worker")


class Unsaid:
    """Any thread may `say`; `look` belongs to the intake.

    At most one result and one sign of life wait for each task that was taken, so they are as bounded as those.
    """

    def __init__(
        self,
        reports: Reports,
        send: Callable[[Job | Beat | Again, Send], None],
        now_ms: Callable[[], int],
    ) -> None:
        self.mute = False
        self._reports, self._send = reports, send
        self._waiting: dict[Job | Beat, CommandBody] = {}
        self._retold = Retold(reports, send, now_ms)
        self._why = ""
        self._told = False

    def say(self, owner: Job | Beat, body: CommandBody) -> None:
        """Sends it, or keeps it where no key signs it."""
        try:
            send = self._reports.command(owner.task, owner.command_id, body)
        except NoKey as error:
            self._why = error.message
            self._waiting[owner] = body
        else:
            self._send(owner, send)
            if isinstance(owner, Job):
                self._retold.keep(send)

    def look(self) -> list[Job]:
        """Sends what a key signs by now; gives the jobs whose tasks others have by now, of which it says nothing."""
        self.mute = not self._reports.may_speak()
        lost = []
        for owner in list(self._waiting):
            body = self._waiting.pop(owner)
            if isinstance(owner, Job) and owner.is_lost:
                lost.append(owner)
            else:
                self.say(owner, body)
        if not self.mute:
            self._retold.look()
        self._tell()
        return lost

    def __contains__(self, job: Job) -> bool:
        """Whether its result waits here: no wait for the broker ends that."""
        return job in self._waiting

    @property
    def results(self) -> int:
        """How many results wait."""
        return sum(isinstance(owner, Job) for owner in list(self._waiting))

    def _tell(self) -> None:
        """Once when it begins, and once when it is over."""
        silent = self.mute or bool(self._waiting)
        if silent and not self._told:
            logger.error(
                "no tasks are taken: no key signs results; make one with 'wakeful keys new --role worker'"
                if self.mute
                else "results are kept back: no key signs them; make one with 'wakeful keys new --role worker'",
                kept=len(self._waiting),
                why=self._why or "no active key here is a worker's",
            )
        elif self._told and not silent:
            logger.info("a key signs results again: work goes on")
        self._told = silent
