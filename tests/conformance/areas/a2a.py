"""The A2A bridge."""

from typing import Final

from tests.conformance.entry import Rules, Source, divergence, rules

DEPARTURES: Final[Rules] = (
    *divergence(
        Source.A2A_CARD,
        "a2a:card:one-extension",
        "Reminder support is one extension of the card with a versioned URI, `required` false and the proposal's capability object as its params.",
        reason="The proposal adds a field to the card's capabilities, which A2A 1.0 forbids extensions to do.",
    ),
    *divergence(
        Source.A2A_STREAM,
        "a2a:stream:status-update-metadata",
        "A lifecycle notification travels as a status update that holds it in the metadata under the extension's URI.",
        reason="The proposal puts bare JSON-RPC notifications on the stream, where every response belongs to a request; today's clients end the stream when they meet one.",
    ),
    *divergence(
        Source.A2A_STREAM,
        "a2a:methods:names-of-today",
        "Sending and streaming use the method names of A2A 1.0, and of 0.3 for peers that speak it.",
        reason="The proposal speaks of `tasks/send` and `tasks/sendSubscribe`, which no current version of A2A has.",
    ),
)

CARD: Final[Rules] = (
    *rules(
        Source.A2A_CARD,
        {
            "a2a:card:absent-is-unsupported": "A card without the capability means that reminders are not supported, and the caller suppresses them or sends them as task metadata.",
            "a2a:card:seed-card": "The proposal's literal card, with `capabilities.reminders`, is served at `/.well-known/a2a-agent`.",
        },
    ),
    *rules(
        Source.OURS,
        {
            "a2a:card:valid": "The card is a valid card of A2A 1.0 and names JSON-RPC and HTTP+JSON in 1.0 and in 0.3; it is served with an entity tag and a time for which it may be kept.",
            "a2a:card:public-is-for-peers": "The public card advertises what an ordinary peer gets: `user_block` and propagation `none`.",
            "a2a:card:extended-is-for-the-caller": "The extended card advertises what the asking caller gets.",
            "a2a:card:trust-seed": "With `--trust seed` the cards advertise all values, and reminders get them.",
            "a2a:card:documents-place-is-read": "A peer's `capabilities.reminders` is read like the extension's params.",
        },
    ),
)

CALLERS: Final[Rules] = rules(
    Source.OURS,
    {
        "a2a:callers:peers-file": "A file names callers with their tokens, T2 or T1; every other caller is answered with 401.",
        "a2a:callers:file-is-private": "A file of callers that other users can read is refused.",
        "a2a:callers:local": "Without such a file, every caller without the operator's token is the T2 principal `local`.",
        "a2a:callers:operator": "A caller with the operator's local token is T1 and may use the tasks of all callers.",
        "a2a:callers:loopback-only": "Without a file of callers the server listens on the loopback interface only; another address is refused.",
        "a2a:callers:own-tasks": "A task of another caller is unknown to a peer, in every method, with the same answer as a task that does not exist.",
        "a2a:http:host": "A request for another host is answered with 421.",
        "a2a:http:origin": "A request from a web page is answered with 403.",
        "a2a:http:content-type": "A body of another type than JSON is answered with 415.",
        "a2a:http:no-websocket": "A WebSocket connection is not accepted.",
        "a2a:http:values": "A body with more than 10,000 values is refused before the SDK reads it.",
        "a2a:http:malformed": "A body that is not JSON is refused with -32700 on JSON-RPC and with 400 on HTTP+JSON, and the server goes on.",
    },
)

METHODS: Final[Rules] = (
    *rules(
        Source.A2A_INJECT,
        {
            "a2a:inject_reminder:result": "`tasks/inject_reminder` answers with `reminderId`, `dedupedCount` and `acceptedAt`.",
            "a2a:inject_reminder:unimplemented": "A peer that answers `tasks/inject_reminder` with -32601 does not support reminders.",
            "a2a:inject_reminder:not-in-the-transcript": "The next request to the model contains an injected reminder, and the transcript of the task does not.",
        },
    ),
    *rules(
        Source.A2A_MIGRATION,
        {
            "a2a:send:harn-metadata-is-read": "A reminder under `metadata.harn.reminder` of a sent message is read, and one that is invalid refuses the message."
        },
    ),
    *rules(
        Source.OURS,
        {
            "a2a:send:invalid-message": "A message without content, of another role, or with too much beside its parts is refused and begins no task.",
            "a2a:send:refused-changes-nothing": "A message that is refused leaves its task as it was, with all that came with the message.",
            "a2a:version:compatibility": "Peers of A2A 1.0 and of 0.3 can call every method.",
            "a2a:version:unsupported": "A request in another version is refused with -32009; the version may also be in the query.",
            "a2a:extension:activation": "An extension is activated by `A2A-Extensions` or `X-A2A-Extensions`, and the answer names the activated ones.",
            "a2a:inject_reminder:accepted-at": "`acceptedAt` is RFC 3339 in UTC with milliseconds, and a repeat gets the first one again.",
            "a2a:inject_reminder:idempotent": "The id of a reminder is its idempotency key: a repeat gets the same answer, also after the end of the task, and another payload under it is refused.",
            "a2a:inject_reminder:http-twin": "Every method for reminders has a twin on the HTTP+JSON binding: `POST /tasks/{id}:injectReminder` and so on.",
            "a2a:inject_reminder:notification": "A request without an id gets no answer, and if it is invalid changes nothing.",
            "a2a:inject_reminder:unknown-parameter": "An unknown parameter, an unknown field and a repeated key are refused.",
            "a2a:pending_reminders:lists": "`tasks/pending_reminders` answers with `pendingCount` and `reminders` of the task that the caller may see.",
            "a2a:revoke_reminder:status": "`tasks/revoke_reminder` answers with a `status` as on ACP.",
            "a2a:clear_reminders:removed-count": "`tasks/clear_reminders` takes an id, tag or dedupe key and answers with `removedCount`.",
            "a2a:client:other-code-for-unknown-task": "In answers to the methods for reminders, our client also reads a peer's -32004 as an unknown task.",
            "a2a:client:origin-of-the-card": "Our client sends its token only to addresses with the origin of the card.",
            "a2a:client:operator-token": "The operator's token is sent to agents of this machine only.",
            "a2a:client:bounded": "Our client follows no redirect, and bounds the time and the size of answers.",
            "a2a:error:no-internals": "A failure of the server is -32603 without its cause.",
        },
    ),
)

STREAM: Final[Rules] = (
    *rules(
        Source.A2A_STREAM,
        {
            "a2a:stream:emitted": "When a request that shows a reminder is committed, `tasks/reminderEmitted` is sent.",
            "a2a:stream:deduped": "When a reminder replaces others, `tasks/reminderDeduped` is sent.",
            "a2a:stream:expired": "When a reminder ends, `tasks/reminderExpired` is sent, with the phases that ACP has.",
        },
    ),
    *rules(
        Source.OURS,
        {
            "a2a:stream:revoked": "A revoked reminder is sent as expired with the phase `cleared`.",
            "a2a:stream:only-activated": "A caller that did not activate the extension is sent no notification.",
            "a2a:stream:raw-frames-on-demand": "Callers that activated the second URI are also sent the proposal's bare notifications, in which integers stay integers.",
            "a2a:stream:source-label-is-a-claim": "The caller's own `source` label is repeated to it as a claim.",
            "a2a:stream:own-metadata": "The metadata of a request is repeated in the notifications of its reminder, to its sender only.",
            "a2a:stream:own-reminders": "A peer is told of its own reminders only, unless the operator lets it see all.",
            "a2a:stream:same-order": "All subscribers of a task get the same events in the same order.",
            "a2a:stream:begins-with-the-task": "A stream begins with the task and ends when the task ends or begins to wait for input.",
            "a2a:stream:both-bindings": "Both bindings stream the same events.",
            "a2a:stream:limit": "A server has a limited number of streams.",
            "a2a:stream:no-task-left-waiting": "A subscriber of a task that no process runs sees it continued.",
        },
    ),
)

TASKS: Final[Rules] = rules(
    Source.OURS,
    {
        "a2a:task:one-session-each": "Each task is a session of its own, begun together with its first message.",
        "a2a:task:states": "A completed run ends its task as completed, a cancelled one as canceled, and one that failed or used up its turns or tokens as failed; while a run is suspended or asks for permission, its task requires input.",
        "a2a:task:permission-is-answered": "The message after a question answers it: yes allows the call, anything else refuses it.",
        "a2a:task:known-context-starts-from-a-copy": "A new task in a known context starts from a copy of the transcript of the last finished one, without its reminders and inbox.",
        "a2a:task:interrupted-keeps-everything": "A task in an interrupted state keeps its reminders and inbox and accepts injects.",
        "a2a:task:end-is-one-commit": "The closing drain, the terminal state and the end of accepts are one commit: every accepted reminder ends exactly once, and every later one is refused with `task_finished`.",
        "a2a:task:leftovers-end-before-the-final-status": "The remaining items of a finished task end as `cleared`, or as `dropped` with the reason `task_finished`, before its final status is sent.",
        "a2a:task:durable-task-holds-no-reminder": "The durable task holds no part of a reminder.",
        "a2a:task:message-is-returned": "The history has the caller's messages as they were sent, with all kinds of parts.",
        "a2a:task:running-takes-no-message": "A message to a task that is running is refused with -32004.",
        "a2a:task:ended-stays-ended": "Nothing changes a task that has ended: messages are refused with -32004, a cancel with -32002.",
        "a2a:task:cancel-from-anywhere": "A task is cancelled through any process, whether it runs, waits or has not begun.",
        "a2a:task:resumed-at-start": "A server resumes tasks that a process left submitted or working when it was killed or ended.",
        "a2a:task:own-agent": "An agent neither knows nor runs the tasks of another agent that shares its store.",
        "a2a:task:compacted": "After a compaction a task still has its answer, and nothing of an earlier task.",
        "a2a:task:listed": "`ListTasks` lists the caller's tasks, those that changed last first, in pages, by context, state and time.",
        "a2a:task:limit": "A peer has a limited number of tasks that have not ended.",
        "a2a:push:configured": "The caller of a task configures its push notifications, of which there is a limited number; they can be turned off.",
        "a2a:push:screened": "Push notifications go to public addresses over https only, and to the address that was checked.",
        "a2a:push:no-reminders": "Push notifications tell of states and artifacts, never of reminders.",
        "a2a:delegation:cancel": "Cancelling a delegation cancels its task.",
        "a2a:delegation:propagate-remote": "With `propagate_remote` reminders that propagate as `all` or `session` are injected into delegated tasks as the peer's card allows, and without it none are.",
    },
)
