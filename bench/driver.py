"""Opens sessions, approves what they ask for, sees them complete; counted as `driver` in every line."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.measure import Effect, Effects, say
from wakeful.commands.client import Client, random_id
from wakeful.commands.models import CommandBody, DecideApproval, OpenSession
from wakeful.commands.sending import Pending, Unconfirmed
from wakeful.deploy.clock import SystemClock
from wakeful.deploy.identity import identity_of
from wakeful.deploy.settings import Settings
from wakeful.events.codec import decode_outcome
from wakeful.events.log.protocol import Isolation, Log, Place, Record

BEFORE, AFTER = 10, 2
STEPS = BEFORE + AFTER
TIME_LIMIT_S = 300.0
RECORDS_MAX = 1_000
WAIT_MS = 20
WAIT_HELD_MS = 2
"""With approvals that are due soon."""

SILENCE_S = 5.0
"""After so long without a word the driver looks whether its own commands have arrived."""


@dataclass(frozen=True, slots=True)
class Load:
    """What is asked for: sessions of `before` steps, an approval and 2 steps, at most `window` open at once.

    Without `approve` they stay parked at their approval, and count as closed there.
    """

    sessions: int
    window: int
    before: int = BEFORE
    approve: bool = True
    settle_s: float = 0.0


@dataclass(slots=True)
class Run:
    """One batch of sessions and what was seen of it."""

    load: Load
    sessions: list[str]
    effects_seen: Effects
    todo: list[str]
    done: set[str] = field(default_factory=set)
    parked: dict[str, DecideApproval] = field(default_factory=dict)
    """Sessions that wait for their approval, in the order in which they asked."""
    held: list[tuple[float, str]] = field(default_factory=list)
    """What is to be approved, and when at the earliest."""
    signalled: dict[str, int] = field(default_factory=dict)
    effects: list[Effect] = field(default_factory=list)
    began_s: float = field(default_factory=time.monotonic)
    ended_s: float = 0.0

    @property
    def open(self) -> int:
        """How many have begun and are not over: for this load, done or parked."""
        over = len(self.done) if self.load.approve else len(self.done) + len(self.parked)
        return len(self.sessions) - len(self.todo) - over

    @property
    def over(self) -> bool:
        """Whether none is to begin and none is open."""
        return not self.todo and self.open == 0

    def look(self) -> list[Effect]:
        """Reads what has been executed since the last look; gives all of it so far."""
        known = set(self.sessions)
        self.effects += [effect for effect in self.effects_seen.read() if effect.session in known]
        return self.effects


class Driver:
    """Speaks to one namespace. Outcomes of sessions that belong to no run are not heard."""

    def __init__(self, log: Log, settings: Settings, effects: Path) -> None:
        self._topics = settings.topics
        self._client = Client(
            log,
            settings.topics,
            tenant=settings.tenant,
            actor="bench",
            channel="bench",
            digest_key=settings.digest_key,
            identity=identity_of(settings, log),
            now_ms=SystemClock().now_ms,
        )
        count = log.partitions(self._topics.outcomes)
        places = [Place(self._topics.outcomes, n) for n in range(count)]
        self._reader = log.reader(Isolation.COMMITTED)
        ends = log.ends(places, Isolation.COMMITTED)
        self._reader.assign({place: end for place, (_, end) in ends.items()})
        self._effects = effects
        self._runs: dict[str, Run] = {}
        """By session."""
        self._sent: dict[str, list[tuple[CommandBody, Pending]]] = {}
        """What was posted, by session; nobody waits for it while all goes well."""
        self._heard_s = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._reader.close()
        self._client.close()

    def run(self, load: Load) -> Run:
        """Drives a load to its end."""
        run = self.begin(load)
        self.until(run, lambda: run.over, f"all {load.sessions} sessions are over")
        run.ended_s = time.monotonic()
        run.look()
        return run

    def begin(self, load: Load) -> Run:
        """A run whose sessions are opened by `step` and `until`."""
        tag = random_id()[:8]
        sessions = [f"{tag}-{n}" for n in range(load.sessions)]
        run = Run(load, sessions, Effects(self._effects), list(reversed(sessions)))
        self._runs.update(dict.fromkeys(sessions, run))
        return run

    def until(
        self, run: Run, holds: Callable[[], bool], what: str, limit_s: float = TIME_LIMIT_S
    ) -> None:
        """Drives on until it holds; raises `TimeoutError` that says how far it came."""
        limit = time.monotonic() + limit_s
        while not holds():
            self.step(run)
            if time.monotonic() > limit:
                raise TimeoutError(
                    f"after {limit_s:.0f} s it is not so that {what}: {len(run.done)} of {len(run.sessions)} sessions "
                    f"are done, {len(run.parked)} are parked"
                )

    def step(self, run: Run) -> None:
        """Opens what the window allows, hears what came, approves what is due."""
        while run.todo and run.open < run.load.window:
            self._open(run.todo.pop(), run.load.before)
        for item in self._reader.poll(RECORDS_MAX, WAIT_HELD_MS if run.held else WAIT_MS):
            if isinstance(item, Record):
                self._hear(item)
        now = time.monotonic()
        if now - self._heard_s > SILENCE_S:
            self._ask_again()
        due = [session for at, session in run.held if at <= now]
        if due:
            run.held = [entry for entry in run.held if entry[0] > now]
            self.approve(run, due)

    def approve(self, run: Run, sessions: Sequence[str]) -> None:
        """Approves what these sessions wait for; does not wait for what comes of it."""
        for session in sessions:
            decision = run.parked.pop(session)
            run.signalled[session] = time.monotonic_ns()
            self._post(session, decision)

    def resume(self, run: Run, session: str) -> float:
        """Approves one parked session, sees it complete, and gives the milliseconds to its next step."""
        self.approve(run, [session])
        self.until(run, lambda: session in run.done, f"{session} is done")
        before = run.load.before
        began = [e.at_ns for e in run.look() if e.session == session and e.step == before]
        return (began[0] - run.signalled[session]) / 1e6

    def _open(self, session: str, before: int) -> None:
        self._post(session, OpenSession("turns"))
        self._post(session, self._client.message({"before": before}))

    def _post(self, session: str, body: CommandBody) -> None:
        self._sent.setdefault(session, []).append((body, self._client.post(session, body)))

    def _ask_again(self) -> None:
        """Posts again, under its id, what no broker has confirmed; a repeat changes nothing."""
        for session, sent in self._sent.items():
            for n, (body, pending) in enumerate(sent):
                try:
                    pending.receipt()
                except Unconfirmed as lost:
                    say(f"a command is sent again: {lost}")
                    sent[n] = (body, self._client.post(session, body, lost.command_id))
        self._heard_s = time.monotonic()

    def _hear(self, record: Record) -> None:
        self._heard_s = time.monotonic()
        outcome = decode_outcome(record.value or b"", record.headers)
        run = self._runs.get(outcome.session_id)
        if run is None:
            return
        if outcome.kind == "approval_wanted":
            run.parked[outcome.session_id] = DecideApproval(
                outcome.proposal_id or "", outcome.digest or b"", "approve", ""
            )
            if run.load.approve:
                due_s = time.monotonic() + run.load.settle_s
                run.held.append((due_s, outcome.session_id))
        elif outcome.kind == "completed":
            run.done.add(outcome.session_id)
            del self._runs[outcome.session_id]
            del self._sent[outcome.session_id]
        else:
            raise RuntimeError(f"a session of the benchmark came to what it must not: {outcome}")
