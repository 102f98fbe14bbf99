"""The person in the console, to whom one large refund is left: told where it is, waited for, and never for ever."""

from __future__ import annotations

import select
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

from .approver import Approver
from .console import Beside, Console
from .view import View

STARTS_S = 30.0
"""A console that is not there so long after everything else is done does not come."""

DECIDES_S = 600.0
"""Then the script decides, as for all the others: nobody is there."""

LOOKS_S = 600.0
"""How long somebody at a terminal may look around after that; Enter ends it at once."""

LOOKS_ALONE_S = 30.0
"""The same where there is no terminal, and so no Enter."""

LOOK_EVERY_S = 0.2


@dataclass(slots=True)
class Visitor:
    """Call `look` often while it runs, and `stay` at its end. `entered` says whether Enter was pressed since."""

    how: Beside
    console: Console
    approver: Approver
    letters: Path
    view: View
    at_terminal: bool
    entered: Callable[[], bool]
    now_s: Callable[[], float] = monotonic
    pause: Callable[[float], None] = sleep
    _told: bool = False
    _alone_s: float = 0.0
    _since_s: float | None = None

    @property
    def waits(self) -> bool:
        """Whether the run waits for a person, who may take their time."""
        return self._since_s is not None and bool(self.approver.left)

    def look(self, *, alone: bool) -> None:
        """Tells what is new; `alone` says that everybody but the customer of the left refund has an answer."""
        if not self._told and self.console.link is not None:
            self._told = True
            self.view.line(f"the console, for one sign-in within ten minutes: {self.console.link}")
        if self.console.failed is not None and self.how is not Beside.OFF:
            self.how = Beside.OFF
            self._give_up(f"the console has ended: {self.console.failed}")
        if alone and self.approver.left and self._is_there():
            self._wait()

    def stay(self) -> None:
        """Where a refund was left and decided: says where what came of it is, and leaves the console for a while."""
        session_id = self.approver.decided_elsewhere
        if session_id is None or self.how is not Beside.YOURS:
            return
        limit_s = LOOKS_S if self.at_terminal else LOOKS_ALONE_S
        told = "press Enter to end" if self.at_terminal else f"it ends in {LOOKS_ALONE_S:.0f} s"
        self.view.line(f"{session_id} has its answer, and the letter if the refund was granted:")
        self.view.line(f"        {self.console.url}/sessions/{session_id}")
        self.view.line(f"        and in {self.letters}; {told}")
        until_s = self.now_s() + limit_s
        self.entered()
        while not self.entered() and self.now_s() < until_s and self.console.failed is None:
            self.pause(LOOK_EVERY_S)

    def _is_there(self) -> bool:
        """Whether there is a console to decide in; one that does not come up is given up."""
        if self._told:
            return True
        self._alone_s = self._alone_s or self.now_s()
        if self.now_s() - self._alone_s > STARTS_S:
            self._give_up("the console does not start")
        return False

    def _wait(self) -> None:
        if self._since_s is None:
            self._since_s = self.now_s()
            self.entered()  # what was pressed before anything was asked is no answer
            or_else = "press Enter, and the script does" if self.at_terminal else "the script does"
            self.view.line("every other message has its answer; one refund is yours to decide,")
            self.view.line("        once the link above has signed you in:")
            for where in self.approver.left.values():
                self.view.line(f"        {self.console.url}/approvals/{where}")
            self.view.line(f"        decide there, or {or_else} (in {DECIDES_S / 60:.0f} minutes)")
        elif self.entered() or self.now_s() - self._since_s > DECIDES_S:
            self._give_up("nobody has decided")

    def _give_up(self, why: str) -> None:
        decides = ": the script does" if self.approver.left else ""
        self.view.line(f"{why}{decides}")
        self.approver.take_back()


def enter_pressed() -> bool:
    """Whether a line waits at the terminal; takes what is there. A closed one counts, and Ctrl-D does."""
    pressed = False
    while sys.stdin.isatty() and select.select([sys.stdin], [], [], 0)[0]:
        pressed = True
        if not sys.stdin.readline():
            break
    return pressed
