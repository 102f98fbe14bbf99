"""Questions of audits and the command line: which topics are there, and what a group has committed."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from .kafka_client import connection, fault_of
from .protocol import Place

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
