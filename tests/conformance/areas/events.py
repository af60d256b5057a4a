"""Sub-agents and receipts; the kinds of events, the topic and the journal."""

from typing import Final

from tests.conformance.entry import Rules, Source, divergence, rules

PROPAGATION: Final[Rules] = (
    *rules(
        Source.GUIDE_PROPAGATION,
        {
            "propagation:handoff:field": "The handoff lists the reminders for the child in `reminder_propagation`.",
            "propagation:filter:all": "A reminder that propagates as `all` is handed over, whether it was inherited or not.",
            "propagation:filter:session": "A reminder that propagates as `session` is handed over unless it was inherited.",
            "propagation:filter:none": "A reminder that propagates as `none` is never handed over.",
            "propagation:copy:source-is-inherited": "The source of a child's copy is `inherited`.",
            "propagation:copy:names-the-first-emitter": "`originating_agent_id` of a copy is the session that emitted the reminder first, also after several hops.",
        },
    ),
    *rules(
        Source.OURS,
        {
            "propagation:handoff:live-then-queued": "A handoff has the live reminders in transcript order, then the queued ones in acceptance order, and never an `audit_only` one.",
            "propagation:handoff:the-parent-keeps-its-own": "A queued reminder that was handed over stays queued in the parent, and revoking it there does not affect the child.",
            "propagation:copy:keeps-id-body-and-flags": "A child's copy has the id, body, tags, key and flags of the original.",
            "propagation:copy:has-the-remaining-ttl": "A child's copy has the remaining TTL of the original.",
            "propagation:copy:turn-is-restamped": "`fired_at_turn` of a copy counts the child's turns.",
            "propagation:hops:at-most-eight": "A reminder that has been handed over eight times is not handed over again.",
        },
    ),
    *rules(
        Source.GUIDE_EVENTS,
        {"propagation:copy:has-an-inherited-event": "Each copy a child takes over has one `inherited` event."},
    ),
)

RECEIPTS: Final[Rules] = (
    *rules(
        Source.GUIDE_PROPAGATION,
        {"loop:child:seeded-before-its-first-turn": "A child has its inherited reminders before its first turn."},
    ),
    *rules(
        Source.OURS,
        {
            "loop:worker:resumed-by-another-process": "A suspended worker can be found and resumed by another process, which tells it the reason of the suspension, the cause of the resumption and, without its conversation, a digest.",
            "loop:worker:parent-observes-it-anywhere": "The hooks of the process that resumes a worker observe its events for the session of its parent.",
            "loop:worker:resumed-by-one-process": "A worker that is being run or has ended cannot be resumed, also by a process that has seen it suspended.",
            "loop:worker:left-by-its-process": "A worker whose process was killed while it worked can be found and resumed as a suspended one; it is told that its process ended, and of no suspension.",
            "loop:worker:spawn-says-what-is-wrong": "`spawn` refuses a parent, a store, a task and options with which no worker can run, and makes no session.",
            "loop:worker:find-says-what-is-wrong": "`find_worker` refuses a session that is unknown, is not that of a worker, is new or has ended, or has another parent, and changes nothing.",
            "loop:worker:words-of-the-cause": "The cause of a resumption is `parent`, `timeout`, `trigger` or `operator`, as a text or a `ResumeCause`; any other is an error that names them, and the worker stays suspended.",
        },
    ),
    *rules(
        Source.GUIDE_EVENTS,
        {
            "receipts:report:fields": "With `with_audit_log` the receipt of a tool call lists under `audit.reminders` each hook reminder's event, tool call id, reminder id, tags, key, source, hint, TTL and deduped count.",
            "receipts:report:no-body": "No receipt holds the body of a reminder.",
        },
    ),
    *rules(
        Source.OURS,
        {
            "events:masking:secrets": "Secrets are masked on the topic and in receipts.",
            "events:masking:never-in-the-prompt": "Text that is rendered for the model is never masked.",
        },
    ),
)

KINDS: Final[Rules] = (
    *rules(
        Source.GUIDE_EVENTS,
        {
            "events:topic:name": "Lifecycle events are on the topic `transcript.reminder.lifecycle`.",
            "events:payload:session-task-agent": "Every payload has `session_id`, `task_id` and `agent_id`; task and agent come from the session's records and are null when there is none.",
            "events:injected:payload": "`injected` is emitted when a reminder becomes live and has `reminder_id`, `tags`, `dedupe_key`, `source`, `role_hint`, `ttl_turns` and `propagate`.",
            "events:fired:payload": "`fired` has `reminder_id`, `turn_number` and `rendered_role`.",
            "events:deduped:payload": "`deduped` is emitted when a reminder is replaced and has `replaced_id`, `replacing_id` and `dedupe_key`.",
            "events:expired:payload": "`expired` is emitted when a reminder ends and has `reminder_id` and one of the reasons `ttl`, `compaction` and `cleared`.",
            "events:inherited:payload": "`inherited` has `reminder_id`, `originating_agent_id`, `sub_agent_id` and `propagate`.",
            "events:provider_evaluated:payload": "`provider_evaluated` has `provider_id`, `event` and `fired`.",
        },
    ),
    *rules(
        Source.OURS,
        {
            "events:replaced:payload": "`replaced` is emitted when the body of a queued reminder is replaced and has the fields of `queued`.",
            "events:revoked:payload": "`revoked` is emitted when a reminder is withdrawn from the inbox and has its `reminder_id`.",
            "events:audit_recorded:payload": "`audit_recorded` has the `reminder_id` of the reminder recorded at loop exit.",
            "events:deferred:payload": "`deferred` has the `reminder_id` of a reminder the budget left out of a turn.",
            "events:kind:prefix": "Every reminder event is named `transcript.reminder.` and its kind.",
            "events:inject:kinds": "User messages have the events `transcript.inject.accepted`, `delivered`, `revoked` and `replaced`.",
            "events:key:session-and-reminder": "Session id and reminder id together say which reminder an event is about.",
            "events:projection:no-bodies": "The public form of an event holds neither the body nor any part of it.",
            "events:journal:full-values": "The journal's form of an event holds the full values and can be read back without loss.",
        },
    ),
    *divergence(
        Source.GUIDE_EVENTS,
        "events:queued:payload",
        "`queued` is emitted when a reminder is accepted into the inbox and has its `reminder_id` and mode.",
        reason="The guide has only `injected`, for the moment of acceptance; a reminder that waits in the inbox is not yet part of the conversation, so `queued` tells of the accept and `injected` of going live.",
    ),
    *divergence(
        Source.GUIDE_EVENTS,
        "events:dropped:payload",
        "`dropped` is emitted when a reminder cannot be used and has `reminder_id` and `reason`, which is `invalid`, `capability_mismatch`, or a word for size, a missing declaration, a limit, a conflict, a missing permission or the end of the session or task.",
        reason="The guide has the two reasons `invalid` and `capability_mismatch`; a sender without a reply learns of its limits, and of the end of a session or task, by this event only.",
    ),
)

TOPIC: Final[Rules] = (
    *rules(
        Source.GUIDE_EVENTS,
        {
            "events:subscribe:kind-prefix": "`subscribe` with `kind_prefix` yields only events whose kind begins with it.",
            "events:log:absent-log-changes-nothing": "Without a log every operation works and nothing is emitted.",
        },
    ),
    *rules(
        Source.OURS,
        {
            "events:record:fields": "A record of the topic has `seq`, `time` in RFC 3339 in UTC with milliseconds, `kind`, `session_id` and `payload`; the time is null if an earlier version wrote the event.",
            "events:session:topic-records": "`Session.events` yields the records of the topic, and nothing of the journal's private events.",
            "events:log:sessions": "An active `EventLog` gets the records of everything that its task runs: pure functions, and whatever is accepted, run and closed in sessions.",
            "events:log:subscribe": "`EventLog.subscribe` yields past and future records after a position, by kind; positions count from 1 without gaps.",
            "events:subscribe:after": "`subscribe` with `after` begins with the first event after that position.",
            "events:subscribe:slow-subscriber": "A subscriber that has more than 1,000 unread events is disconnected with the cursor to resume from.",
            "events:subscribe:cursor-expired": "A cursor whose next events are no longer kept is refused as `cursor_expired`.",
            "events:sequence:gap-free": "The events of a store have one sequence without gaps.",
            "events:journal:private-file": "Only its owner can read and write the journal's file.",
            "events:journal:pruned-behind-a-snapshot": "The journal is pruned only of events that a snapshot covers.",
            "events:masking:exports": "Secrets are masked in exports, logs and traces.",
        },
    ),
)

UPDATES: Final[Rules] = (
    *rules(
        Source.OURS,
        {
            "updates:kinds:one-per-event": "Every lifecycle event of a session is one update, with the whole records that it has.",
            "updates:kinds:emitted": "A reminder that a committed request shows is `emitted`; a showing that added no bytes has no update.",
            "updates:kinds:one-deduped-per-winner": "All reminders that one reminder replaces in one step are one update that lists their ids.",
            "updates:kinds:phases": "An expired reminder has the phase `ttl_expired`, `cleared` or `compacted_out`.",
            "updates:viewer:operator-and-controller-see-all": "Operator and controller are told of every reminder, message, turn and record.",
            "updates:viewer:emit-all": "With `sees_all` a peer or server is told of the reminders of all senders, and of nothing else.",
            "updates:viewer:meta-is-the-senders": "The `_meta` of a request is shown to its own sender and the operator, what the sender claimed also to controllers, and neither to any other viewer.",
            "updates:viewer:unknown-sender": "An event of an earlier version that names no sender is not shown to a viewer that sees only its own reminders.",
            "updates:cursor:replay-and-live": "Updates after a cursor are past and future ones, of all processes, without gap or repeat.",
            "updates:cursor:slow-reader": "A reader that is slower than the writers misses no update.",
            "updates:cursor:expired": "A cursor whose next events were pruned is `cursor_expired`, and the message says to synchronise again.",
            "updates:view:state-and-cursor-of-one-commit": "`view` returns what a viewer may see and a cursor; the updates after that cursor continue it, also after pruning.",
        },
    ),
    *divergence(
        Source.A2A_STREAM,
        "updates:viewer:others-see-their-own",
        "A peer or server is told of its own reminders and of nothing else.",
        reason="The proposal streams the reminders of all senders to the caller of the task; what an operator or another peer tells an agent is not for every caller to read, unless the operator decides so.",
    ),
)
