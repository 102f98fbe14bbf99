"""The topics as an AsyncAPI 3.0 document: from the table that `topics apply` uses, the schemas, and who may read and write.

What an application of any language needs in order to speak to Wakeful through Kafka: addresses, keys, headers, Avro
schemas with their ids, retention, and which role sends or receives what.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

from ...commands.keyring import FOR_EVERY_TENANT, ROLES
from ...commands.models import CommandBody
from ...commands.signatures import KEY_HEADER, SIGNATURE_HEADER
from ...events import headers as h
from ...events import records as r
from ...events.log.protocol import TopicSpec
from ...events.topics import QUEUE, Topics
from ...schemas import SchemaVersion, bundled

VERSION = "3.0.0"
AVRO = "application/vnd.apache.avro;version=1.9.0"

RECORDS = "wakeful.v1"
"""The namespace of the records in Avro."""

CHANNEL_BINDING = "0.5.0"

ID = "[A-Za-z0-9._:-]{1,128}"
SESSION_KEY = f"^{ID}/{ID}$"
ATTEMPT_KEY = f"^{ID}/{ID}/[0-9]+/[0-9]+#[0-9]+$"

WATCHED_KEY = r"^\[.+\]$"
"""A list in JSON, of what the row is about."""

ASKERS = ("client", "gateway")
READERS = ("operator",)
"""Who may read everything."""

ALL_ROLES = (*ASKERS, "worker", "processor", "projector", "watcher", "publisher", "operator")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of topic: what lies in it under which key, and who writes and reads it at the broker."""

    name: str
    summary: str
    classes: tuple[type, ...]
    key: str | None
    written_by: tuple[str, ...]
    read_by: tuple[str, ...]
    signed: bool = False
    batched: bool = False
    """Written in transactions: each record carries the batch's id and count."""


KINDS = (
    Kind(
        "commands",
        "All input: what is asked for, results of workers, wake-ups. One session's lie in one partition.",
        get_args(CommandBody),
        SESSION_KEY,
        (*ASKERS, "worker", "processor", "operator"),
        ("gateway", "worker", "processor"),
        signed=True,
    ),
    Kind(
        "events",
        "What happened, for ever: the truth. Each carries the hash of the one before it.",
        get_args(r.EventBody),
        SESSION_KEY,
        ("processor",),
        ("gateway", "worker", "processor", "projector", "watcher"),
        batched=True,
    ),
    Kind(
        "activities",
        "Attempts of activities, for the workers of a queue.",
        (r.ActivityTask,),
        ATTEMPT_KEY,
        ("processor",),
        ("worker",),
        batched=True,
    ),
    Kind(
        "activities_once",
        "The same for writes that must not run twice: taken before they are made.",
        (r.ActivityTask,),
        ATTEMPT_KEY,
        ("processor",),
        ("worker",),
        batched=True,
    ),
    Kind(
        "attempts",
        "Attempts that nobody waits for any more: workers stop them.",
        (r.AttemptOver,),
        ATTEMPT_KEY,
        ("processor",),
        ("worker",),
        batched=True,
    ),
    Kind(
        "snapshots",
        "States at rest, parts of open journals, marks: a cache for processors, and for nobody else.",
        (r.Snapshot, r.JournalChunk, r.PartitionMark),
        f"^({ID}/{ID}(#[0-9]+)?|@[0-9]+)$",
        ("processor",),
        ("processor",),
        batched=True,
    ),
    Kind(
        "outcomes",
        "What the world outside should know of a session: replies, approvals that are wanted, refusals, its end.",
        (r.Outcome,),
        SESSION_KEY,
        ("processor",),
        ASKERS,
        batched=True,
    ),
    Kind(
        "control",
        "Who may decide approvals, and on which version of a workflow turns begin; and what each processor goes by.",
        (r.PolicyPublished, r.PolicySeen, r.RolloutSet, r.RolloutSeen),
        "^(policy|policy-seen/.+|rollout/.+|rollout-seen/.+)$",
        ("processor", "publisher"),
        ("worker", "processor", "publisher"),
    ),
    Kind(
        "watch_windows",
        "What watchers count in a minute, and remember of sessions to do so; made again from the events at will.",
        (),
        WATCHED_KEY,
        ("watcher",),
        ("watcher",),
    ),
    Kind(
        "watch_proposals",
        "Sessions without progress, as watchers see them, and when each watcher spoke last.",
        (),
        WATCHED_KEY,
        ("watcher",),
        ("gateway", "watcher"),
    ),
    Kind(
        "dead_letters",
        "What could not be read or was not let in, byte for byte, with its cause in headers.",
        (),
        None,
        ("gateway", "worker", "processor", "operator"),
        ("gateway",),
    ),
)
"""Every kind that `Topics` names; operators may read all of them."""

SOME_QUEUE = "q"
"""Stands for every queue: their topics differ by its name alone."""

DEAD_LETTER = "DeadLetter"

PLAIN = {
    "dead_letters": DEAD_LETTER,
    "watch_windows": "WatchedRow",
    "watch_proposals": "WatchedProposal",
}
"""The one message of a kind that has no record of ours: bytes as they came, or JSON."""

SIGNED = {
    KEY_HEADER: "The id of the key that vouches for the record.",
    SIGNATURE_HEADER: "The signature, in raw bytes, over cluster, topic, key and value.",
}

OURS = {
    "ce_specversion": "CloudEvents, binary mode: 1.0.",
    "ce_type": "The record's full name in Avro.",
    "ce_source": "wakeful",
    "ce_id": "Unique among records of this type.",
    "content-type": "application/avro",
    h.FINGERPRINT: "CRC-64-AVRO of the schema that wrote the value, in 8 raw bytes.",
}

BATCHED = {
    h.BATCH: "The transaction that the record belongs to.",
    h.BATCH_COUNT: "How many records that transaction has.",
}

TRACE = {h.TRACEPARENT: "W3C trace context, passed through."}

DEATH = {
    f"{h.DEAD}reason": "Why it was not let in, in one word.",
    f"{h.DEAD}detail": "The same in a sentence.",
    f"{h.DEAD}topic": "Where it came from.",
    f"{h.DEAD}partition": "Where in that topic.",
    f"{h.DEAD}offset": "Where in that partition.",
    f"{h.DEAD}timestamp_ms": "When it came there, in milliseconds since 1970.",
    f"{h.DEAD}sha256": "SHA-256 of its value, in hex.",
}


def asyncapi(
    topics: Topics, partitions: int, *, queues: Sequence[str] = (), min_insync_replicas: int = 1
) -> dict[str, Any]:
    """The document of one namespace; `queues` are the only ones that an activity may be in, any where there is none."""
    specs = {
        spec.name: spec
        for spec in topics.specs([SOME_QUEUE], partitions, min_insync_replicas=min_insync_replicas)
    }
    return {
        "asyncapi": VERSION,
        "info": {
            "title": f"Wakeful: the topics of {topics.namespace}",
            "version": "1",
            "description": "Durable agent sessions on Kafka. Records are placed by Java's murmur2 of their key; "
            "values are Avro in Confluent's framing, under the ids that stand here, without a registry.",
        },
        "defaultContentType": "application/avro",
        "channels": {
            kind.name: _channel(kind, specs[address(topics, kind, SOME_QUEUE)], queues)
            for kind in KINDS
        },
        "operations": _operations(),
        "components": {"messages": _messages()},
    }


def address(topics: Topics, kind: Kind, queue: str) -> str:
    """The name of a kind's topic; a queue's own, where it has queues."""
    if kind.name.startswith("activities"):
        return topics.activities(queue, once=kind.name.endswith("once"))
    return str(getattr(topics, kind.name))


def _channel(kind: Kind, spec: TopicSpec, queues: Sequence[str]) -> dict[str, Any]:
    names = [cls.__name__ for cls in kind.classes] or [PLAIN[kind.name]]
    channel: dict[str, Any] = {
        "address": spec.name,
        "summary": kind.summary,
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in names},
        "bindings": {"kafka": _binding(spec)},
    }
    if kind.name.startswith("activities"):
        before, _, after = spec.name.partition(f".activities.{SOME_QUEUE}")
        channel["address"] = f"{before}.activities.{{queue}}{after}"
        told: dict[str, Any] = {"description": f"The queue of the activity: {QUEUE.pattern}"}
        channel["parameters"] = {"queue": told | ({"enum": sorted(set(queues))} if queues else {})}
    return channel


def _binding(spec: TopicSpec) -> dict[str, Any]:
    """What the brokers are told; numbers as numbers, and the policy as a list, as the binding has them."""
    told: dict[str, Any] = {
        name: int(value) if name.endswith((".ms", ".bytes", ".replicas")) else value
        for name, value in spec.config.items()
    }
    told["cleanup.policy"] = [told["cleanup.policy"]]
    return {
        "partitions": spec.partitions,
        "topicConfiguration": told,
        "bindingVersion": CHANNEL_BINDING,
    }


def _operations() -> dict[str, Any]:
    """One for each role and topic that it reads or writes; of commands only those that its key may sign."""
    made: dict[str, Any] = {}
    for kind in KINDS:
        for role in ALL_ROLES:
            if role in kind.written_by:
                made[f"{role}.sends.{kind.name}"] = _operation("send", role, kind)
            if role in (*kind.read_by, *READERS):
                made[f"{role}.receives.{kind.name}"] = _operation("receive", role, kind)
    return made


def _operation(action: str, role: str, kind: Kind) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "action": action,
        "channel": {"$ref": f"#/channels/{kind.name}"},
        "tags": [{"name": role}],
    }
    if action == "send" and role != "operator":  # who sends back what lay among the dead letters
        operation["messages"] = [
            {"$ref": f"#/channels/{kind.name}/messages/{name}"} for name in _sent(role, kind)
        ]
    return operation


def _sent(role: str, kind: Kind) -> list[str]:
    """The records of this kind that this role writes: those that its key vouches for, or else what nobody signs."""
    names = [cls.__name__ for cls in kind.classes] or [PLAIN[kind.name]]
    vouched = ROLES.get(role, frozenset())
    signed = [name for name in names if name in vouched]
    return signed or [name for name in names if name not in FOR_EVERY_TENANT]


def _messages() -> dict[str, Any]:
    made = {cls.__name__: _message(cls.__name__, kind) for kind in KINDS for cls in kind.classes}
    made[DEAD_LETTER] = {
        "name": DEAD_LETTER,
        "summary": "A record as it came: its own key, value and headers, and why it is here.",
        "contentType": "application/octet-stream",
        "headers": _headers(DEATH),
    }
    for kind in KINDS:
        if kind.key == WATCHED_KEY:
            made[PLAIN[kind.name]] = _watched(kind)
    return made


def _watched(kind: Kind) -> dict[str, Any]:
    """Watchers write JSON: nothing but what they show rests on it, and it can be made again."""
    key = {"type": "string", "pattern": kind.key}
    return {
        "name": PLAIN[kind.name],
        "summary": kind.summary,
        "contentType": "application/json",
        "payload": {"type": ["object", "null"]},
        "bindings": {"kafka": {"key": key, "bindingVersion": CHANNEL_BINDING}},
    }


def _message(name: str, kind: Kind) -> dict[str, Any]:
    version = bundled().current(f"{RECORDS}.{name}")
    schema = bundled().schema(version)
    # Strangers write signed records, and may leave out what only we need; nobody else may sign what is published.
    signed = kind.signed or name in FOR_EVERY_TENANT
    must = SIGNED if kind.signed else {**OURS, **(BATCHED if kind.batched else {})}
    may = {**OURS, **TRACE, **(SIGNED if signed else {})}
    return {
        "name": version.record,
        "title": name,
        "summary": schema["doc"],
        "headers": _headers(must, may),
        "payload": {"schemaFormat": AVRO, "schema": schema},
        "bindings": {
            "kafka": {
                "key": {"type": "string", "pattern": kind.key},
                "schemaIdLocation": "payload",
                "schemaIdPayloadEncoding": "confluent",
                "bindingVersion": CHANNEL_BINDING,
            }
        },
        "x-schema-id": version.id,
        "x-fingerprint": version.fingerprint.hex(),
        "x-older-schemas": _older(version),
    }


def _older(current: SchemaVersion) -> dict[str, Any]:
    """By id, the schemas by which records were written before: what lies in a topic stays as it was written."""
    return {
        str(version.id): bundled().schema(version)
        for version in bundled().lock.versions
        if version.record == current.record and version != current
    }


def _headers(must: dict[str, str], may: dict[str, str] | None = None) -> dict[str, Any]:
    known = {**(may or {}), **must}
    return {
        "type": "object",
        "required": sorted(must),
        "properties": {name: {"type": "string", "description": known[name]} for name in known},
    }
