"""`repair`: release, reset and pin sessions, one or all that are so."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from ..exits import Exit, Stopped
from .asking import WAIT_MAX_S, Actor
from .context import AsJson, client, kafka, queries, settings

if TYPE_CHECKING:
    from ...commands.client import Client
    from ...commands.models import CommandBody
    from ...events.log.protocol import Log
    from ...events.records import Event
    from ...projections.queries import Queries
    from ..repairing import Make, Repaired
    from ..settings import Settings

app = typer.Typer(
    help="Repairs by an operator: let held sessions go on, take them back, keep them on a version.",
    no_args_is_help=True,
)

TIMEOUT_S = 10.0

DONE = {"release": "released", "reset": "reset", "pin": "pinned"}

Sessions = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SESSION...]", help="Ids; '-' reads them from stdin.", show_default=False
    ),
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="All sessions with this status, workflow, version, turn, or reason of their hold; may be repeated.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Reason = Annotated[str, typer.Option(help="For the record.")]
Timeout = Annotated[
    float,
    typer.Option(min=0.1, max=WAIT_MAX_S, help="Seconds until what is not decided is told."),
]


@app.command("release")
def release(
    sessions: Sessions = None,
    *,
    where: Where = None,
    reason: Reason = "",
    actor: Actor = None,
    yes: Yes = False,
    timeout: Timeout = TIMEOUT_S,
    as_json: AsJson = False,
) -> int:
    """Let held sessions go on from where they were held."""

    def make(asking: Client, _log: Log, _views: Queries) -> Make:
        return lambda _: asking.release_body(reason)

    where = [*(where or []), "status=Recovering"] if where else where
    asked = _Asked("release", sessions, where, actor, yes=yes, timeout=timeout, as_json=as_json)
    return asked.repair(make)


@app.command("reset")
def reset(
    sessions: Sessions = None,
    *,
    to_turn: Annotated[
        int | None,
        typer.Option(min=0, help="As whose end it is to stand. (default: the last that has ended)"),
    ] = None,
    drop: Annotated[
        bool,
        typer.Option("--drop", help="Do not answer the message of the turn that is open again."),
    ] = False,
    where: Where = None,
    reason: Reason = "",
    actor: Actor = None,
    yes: Yes = False,
    timeout: Timeout = TIMEOUT_S,
    as_json: AsJson = False,
) -> int:
    """Take sessions back to where a turn had ended, held or not.

    What is open is withdrawn, and the message of the open turn is answered again from there; nothing is removed from the
    log, and what was done since stays done: it is told.
    """

    def make(asking: Client, log: Log, views: Queries) -> Make:
        from ..repairing import left_by

        def body(session_id: str) -> CommandBody:
            turn, state = left_by(_events(asking, session_id, log, views), to_turn)
            return asking.reset_body(turn, state, answers_again=not drop, reason=reason)

        return body

    asked = _Asked("reset", sessions, where, actor, yes=yes, timeout=timeout, as_json=as_json)
    return asked.repair(make)


@app.command("pin")
def pin(
    sessions: Sessions = None,
    *,
    version: Annotated[
        int | None, typer.Option(min=1, help="On which version of the workflow turns begin.")
    ] = None,
    unpin: Annotated[
        bool, typer.Option("--unpin", help="Let them begin on what the rollout gives again.")
    ] = False,
    where: Where = None,
    reason: Reason = "",
    actor: Actor = None,
    yes: Yes = False,
    timeout: Timeout = TIMEOUT_S,
    as_json: AsJson = False,
) -> int:
    """Keep sessions on one version of their workflow, from their next turn on; an open turn ends on its own."""
    if (version is None) != unpin:
        raise Stopped(Exit.USAGE, "give --version N, or --unpin to take a pin back")

    def make(asking: Client, _log: Log, _views: Queries) -> Make:
        return lambda _: asking.pin_body(version, reason)

    asked = _Asked("pin", sessions, where, actor, yes=yes, timeout=timeout, as_json=as_json)
    return asked.repair(make)


@dataclass(frozen=True, slots=True)
class _Asked:
    """Which sessions are to be repaired, how, and by whom."""

    how: str
    sessions: list[str] | None
    where: list[str] | None
    actor: str | None
    _: KW_ONLY
    yes: bool
    timeout: float
    as_json: bool

    def repair(self, make: Callable[[Client, Log, Queries], Make]) -> int:
        """Chooses, asks where many are meant, repairs, and tells what became of each."""
        from ..repairing import repair
        from .showing import catch_up

        named, wanted = self._chosen()
        given = settings()
        with queries(given) as views:
            for behind in catch_up(given, views, None):
                _note(behind)
            ids = named or self._found(given, views, wanted)
            self._confirm(len(ids))
            with kafka(given) as log, client(given, log, actor=self.actor) as asking:
                made = make(asking, log, views)
                told = list(repair(asking, views, ids, made, timeout_s=self.timeout))
        return self._tell(told)

    def _chosen(self) -> tuple[list[str], dict[str, str]]:
        """The sessions by their ids, or by what they are."""
        from .cancelling import named_sessions

        if bool(self.sessions) == bool(self.where):
            raise Stopped(
                Exit.USAGE,
                "say which sessions: their ids, or --where status=Recovering and the like",
            )
        if self.sessions:
            return named_sessions(self.sessions), {}
        return [], _wanted(self.where or [])

    @staticmethod
    def _found(given: Settings, views: Queries, wanted: dict[str, str]) -> list[str]:
        from ..repairing import chosen

        return chosen(views, given.tenant, wanted)

    def _confirm(self, count: int) -> None:
        """Goes on where a person says yes, where the sessions were named, or there is nothing to be done."""
        from ..telling.text import counted

        if self.yes or self.sessions or not count:
            return
        if not sys.stdin.isatty():
            raise Stopped(
                Exit.USAGE,
                f"asked to {self.how} {counted(count, 'session')}, and nobody can confirm it here: give --yes",
            )
        typer.confirm(f"{self.how} {counted(count, 'session')}?", abort=True, err=True)

    def _tell(self, told: Sequence[Repaired]) -> int:
        from ..repairing import APPLIED, HELD, REFUSED, UNKNOWN
        from ..telling.text import counted, last_line
        from .output import table, write_json

        words = {APPLIED: DONE[self.how], HELD: f"{DONE[self.how]}, and held"}
        if self.as_json:
            write_json([asdict(one) for one in told])
        else:
            rows = [
                (
                    one.session_id,
                    words.get(one.fate, one.fate),
                    one.status or "-",
                    last_line(one.detail),
                )
                for one in told
            ]
            table(("session", "repair", "status", "why"), rows)
            sums = Counter(words.get(one.fate, one.fate) for one in told)
            sums_told = "; ".join(f"{word}: {count}" for word, count in sums.items())
            _note(f"{counted(len(told), 'session')}{'; ' if sums else ''}{sums_told}")
        fates = {one.fate for one in told}
        held_is_bad = self.how != "pin" and HELD in fates
        if REFUSED in fates or held_is_bad:
            return Exit.REFUSED
        return Exit.NOT_IN_TIME if UNKNOWN in fates else Exit.DONE


def _wanted(where: Sequence[str]) -> dict[str, str]:
    from ...projections.repairs import NAMES

    found: dict[str, str] = {}
    for one in where:
        name, equals, value = one.partition("=")
        if not equals or name not in NAMES:
            raise Stopped(Exit.USAGE, f"--where {one!r}: write NAME=VALUE, by {', '.join(NAMES)}")
        if found.setdefault(name, value) != value:
            raise Stopped(
                Exit.USAGE,
                f"--where {name}: {found[name]!r} and {value!r} are both named: give one",
            )
    return found


def _events(asking: Client, session_id: str, log: Log, views: Queries) -> list[Event]:
    """The last events of the session, from where the views say that they lie."""
    from ..repairing import EVENTS_MAX, NoSuchTurn
    from ..telling.stretches import newest_events

    rows = views.session(session_id, tenant=asking.tenant)
    if not rows:
        raise NoSuchTurn(f"no session {session_id!r} of tenant {asking.tenant}")
    read = newest_events(log, asking.topics, views, rows[0], EVENTS_MAX)
    return [event for event, _ in read]


def _note(line: str) -> None:
    from .output import note

    note(line)
