"""Questions of audits and the command line: which topics are there and how they are set, and what a group has done."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, but not re-exported by name
    AdminClient,
    ConfigResource,
)

from .kafka_client import connection, error_of, fault_of
from .protocol import Place, TopicSpec

CALL_TIMEOUT_S = 10.0


def committed_offsets(bootstrap: str, group: str, places: Sequence[Place]) -> dict[Place, int]:
    """The group's next offset per partition, without those that it never committed."""
    admin = AdminClient(connection(bootstrap, f"{group}.asked"))
    wanted = [TopicPartition(place.topic, place.partition) for place in places]
    asked = ConsumerGroupTopicPartitions(group, wanted)
    try:
        answer = admin.list_consumer_group_offsets(
            [asked], require_stable=True, request_timeout=CALL_TIMEOUT_S
        )
        found = answer[group].result().topic_partitions or []
    except KafkaException as failure:
        raise fault_of(failure, f"asking what group {group} has committed") from failure
    return {Place(p.topic, p.partition): p.offset for p in found if p.offset >= 0}


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
