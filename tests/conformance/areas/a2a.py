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

METHODS: Final[Rules] = (
    *rules(
        Source.A2A_INJECT,
        {
            "a2a:inject_reminder:result": "`tasks/inject_reminder` answers with `reminderId`, `dedupedCount` and `acceptedAt`.",
            "a2a:inject_reminder:unimplemented": "A peer that answers `tasks/inject_reminder` with -32601 does not support reminders.",
        },
    ),
    *rules(
        Source.A2A_STREAM,
        {
            "a2a:stream:emitted": "A committed showing is sent as `tasks/reminderEmitted`.",
            "a2a:stream:deduped": "A replacement is sent as `tasks/reminderDeduped`.",
            "a2a:stream:expired": "An end is sent as `tasks/reminderExpired` with the phases that ACP has.",
        },
    ),
    *rules(
        Source.A2A_CARD,
        {
            "a2a:card:absent-is-unsupported": "A card without the capability means that reminders are not supported, and the caller suppresses them or sends them as task metadata."
        },
    ),
    *rules(
        Source.A2A_MIGRATION,
        {"a2a:send:harn-metadata-is-read": "A reminder under `metadata.harn.reminder` of a sent message is read."},
    ),
    *rules(
        Source.OURS,
        {
            "a2a:version:compatibility": "Peers of A2A 1.0 and of 0.3 can call every method.",
            "a2a:card:documents-place-is-read": "A peer's `capabilities.reminders` is read like the extension's params.",
            "a2a:inject_reminder:accepted-at": "`acceptedAt` is RFC 3339 in UTC with milliseconds.",
            "a2a:inject_reminder:http-twin": "`tasks/inject_reminder` has a twin on the HTTP+JSON binding.",
            "a2a:pending_reminders:lists": "`tasks/pending_reminders` answers with `pendingCount` and `reminders` of the task.",
            "a2a:revoke_reminder:status": "`tasks/revoke_reminder` answers with a `status` as on ACP.",
            "a2a:clear_reminders:removed-count": "`tasks/clear_reminders` takes an id, tag or dedupe key and answers with `removedCount`.",
            "a2a:stream:revoked": "A revoked reminder is sent as expired with the phase `cleared`.",
            "a2a:stream:raw-frames-on-demand": "Callers that activated the second URI are also sent the proposal's bare notifications.",
            "a2a:stream:source-label-is-a-claim": "The caller's own `source` label is repeated to it as a claim.",
            "a2a:client:other-code-for-unknown-task": "Our client also reads a peer's -32004 as an unknown task.",
        },
    ),
)

TASKS: Final[Rules] = rules(
    Source.OURS,
    {
        "a2a:task:one-session-each": "Each task is a session of its own.",
        "a2a:task:known-context-starts-from-a-copy": "A new task in a known context starts from a copy of the transcript of the last finished one, without its reminders and inbox.",
        "a2a:task:interrupted-keeps-everything": "A task in an interrupted state keeps its reminders and inbox and accepts injects.",
        "a2a:task:end-is-one-commit": "The closing drain, the terminal state and the end of accepts are one commit.",
        "a2a:task:leftovers-end-before-the-final-status": "The remaining items of a finished task end as `cleared`, or as `dropped` with the reason `task_finished`, before its final status is sent.",
        "a2a:task:durable-task-holds-no-reminder": "The durable task holds no part of a reminder.",
        "a2a:delegation:propagate-remote": "With `propagate_remote` reminders that propagate as `all` or `session` are injected into delegated tasks as the peer's card allows, and without it none are.",
    },
)
