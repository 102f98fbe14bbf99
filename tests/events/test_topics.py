"""The table of topics."""

import pytest

from wakeful.events.errors import InvalidKey
from wakeful.events.limits import COMMAND_MAX, EVENT_MAX, OVERHEAD_MAX, PAYLOAD_MAX
from wakeful.events.topics import PARTITIONS_LOCAL, PARTITIONS_PRODUCTION, Topics

TOPICS = Topics("acme.prod")
SPECS = {spec.name: spec for spec in TOPICS.specs(["default", "payments", "default"], 12)}


def test_names_are_namespace_kind_and_version() -> None:
    assert set(SPECS) == {
        "acme.prod.commands.v1",
        "acme.prod.events.v1",
        "acme.prod.activities.default.v1",
        "acme.prod.activities.default.once.v1",
        "acme.prod.activities.payments.v1",
        "acme.prod.activities.payments.once.v1",
        "acme.prod.attempts.v1",
        "acme.prod.snapshots.v1",
        "acme.prod.outcomes.v1",
        "acme.prod.control.v1",
        "acme.prod.watch-windows.v1",
        "acme.prod.watch-proposals.v1",
        "acme.prod.dead-letters.v1",
    }


def test_defaults_are_four_partitions_here_and_twelve_in_production() -> None:
    assert (PARTITIONS_LOCAL, PARTITIONS_PRODUCTION) == (4, 12)
    assert {spec.partitions for name, spec in SPECS.items() if "control" not in name} == {12}
    assert SPECS[TOPICS.control].partitions == 1
    with pytest.raises(ValueError, match="at least one partition"):
        TOPICS.specs([], 0)


def test_events_are_kept_for_ever_and_never_compacted() -> None:
    config = SPECS[TOPICS.events].config
    assert config["cleanup.policy"] == "delete"
    assert config["retention.ms"] == config["retention.bytes"] == "-1"


def test_the_brokers_clock_stamps_commands_and_tasks() -> None:
    stamped = {
        n for n, s in SPECS.items() if s.config.get("message.timestamp.type") == "LogAppendTime"
    }
    assert stamped == {n for n in SPECS if n == TOPICS.commands or ".activities." in n}


def test_states_and_settings_are_compacted() -> None:
    compacted = {n for n, s in SPECS.items() if s.config["cleanup.policy"] == "compact"}
    watched = {TOPICS.watch_windows, TOPICS.watch_proposals}
    assert compacted == {TOPICS.snapshots, TOPICS.control} | watched


def test_what_a_topic_lets_in_fits_where_it_goes_next() -> None:
    def bytes_max(name: str) -> int:
        return int(SPECS[name].config["max.message.bytes"])

    assert bytes_max(TOPICS.dead_letters) >= bytes_max(TOPICS.commands) + OVERHEAD_MAX
    assert COMMAND_MAX + OVERHEAD_MAX <= EVENT_MAX  # a parked command lies in an event
    assert 2 * PAYLOAD_MAX <= COMMAND_MAX
    assert bytes_max(TOPICS.events) >= EVENT_MAX + OVERHEAD_MAX


def test_retention_is_that_of_the_table() -> None:
    days = {
        n: int(s.config["retention.ms"]) / 86_400_000
        for n, s in SPECS.items()
        if "retention.ms" in s.config
    }
    assert days[TOPICS.commands] == days[TOPICS.activities("default", once=True)] == 7
    assert days[TOPICS.attempts] == 1
    assert days[TOPICS.outcomes] == days[TOPICS.dead_letters] == 30


def test_replicas_in_sync_are_the_callers_choice() -> None:
    for count in (1, 2):
        for spec in TOPICS.specs(["q"], 4, min_insync_replicas=count):
            assert spec.config["min.insync.replicas"] == str(count)


@pytest.mark.parametrize(
    "name", ["", ".", "a.", ".a", "a..b", "A", "a b", "a/b", "ä", "-a", "x" * 101]
)
def test_a_namespace_that_brokers_or_disks_confuse_is_refused(name: str) -> None:
    with pytest.raises(InvalidKey, match="is not allowed"):
        Topics(name)


@pytest.mark.parametrize("name", ["", "a.once", "a.b", "A", "a/b", "x" * 65])
def test_a_queue_that_could_be_taken_for_another_topic_is_refused(name: str) -> None:
    with pytest.raises(InvalidKey, match="is not allowed"):
        TOPICS.activities(name)


def test_the_longest_names_are_still_names_of_topics() -> None:
    assert len(Topics("n" * 100).activities("q" * 64, once=True)) <= 249
