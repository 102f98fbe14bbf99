-- View version 2. {tables} holds the rows; {views} is what people query, and stays when the version changes.
-- A change of the rows is a new version, filled from offset 0 beside the old one. Views only grow at their end, so that
-- the new ones can take the place of the old ones, and whatever was built on them or granted for them stays.

CREATE SCHEMA IF NOT EXISTS {tables};
CREATE SCHEMA IF NOT EXISTS {views};
COMMENT ON SCHEMA {views} IS 'Wakeful: what is known of each agent session. Read only; written by the projector.';
COMMENT ON SCHEMA {tables} IS 'Wakeful: rows behind the views, version 2. Not for queries.';

CREATE TABLE IF NOT EXISTS {tables}.positions (
    topic text NOT NULL,
    partition integer NOT NULL,
    next_offset bigint NOT NULL,
    epoch bigint NOT NULL,
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
    seq bigint NOT NULL,
    escaped text NOT NULL,
    PRIMARY KEY (tenant, session_id)
);
CREATE INDEX IF NOT EXISTS sessions_by_status ON {tables}.sessions (tenant, status, updated_at_ms DESC);

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
    seq bigint NOT NULL,
    escaped text NOT NULL,
    PRIMARY KEY (tenant, session_id, proposal_id)
);
CREATE INDEX IF NOT EXISTS approvals_open ON {tables}.approvals (tenant, requested_at_ms) WHERE status = 'requested';

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
    status text,
    since_ms bigint,
    requested_at_ms bigint,
    deadline_ms bigint,
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
    seq bigint NOT NULL,
    escaped text NOT NULL,
    PRIMARY KEY (tenant, session_id, activity_id)
);
CREATE INDEX IF NOT EXISTS ledger_uncertain ON {tables}.ledger (tenant, session_id) WHERE status = 'uncertain';

-- Times beyond what a timestamp holds are shown as its end, so that no row makes a query fail.
CREATE OR REPLACE FUNCTION {tables}.log_time(ms bigint) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN to_timestamp(least(greatest(ms, 0), 253402300799000) / 1000.0);

CREATE OR REPLACE VIEW {views}.sessions AS
    SELECT tenant, session_id, workflow, workflow_version, versions, status, held_reason, held_detail, turn,
        waiting_for, next_valid, opened_by, {tables}.log_time(opened_at_ms) AS opened_at,
        {tables}.log_time(updated_at_ms) AS updated_at, messages, last_reply, outcome, failure, cancel_reason,
        refusals, seq, escaped, trigger, trigger_reason
    FROM {tables}.sessions;
COMMENT ON VIEW {views}.sessions IS 'One row per agent session: where it stands and what it waits for.';
COMMENT ON COLUMN {views}.sessions.status IS 'Opened, Running, Waiting, Suspended, Recovering, Completed, Failed or Cancelled.';
COMMENT ON COLUMN {views}.sessions.held_reason IS 'Why the session cannot go on; null unless it is held. An operator releases it.';
COMMENT ON COLUMN {views}.sessions.turn IS 'The turn it is in, or was in last; 0 before the first.';
COMMENT ON COLUMN {views}.sessions.trigger IS 'What started that turn: message, or the kind of another occasion.';
COMMENT ON COLUMN {views}.sessions.trigger_reason IS 'That occasion in words; null for a message.';
COMMENT ON COLUMN {views}.sessions.waiting_for IS 'What it awaits: kind (activity, approval, timer, uncertain, signal, inbox), id, name, expires_at_ms and what happens then.';
COMMENT ON COLUMN {views}.sessions.next_valid IS 'Commands that may be applied, and why the others may not, as of its last wait.';
COMMENT ON COLUMN {views}.sessions.updated_at IS 'Time of its last event, on the log''s clock.';
COMMENT ON COLUMN {views}.sessions.messages IS 'Messages received so far.';
COMMENT ON COLUMN {views}.sessions.last_reply IS 'What the agent said last.';
COMMENT ON COLUMN {views}.sessions.outcome IS 'The result; null unless the status is Completed.';
COMMENT ON COLUMN {views}.sessions.failure IS 'What went wrong; null unless the status is Failed.';
COMMENT ON COLUMN {views}.sessions.refusals IS 'Commands that were not applied.';
COMMENT ON COLUMN {views}.sessions.seq IS 'Events so far: the version of the session, as in expected_seq.';
COMMENT ON COLUMN {views}.sessions.escaped IS 'Columns whose text holds what Postgres cannot: backslash doubled, \u0000 for the character.';

CREATE OR REPLACE VIEW {views}.approvals AS
    SELECT tenant, session_id, proposal_id, turn, step, action, contract, arguments, digest, approver, status,
        {tables}.log_time(requested_at_ms) AS requested_at, {tables}.log_time(expires_at_ms) AS expires_at,
        decided_by, decided_on_behalf_of, {tables}.log_time(decided_at_ms) AS decided_at, comment, seq, escaped
    FROM {tables}.approvals;
COMMENT ON VIEW {views}.approvals IS 'One row per proposed action: who may approve it, and what was decided.';
COMMENT ON COLUMN {views}.approvals.action IS 'The tool that would run with these arguments.';
COMMENT ON COLUMN {views}.approvals.digest IS 'What a decision binds to: hex, over tool, contract, arguments and approver rule.';
COMMENT ON COLUMN {views}.approvals.approver IS 'The rule that says who may decide.';
COMMENT ON COLUMN {views}.approvals.status IS 'requested, granted, rejected, expired or withdrawn.';
COMMENT ON COLUMN {views}.approvals.comment IS 'What the person who decided wrote, or why it was withdrawn.';

CREATE OR REPLACE VIEW {views}.ledger AS
    SELECT l.tenant, l.session_id, l.activity_id, l.turn, l.step, l.action, l.queue, l.contract, l.digest,
        l.idempotency_key, l.asked_by, l.on_behalf_of, l.approval, l.proposal_id, a.decided_by AS approved_by,
        l.attempts, l.status, {tables}.log_time(l.requested_at_ms) AS requested_at,
        {tables}.log_time(l.deadline_ms) AS deadline_at, {tables}.log_time(l.settled_at_ms) AS settled_at,
        l.worker, l.result_digest, l.failure, l.cancel_reason, l.late_results, l.seq, l.escaped,
        {tables}.log_time(l.since_ms) AS since, {tables}.log_time(l.started_at_ms) AS started_at, l.progress,
        {tables}.log_time(l.progress_at_ms) AS progress_at, l.recovered, l.resolved_by, l.comment,
        l.on_uncertain
    FROM {tables}.ledger l
    LEFT JOIN {tables}.approvals a
        ON a.tenant = l.tenant AND a.session_id = l.session_id AND a.proposal_id = l.proposal_id;
COMMENT ON VIEW {views}.ledger IS 'One row per consequential step: who asked, who approved, and how it ended.';
COMMENT ON COLUMN {views}.ledger.contract IS 'How the tool may be retried: read, write_idempotent, write_lookup, write_undo or write_once.';
COMMENT ON COLUMN {views}.ledger.digest IS 'Of the action that ran; equals that of the approval which allowed it.';
COMMENT ON COLUMN {views}.ledger.asked_by IS 'The actor whose command led here.';
COMMENT ON COLUMN {views}.ledger.on_behalf_of IS 'Whose credentials the tool runs with.';
COMMENT ON COLUMN {views}.ledger.approval IS 'none (not gated), exempt (its rule asked nobody) or granted.';
COMMENT ON COLUMN {views}.ledger.approved_by IS 'Who approved exactly this action; null if nobody had to.';
COMMENT ON COLUMN {views}.ledger.status IS 'requested, retrying (the next attempt is due), completed, failed, uncertain (nobody knows whether it was done: see on_uncertain) or cancelled; cancelled may have run all the same.';
COMMENT ON COLUMN {views}.ledger.since IS 'When it came to this status.';
COMMENT ON COLUMN {views}.ledger.started_at IS 'First heartbeat of its newest attempt; null where none came, or the tool gives none.';
COMMENT ON COLUMN {views}.ledger.progress IS 'The last that a heartbeat told of, in at most 500 characters; the next attempt is told, too.';
COMMENT ON COLUMN {views}.ledger.progress_at IS 'When that was.';
COMMENT ON COLUMN {views}.ledger.worker IS 'The worker that spoke of it last.';
COMMENT ON COLUMN {views}.ledger.recovered IS 'Whether its result was looked up where an earlier call had left it.';
COMMENT ON COLUMN {views}.ledger.failure IS 'The last failure: why it failed, is retried or is uncertain.';
COMMENT ON COLUMN {views}.ledger.on_uncertain IS 'What follows where nobody knows whether it was done: wait (for a resolution) or raise (its workflow decides).';
COMMENT ON COLUMN {views}.ledger.resolved_by IS 'Who said what became of it while it was uncertain; null where nobody had to.';
COMMENT ON COLUMN {views}.ledger.comment IS 'What that person wrote.';
COMMENT ON COLUMN {views}.ledger.late_results IS 'Results that came after it was settled; they changed nothing.';

CREATE OR REPLACE VIEW {views}.gaps AS
    SELECT topic, partition, log_offset, reason, detail FROM {tables}.gaps;
COMMENT ON VIEW {views}.gaps IS 'Records of the log that are not in the views, and why. Empty unless something is wrong.';

CREATE OR REPLACE VIEW {views}.positions AS
    SELECT topic, partition, next_offset FROM {tables}.positions;
COMMENT ON VIEW {views}.positions IS 'Up to where the log is in the views: everything below next_offset.';
