"""External jobs as rows: one each, from when it is awaited to how it ended."""

import json

import pytest

from wakeful.events import records as r
from wakeful.projections.audit.rebuild import rebuild_rows
from wakeful.projections.rows import JOBS, SESSIONS
from wakeful.projections.sessions import WAITS

S = ("t0", "s1")
JOB = "s1:1.1-0123456789abcdef"
FAILURE = r.Failure("job_failed", "DiskFull", "no disk left\0", "")


@pytest.fixture
def awaited(scribe):
    """A session that waits for a job."""
    scribe.add(S, r.SessionOpened("desk"))
    scribe.add(S, r.TurnStarted(1, "message", "", None, "desk", 1, ()))
    scribe.add(S, r.JobAwaited(JOB, 1, 1, "render", 50))
    owed = r.Obligation("job", JOB, "render", 50, "expires")
    scribe.add(S, r.SessionWaiting(1, (owed,), ()))
    return scribe


def test_a_job_that_is_awaited_is_a_row_and_a_kind_of_wait(awaited):
    rows = rebuild_rows(awaited.events)
    row = rows[JOBS][(*S, JOB)]
    assert (row["name"], row["status"], row["expires_at_ms"]) == ("render", "awaited", 50)
    assert (rows[SESSIONS][S]["status"], rows[SESSIONS][S]["waits"]) == ("Waiting", WAITS["job"])


@pytest.mark.parametrize(
    ("body", "status", "by"),
    [
        (r.JobExpired(JOB), "expired", None),
        (r.JobWithdrawn(JOB, "the turn ended"), "withdrawn", None),
        (r.JobFailed(JOB, FAILURE), "failed", "renderer"),
    ],
)
def test_its_end_says_how_and_by_whom(awaited, body, status, by):
    awaited.add(S, body, actor="renderer")
    row = rebuild_rows(awaited.events)[JOBS][(*S, JOB)]
    assert (row["status"], row["ended_by"], row["ended_at_ms"]) == (status, by, awaited.now_ms)
    if by is not None:
        assert json.loads(row["failure"])["type"] == "DiskFull"
        assert row["escaped"] == "failure"


def test_its_completion_wakes_the_session_and_leaves_the_digest_of_its_result(awaited):
    result = awaited.payload({"frames": 24})
    awaited.add(S, r.JobCompleted(JOB, result), actor="renderer")
    rows = rebuild_rows(awaited.events)
    row = rows[JOBS][(*S, JOB)]
    assert (row["status"], row["ended_by"]) == ("completed", "renderer")
    assert row["result_digest"] == result.digest.hex()
    assert (rows[SESSIONS][S]["status"], rows[SESSIONS][S]["waits"]) == ("Running", 0)
