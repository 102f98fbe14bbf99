"""The promises that an audit checks, by their numbers; gaps are promises that topics and views cannot show.

Some have no number, and go by their names.
"""

from __future__ import annotations

GAPLESS = 1
"""A session's events are numbered from 1, without a gap or a repeat."""

ONE_HOME = 2
"""Every record of a session lies in the partition of its key."""

ONE_DISPOSITION = 3
"""Every command was decided, refused, passed over as a repeat, or put aside: one of these, once."""

NO_SKEW = 4
"""What was decided lies below the offset that the group has committed, and nothing above it."""

IDEMPOTENT = 5
"""A command takes effect once."""

NO_KEY_REUSE = 6
"""An id that comes with another content is refused."""

EXPECTED_VERSION = 7
"""A command that expects a version of its session meets that one, or is refused."""

PURE_FOLD = 8
"""Folding the events gives the states that snapshots recorded."""

LEGAL_PATH = 10
"""Each status follows another by an arrow of the lifecycle."""

NOTHING_LEAKS = 11
"""The views show nothing that is not committed."""

TORN_FREE = 12
"""Of one transaction's records all are there, or none is."""

TOLD_ONCE = 13
"""Each fact that asks for a task or an outcome has one, in the right topic, and none came from nowhere."""

ONE_OUTCOME = 14
"""An activity ends once."""

ATTEMPT_FENCE = 15
"""Only the newest attempt decides, and workers drop what is over and nothing else."""

STABLE_KEY = 16
"""The idempotency key is that of the step, the same in every attempt."""

AT_MOST_ONCE = 17
"""What must not run twice does not."""

RECORDED_ONCE = 18
"""What was recorded as ended is not begun again."""

COMPENSATION = "17c"
"""What a session did before it failed or was cancelled is taken back, once, the last first."""

TIMERS = 21
"""What is due at a time happens then, once, and not before."""

PARKED_FREE = 22
"""A session that waits holds nothing of a worker."""

ONE_DECISION = 23
"""A proposal is decided once."""

DECISION_BINDS = 24
"""What was approved is what runs, by digest."""

AUTHORITY = 25
"""Nobody approves twice, nor what is done for himself, and as many do as must."""

NO_UNAPPROVED_START = 26
"""What needs an approval starts after it was granted, and before it expired."""

ACTOR = 27
"""Each event keeps who vouched for its command, and what people say is said by who sent it."""

NO_SECRETS = 29
"""Nothing that was planted as a secret is in any record or row."""

CHAIN = 32
"""Each event names the hash of the one before."""

POSITION = 33
"""The views' position is behind what they show."""

REBUILD = 34
"""A rebuild from the events gives the views."""

POISON = 37
"""What cannot be decided is put aside whole, with its reason."""

NOBODY_STRANDED = 38
"""Once all is quiet nothing is left undecided, and no session is left without what wakes it."""

ROLL_OVER = 39
"""Within a turn steps and stretches count up, and a stretch ends with nothing open."""

LABELS = "labels"
"""What stands around an event's bytes (frame, headers) says what they are."""

RECEIVING = "receiving"
"""Messages and signals are taken once, in order, and none is lost."""

FOUND_BY = "attributes"
"""A session is found by the attributes that it has now, and by no others."""

JOBS = "jobs"
"""An external job ends once, not before its time where it expires, and does not outlive its turn."""

VERSIONS = "versions"
"""Turns count up and begin on the version that the session is pinned to; a reset goes back to what a turn had left."""

RECOVERY = "recovery"
"""Only what somebody named is given up as stalled, and a session is made to go on again only so many times."""

CHILDREN = "children"
"""A child is opened once, by the session that asked for it, ends once there, and outlives neither its turn nor its parent's end."""

RESOURCES = "resources"
"""Of each kind of resource a session holds one at a time, until its time is over and not after the session's end."""

BLOBS = "blobs"
"""What lies beside the log is there, and is what the log says."""
