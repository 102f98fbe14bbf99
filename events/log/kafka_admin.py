"""Questions to the cluster and changes of its topics, on confluent-kafka's admin client."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, but not re-exported by name
    AdminClient,
    ClusterMetadata,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    TopicMetadata,
)

from .kafka_client import error_of, fault_of
from .protocol import Fatal, Isolation, LogFault, Place, TopicSpec
from .watchdog import Watch

CALL_TIMEOUT_S = 10.0
SESSION_FLOOR_MS = 6_000
"""Kafka's own default for `group.min.session.timeout.ms`."""

SETTLE_STEP_S = 0.02
SETTLE_STEPS_MAX = 1_000  # 20 s for the cluster to show what it has accepted

LEADER_STEPS_MAX = 150  # 3 s for a leader to take its partition over

_LEADER_MOVES = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._NOENT,  # noqa: SLF001 the client itself: it has found its brokers again, and not yet asked who leads
    }
)
"""Answers for a partition whose leader was named but does not lead yet: after its creation, or a broker's restart."""

_EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]  # the client's own gap
_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # the same
_LEVELS = {
    Isolation.COMMITTED: IsolationLevel.READ_COMMITTED,
    Isolation.UNCOMMITTED: IsolationLevel.READ_UNCOMMITTED,
}


def partitions(admin: AdminClient, topic: str) -> int:
    """The topic's partition count. All topics are listed: asking for one by name could create it."""
    known = _metadata(admin).topics.get(topic)
    if known is None or known.error is not None:
        raise Fatal(f"topic {topic} does not exist; create it with `wakeful topics apply`")
    return len(known.partitions)


def cluster_id(admin: AdminClient) -> str:
    """The cluster's id, which tells one broker on a port from another."""
    found = _metadata(admin).cluster_id
    if found is None:
        raise LogFault("the cluster has not told its id")
    return str(found)


def session_floor_ms(admin: AdminClient) -> int:
    """The shortest session the brokers let a group's member have; their default where they do not tell."""
    brokers = _metadata(admin).brokers
    resource = ConfigResource(ConfigResource.Type.BROKER, str(next(iter(brokers), 0)))
    try:
        answer = admin.describe_configs([resource], request_timeout=CALL_TIMEOUT_S)
        found = answer[resource].result().get("group.min.session.timeout.ms")
        return int(found.value) if found is not None else SESSION_FLOOR_MS
    except (KafkaException, TypeError, ValueError):
        return SESSION_FLOOR_MS  # not allowed to ask: the default is safe with every broker of that default


def ends(
    admin: AdminClient, places: Sequence[Place], isolation: Isolation
) -> dict[Place, tuple[int, int]]:
    """First offset and end per partition; the end for `COMMITTED` is the last stable offset."""
    first = _offsets(admin, places, _EARLIEST, isolation)
    end = _offsets(admin, places, _LATEST, isolation)
    return {place: (first[place], end[place]) for place in places}


def offsets_at(admin: AdminClient, places: Sequence[Place], timestamp_ms: int) -> dict[Place, int]:
    """Per partition the first offset with that time or later, or its end."""
    found = _offsets(admin, places, OffsetSpec.for_timestamp(timestamp_ms), Isolation.UNCOMMITTED)
    late = [place for place, offset in found.items() if offset < 0]
    if late:
        found.update(_offsets(admin, late, _LATEST, Isolation.UNCOMMITTED))
    return found


def create_topics(admin: AdminClient, topics: Sequence[TopicSpec], watch: Watch) -> list[str]:
    """Creates what is missing, and returns when each partition has a leader that answers for it."""
    with watch("list_topics"):
        existing = _metadata(admin).topics
    missing = [topic for topic in topics if topic.name not in existing]
    if missing:
        wanted = [
            NewTopic(topic.name, topic.partitions, -1, config=dict(topic.config))
            for topic in missing
        ]
        with watch("create_topics"):
            answers = admin.create_topics(wanted, request_timeout=CALL_TIMEOUT_S)
            # Another process may create the same table of topics at the same time.
            _settled(answers.items(), "creating topic", fine=KafkaError.TOPIC_ALREADY_EXISTS)
    _wait(
        admin,
        watch,
        lambda shown: all(_ready(shown.get(topic.name)) for topic in topics),
        "topics to appear",
    )
    made = [Place(topic.name, n) for topic in missing for n in range(topic.partitions)]
    with watch("list_offsets"):  # a leader is named before it leads: this asks each of them
        _offsets(admin, made, _LATEST, Isolation.UNCOMMITTED)
    with watch("list_topics"):
        shown = _metadata(admin).topics
    for topic in topics:
        found = len(shown[topic.name].partitions)
        if found != topic.partitions:
            raise Fatal(
                f"topic {topic.name} has {found} partitions, {topic.partitions} are configured; sessions would move "
                f"away from their history: configure {found}, or use another namespace"
            )
    return [topic.name for topic in missing]


def delete_topics(admin: AdminClient, names: Sequence[str], watch: Watch) -> None:
    """Deletes topics, and returns when the cluster no longer shows them."""
    if not names:
        return
    with watch("delete_topics"):
        answers = admin.delete_topics(list(names), request_timeout=CALL_TIMEOUT_S)
        _settled(answers.items(), "deleting topic", fine=KafkaError.UNKNOWN_TOPIC_OR_PART)
    _wait(admin, watch, lambda shown: not any(name in shown for name in names), "topics to go")


def _metadata(admin: AdminClient) -> ClusterMetadata:
    try:
        return admin.list_topics(timeout=CALL_TIMEOUT_S)
    except KafkaException as failure:
        raise fault_of(failure, "listing topics") from failure


def _offsets(
    admin: AdminClient, places: Sequence[Place], spec: OffsetSpec, isolation: Isolation
) -> dict[Place, int]:
    """Asks again while a leader is on its way: metadata shows a new one before it answers for its partition."""
    offsets: dict[Place, int] = {}
    pause = threading.Event()
    left = list(places)
    for step in range(LEADER_STEPS_MAX):
        if not left:
            break
        if step:
            pause.wait(SETTLE_STEP_S)
            _metadata(
                admin
            )  # the client keeps leaders it has once heard of, until it is told of others
        offsets.update(
            _offsets_once(admin, left, spec, isolation, last=step == LEADER_STEPS_MAX - 1)
        )
        left = [place for place in left if place not in offsets]
    return offsets


def _offsets_once(
    admin: AdminClient,
    places: Sequence[Place],
    spec: OffsetSpec,
    isolation: Isolation,
    *,
    last: bool,
) -> dict[Place, int]:
    asked = {TopicPartition(place.topic, place.partition): spec for place in places}
    answers = admin.list_offsets(
        asked, isolation_level=_LEVELS[isolation], request_timeout=CALL_TIMEOUT_S
    )
    offsets: dict[Place, int] = {}
    for each, answer in answers.items():
        try:
            offsets[Place(each.topic, each.partition)] = answer.result().offset
        except KafkaException as failure:
            if last or error_of(failure).code() not in _LEADER_MOVES:
                asking = f"asking for offsets of {each.topic}[{each.partition}]"
                raise fault_of(failure, asking) from failure
    return offsets


def _ready(topic: TopicMetadata | None) -> bool:
    if topic is None or topic.error is not None or not topic.partitions:
        return False
    return all(partition.leader >= 0 for partition in topic.partitions.values())


def _wait(
    admin: AdminClient, watch: Watch, reached: Callable[[dict[str, TopicMetadata]], bool], what: str
) -> None:
    pause = threading.Event()
    for _ in range(SETTLE_STEPS_MAX):
        with watch("list_topics"):
            if reached(_metadata(admin).topics):
                return
        pause.wait(SETTLE_STEP_S)
    raise LogFault(f"waited {SETTLE_STEPS_MAX * SETTLE_STEP_S:.0f} s for {what}")


def _settled(answers: Iterable[tuple[str, object]], doing: str, *, fine: int) -> None:
    for name, answer in answers:
        try:
            answer.result()  # type: ignore[attr-defined]  # a concurrent future, untyped by the client
        except KafkaException as failure:
            if error_of(failure).code() != fine:
                raise fault_of(failure, f"{doing} {name}") from failure
