"""Questions of audits and the command line: which topics are there and how they are set, and what a group has done."""

from __future__ import annotations

import time
from collections.abc import Sequence

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, but not re-exported by name
    AdminClient,
    ConfigResource,
)

from .kafka_client import connection, error_of, fault_of
from .protocol import Place, TopicSpec

CALL_TIMEOUT_S = 10.0

STABLE_TRIES_MAX = 50
STABLE_PAUSE_S = 0.01
"""A transaction that commits is over within some ten of these; one that hangs is not waited for."""


def committed_offsets(bootstrap: str, group: str, places: Sequence[Place]) -> dict[Place, int]:
    """The group's next offset per partition, without those that it never committed.

    While a transaction with an offset ends, the brokers do not tell it: it is asked for again, for half a second. Where
    the transaction is open for longer, the offset before it is told, which is what is committed.
    """
    admin = AdminClient(connection(bootstrap, f"{group}.asked"))
    found: dict[Place, int] = {}
    pending = _ask_offsets(admin, group, places, found, stable=True)
    for _ in range(STABLE_TRIES_MAX):
        if not pending:
            return found
        time.sleep(STABLE_PAUSE_S)
        pending = _ask_offsets(admin, group, pending, found, stable=True)
    if pending:
        _ask_offsets(admin, group, pending, found, stable=False)
    return found


def _ask_offsets(
    admin: AdminClient,
    group: str,
    places: Sequence[Place],
    found: dict[Place, int],
    *,
    stable: bool,
) -> list[Place]:
    """Adds what the brokers tell to `found`, and returns of which partitions they will not tell it yet."""
    doing = f"asking what group {group} has committed"
    wanted = [TopicPartition(place.topic, place.partition) for place in places]
    asked = ConsumerGroupTopicPartitions(group, wanted)
    try:
        answer = admin.list_consumer_group_offsets(
            [asked], require_stable=stable, request_timeout=CALL_TIMEOUT_S
        )
        told = answer[group].result().topic_partitions or []
    except KafkaException as failure:
        raise fault_of(failure, doing) from failure
    pending = []
    for each in told:
        place = Place(each.topic, each.partition)
        if each.error is None:
            if each.offset >= 0:
                found[place] = each.offset
        elif each.error.code() == KafkaError.UNSTABLE_OFFSET_COMMIT:
            pending.append(place)
        else:
            raise fault_of(each.error, doing)
    return pending


def topic_names(bootstrap: str, prefix: str) -> list[str]:
    """The names of the topics that begin so, sorted."""
    admin = AdminClient(connection(bootstrap, "wakeful.survey"))
    try:
        found = admin.list_topics(timeout=CALL_TIMEOUT_S).topics
    except KafkaException as failure:
        raise fault_of(failure, "listing topics") from failure
    return sorted(name for name in found if name.startswith(prefix))


def topics_as_they_are(bootstrap: str, prefix: str) -> dict[str, TopicSpec]:
    """The topics that begin so, by name: partitions, and all settings that the brokers tell."""
    admin = AdminClient(connection(bootstrap, "wakeful.survey"))
    try:
        shown = admin.list_topics(timeout=CALL_TIMEOUT_S).topics
        wanted = {name: len(t.partitions) for name, t in shown.items() if name.startswith(prefix)}
        resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in wanted]
        if not resources:
            return {}
        answers = admin.describe_configs(resources, request_timeout=CALL_TIMEOUT_S)
        told = {resource.name: answer.result() for resource, answer in answers.items()}
    except KafkaException as failure:
        raise fault_of(failure, "asking how topics are set") from failure
    return {
        name: TopicSpec(name, count, {key: str(one.value) for key, one in told[name].items()})
        for name, count in wanted.items()
    }


def members(bootstrap: str, group: str) -> list[str]:
    """Who is in a group now, by its stable name where it has one; one that died counts until its session is over."""
    admin = AdminClient(connection(bootstrap, f"{group}.asked"))
    try:
        answer = admin.describe_consumer_groups([group], request_timeout=CALL_TIMEOUT_S)
        found = answer[group].result().members
    except KafkaException as failure:
        if error_of(failure).code() == KafkaError.GROUP_ID_NOT_FOUND:
            return []
        raise fault_of(failure, f"asking who is in group {group}") from failure
    return sorted(str(each.group_instance_id or each.member_id) for each in found)
