"""Policies at work: what a processor decides by, and how a set is published, waited for and shown.

While no set is published nobody may decide an approval, except on the local stack, where everybody may
(`WAKEFUL_OPEN_POLICY`), and each processor says so when it starts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

from ..commands.identity import INSECURE, Identity, Published
from ..commands.policy import EVERYBODY, NOBODY, Policy
from ..events import records as r
from ..events.codec import decode_control, encode_control
from ..events.errors import Undecodable
from ..events.headers import record_headers
from ..events.log.protocol import EndOfPartition, Isolation, Log, LogFault, Place, Record
from ..processors.control import POLICY_KEY, Control, PolicyDamaged
from ..processors.published import Ignored, Unusable, read_policy
from .clock import SystemClock
from .exits import Exit, Stopped
from .settings import Settings

POLL_RECORDS = 500
POLL_MS = 100

READ_LIMIT_S = 30.0
"""How long the control topic may take to be read: some dozens of records."""

APPEND_LIMIT_MS = 10_000

TRIES_MAX = 10
"""How often a set is published again because others did at the same moment."""

VERSION_MAX = 2**63 - 1
"""What the format holds; sets may share this one, and the later counts, so that nobody can use up what there is."""


class Seen(Protocol):
    """Reads the control topic for what processors say that they go by."""

    def take(self, record: Record) -> None:
        """Takes one record in."""

    def decides_by(self, processor: str, offset: int) -> bool:
        """Whether this processor has told that it goes by the record at this offset, or a later one."""


@dataclass(slots=True)
class Shown:
    """What the control topic says: the set in force at `offset` (null: none was published), and who decides by which.

    Filled by `take`, record by record; `identity` judges which sets count, and `load` which can be decided by: like a
    processor it stays with the last good set.
    """

    identity: Identity = INSECURE
    load: Callable[[r.PolicyPublished], object] | None = None
    published: r.PolicyPublished | None = None
    offset: int | None = None
    versions: dict[int, int] = field(default_factory=dict)
    """Each set that a publisher vouches for, or did with a key that is revoked since, whether or not it came to be in
    force: its offset, and its version."""
    damaged: str = ""
    """Why the newest set cannot be read, or loaded, where it cannot."""
    ignored: list[str] = field(default_factory=list)
    """Sets that do not count, each with its offset and why."""
    revoked: str = ""
    """Why nobody may decide, where the only set is one whose publisher's key was revoked since."""
    seen: dict[str, r.PolicySeen] = field(default_factory=dict)

    def take(self, record: Record) -> None:
        """Takes one record in; what is neither a set nor a processor's word is passed over."""
        if record.key == POLICY_KEY:
            self._take_policy(record)
            return
        try:
            found = decode_control(record.value, record.headers)
        except Undecodable:
            return
        if isinstance(found, r.PolicySeen):
            self.seen[found.processor] = found

    def _take_policy(self, record: Record) -> None:
        version = self.published.version if self.published is not None else None
        match read_policy(record, self.identity, version):
            case Ignored() as one:
                why = f"{one.reason} ({one.told})"
                self.ignored.append(f"the set at offset {record.offset} is ignored: {why}")
                if one.version is not None:
                    self.versions[record.offset] = one.version
                    self.revoked = "" if self.published else self.ignored[-1]
            case Unusable(told):
                self.damaged = f"the record at offset {record.offset} cannot be read ({told})"
            case None:
                self.published, self.offset, self.damaged, self.revoked = None, None, "", ""
            case published if why := self._unloadable(published):
                self.versions[record.offset] = published.version
                told = f"the set at offset {record.offset}, version {published.version} by {published.published_by},"
                self.damaged = f"{told} cannot be loaded by processors ({why})"
            case published:
                self.versions[record.offset] = published.version
                self.published, self.offset = published, record.offset
                self.damaged = self.revoked = ""

    def _unloadable(self, published: r.PolicyPublished) -> str:
        """Why processors cannot decide by it; empty where they can."""
        try:
            if self.load is not None:
                self.load(published)
        except PolicyDamaged as error:
            return str(error)
        return ""

    def decides_by(self, processor: str, offset: int) -> bool:
        """Whether this processor has told that it decides by the set at this offset, or a later one."""
        seen = self.seen.get(processor)
        return seen is not None and seen.policy_offset >= offset


def unpublished(settings: Settings) -> Policy:
    """What is in force while no set is published."""
    return EVERYBODY if settings.open_policy else NOBODY


def opened_control(
    log: Log, settings: Settings, name: str, identity: Identity, loaded: tuple[r.Version, ...] = ()
) -> Control:
    """What a processor of this name goes by, who believes whom `identity` does; the loop reads it."""
    from ..processors.policies.cedar import load

    return Control(
        log,
        settings.topics,
        name,
        load=load,
        identity=identity,
        unpublished=unpublished(settings),
        now_ms=SystemClock().now_ms,
        loaded=loaded,
    )


def show(log: Log, settings: Settings, identity: Identity) -> Shown:
    """The control topic, read to its end, as `identity` judges it."""
    from ..processors.policies.cedar import load

    shown = Shown(identity, load)
    for record in to_the_end(log, Place(settings.topics.control, 0)):
        shown.take(record)
    return shown


def publish(log: Log, settings: Settings, published: r.PolicyPublished, identity: Identity) -> int:
    """Signs and appends the set, and returns its offset; in force from there on for whoever reads it.

    `NoKey`, and nothing is appended, where no key here vouches for it. A repeat puts the same set in force again.
    """
    return append(log, settings, published, POLICY_KEY, f"policy/{published.version}", identity)


def append(
    log: Log, settings: Settings, published: Published, key: bytes, id_: str, identity: Identity
) -> int:
    """The same for whatever a publisher lays into the control topic, under this key."""
    encoded = encode_control(published)
    topic = settings.topics.control
    mark = identity.sign_published(published, topic, key, encoded.value)
    offsets: list[int] = []

    def delivered(_place: Place, offset: int, fault: LogFault | None) -> None:
        if fault is None:
            offsets.append(offset)

    producer = log.producer()
    try:
        producer.produce(
            topic,
            key=key,
            value=encoded.value,
            headers=[*record_headers(encoded, id_), *mark],
            partition=0,
            delivered=delivered,
        )
        producer.flush(APPEND_LIMIT_MS)
    finally:
        producer.close()
    return offsets[0]


def publish_next(
    log: Log, settings: Settings, made: r.PolicyPublished, identity: Identity
) -> tuple[r.PolicyPublished, int]:
    """Publishes the set as the version after the newest, and returns it and its offset.

    The newest is also looked for among those whose publisher's key was revoked: processors that run may go by one, and
    take nothing older. Of two who do so at once the later one in the log publishes once more, as the version after the other's: no two sets
    have one version. `NoKey` as in `publish`; `Stopped` where others come first again and again.
    """
    for _ in range(TRIES_MAX):
        newest = max(show(log, settings, identity).versions.values(), default=0)
        published = replace(made, version=min(newest + 1, VERSION_MAX))
        offset = publish(log, settings, published, identity)
        found = show(log, settings, identity).versions
        taken = any(at < offset and v >= published.version for at, v in found.items())
        if not taken or published.version == VERSION_MAX:
            return published, offset
    raise Stopped(
        Exit.REFUSED,
        f"others published {TRIES_MAX} times at the same moment: see 'wakeful policy show', and publish when they are done",
    )


def taken_over(
    log: Log, settings: Settings, published: r.PolicyPublished, offset: int, identity: Identity
) -> str:
    """What took the place of this set since it was published; empty while it is the newest."""
    shown = show(log, settings, identity)
    if shown.offset == offset:
        return ""
    told = f"version {published.version} at offset {offset} was published and is in force no more: "
    if shown.published is None:
        return f"{told}policy was taken back since; see 'wakeful policy show'"
    by = f"version {shown.published.version} by {shown.published.published_by} at offset {shown.offset}"
    return f"{told}{by} took its place; see 'wakeful policy show', and publish again if yours shall hold"


def wait_until_seen(
    log: Log,
    settings: Settings,
    offset: int,
    members: Callable[[], list[str]],
    *,
    timeout_s: float,
    progress: Callable[[list[str]], None],
    told_by: Seen | None = None,
    see: str = "'wakeful policy show'",
) -> list[str]:
    """Returns the live processors once each decides by the set at `offset` or a later one.

    `members` are those that are live now; `told_by` reads what each says, by default of policy. `Stopped` names who is
    missing when the time is up; the set stays published.
    """
    shown: Seen = Shown() if told_by is None else told_by
    limit = time.monotonic() + timeout_s
    told: list[str] | None = None
    place = Place(settings.topics.control, 0)
    reader = log.reader(Isolation.COMMITTED)
    try:
        reader.assign({place: log.ends([place], Isolation.COMMITTED)[place][0]})
        while True:
            for item in reader.poll(POLL_RECORDS, POLL_MS):
                if isinstance(item, Record):
                    shown.take(item)
            live = members()
            missing = sorted(m for m in live if not shown.decides_by(m, offset))
            if not missing:
                return live
            if missing != told:
                told = missing
                progress(missing)
            if time.monotonic() > limit:
                raise Stopped(Exit.NOT_IN_TIME, _late(missing, offset, timeout_s, see))
    finally:
        reader.close()


def _late(missing: list[str], offset: int, timeout_s: float, see: str) -> str:
    return (
        f"published at offset {offset}, and after {timeout_s:g} s not in force yet in {', '.join(missing)}: "
        f"look at their logs ('… is ignored', 'a published policy cannot be used', or they hang), then at {see}"
    )


def to_the_end(log: Log, place: Place) -> Iterator[Record]:
    """The records of the control topic, up to the end that is there now."""
    start, end = log.ends([place], Isolation.COMMITTED)[place]
    if start == end:
        return
    limit = time.monotonic() + READ_LIMIT_S
    reader = log.reader(Isolation.COMMITTED)
    try:
        reader.assign({place: start})
        while time.monotonic() < limit:
            for item in reader.poll(POLL_RECORDS, POLL_MS):
                if not isinstance(item, EndOfPartition):
                    yield item
                elif item.offset >= end:
                    return
    finally:
        reader.close()
    raise Stopped(
        Exit.UNAVAILABLE,
        f"{place.topic} was not read to its end within {READ_LIMIT_S:g} s: check kafka with 'wakeful status'",
    )
