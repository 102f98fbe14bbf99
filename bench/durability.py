"""When the broker's disk has what it acknowledged: as Kafka is by default, or an fsync before each answer."""

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
)

from bench.measure import until

DEFAULT = "default"
FLUSHED = "flush.messages=1"
CHOICES = (DEFAULT, FLUSHED)
"""`default`: acknowledged from the page cache, so a broker's death loses nothing and the machine's loses what was not
yet written, unless replicas have it. `flush.messages=1`: the partition's file is synced before the answer."""

SETTING = "log.flush.interval.messages"
"""The brokers' default for the topics' `flush.messages`: that way it counts for Kafka's own topics as well."""

ALWAYS_THERE = "__consumer_offsets"

LIMIT_S = 10.0


@contextmanager
def keeping(servers: str, durability: str) -> Iterator[None]:
    """Has all of the cluster's topics kept that way until it is left, and then as they were by default."""
    if durability == DEFAULT:
        yield
        return
    if durability != FLUSHED:
        raise ValueError(f"durability {durability!r} is unknown: give one of {', '.join(CHOICES)}")
    admin = AdminClient({"bootstrap.servers": servers})
    _alter(admin, ConfigEntry(SETTING, "1", incremental_operation=AlterConfigOpType.SET))
    try:
        _settled(admin, FLUSHED)
        yield
    finally:
        _alter(admin, ConfigEntry(SETTING, None, incremental_operation=AlterConfigOpType.DELETE))
        _settled(admin, DEFAULT)


def in_force(servers: str, topic: str) -> str:
    """What the broker itself says of a topic: one of `CHOICES`."""
    return _said(AdminClient({"bootstrap.servers": servers}), topic)


def _said(admin: AdminClient, topic: str) -> str:
    asked = ConfigResource(ConfigResource.Type.TOPIC, topic)
    found = admin.describe_configs([asked], request_timeout=LIMIT_S)[asked].result()
    flush = found["flush.messages"]
    own = flush.source != ConfigSource.DEFAULT_CONFIG.value
    return f"flush.messages={flush.value}" if own else DEFAULT


def _settled(admin: AdminClient, durability: str) -> None:
    """The setting is accepted first, and in force a little later."""
    until(
        lambda: _said(admin, ALWAYS_THERE) == durability,
        f"the broker keeps its topics as {durability}",
        limit_s=LIMIT_S,
    )


def _alter(admin: AdminClient, entry: ConfigEntry) -> None:
    """Broker by broker: the client refuses the empty name that stands for all of them."""
    brokers = [
        ConfigResource(ConfigResource.Type.BROKER, str(number), incremental_configs=[entry])
        for number in admin.list_topics(timeout=LIMIT_S).brokers
    ]
    for answer in admin.incremental_alter_configs(brokers, request_timeout=LIMIT_S).values():
        answer.result()
