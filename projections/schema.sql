-- Version 7 of the rows, in {tables}: filled from the log alone, so a rebuild gives the same ones. `views.sql` has what
-- people query. A change of these tables is a new version, filled from offset 0 beside the old one.

CREATE SCHEMA IF NOT EXISTS {tables};
CREATE SCHEMA IF NOT EXISTS {views};
COMMENT ON SCHEMA {views} IS 'Wakeful: what is known of each agent session. Read only; written by the projector.';
COMMENT ON SCHEMA {tables} IS 'Wakeful: rows behind the views, version 9. Not for queries.';

-- Whose rows a login is shown: see `tenants`. It is not from the log, so it lies beside the views, and a rebuild leaves it.
CREATE TABLE IF NOT EXISTS {views}.logins (
    login text COLLATE "C" PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL CHECK (tenant <> '')
);
COMMENT ON TABLE {views}.logins IS 'Which tenant''s rows a login is shown; written by ''wakeful access''. Each login sees its own line.';

-- Sessions that were archived: what the log has of them is no row any more, and a rebuild leaves them out. See `archive`.
-- Neither this is from the log. No reader may name these tables: the views over them are in `views.sql`.
CREATE TABLE IF NOT EXISTS {lock}.archived (
    tenant text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    status text NOT NULL,
    seq bigint NOT NULL,
    finished_at_ms bigint NOT NULL,
    archived_at timestamptz NOT NULL,
    part bigint,
    PRIMARY KEY (tenant, session_id)
);
CREATE INDEX IF NOT EXISTS archived_begun ON {lock}.archived (tenant, session_id) WHERE part IS NULL;

CREATE TABLE IF NOT EXISTS {lock}.archives (
    part bigint PRIMARY KEY,
    store text NOT NULL,
    of_tenant text NOT NULL,
    name text NOT NULL,
    sha256 text NOT NULL,
    bytes bigint NOT NULL,
    sessions bigint NOT NULL,
    rows bigint NOT NULL,
    finished_since_ms bigint NOT NULL,
    finished_until_ms bigint NOT NULL,
    written_at timestamptz NOT NULL
);

CREATE TABLE IF NOT EXISTS {tables}.positions (
    topic text NOT NULL,
    partition integer NOT NULL,
    next_offset bigint NOT NULL,
    epoch bigint NOT NULL,
    generation bigint NOT NULL DEFAULT 0,
    last_record_ms bigint,
    PRIMARY KEY (topic, partition)
);

-- Where the log ended when somebody looked, and when its views last had all of it: by the clock, no part of a rebuild.
CREATE TABLE IF NOT EXISTS {tables}.ends (
    topic text NOT NULL,
    partition integer NOT NULL,
    log_end bigint NOT NULL,
    measured_at timestamptz NOT NULL,
    complete_at timestamptz,
    PRIMARY KEY (topic, partition)
);

CREATE TABLE IF NOT EXISTS {tables}.gaps (
    topic text NOT NULL,
    partition integer NOT NULL,
    log_offset bigint NOT NULL,
    reason text NOT NULL,
    detail text NOT NULL,
    PRIMARY KEY (topic, partition, log_offset)
);

CREATE TABLE IF NOT EXISTS {tables}.sessions (
    tenant text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    workflow text,
    workflow_version integer,
    versions jsonb,
    status text,
    resting_status text,
    held_reason text,
    held_detail text,
    turn integer,
    trigger text,
    trigger_reason text,
    waiting_for jsonb NOT NULL,
    waits integer NOT NULL,
    next_valid jsonb NOT NULL,
    opened_by text,
    opened_at_ms bigint,
    updated_at_ms bigint NOT NULL,
    messages integer NOT NULL,
    last_reply jsonb,
    outcome jsonb,
    failure jsonb,
    cancel_reason text,
    refusals integer NOT NULL,
    command_offset bigint NOT NULL,
    attributes jsonb NOT NULL,
    parent text,
    inherited_taint jsonb NOT NULL,
    stretch_seq bigint NOT NULL,
    stretch_offset bigint NOT NULL,
    event_offset bigint NOT NULL,
    seq bigint NOT NULL,
    escaped text NOT NULL,
    PRIMARY KEY (tenant, session_id)
);
-- One index per way in which `pages` lists them, each in the order in which the page is read. A filter that no index serves is
-- not offered. Each costs the projector something with every session that moves, so they are few; those of few rows cost next to nothing.
CREATE INDEX IF NOT EXISTS sessions_by_time ON {tables}.sessions (tenant, updated_at_ms, session_id);
CREATE INDEX IF NOT EXISTS sessions_by_status ON {tables}.sessions (tenant, status, updated_at_ms, session_id);
CREATE INDEX IF NOT EXISTS sessions_by_workflow ON {tables}.sessions (tenant, workflow, updated_at_ms, session_id);
CREATE INDEX IF NOT EXISTS sessions_by_workflow_status ON {tables}.sessions (tenant, workflow, status, updated_at_ms, session_id);
CREATE INDEX IF NOT EXISTS sessions_by_opener ON {tables}.sessions (tenant, opened_by, updated_at_ms, session_id);
CREATE INDEX IF NOT EXISTS sessions_by_opening ON {tables}.sessions (tenant, opened_at_ms, session_id);
CREATE INDEX IF NOT EXISTS sessions_held ON {tables}.sessions (tenant, updated_at_ms, session_id) WHERE held_reason IS NOT NULL;
CREATE INDEX IF NOT EXISTS sessions_wait_activity ON {tables}.sessions (tenant, updated_at_ms, session_id) WHERE waits & 1 <> 0;
CREATE INDEX IF NOT EXISTS sessions_wait_approval ON {tables}.sessions (tenant, updated_at_ms, session_id) WHERE waits & 2 <> 0;
CREATE INDEX IF NOT EXISTS sessions_wait_timer ON {tables}.sessions (tenant, updated_at_ms, session_id) WHERE waits & 4 <> 0;
CREATE INDEX IF NOT EXISTS sessions_wait_uncertain ON {tables}.sessions (tenant, updated_at_ms, session_id) WHERE waits & 8 <> 0;
CREATE INDEX IF NOT EXISTS sessions_wait_signal ON {tables}.sessions (tenant, updated_at_ms, session_id) WHERE waits & 16 <> 0;
CREATE INDEX IF NOT EXISTS sessions_wait_inbox ON {tables}.sessions (tenant, updated_at_ms, session_id) WHERE waits & 32 <> 0;
CREATE INDEX IF NOT EXISTS sessions_wait_job ON {tables}.sessions (tenant, updated_at_ms, session_id) WHERE waits & 64 <> 0;
CREATE INDEX IF NOT EXISTS sessions_wait_child ON {tables}.sessions (tenant, updated_at_ms, session_id) WHERE waits & 128 <> 0;

-- Where a session's events lie, but for the newest stretch, which is in the session's row: see `stretches`.
CREATE TABLE IF NOT EXISTS {tables}.stretches (
    tenant text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    first_seq bigint NOT NULL,
    first_offset bigint NOT NULL,
    last_offset bigint NOT NULL,
    seq bigint NOT NULL,
    escaped text NOT NULL,
    PRIMARY KEY (tenant, session_id, first_seq)
);

CREATE TABLE IF NOT EXISTS {tables}.approvals (
    tenant text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    proposal_id text COLLATE "C" NOT NULL,
    turn integer,
    step integer,
    action text,
    contract text,
    arguments jsonb,
    digest text,
    approver text,
    status text,
    requested_at_ms bigint,
    expires_at_ms bigint,
    decided_by text,
    decided_on_behalf_of text,
    decided_at_ms bigint,
    comment text,
    answer jsonb,
    quorum integer,
    votes integer NOT NULL,
    requester text,
    supersedes text,
    activity_id text,
    policies text,
    because jsonb,
    seq bigint NOT NULL,
    escaped text NOT NULL,
    PRIMARY KEY (tenant, session_id, proposal_id)
);
CREATE INDEX IF NOT EXISTS approvals_open ON {tables}.approvals (tenant, requested_at_ms) WHERE status = 'requested';
CREATE INDEX IF NOT EXISTS approvals_inbox ON {tables}.approvals (tenant, expires_at_ms, session_id, proposal_id) WHERE status = 'requested';
CREATE INDEX IF NOT EXISTS approvals_inbox_by_rule ON {tables}.approvals (tenant, approver, expires_at_ms, session_id, proposal_id)
    WHERE status = 'requested';
CREATE INDEX IF NOT EXISTS approvals_inbox_by_action ON {tables}.approvals (tenant, action, expires_at_ms, session_id, proposal_id)
    WHERE status = 'requested';
CREATE INDEX IF NOT EXISTS approvals_by_step ON {tables}.approvals (tenant, session_id, turn, step, proposal_id);
CREATE INDEX IF NOT EXISTS approvals_by_status ON {tables}.approvals (tenant, status, requested_at_ms, session_id, proposal_id);

CREATE TABLE IF NOT EXISTS {tables}.ledger (
    tenant text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    activity_id text COLLATE "C" NOT NULL,
    turn integer,
    step integer,
    action text,
    queue text,
    contract text,
    digest text,
    idempotency_key text,
    asked_by text,
    on_behalf_of text,
    approval text,
    proposal_id text,
    attempts integer,
    on_uncertain text,
    untrusted boolean NOT NULL,
    status text,
    since_ms bigint,
    requested_at_ms bigint,
    deadline_ms bigint,
    retry_due_ms bigint,
    started_at_ms bigint,
    progress text,
    progress_at_ms bigint,
    settled_at_ms bigint,
    worker text,
    result_digest text,
    recovered boolean NOT NULL,
    failure jsonb,
    resolved_by text,
    comment text,
    cancel_reason text,
    late_results integer NOT NULL,
    compensates text,
    compensated_by text,
    seq bigint NOT NULL,
    escaped text NOT NULL,
    PRIMARY KEY (tenant, session_id, activity_id)
);
CREATE INDEX IF NOT EXISTS ledger_by_time ON {tables}.ledger (tenant, requested_at_ms, session_id, activity_id);
CREATE INDEX IF NOT EXISTS ledger_by_step ON {tables}.ledger (tenant, session_id, turn, step, activity_id);
CREATE INDEX IF NOT EXISTS ledger_by_action ON {tables}.ledger (tenant, action, requested_at_ms, session_id, activity_id);
CREATE INDEX IF NOT EXISTS ledger_by_status ON {tables}.ledger (tenant, status, requested_at_ms, session_id, activity_id)
    WHERE status <> 'completed';
CREATE INDEX IF NOT EXISTS ledger_uncertain ON {tables}.ledger (tenant, session_id) WHERE status = 'uncertain';

CREATE INDEX IF NOT EXISTS ledger_open ON {tables}.ledger (tenant, since_ms) WHERE status IN ('requested', 'retrying', 'withheld');

CREATE TABLE IF NOT EXISTS {tables}.timers (
    tenant text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    timer_id text COLLATE "C" NOT NULL,
    turn integer,
    step integer,
    status text,
    set_at_ms bigint,
    due_ms bigint,
    ended_at_ms bigint,
    seq bigint NOT NULL,
    escaped text NOT NULL,
    PRIMARY KEY (tenant, session_id, timer_id)
);
CREATE INDEX IF NOT EXISTS timers_open ON {tables}.timers (tenant, due_ms) WHERE status = 'set';

CREATE TABLE IF NOT EXISTS {tables}.jobs (
    tenant text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    job_id text COLLATE "C" NOT NULL,
    turn integer,
    step integer,
    name text,
    status text,
    awaited_at_ms bigint,
    expires_at_ms bigint,
    ended_at_ms bigint,
    ended_by text,
    result_digest text,
    failure jsonb,
    seq bigint NOT NULL,
    escaped text NOT NULL,
    PRIMARY KEY (tenant, session_id, job_id)
);
CREATE INDEX IF NOT EXISTS jobs_open ON {tables}.jobs (tenant, expires_at_ms, session_id, job_id) WHERE status = 'awaited';
CREATE INDEX IF NOT EXISTS jobs_open_by_name ON {tables}.jobs (tenant, name, expires_at_ms, session_id, job_id) WHERE status = 'awaited';

-- Children: sessions that another one has opened, in whose key they stand here.
CREATE TABLE IF NOT EXISTS {tables}.children (
    tenant text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    child_id text COLLATE "C" NOT NULL,
    turn integer,
    step integer,
    workflow text,
    status text,
    started_at_ms bigint,
    expires_at_ms bigint,
    ended_at_ms bigint,
    result_digest text,
    failure jsonb,
    tainted_by jsonb NOT NULL,
    late_end text,
    seq bigint NOT NULL,
    escaped text NOT NULL,
    PRIMARY KEY (tenant, session_id, child_id)
);
CREATE INDEX IF NOT EXISTS children_open ON {tables}.children (tenant, expires_at_ms, session_id, child_id) WHERE status = 'open';
CREATE INDEX IF NOT EXISTS children_in_order ON {tables}.children (tenant, session_id, turn, step, child_id);

-- Resources: what sessions hold over their turns; one row for each time that one was attached.
CREATE TABLE IF NOT EXISTS {tables}.resources (
    tenant text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    resource_id text COLLATE "C" NOT NULL,
    turn integer,
    step integer,
    kind text COLLATE "C",
    status text,
    reattached boolean,
    attached_at_ms bigint,
    expires_at_ms bigint,
    ended_at_ms bigint,
    handle_digest text,
    release_by text,
    failure jsonb,
    seq bigint NOT NULL,
    escaped text NOT NULL,
    PRIMARY KEY (tenant, session_id, resource_id)
);
CREATE INDEX IF NOT EXISTS resources_held ON {tables}.resources (tenant, expires_at_ms, session_id, resource_id) WHERE status = 'attached';
CREATE INDEX IF NOT EXISTS resources_held_by_kind ON {tables}.resources (tenant, kind, expires_at_ms, session_id, resource_id) WHERE status = 'attached';
CREATE INDEX IF NOT EXISTS resources_in_order ON {tables}.resources (tenant, session_id, turn, step, resource_id);

-- By what sessions are found: a row for each attribute, and for each pair of them, under its names. Its term is null once it holds
-- no more. Rows change with their attribute alone, and not with each event, so a page is in the order of that.
CREATE TABLE IF NOT EXISTS {tables}.attributes (
    tenant text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    names text COLLATE "C" NOT NULL,
    kind text,
    value text,
    term text COLLATE "C",
    since_ms bigint NOT NULL,
    seq bigint NOT NULL,
    escaped text NOT NULL,
    PRIMARY KEY (tenant, session_id, names)
);
CREATE INDEX IF NOT EXISTS attributes_by_term ON {tables}.attributes (tenant, term, since_ms, session_id) WHERE term IS NOT NULL;

CREATE TABLE IF NOT EXISTS {tables}.outcomes (
    tenant text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    command_offset bigint NOT NULL,
    partition integer,
    command_id text COLLATE "C",
    command text,
    actor text,
    channel text,
    decided_at_ms bigint,
    events integer NOT NULL,
    parked_seq bigint,
    failed_check text,
    reason text,
    detail text,
    seq bigint NOT NULL,
    escaped text NOT NULL,
    PRIMARY KEY (tenant, session_id, command_offset)
);
CREATE INDEX IF NOT EXISTS outcomes_refused ON {tables}.outcomes (tenant, decided_at_ms, session_id, command_offset)
    WHERE reason IS NOT NULL;
CREATE INDEX IF NOT EXISTS outcomes_refused_of_session ON {tables}.outcomes (tenant, session_id, command_offset) WHERE reason IS NOT NULL;
CREATE INDEX IF NOT EXISTS outcomes_refused_by_reason ON {tables}.outcomes (tenant, reason, decided_at_ms, session_id, command_offset)
    WHERE reason IS NOT NULL;

-- Times beyond what a timestamp holds are shown as its end, so that no row makes a query fail.
CREATE OR REPLACE FUNCTION {tables}.log_time(ms bigint) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN ms IS NOT NULL THEN to_timestamp(least(greatest(ms, 0), 253402300799000) / 1000.0) END;
