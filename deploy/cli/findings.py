"""What `doctor` makes of what it was told: one finding per thing looked at. No clock and no I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ...commands.keyring import Keyring
from ...events.log.protocol import TopicSpec
from ..roles import WITHOUT, roles_never, roles_over
from ..settings import Settings
from ..telling.stalled import proposal_told, silence_told
from ..telling.text import span

if TYPE_CHECKING:
    from ...processors.watchers.board import Silence
    from ...projections.exclusion import Holder, Work

Verdict = Literal["ok", "advice", "wrong", "unknown"]

SKEW_MAX_MS = 5_000
"""A clock off by this much makes timers late by as much, and times of the log hard to compare."""

LAG_MAX = 1_000
"""Records that a reader which runs may be behind without a word."""

LETTERS_LATE_MS = 3_600_000
"""Dead letters as young as this may still be news to somebody."""

LETTERS_MAX = 1_000
"""Dead letters that are looked at, the newest."""

AT_LEAST = frozenset({"retention.ms", "retention.bytes", "max.message.bytes"})
"""Settings of which more is no fault; -1 is the most."""

BY_CHOICE = frozenset({"min.insync.replicas", "segment.bytes", "min.cleanable.dirty.ratio"})
"""Settings that brokers of one's own may have otherwise."""

LOOPBACK = ("127.", "localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at: what it is, how it stands, and what to do; `ok` has nothing to be done."""

    name: str
    verdict: Verdict
    what: str
    to_do: str = ""


def summary(found: Sequence[Finding]) -> str:
    """All findings in a line; advice is no fault, and not passed over in silence."""
    wrong = sum(one.verdict in ("wrong", "unknown") for one in found)
    advised = sum(one.verdict == "advice" for one in found)
    if wrong:
        return f"{wrong} of {len(found)} are wrong"
    return f"nothing is wrong; advice on {advised} of {len(found)}" if advised else "all is well"


def of_topics(
    wanted: Sequence[TopicSpec], found: Mapping[str, TopicSpec], partitions: int
) -> list[Finding]:
    """Whether each topic of the table is there, and set as the table says."""
    faults = []
    for spec in wanted:
        there = found.get(spec.name)
        if there is None:
            to_do = "run 'wakeful topics apply' (with the app's name for its queues)"
            faults.append(Finding("topics", "wrong", f"{spec.name} is missing", to_do))
            continue
        if there.partitions != spec.partitions:
            what = f"{spec.name} has {there.partitions} partitions, not {spec.partitions}"
            to_do = f"set WAKEFUL_PARTITIONS to {there.partitions} if all have so many; else use another namespace"
            faults.append(Finding("topics", "wrong", what, to_do))
        off = _settings_off(spec, there)
        if off:
            told = ", ".join(f"{key} is {got}, not {want}" for key, (got, want) in off.items())
            given = ",".join(f"{key}={want}" for key, (_, want) in off.items())
            to_do = f"kafka-configs.sh --alter --topic {spec.name} --add-config {given}"
            faults.append(Finding("topics", "wrong", f"{spec.name}: {told}", to_do))
    told = f"{len(wanted)} topics of {partitions} partitions are set as they should be"
    return faults or [Finding("topics", "ok", told)]


def _settings_off(spec: TopicSpec, there: TopicSpec) -> dict[str, tuple[str, str]]:
    """Settings that are not as wanted: what they are, and what they should be."""
    off = {}
    for key, want in spec.config.items():
        got = there.config.get(key)
        if got is None or got == want or key in BY_CHOICE:
            continue  # brokers that do not tell a setting are not blamed for it
        if key in AT_LEAST and (got == "-1" or (want != "-1" and int(got) >= int(want))):
            continue
        off[key] = (got, want)
    return off


def of_clock(before_ms: int, at_ms: int, after_ms: int) -> Finding:
    """Whether the broker dates records as this machine would: its time must lie between two of ours."""
    off_ms = at_ms - before_ms if at_ms < before_ms else max(0, at_ms - after_ms)
    if abs(off_ms) <= SKEW_MAX_MS:
        near = "no difference seen" if off_ms == 0 else f"they differ by {span(abs(off_ms))}"
        return Finding("clock", "ok", f"the broker's and this machine's: {near}")
    how = "behind" if off_ms < 0 else "ahead of"
    told = f"the broker's clock is {span(abs(off_ms))} {how} this machine's"
    return Finding("clock", "wrong", told, "let NTP set both clocks: timers follow the log's time")


def of_lag(lags: Sequence[Mapping[str, Any]], processors: int) -> list[Finding]:
    """How far each reader is behind, and whether there is a processor to catch up."""
    findings = []
    for reader, doing in (("processors", "decided"), ("projector", "in the views")):
        records = sum(one["lag"] for one in lags if one["reader"] == reader)
        told = f"{records} records are not {doing} yet"
        alone = reader == "processors" and not processors
        if alone:
            told += ", and no processor runs"
        verdict: Verdict = "wrong" if records > (0 if alone else LAG_MAX) else "ok"
        if alone and not records:
            verdict = "advice"
        to_do = "" if verdict == "ok" else "start 'wakeful run APP', or look into its log"
        findings.append(Finding(f"lag of {reader}", verdict, told, to_do))
    return findings


def of_keys(ring: Keyring, file: str, now_ms: int) -> list[Finding]:
    """Whether each role has a key that is active; where this file has none at all of a role, another may have it."""
    signing = sum(key.signs_at(now_ms) for key in ring.keys)
    if not signing and all(not key.signs for key in ring.keys):
        to_do = "make one with 'wakeful keys new', or add it with 'wakeful keys add'"
        return [Finding("keys", "wrong", f"no key of {file} signs", to_do)]
    found = []
    for role in roles_over(ring.keys, now_ms):
        signed, then = WITHOUT[role]
        what = f"no {role}'s key of {file} is active, and so none for {signed}: {then}"
        found.append(Finding("keys", "wrong", what, f"run 'wakeful keys new --role {role}'"))
    for role in roles_never(ring.keys):
        what = f"no {role}'s key is in {file}, and so none for {WITHOUT[role][0]}"
        to_do = f"run 'wakeful keys new --role {role}', unless another keyring has it and this one needs none"
        found.append(Finding("keys", "advice", what, to_do))
    told = f"commands are signed; {signing} keys of {file} sign"
    return found or [Finding("keys", "ok", told)]


def of_letters(letters: Sequence[tuple[int, str]], now_ms: int) -> Finding:
    """Whether something was turned away of late: the open letters' times and reasons, the newest so many."""
    late = Counter(reason for at_ms, reason in letters if at_ms > now_ms - LETTERS_LATE_MS)
    if not late:
        return Finding("dead letters", "ok", f"none of the last {span(LETTERS_LATE_MS)} is open")
    reasons = ", ".join(f"{count} {reason}" for reason, count in late.most_common())
    many = "at least " if late.total() >= LETTERS_MAX else ""
    told = f"{many}{late.total()} in the last {span(LETTERS_LATE_MS)}: {reasons}"
    return Finding("dead letters", "advice", told, "see them with 'wakeful dlq list --all-tenants'")


def of_policy(version: int | None, damaged: str, ignored: Sequence[str]) -> Finding:
    """Whether the control topic holds what nobody goes by; `version` is that of the set in force."""
    if damaged:
        return Finding("policy", "wrong", damaged, "publish a set with 'wakeful policy publish'")
    if ignored:
        to_do = "see who may write to the control topic; publish what shall hold with 'wakeful policy publish'"
        return Finding("policy", "advice", ignored[-1], to_do)
    told = "none is published" if version is None else f"version {version} is in force"
    return Finding("policy", "ok", told)


def of_watchers(
    silence: Silence, proposals: Sequence[Mapping[str, Any]], now_ms: int
) -> list[Finding]:
    """Whether watchers speak of all partitions, where there are any, and which sessions they see standing still."""
    found = []
    if told := silence_told(silence, now_ms):
        to_do = "see whether 'wakeful watch' runs, and its log; until then no session is seen standing still"
        found.append(Finding("watchers", "wrong" if silence.silent else "advice", told, to_do))
    if silence.undecodable:
        told = (
            f"{silence.undecodable} events could not be read by a watcher, and are counted nowhere"
        )
        to_do = "run watchers of the version that wrote them"
        found.append(Finding("watchers", "wrong", told, to_do))
    if proposals:
        told = (
            f"{len(proposals)} without progress, the longest {proposal_told(proposals[0], now_ms)}"
        )
        to_do = f"see them with 'wakeful top --all-tenants', and 'wakeful explain {proposals[0]['session_id']}'"
        found.append(Finding("sessions", "wrong", told, to_do))
    if not found:
        none = "none has run here: 'wakeful watch' counts, and tells which sessions stand still"
        told = "they speak of all partitions" if silence.ever else none
        found.append(Finding("watchers", "ok", told))
    return found


def of_settings(given: Settings) -> list[Finding]:
    """Settings that fit one's own machine, a test, or nothing."""
    return [_digest_key(given), _blobs(given), *_for_tests(given)]


def _digest_key(given: Settings) -> Finding:
    if not given.default_digest_key:
        return Finding("digest key", "ok", "one of your own")
    servers = (given.kafka or "").split(",")
    if all(server.strip().startswith(LOOPBACK) for server in servers):
        return Finding("digest key", "ok", "the one that everybody knows, on this machine only")
    return Finding(
        "digest key",
        "wrong",
        f"the one that everybody knows, with a broker at {given.kafka}: approvals could be forged",
        "set WAKEFUL_DIGEST_KEY to 32 or more random hex digits, the same for all processes, in a new namespace",
    )


def _blobs(given: Settings) -> Finding:
    if given.blobs is not None:
        return Finding("blobs", "ok", "there is a store for payloads over 256 KiB")
    to_do = "set WAKEFUL_BLOBS to one place for all processes, such as s3://bucket/blobs"
    return Finding(
        "blobs",
        "advice",
        "no store: payloads over 256 KiB are refused or hold their session",
        to_do,
    )


def _for_tests(given: Settings) -> list[Finding]:
    findings = []
    if given.failpoint:
        told = f"WAKEFUL_FAILPOINT={given.failpoint} kills processes on purpose"
        findings.append(Finding("settings", "wrong", told, "unset WAKEFUL_FAILPOINT"))
    if given.always_replay:
        told = "WAKEFUL_ALWAYS_REPLAY rebuilds workflows each time, which is slow"
        findings.append(Finding("settings", "advice", told, "unset it, except in tests"))
    return findings


def of_logins(
    known: int,
    may: Sequence[str],
    long: Mapping[Work, Sequence[Holder]],
    lingering: Sequence[Holder],
) -> list[Finding]:
    """Who has kept the views from being changed for long, and what logins may do besides reading, in words."""
    found = []
    for work, holders in long.items():
        for one in holders:
            told = f"{one} has kept all other {work} of the views waiting for long"
            to_do = f"see what it does, and end it: SELECT pg_terminate_backend({one.pid})"
            found.append(Finding("logins", "wrong", told, to_do))
    for one in lingering:
        told = f"{one} has a transaction open, and may keep the next version of the views waiting"
        to_do = f"end it, if nobody needs it: SELECT pg_terminate_backend({one.pid})"
        found.append(Finding("logins", "advice", told, to_do))
    if may:
        to_do = "run 'wakeful access confine', if nobody else in this database needs it"
        found.append(Finding("logins", "advice", f"logins may also {'; '.join(may)}", to_do))
    return found or [Finding("logins", "ok", f"{known} for SQL, which read and make nothing")]
