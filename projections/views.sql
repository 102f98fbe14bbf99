-- What people query: the views in {views} over the rows in {tables}. Views only grow at their end, so that new ones can take
-- the place of old ones, and whatever was built on them or granted for them stays.

CREATE OR REPLACE VIEW {views}.sessions WITH (security_invoker = true) AS
    SELECT tenant, session_id, workflow, workflow_version, versions, status, held_reason, held_detail, turn,
        waiting_for, next_valid, opened_by, {tables}.log_time(opened_at_ms) AS opened_at,
        {tables}.log_time(updated_at_ms) AS updated_at, messages, last_reply, outcome, failure, cancel_reason,
        refusals, seq, escaped, trigger, trigger_reason, command_offset,
        (
            SELECT coalesce(jsonb_agg(DISTINCT t.name), '[]')
            FROM (
                SELECT l.action AS name
                FROM {tables}.ledger l
                WHERE l.tenant = s.tenant AND l.session_id = s.session_id AND l.untrusted
                    AND l.resolved_by IS NULL AND (l.status = 'completed' OR l.status = 'failed' AND l.worker <> '')
                UNION ALL
                SELECT jsonb_array_elements_text(c.tainted_by)
                FROM {tables}.children c
                WHERE c.tenant = s.tenant AND c.session_id = s.session_id
                UNION ALL
                SELECT jsonb_array_elements_text(s.inherited_taint)
            ) t
        ) AS tainted_by,
        opened_at_ms, updated_at_ms, waits, attributes, parent,
        (
            SELECT coalesce(jsonb_agg(jsonb_build_object('kind', h.kind, 'id', h.resource_id, 'expires_at_ms',
                h.expires_at_ms) ORDER BY h.attached_at_ms, h.resource_id), '[]')
            FROM {tables}.resources h
            WHERE h.tenant = s.tenant AND h.session_id = s.session_id AND h.status = 'attached'
        ) AS holds
    FROM {tables}.sessions s;
COMMENT ON VIEW {views}.sessions IS 'One row per agent session: where it stands and what it waits for.';
COMMENT ON COLUMN {views}.sessions.tenant IS 'Whose session it is.';
COMMENT ON COLUMN {views}.sessions.session_id IS 'Its name, unique within the tenant.';
COMMENT ON COLUMN {views}.sessions.workflow IS 'The workflow it runs.';
COMMENT ON COLUMN {views}.sessions.workflow_version IS 'The version of that workflow in its latest turn; null before the first.';
COMMENT ON COLUMN {views}.sessions.versions IS 'Names and versions of what its latest turn was started on: workflow, model and so on.';
COMMENT ON COLUMN {views}.sessions.status IS 'Opened, Running, Waiting, Suspended, Recovering, Compensating, Completed, Failed or Cancelled.';
COMMENT ON COLUMN {views}.sessions.held_reason IS 'Why the session cannot go on; null unless it is held. An operator releases it.';
COMMENT ON COLUMN {views}.sessions.held_detail IS 'The same in a sentence.';
COMMENT ON COLUMN {views}.sessions.turn IS 'The turn it is in, or was in last; 0 before the first.';
COMMENT ON COLUMN {views}.sessions.waiting_for IS 'What it awaits: kind (activity, approval, timer, uncertain, signal, inbox, job, child), id, name, expires_at_ms and what happens then.';
COMMENT ON COLUMN {views}.sessions.next_valid IS 'Commands that may be applied, and why the others may not, as of its last wait.';
COMMENT ON COLUMN {views}.sessions.opened_by IS 'Who opened it.';
COMMENT ON COLUMN {views}.sessions.opened_at IS 'When it was opened, on the log''s clock.';
COMMENT ON COLUMN {views}.sessions.updated_at IS 'Time of its last event, on the log''s clock.';
COMMENT ON COLUMN {views}.sessions.messages IS 'Messages received so far.';
COMMENT ON COLUMN {views}.sessions.last_reply IS 'What the agent said last.';
COMMENT ON COLUMN {views}.sessions.outcome IS 'The result; null unless the status is Completed.';
COMMENT ON COLUMN {views}.sessions.failure IS 'What went wrong; null unless the status is Failed.';
COMMENT ON COLUMN {views}.sessions.cancel_reason IS 'Why somebody asked it to stop; null unless somebody did.';
COMMENT ON COLUMN {views}.sessions.refusals IS 'Commands that were not applied.';
COMMENT ON COLUMN {views}.sessions.seq IS 'Events so far: the version of the session, as in expected_seq.';
COMMENT ON COLUMN {views}.sessions.escaped IS 'Columns whose text holds what Postgres cannot: backslash doubled, \u0000 for the character.';
COMMENT ON COLUMN {views}.sessions.trigger IS 'What started that turn: message, or the kind of another occasion.';
COMMENT ON COLUMN {views}.sessions.trigger_reason IS 'That occasion in words; null for a message.';
COMMENT ON COLUMN {views}.sessions.tainted_by IS 'Activities whose result, or failure in a tool''s own words, brought in content that nobody vouches for, here, in a child or in the parent: policy may ask for approvals since.';
COMMENT ON COLUMN {views}.sessions.command_offset IS 'Offset in the commands topic of its latest command that left an event: what was sent before is in this row.';
COMMENT ON COLUMN {views}.sessions.opened_at_ms IS 'The same as opened_at in milliseconds, as it is indexed: filter and sort by this one where there are many rows.';
COMMENT ON COLUMN {views}.sessions.updated_at_ms IS 'The same as updated_at in milliseconds, as it is indexed: filter and sort by this one where there are many rows.';
COMMENT ON COLUMN {views}.sessions.waits IS 'What it waits for as bits, as they are indexed (waits & 2 <> 0): 1 activity, 2 approval, 4 timer, 8 uncertain, 16 signal, 32 inbox, 64 job, 128 child.';
COMMENT ON COLUMN {views}.sessions.attributes IS 'What it is found by, as an object. To filter by one, join the view terms, which is indexed.';
COMMENT ON COLUMN {views}.sessions.parent IS 'The session that opened it as its child; null where it is nobody''s child.';
COMMENT ON COLUMN {views}.sessions.holds IS 'Resources that it holds over its turns: kind, id and expires_at_ms of each; see resources.';

CREATE OR REPLACE VIEW {views}.children WITH (security_invoker = true) AS
    SELECT tenant, session_id, child_id, turn, step, workflow, status, {tables}.log_time(started_at_ms) AS started_at,
        {tables}.log_time(expires_at_ms) AS expires_at, {tables}.log_time(ended_at_ms) AS ended_at,
        result_digest, failure, tainted_by, late_end, seq, escaped, expires_at_ms
    FROM {tables}.children;
COMMENT ON VIEW {views}.children IS 'One row per child: a session that another one has opened, and whose end it awaits or awaited.';
COMMENT ON COLUMN {views}.children.tenant IS 'Whose sessions they are.';
COMMENT ON COLUMN {views}.children.session_id IS 'The session that opened it.';
COMMENT ON COLUMN {views}.children.child_id IS 'The session that it is: see it in sessions.';
COMMENT ON COLUMN {views}.children.turn IS 'The turn that opened it.';
COMMENT ON COLUMN {views}.children.step IS 'The step of that turn.';
COMMENT ON COLUMN {views}.children.workflow IS 'The workflow it runs.';
COMMENT ON COLUMN {views}.children.status IS 'open, completed, failed, cancelled, expired, or withdrawn: nobody waits for it any more. As its parent was told.';
COMMENT ON COLUMN {views}.children.started_at IS 'When it was asked for.';
COMMENT ON COLUMN {views}.children.expires_at IS 'Until when its parent waits for it.';
COMMENT ON COLUMN {views}.children.ended_at IS 'When its parent was told of its end, or no longer waited; null while it is open.';
COMMENT ON COLUMN {views}.children.result_digest IS 'Of what it completed with, hex; null where it did not.';
COMMENT ON COLUMN {views}.children.failure IS 'What its parent was told went wrong; null unless the status is failed.';
COMMENT ON COLUMN {views}.children.tainted_by IS 'Activities that brought content into it that nobody vouches for.';
COMMENT ON COLUMN {views}.children.late_end IS 'How it ended once nobody waited for it: completed, failed or cancelled; null where its parent waited, or has ended since.';
COMMENT ON COLUMN {views}.children.seq IS 'The event of the session that changed this row last.';
COMMENT ON COLUMN {views}.children.escaped IS 'Columns whose text holds what Postgres cannot: backslash doubled, \u0000 for the character.';
COMMENT ON COLUMN {views}.children.expires_at_ms IS 'The same as expires_at in milliseconds, as it is indexed: filter and sort by this one where there are many rows.';

CREATE OR REPLACE VIEW {views}.resources WITH (security_invoker = true) AS
    SELECT tenant, session_id, resource_id, turn, step, kind, status, reattached, {tables}.log_time(attached_at_ms) AS attached_at,
        {tables}.log_time(expires_at_ms) AS expires_at, {tables}.log_time(ended_at_ms) AS ended_at,
        handle_digest, release_by, failure, seq, escaped, expires_at_ms
    FROM {tables}.resources;
COMMENT ON VIEW {views}.resources IS 'One row each time that a session attached a resource: a sandbox, a browser, whatever it holds over its turns.';
COMMENT ON COLUMN {views}.resources.tenant IS 'Whose session it is.';
COMMENT ON COLUMN {views}.resources.session_id IS 'The session that holds it, or held it.';
COMMENT ON COLUMN {views}.resources.resource_id IS 'The activity that set it up: see it in activities.';
COMMENT ON COLUMN {views}.resources.turn IS 'The turn that attached it.';
COMMENT ON COLUMN {views}.resources.step IS 'The step of that turn.';
COMMENT ON COLUMN {views}.resources.kind IS 'Its name: a session holds one of each.';
COMMENT ON COLUMN {views}.resources.status IS 'attached, expired (its time was over), lost (a tool found it gone), released, or ended with its session.';
COMMENT ON COLUMN {views}.resources.reattached IS 'Whether it was set up again from the handle of the one before.';
COMMENT ON COLUMN {views}.resources.attached_at IS 'When it was attached.';
COMMENT ON COLUMN {views}.resources.expires_at IS 'Until when it is held at most.';
COMMENT ON COLUMN {views}.resources.ended_at IS 'When it was over; null while it is attached.';
COMMENT ON COLUMN {views}.resources.handle_digest IS 'Of its handle, hex.';
COMMENT ON COLUMN {views}.resources.release_by IS 'The activity that gives it back, should the session fail or be cancelled; null where there is none.';
COMMENT ON COLUMN {views}.resources.failure IS 'What the tool said that found it gone; null unless the status is lost.';
COMMENT ON COLUMN {views}.resources.seq IS 'The event of the session that changed this row last.';
COMMENT ON COLUMN {views}.resources.escaped IS 'Columns whose text holds what Postgres cannot: backslash doubled, \u0000 for the character.';
COMMENT ON COLUMN {views}.resources.expires_at_ms IS 'The same as expires_at in milliseconds, as it is indexed: filter and sort by this one where there are many rows.';

CREATE OR REPLACE VIEW {views}.jobs WITH (security_invoker = true) AS
    SELECT tenant, session_id, job_id, turn, step, name, status, {tables}.log_time(awaited_at_ms) AS awaited_at,
        {tables}.log_time(expires_at_ms) AS expires_at, {tables}.log_time(ended_at_ms) AS ended_at, ended_by,
        result_digest, failure, seq, escaped, expires_at_ms
    FROM {tables}.jobs;
COMMENT ON VIEW {views}.jobs IS 'One row per external job: work that somebody else does, and that a session awaits or awaited.';
COMMENT ON COLUMN {views}.jobs.tenant IS 'Whose session it is.';
COMMENT ON COLUMN {views}.jobs.session_id IS 'The session that awaits it.';
COMMENT ON COLUMN {views}.jobs.job_id IS 'What a completion names.';
COMMENT ON COLUMN {views}.jobs.turn IS 'The turn that awaits it.';
COMMENT ON COLUMN {views}.jobs.step IS 'The step of that turn.';
COMMENT ON COLUMN {views}.jobs.name IS 'What the workflow calls it.';
COMMENT ON COLUMN {views}.jobs.status IS 'awaited, completed, failed, expired, or withdrawn: nobody waits for it any more.';
COMMENT ON COLUMN {views}.jobs.awaited_at IS 'Since when it is awaited.';
COMMENT ON COLUMN {views}.jobs.expires_at IS 'Until when.';
COMMENT ON COLUMN {views}.jobs.ended_at IS 'When it was completed, failed, expired or was withdrawn; null while it is awaited.';
COMMENT ON COLUMN {views}.jobs.ended_by IS 'Who said what became of it; null where nobody did.';
COMMENT ON COLUMN {views}.jobs.result_digest IS 'Of its result, hex; null where there is none.';
COMMENT ON COLUMN {views}.jobs.failure IS 'Why it will not be done; null unless the status is failed.';
COMMENT ON COLUMN {views}.jobs.seq IS 'The session''s event that changed this row last.';
COMMENT ON COLUMN {views}.jobs.escaped IS 'Columns whose text holds what Postgres cannot: backslash doubled, \u0000 for the character.';
COMMENT ON COLUMN {views}.jobs.expires_at_ms IS 'The same as expires_at in milliseconds, as it is indexed: filter and sort by this one where there are many rows.';

CREATE OR REPLACE VIEW {views}.attributes WITH (security_invoker = true) AS
    SELECT tenant, session_id, names AS name, kind, value, {tables}.log_time(since_ms) AS since, since_ms, seq, escaped
    FROM {tables}.attributes WHERE term IS NOT NULL AND kind IS NOT NULL;
COMMENT ON VIEW {views}.attributes IS 'One row per attribute of a session: what it is found by.';
COMMENT ON COLUMN {views}.attributes.tenant IS 'Whose session it is.';
COMMENT ON COLUMN {views}.attributes.session_id IS 'The session, within its tenant.';
COMMENT ON COLUMN {views}.attributes.name IS 'The name of the attribute.';
COMMENT ON COLUMN {views}.attributes.kind IS 'text, integer, number, boolean or timestamp.';
COMMENT ON COLUMN {views}.attributes.value IS 'Its value as a text, by which it is compared.';
COMMENT ON COLUMN {views}.attributes.since IS 'When it came to this value.';
COMMENT ON COLUMN {views}.attributes.since_ms IS 'The same as since in milliseconds, as it is indexed: filter and sort by this one where there are many rows.';
COMMENT ON COLUMN {views}.attributes.seq IS 'The session''s event that changed this row last.';
COMMENT ON COLUMN {views}.attributes.escaped IS 'Columns whose text holds what Postgres cannot: backslash doubled, \u0000 for the character.';

CREATE OR REPLACE VIEW {views}.terms WITH (security_invoker = true) AS
    SELECT tenant, session_id, term, {tables}.log_time(since_ms) AS since, since_ms, session_id AS found_id
    FROM {tables}.attributes WHERE term IS NOT NULL;
COMMENT ON VIEW {views}.terms IS 'One row per attribute of a session, and one per pair of attributes: to be joined with sessions, filtered by term and sorted by since_ms.';
COMMENT ON COLUMN {views}.terms.tenant IS 'Whose session it is.';
COMMENT ON COLUMN {views}.terms.session_id IS 'The session, within its tenant.';
COMMENT ON COLUMN {views}.terms.term IS 'customer=ivo, or two by name: customer=ivo&order=1009. In values % is %25, & is %26 and = is %3D.';
COMMENT ON COLUMN {views}.terms.since IS 'When the session came to be found so.';
COMMENT ON COLUMN {views}.terms.since_ms IS 'The same as since in milliseconds, as it is indexed: filter and sort by this one where there are many rows.';
COMMENT ON COLUMN {views}.terms.found_id IS 'The same as session_id, under a name that a join leaves alone: sort by it behind since_ms.';

CREATE OR REPLACE VIEW {views}.approvals WITH (security_invoker = true) AS
    SELECT tenant, session_id, proposal_id, turn, step, action, contract, arguments, digest, approver, status,
        {tables}.log_time(requested_at_ms) AS requested_at, {tables}.log_time(expires_at_ms) AS expires_at,
        decided_by, decided_on_behalf_of, {tables}.log_time(decided_at_ms) AS decided_at, comment, seq, escaped,
        quorum, votes, requester, supersedes, answer, activity_id, because, policies, requested_at_ms, expires_at_ms
    FROM {tables}.approvals;
COMMENT ON VIEW {views}.approvals IS 'One row per proposed action: who may approve it, and what was decided.';
COMMENT ON COLUMN {views}.approvals.tenant IS 'Whose session it is.';
COMMENT ON COLUMN {views}.approvals.session_id IS 'The session that asks.';
COMMENT ON COLUMN {views}.approvals.proposal_id IS 'What a decision names.';
COMMENT ON COLUMN {views}.approvals.turn IS 'The turn that asks.';
COMMENT ON COLUMN {views}.approvals.step IS 'The step of that turn.';
COMMENT ON COLUMN {views}.approvals.action IS 'The tool that would run with these arguments.';
COMMENT ON COLUMN {views}.approvals.contract IS 'How that tool may be retried.';
COMMENT ON COLUMN {views}.approvals.arguments IS 'What it would be called with.';
COMMENT ON COLUMN {views}.approvals.digest IS 'What a decision binds to: hex, over tool, contract, arguments and approver rule.';
COMMENT ON COLUMN {views}.approvals.approver IS 'The rule that says who may decide.';
COMMENT ON COLUMN {views}.approvals.status IS 'requested, granted, rejected, answered, expired, withdrawn, or voided: then another proposal supersedes it, unless policy forbids the action whoever approves it.';
COMMENT ON COLUMN {views}.approvals.requested_at IS 'When it was asked.';
COMMENT ON COLUMN {views}.approvals.expires_at IS 'Until when it may be decided.';
COMMENT ON COLUMN {views}.approvals.decided_by IS 'Who decided; null where nobody did.';
COMMENT ON COLUMN {views}.approvals.decided_on_behalf_of IS 'For whom that person decided, if for another.';
COMMENT ON COLUMN {views}.approvals.decided_at IS 'When it was decided, expired or was withdrawn.';
COMMENT ON COLUMN {views}.approvals.comment IS 'What the person who decided wrote, why it was withdrawn, or what changed.';
COMMENT ON COLUMN {views}.approvals.quorum IS 'How many people must approve.';
COMMENT ON COLUMN {views}.approvals.votes IS 'How many had approved before the last of them.';
COMMENT ON COLUMN {views}.approvals.requester IS 'For whom it is done, who may not approve it; null where anybody may.';
COMMENT ON COLUMN {views}.approvals.supersedes IS 'The proposal in whose place it was made.';
COMMENT ON COLUMN {views}.approvals.answer IS 'What the workflow was told instead of a decision.';
COMMENT ON COLUMN {views}.approvals.activity_id IS 'The activity that is withheld until it is decided, where policy asks for it; null where the workflow does.';
COMMENT ON COLUMN {views}.approvals.because IS 'Why policy asks for it, or has it asked again, in sentences; empty where the workflow alone asks.';
COMMENT ON COLUMN {views}.approvals.policies IS 'Hash of the policies that applied to it when it was asked, hex; null where none were published.';
COMMENT ON COLUMN {views}.approvals.seq IS 'The session''s event that changed this row last.';
COMMENT ON COLUMN {views}.approvals.escaped IS 'Columns whose text holds what Postgres cannot: backslash doubled, \u0000 for the character.';
COMMENT ON COLUMN {views}.approvals.requested_at_ms IS 'The same as requested_at in milliseconds, as it is indexed: filter and sort by this one where there are many rows.';
COMMENT ON COLUMN {views}.approvals.expires_at_ms IS 'The same as expires_at in milliseconds, as it is indexed: filter and sort by this one where there are many rows.';

CREATE OR REPLACE VIEW {views}.ledger WITH (security_invoker = true) AS
    SELECT l.tenant, l.session_id, l.activity_id, l.turn, l.step, l.action, l.queue, l.contract, l.digest,
        l.idempotency_key, l.asked_by, l.on_behalf_of, l.approval, l.proposal_id,
        COALESCE(CASE WHEN a.status IN ('granted', 'voided') THEN a.decided_by END,
            CASE WHEN b.status = 'voided' THEN b.decided_by END) AS approved_by,
        l.attempts, l.status, {tables}.log_time(l.requested_at_ms) AS requested_at,
        {tables}.log_time(l.deadline_ms) AS deadline_at, {tables}.log_time(l.settled_at_ms) AS settled_at,
        l.worker, l.result_digest, l.failure, l.cancel_reason, l.late_results, l.seq, l.escaped,
        {tables}.log_time(l.since_ms) AS since, {tables}.log_time(l.started_at_ms) AS started_at, l.progress,
        {tables}.log_time(l.progress_at_ms) AS progress_at, l.recovered, l.resolved_by, l.comment,
        l.on_uncertain, l.untrusted, l.requested_at_ms, l.compensates, l.compensated_by
    FROM {tables}.ledger l
    LEFT JOIN {tables}.approvals a
        ON a.tenant = l.tenant AND a.session_id = l.session_id AND a.proposal_id = l.proposal_id
    LEFT JOIN {tables}.approvals b
        ON b.tenant = a.tenant AND b.session_id = a.session_id AND b.proposal_id = a.supersedes;
COMMENT ON VIEW {views}.ledger IS 'One row per consequential step: who asked, who approved, and how it ended.';
COMMENT ON COLUMN {views}.ledger.tenant IS 'Whose session it is.';
COMMENT ON COLUMN {views}.ledger.session_id IS 'The session, within its tenant.';
COMMENT ON COLUMN {views}.ledger.activity_id IS 'The step, within its session.';
COMMENT ON COLUMN {views}.ledger.turn IS 'The turn that took the step.';
COMMENT ON COLUMN {views}.ledger.step IS 'Its number in that turn.';
COMMENT ON COLUMN {views}.ledger.action IS 'The tool or model that was called.';
COMMENT ON COLUMN {views}.ledger.queue IS 'The queue whose workers run it.';
COMMENT ON COLUMN {views}.ledger.contract IS 'How the tool may be retried: read, write_idempotent, write_lookup, write_undo or write_once.';
COMMENT ON COLUMN {views}.ledger.digest IS 'Of the action that ran; equals that of the approval which allowed it.';
COMMENT ON COLUMN {views}.ledger.idempotency_key IS 'What the tool is told, the same for every attempt.';
COMMENT ON COLUMN {views}.ledger.asked_by IS 'The actor whose command led here.';
COMMENT ON COLUMN {views}.ledger.on_behalf_of IS 'Whose credentials the tool runs with.';
COMMENT ON COLUMN {views}.ledger.approval IS 'none (not gated), exempt (its rule asked nobody), granted, or by_policy: policy asked for one, whatever the code says.';
COMMENT ON COLUMN {views}.ledger.proposal_id IS 'The approval that allowed it, or that it waits for; null if it needed none.';
COMMENT ON COLUMN {views}.ledger.approved_by IS 'Who approved it, the last one where several must; an approval that became void after an attempt was let go by it counts. Null if nobody had to, or nobody has.';
COMMENT ON COLUMN {views}.ledger.attempts IS 'The number of its newest attempt.';
COMMENT ON COLUMN {views}.ledger.status IS 'requested, retrying (the next attempt is due), withheld (its newest attempt is not dispatched before somebody approves it: see proposal_id), completed, failed, uncertain (nobody knows whether it was done: see on_uncertain) or cancelled; cancelled may have run all the same.';
COMMENT ON COLUMN {views}.ledger.requested_at IS 'When it was decided to run it.';
COMMENT ON COLUMN {views}.ledger.deadline_at IS 'By when it must have ended, attempts and all; null while it is withheld, since its time stands still.';
COMMENT ON COLUMN {views}.ledger.settled_at IS 'When it ended; null while it has not.';
COMMENT ON COLUMN {views}.ledger.worker IS 'The worker that spoke of it last.';
COMMENT ON COLUMN {views}.ledger.result_digest IS 'Of its result, hex; null where there is none.';
COMMENT ON COLUMN {views}.ledger.failure IS 'The last failure: why it failed, is retried or is uncertain.';
COMMENT ON COLUMN {views}.ledger.cancel_reason IS 'Why it was no longer wanted; null unless it was cancelled.';
COMMENT ON COLUMN {views}.ledger.late_results IS 'Results that came after it was settled; they changed nothing.';
COMMENT ON COLUMN {views}.ledger.seq IS 'The session''s event that changed this row last.';
COMMENT ON COLUMN {views}.ledger.escaped IS 'Columns whose text holds what Postgres cannot: backslash doubled, \u0000 for the character.';
COMMENT ON COLUMN {views}.ledger.since IS 'When it came to this status.';
COMMENT ON COLUMN {views}.ledger.started_at IS 'First heartbeat of its newest attempt; null where none came, or the tool gives none.';
COMMENT ON COLUMN {views}.ledger.progress IS 'The last that a heartbeat told of, in at most 500 characters; the next attempt is told, too.';
COMMENT ON COLUMN {views}.ledger.progress_at IS 'When that was.';
COMMENT ON COLUMN {views}.ledger.recovered IS 'Whether its result was looked up where an earlier call had left it.';
COMMENT ON COLUMN {views}.ledger.resolved_by IS 'Who said what became of it while it was uncertain; null where nobody had to.';
COMMENT ON COLUMN {views}.ledger.comment IS 'What that person wrote.';
COMMENT ON COLUMN {views}.ledger.untrusted IS 'Whether what it returns is content that nobody vouches for.';
COMMENT ON COLUMN {views}.ledger.on_uncertain IS 'What follows where nobody knows whether it was done: wait (for a resolution) or raise (its workflow decides).';
COMMENT ON COLUMN {views}.ledger.compensates IS 'The activity whose effect it takes back; null where it is a step of its own.';
COMMENT ON COLUMN {views}.ledger.compensated_by IS 'The activity that takes its effect back, whose own row says how that went; null where that was not asked for.';
COMMENT ON COLUMN {views}.ledger.requested_at_ms IS 'The same as requested_at in milliseconds, as it is indexed: filter and sort by this one where there are many rows.';

CREATE OR REPLACE VIEW {views}.activities WITH (security_invoker = true) AS
    SELECT tenant, session_id, activity_id, turn, step, action, queue, contract,
        CASE WHEN status = 'requested' AND started_at_ms IS NOT NULL THEN 'running' ELSE status END AS state,
        status IN ('requested', 'retrying', 'withheld') OR (status = 'uncertain' AND on_uncertain = 'wait') AS open,
        status = 'uncertain' AS uncertain, attempts, {tables}.log_time(since_ms) AS since,
        {tables}.log_time(deadline_ms) AS deadline_at, {tables}.log_time(retry_due_ms) AS next_attempt_at,
        {tables}.log_time(started_at_ms) AS started_at, progress, {tables}.log_time(progress_at_ms) AS progress_at,
        worker, failure, {tables}.log_time(requested_at_ms) AS requested_at,
        {tables}.log_time(settled_at_ms) AS settled_at, seq, escaped
    FROM {tables}.ledger;
COMMENT ON VIEW {views}.activities IS 'One row per call of a tool or model: how far it has come. The ledger has who asked for it and who approved.';
COMMENT ON COLUMN {views}.activities.tenant IS 'Whose session it is.';
COMMENT ON COLUMN {views}.activities.session_id IS 'The session, within its tenant.';
COMMENT ON COLUMN {views}.activities.activity_id IS 'The call, within its session.';
COMMENT ON COLUMN {views}.activities.turn IS 'The turn that asked for it.';
COMMENT ON COLUMN {views}.activities.step IS 'Its number in that turn.';
COMMENT ON COLUMN {views}.activities.action IS 'The tool or model that is called.';
COMMENT ON COLUMN {views}.activities.queue IS 'The queue whose workers run it.';
COMMENT ON COLUMN {views}.activities.contract IS 'How the tool may be retried: read, write_idempotent, write_lookup, write_undo or write_once.';
COMMENT ON COLUMN {views}.activities.state IS 'requested (no sign of life of its newest attempt yet), running (one was seen), retrying (the next attempt is due), withheld (until somebody approves it), uncertain, completed, failed or cancelled.';
COMMENT ON COLUMN {views}.activities.open IS 'Whether its session still owes or awaits something of it.';
COMMENT ON COLUMN {views}.activities.uncertain IS 'Whether nobody knows if it was done.';
COMMENT ON COLUMN {views}.activities.attempts IS 'The number of its newest attempt; all other columns speak of that one.';
COMMENT ON COLUMN {views}.activities.since IS 'When it came to this state, or its newest attempt was handed out.';
COMMENT ON COLUMN {views}.activities.deadline_at IS 'By when it must have ended, attempts and all; null while it is withheld.';
COMMENT ON COLUMN {views}.activities.next_attempt_at IS 'When the next attempt is due; null unless it is retrying.';
COMMENT ON COLUMN {views}.activities.started_at IS 'First heartbeat of its newest attempt; null where none came, or the tool gives none.';
COMMENT ON COLUMN {views}.activities.progress IS 'The last that a heartbeat told of, in at most 500 characters.';
COMMENT ON COLUMN {views}.activities.progress_at IS 'When that was.';
COMMENT ON COLUMN {views}.activities.worker IS 'The worker that spoke of it last.';
COMMENT ON COLUMN {views}.activities.failure IS 'The last failure: why it failed, is retried or is uncertain.';
COMMENT ON COLUMN {views}.activities.requested_at IS 'When it was asked for.';
COMMENT ON COLUMN {views}.activities.settled_at IS 'When it ended; null while it has not.';
COMMENT ON COLUMN {views}.activities.seq IS 'The session''s event that changed this row last.';
COMMENT ON COLUMN {views}.activities.escaped IS 'Columns whose text holds what Postgres cannot: backslash doubled, \u0000 for the character.';

CREATE OR REPLACE VIEW {views}.timers WITH (security_invoker = true) AS
    SELECT d.tenant, d.session_id, s.workflow, d.kind, d.id, d.name, d.for_whom, {tables}.log_time(d.since_ms) AS since,
        {tables}.log_time(d.due_ms) AS due_at, s.held_reason IS NOT NULL AS held, d.seq, d.escaped
    FROM (
        SELECT tenant, session_id, 'timer' AS kind, timer_id AS id, NULL AS name, NULL AS for_whom, set_at_ms AS since_ms,
            due_ms, seq, escaped
        FROM {tables}.timers WHERE status = 'set'
        UNION ALL
        SELECT tenant, session_id, 'approval', proposal_id, action, approver, requested_at_ms, expires_at_ms, seq, escaped
        FROM {tables}.approvals WHERE status = 'requested'
        UNION ALL
        SELECT tenant, session_id, 'activity', activity_id, action, queue, requested_at_ms, deadline_ms, seq, escaped
        FROM {tables}.ledger WHERE status IN ('requested', 'retrying')
        UNION ALL
        SELECT tenant, session_id, 'retry', activity_id, action, queue, since_ms, retry_due_ms, seq, escaped
        FROM {tables}.ledger WHERE status = 'retrying'
        UNION ALL
        SELECT tenant, session_id, 'job', job_id, name, NULL, awaited_at_ms, expires_at_ms, seq, escaped
        FROM {tables}.jobs WHERE status = 'awaited'
        UNION ALL
        SELECT tenant, session_id, 'child', child_id, workflow, NULL, started_at_ms, expires_at_ms, seq, escaped
        FROM {tables}.children WHERE status = 'open'
    ) d
    JOIN {tables}.sessions s ON s.tenant = d.tenant AND s.session_id = d.session_id;
COMMENT ON VIEW {views}.timers IS 'One row per open deadline: what ends, for whom, and when.';
COMMENT ON COLUMN {views}.timers.tenant IS 'Whose session it is.';
COMMENT ON COLUMN {views}.timers.session_id IS 'The session, within its tenant.';
COMMENT ON COLUMN {views}.timers.workflow IS 'What the session runs.';
COMMENT ON COLUMN {views}.timers.kind IS 'timer (a sleep ends), approval (a proposal expires), activity (it must have ended), retry (its next attempt is due), job or child (it expires).';
COMMENT ON COLUMN {views}.timers.id IS 'The timer, proposal, activity, job or child.';
COMMENT ON COLUMN {views}.timers.name IS 'The action, job or child''s workflow that it is about; null for a timer.';
COMMENT ON COLUMN {views}.timers.for_whom IS 'Who is waited for: the approver rule, or the queue whose workers run the activity; null for a timer, which waits for nobody, for a job, and for a child.';
COMMENT ON COLUMN {views}.timers.since IS 'When it was set.';
COMMENT ON COLUMN {views}.timers.due_at IS 'When it is due, on the log''s clock.';
COMMENT ON COLUMN {views}.timers.held IS 'Whether its session is held: then nothing happens before it is released.';
COMMENT ON COLUMN {views}.timers.seq IS 'The session''s event that changed this row last.';
COMMENT ON COLUMN {views}.timers.escaped IS 'Columns whose text holds what Postgres cannot: backslash doubled, \u0000 for the character.';

CREATE OR REPLACE VIEW {views}.outcomes WITH (security_invoker = true) AS
    SELECT tenant, session_id, command_id, command, actor, channel,
        CASE WHEN reason IS NOT NULL THEN 'refused' WHEN seq = parked_seq THEN 'parked' ELSE 'accepted' END AS disposition,
        reason, detail, {tables}.log_time(decided_at_ms) AS decided_at, events, seq, partition, command_offset, escaped
    FROM {tables}.outcomes;
COMMENT ON VIEW {views}.outcomes IS 'One row per command that left an event: what became of it. A repeat, and a command that was turned away at the door (see ''wakeful dlq''), leave none.';
COMMENT ON COLUMN {views}.outcomes.tenant IS 'Whose session it is.';
COMMENT ON COLUMN {views}.outcomes.session_id IS 'The session that was asked.';
COMMENT ON COLUMN {views}.outcomes.command_id IS 'The id that the command came with.';
COMMENT ON COLUMN {views}.outcomes.command IS 'What was asked: SendMessage, DecideApproval and so on; null where only what was due anyway came of it.';
COMMENT ON COLUMN {views}.outcomes.actor IS 'Who asked; null where command is.';
COMMENT ON COLUMN {views}.outcomes.channel IS 'By which door it came.';
COMMENT ON COLUMN {views}.outcomes.disposition IS 'accepted, refused, or parked: kept while its session was held, and nothing has come of it yet.';
COMMENT ON COLUMN {views}.outcomes.reason IS 'Why it was refused, in one word; null unless it was.';
COMMENT ON COLUMN {views}.outcomes.detail IS 'What to do about that, in words.';
COMMENT ON COLUMN {views}.outcomes.decided_at IS 'Time of the last event that it led to, on the log''s clock.';
COMMENT ON COLUMN {views}.outcomes.events IS 'Events that it led to.';
COMMENT ON COLUMN {views}.outcomes.seq IS 'The last of them in its session.';
COMMENT ON COLUMN {views}.outcomes.partition IS 'Where the command lies in the commands topic.';
COMMENT ON COLUMN {views}.outcomes.command_offset IS 'Its offset there.';
COMMENT ON COLUMN {views}.outcomes.escaped IS 'Columns whose text holds what Postgres cannot: backslash doubled, \u0000 for the character.';

CREATE OR REPLACE VIEW {views}.refusals WITH (security_invoker = true) AS
    SELECT tenant, session_id, command, reason, failed_check, detail, actor, channel, command_id,
        {tables}.log_time(decided_at_ms) AS refused_at, seq, escaped, command_offset, decided_at_ms AS refused_at_ms
    FROM {tables}.outcomes WHERE reason IS NOT NULL;
COMMENT ON VIEW {views}.refusals IS 'One row per command that a session did not apply, and why.';
COMMENT ON COLUMN {views}.refusals.tenant IS 'Whose session it is.';
COMMENT ON COLUMN {views}.refusals.session_id IS 'The session that was asked.';
COMMENT ON COLUMN {views}.refusals.command IS 'What was asked.';
COMMENT ON COLUMN {views}.refusals.reason IS 'Why not, in one word.';
COMMENT ON COLUMN {views}.refusals.failed_check IS 'Which check it failed: identity, scope, ordering, freshness or authority.';
COMMENT ON COLUMN {views}.refusals.detail IS 'What to do about it, in words.';
COMMENT ON COLUMN {views}.refusals.actor IS 'Who asked.';
COMMENT ON COLUMN {views}.refusals.channel IS 'By which door it came.';
COMMENT ON COLUMN {views}.refusals.command_id IS 'The id that the command came with.';
COMMENT ON COLUMN {views}.refusals.refused_at IS 'When, on the log''s clock.';
COMMENT ON COLUMN {views}.refusals.seq IS 'The session''s event that changed this row last.';
COMMENT ON COLUMN {views}.refusals.escaped IS 'Columns whose text holds what Postgres cannot: backslash doubled, \u0000 for the character.';
COMMENT ON COLUMN {views}.refusals.command_offset IS 'Offset of the command in the commands topic.';
COMMENT ON COLUMN {views}.refusals.refused_at_ms IS 'The same as refused_at in milliseconds, as it is indexed: filter and sort by this one where there are many rows.';

CREATE OR REPLACE VIEW {views}.stretches WITH (security_invoker = true) AS
    SELECT tenant, session_id, first_seq, seq AS last_seq, first_offset, last_offset FROM {tables}.stretches
    UNION ALL
    SELECT tenant, session_id, stretch_seq, seq, stretch_offset, event_offset FROM {tables}.sessions WHERE stretch_seq >= 0;
COMMENT ON VIEW {views}.stretches IS 'Where the events of a session lie in the events topic: one row per stretch in which they lie near each other.';
COMMENT ON COLUMN {views}.stretches.tenant IS 'Whose session it is.';
COMMENT ON COLUMN {views}.stretches.session_id IS 'The session; its key says which partition.';
COMMENT ON COLUMN {views}.stretches.first_seq IS 'The number of the first event of the stretch.';
COMMENT ON COLUMN {views}.stretches.last_seq IS 'The number of the last one.';
COMMENT ON COLUMN {views}.stretches.first_offset IS 'Offset of the first.';
COMMENT ON COLUMN {views}.stretches.last_offset IS 'Offset of the last.';

CREATE OR REPLACE VIEW {views}.gaps WITH (security_invoker = true) AS
    SELECT topic, partition, log_offset, reason, detail FROM {tables}.gaps;
COMMENT ON VIEW {views}.gaps IS 'Records of the log that are not, or not wholly, in the views, and why. Empty unless something is wrong. Of all tenants, so for operators only.';
COMMENT ON COLUMN {views}.gaps.topic IS 'The topic of the record.';
COMMENT ON COLUMN {views}.gaps.partition IS 'Its partition.';
COMMENT ON COLUMN {views}.gaps.log_offset IS 'Its offset.';
COMMENT ON COLUMN {views}.gaps.reason IS 'Why it is not in the views, in one word.';
COMMENT ON COLUMN {views}.gaps.detail IS 'The same in a sentence.';

CREATE OR REPLACE VIEW {views}.positions WITH (security_invoker = true) AS
    SELECT topic, partition, next_offset FROM {tables}.positions;
COMMENT ON VIEW {views}.positions IS 'Up to where the log is in the views: everything below next_offset.';
COMMENT ON COLUMN {views}.positions.topic IS 'The topic that is read.';
COMMENT ON COLUMN {views}.positions.partition IS 'Its partition.';
COMMENT ON COLUMN {views}.positions.next_offset IS 'Everything below this offset is in the views, or in gaps.';

CREATE OR REPLACE VIEW {views}.lag WITH (security_invoker = true) AS
    SELECT p.topic, p.partition, p.next_offset, e.log_end, greatest(e.log_end - p.next_offset, 0) AS records_behind,
        CASE
            WHEN e.log_end <= p.next_offset AND e.measured_at > now() - interval '10 seconds' THEN 0
            ELSE greatest(round(extract(epoch FROM now()
                - greatest({tables}.log_time(p.last_record_ms), e.complete_at)), 3), 0)
        END AS seconds_behind,
        {tables}.log_time(p.last_record_ms) AS last_record_at,
        greatest({tables}.log_time(p.last_record_ms), e.complete_at) AS as_of, e.measured_at,
        p.partition || ':' || p.next_offset AS position
    FROM {tables}.positions p
    LEFT JOIN {tables}.ends e ON e.topic = p.topic AND e.partition = p.partition;
COMMENT ON VIEW {views}.lag IS 'One row per partition of the events: up to where it is in the views, and how far behind that is.';
COMMENT ON COLUMN {views}.lag.topic IS 'The topic that is read.';
COMMENT ON COLUMN {views}.lag.partition IS 'Its partition.';
COMMENT ON COLUMN {views}.lag.next_offset IS 'Everything below this offset is in the views, or in gaps.';
COMMENT ON COLUMN {views}.lag.log_end IS 'Where the log ended when the projector looked last, about once a second.';
COMMENT ON COLUMN {views}.lag.records_behind IS 'Offsets between the two: at most so many records are missing, since the marks of transactions have offsets, too.';
COMMENT ON COLUMN {views}.lag.seconds_behind IS 'How old the views may be: 0 while nothing is missing. It grows when no projector runs.';
COMMENT ON COLUMN {views}.lag.last_record_at IS 'Time of the newest record in the views, on the log''s clock.';
COMMENT ON COLUMN {views}.lag.as_of IS 'The views have all that was in the partition at this time.';
COMMENT ON COLUMN {views}.lag.measured_at IS 'When the projector looked at the log''s end last.';
COMMENT ON COLUMN {views}.lag.position IS 'The position as a token: ''partition:offset''. Several are joined by commas; reached() takes them.';

CREATE OR REPLACE FUNCTION {views}.reached(wanted text) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN NOT EXISTS (
        SELECT FROM unnest(string_to_array(wanted, ',')) AS w(token)
        LEFT JOIN {views}.lag p ON p.partition = split_part(w.token, ':', 1)::integer
        WHERE coalesce(p.next_offset, 0) < split_part(w.token, ':', 2)::bigint
    );
COMMENT ON FUNCTION {views}.reached(text) IS 'Whether the views, as this statement sees them, have all below a position: ''partition:offset'', several joined by commas.';

CREATE OR REPLACE VIEW {views}.archived WITH (security_invoker = true) AS
    SELECT tenant, session_id, status, seq, finished_at_ms, archived_at, part FROM {lock}.archived;
COMMENT ON VIEW {views}.archived IS 'One row per session that was taken out of the views into an archive, at its last event then.';
COMMENT ON COLUMN {views}.archived.tenant IS 'Whose session it is.';
COMMENT ON COLUMN {views}.archived.session_id IS 'The session, within its tenant.';
COMMENT ON COLUMN {views}.archived.status IS 'How it had ended.';
COMMENT ON COLUMN {views}.archived.seq IS 'The number of its last event then.';
COMMENT ON COLUMN {views}.archived.finished_at_ms IS 'The time of that event, in milliseconds.';
COMMENT ON COLUMN {views}.archived.archived_at IS 'When it was taken out.';
COMMENT ON COLUMN {views}.archived.part IS 'The part of the archive that has its rows; null while it is still to be written.';

CREATE OR REPLACE VIEW {views}.archives WITH (security_invoker = true) AS
    SELECT part, store, of_tenant, name, sha256, bytes, sessions, rows, finished_since_ms, finished_until_ms, written_at
    FROM {lock}.archives;
COMMENT ON VIEW {views}.archives IS 'One row per part of an archive of sessions: where it lies and what it has. For operators only.';
COMMENT ON COLUMN {views}.archives.part IS 'Its number, as in archived.';
COMMENT ON COLUMN {views}.archives.store IS 'The URL of the archive that it lies in.';
COMMENT ON COLUMN {views}.archives.of_tenant IS 'Whose sessions it has.';
COMMENT ON COLUMN {views}.archives.name IS 'Its file in that archive.';
COMMENT ON COLUMN {views}.archives.sha256 IS 'Of that file, hex.';
COMMENT ON COLUMN {views}.archives.bytes IS 'How large that file is.';
COMMENT ON COLUMN {views}.archives.sessions IS 'How many sessions it has.';
COMMENT ON COLUMN {views}.archives.rows IS 'How many rows it has, of all tables together.';
COMMENT ON COLUMN {views}.archives.finished_since_ms IS 'When the first of its sessions ended, in milliseconds.';
COMMENT ON COLUMN {views}.archives.finished_until_ms IS 'When the last of them ended, in milliseconds.';
COMMENT ON COLUMN {views}.archives.written_at IS 'When it was written.';
