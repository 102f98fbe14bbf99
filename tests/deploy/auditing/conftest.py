"""A recorded history of several sessions, for the tests of what auditors do with one."""

from dataclasses import dataclass

import pytest
from tests.processors.loops import Cluster

from wakeful.projections.audit.evidence import Evidence, evidence_from_log


@dataclass(frozen=True)
class Recorded:
    """A cluster at rest and what its topics hold."""

    cluster: Cluster
    evidence: Evidence

    def of(self, session_id):
        """A session's events, and what lies among the snapshots for it."""
        key = f"acme/{session_id}".encode()
        return (
            [one for one in self.evidence.events if one.key == key],
            [one for one in self.evidence.snapshots if one.key.partition(b"#")[0] == key],
        )


@pytest.fixture(scope="session")
def recorded():
    """Three sessions: completed, waiting for an approval, and after two turns in a third."""
    cluster = Cluster(partitions=2)
    cluster.start()
    cluster.open("s1", last=True)
    cluster.open("s2")
    cluster.open("s3", text="first")
    cluster.run()
    cluster.answer()
    cluster.run()
    for session_id in ("s1", "s3"):
        cluster.approve(session_id)
    cluster.run()
    cluster.answer()
    cluster.run()
    cluster.say("second", "s3")
    cluster.run()
    cluster.answer(50)
    cluster.run()
    cluster.answer(50)
    cluster.run()
    cluster.say("third", "s3")
    cluster.run()
    return Recorded(
        cluster,
        evidence_from_log(
            cluster.log,
            cluster.topics,
            cluster.app.queues,
            committed=cluster.log.group_offsets("desk.processors"),
        ),
    )
