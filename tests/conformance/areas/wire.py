"""What the protocols have in common: errors, capabilities, schemas."""

from typing import Final

from tests.conformance.entry import Rules, Source, divergence, rules

ERRORS: Final[Rules] = (
    *rules(
        Source.OURS,
        {
            "wire:error:refused-request": "`unknown_option`, `invalid_option`, `invalid_reminder`, `unknown_propagate` and `unsupported_mode` are -32602 on ACP and A2A and 400 on HTTP.",
            "wire:error:idempotency-conflict": "`idempotency_conflict` is -32602 on ACP and A2A and 409 on HTTP.",
            "wire:error:foreign-is-not-found": "An item of another principal is refused with the same codes and the same data as an item that does not exist.",
            "wire:error:overflow": "`too_many_pending` and `rate_limited` are -32010 on ACP, -32000 on A2A and 429 on HTTP.",
            "wire:error:body-too-large": "`body_too_large` is -32010 on ACP, -32000 on A2A and 413 on HTTP.",
            "wire:error:retry-after": "The data of `rate_limited` has `retryAfterMs`.",
            "wire:error:harn-code": "Every refusal carries a code that `sideband explain` knows: `unknown_option` and `invalid_option` HARN-RMD-001, `invalid_reminder` HARN-RMD-002, `unknown_propagate` HARN-RMD-005, and every other reason a code of its own.",
            "wire:error:acp-data": "The data of an ACP error has `reason`, the diagnostic code as `code`, and the id it is about.",
            "wire:error:a2a-error-info": "An A2A error carries its reason and its diagnostic code as `google.rpc.ErrorInfo` entries.",
        },
    ),
    *rules(
        Source.RFD_ERRORS,
        {
            "wire:error:not-found": "An unknown session, reminder id or message id is -32002 on ACP, -32001 on A2A and 404 on HTTP.",
            "wire:error:wrong-state": "`already_delivered`, `already_revoked`, `no_running_turn`, `replace_not_supported`, `session_busy` and `task_finished` are -32010 on ACP, -32004 on A2A and 409 on HTTP.",
        },
    ),
    *divergence(
        Source.A2A_INJECT,
        "a2a:error:unknown-task",
        "An unknown task is -32001 on A2A.",
        reason="The proposal says -32004, which A2A 1.0 has meanwhile given to operations that are not supported; an unknown task is -32001 there.",
    ),
)

ARTIFACTS: Final[Rules] = (
    *rules(
        Source.ACP_MIGRATION,
        {
            "artifacts:folder:protocol-artifacts": "`make gen-protocol-artifacts` writes the artifacts into `spec/protocol-artifacts/`.",
        },
    ),
    *rules(
        Source.OURS,
        {
            "artifacts:schema:every-shape": "Every wire shape has a JSON Schema that is valid under draft 2020-12.",
            "artifacts:typescript:every-shape": "Every wire shape has a TypeScript declaration with the same fields.",
            "artifacts:drift:checked": "Generating the artifacts again changes none of the files that are checked in.",
            "artifacts:schema:outer-bound": "The schema of a wire accepts everything that its parser accepts, except a null on MCP, which the parser reads as absent and the proposal's schema does not allow.",
        },
    ),
    *rules(
        Source.MCP_NOTIFICATION,
        {
            "artifacts:mcp:equals-the-sketch": "The schema of `notifications/reminder` accepts and refuses the same messages as the sketch in the proposal."
        },
    ),
)

SHAPES: Final[Rules] = (
    *rules(
        Source.ACP_INJECT,
        {
            "acp:schema:inject_reminder-request": "The request of `session/inject_reminder` has `sessionId` and `body`, and optionally `tags`, `dedupeKey`, `ttlTurns`, `preserveOnCompact`, `propagate`, `roleHint`, `mode` and `_meta`.",
            "acp:schema:inject_reminder-response": "The response of `session/inject_reminder` has `reminderId` and `dedupedCount`.",
        },
    ),
    *rules(
        Source.ACP_UPDATES,
        {
            "acp:schema:reminder-emitted": "The update `reminder_emitted` has `reminderId`, `body` and `source`, and optionally `tags`, `dedupeKey`, `providerId`, `firedAtTurn` and `_meta`.",
            "acp:schema:reminder-deduped": "The update `reminder_deduped` has `reminderId`, `dedupeKey` and `droppedReminderIds`, and optionally `_meta`.",
            "acp:schema:reminder-expired": "The update `reminder_expired` has `reminderId` and a `phase` of `ttl_expired`, `cleared` or `compacted_out`, and optionally `expiredAtTurn` and `_meta`.",
        },
    ),
    *rules(
        Source.ACP_CAPABILITY,
        {
            "acp:schema:reminders-capability": "The capability `reminders` has `inject` and `emit`, and optionally the lists `propagate` and `roleHints`."
        },
    ),
    *rules(
        Source.RFD_SUMMARY,
        {
            "acp:schema:inject": "The request of `session/inject` has `sessionId`, `mode` and `content`, and its response `messageId`."
        },
    ),
    *rules(
        Source.RFD_PENDING,
        {
            "acp:schema:revoke-and-replace": "`session/revoke_inject` has `sessionId` and `messageId`, and `session/replace_inject` has `content` besides.",
        },
    ),
    *rules(
        Source.RFD_CAPABILITY,
        {
            "acp:schema:inject-capability": "The capability `session.inject` has `modes`, `steerInStream` (also spelled `steer_in_stream`) and `pending.replace`."
        },
    ),
    *rules(
        Source.GUIDE_BRIDGE,
        {
            "acp:schema:remind": "The parameters of `session/remind` are the reminder's fields in snake_case with `mode` and `_meta`.",
            "acp:schema:pending_injections": "The response of `session/pending_injections` has `pendingCount` and the rows `injections`.",
            "acp:schema:revoke_reminder": "`session/revoke_reminder` has `sessionId` and `reminderId`, and answers with a `status` of `revoked` or `already_revoked`.",
        },
    ),
    *rules(
        Source.A2A_INJECT,
        {
            "a2a:schema:inject_reminder-request": "The request of `tasks/inject_reminder` has `taskId` and `reminder` with a `body`, and optionally `metadata`.",
            "a2a:schema:inject_reminder-response": "The response of `tasks/inject_reminder` has `reminderId`, `dedupedCount` and `acceptedAt`.",
        },
    ),
    *rules(
        Source.A2A_STREAM,
        {
            "a2a:schema:reminder-emitted": "`tasks/reminderEmitted` has `taskId`, `metadata` and a `reminder` of `id`, `body`, `source` and `firedAtTurn`, and optionally `tags` and `dedupeKey`.",
            "a2a:schema:reminder-deduped": "`tasks/reminderDeduped` has `taskId`, `metadata`, `droppedReminderIds` and a `reminder` of `id` and `dedupeKey`.",
            "a2a:schema:reminder-expired": "`tasks/reminderExpired` has `taskId`, `metadata`, a `phase`, a `reminder` of `id` and optionally `dedupeKey`, and optionally `expiredAtTurn`.",
        },
    ),
    *rules(
        Source.A2A_CARD,
        {
            "a2a:schema:reminders-capability": "The card's capability object has `inject`, `emit`, `propagate` and `roleHints`."
        },
    ),
    *rules(
        Source.MCP_NOTIFICATION,
        {
            "mcp:schema:reminder-notification": "`notifications/reminder` has a `reminder` with `id` and `body`, optionally its lifecycle fields, and optionally `_meta`."
        },
    ),
    *rules(
        Source.MCP_CAPABILITY,
        {
            "mcp:schema:reminders-capability": "An MCP server's capability object has `emit`, and optionally `propagate` and `roleHints`."
        },
    ),
)

PEERS: Final[Rules] = (
    *rules(
        Source.ACP_CAPABILITY,
        {
            "wire:capability:absent-propagate": "A peer's capability without `propagate` means `session` only.",
            "wire:capability:absent-role-hints": "A peer's capability without `roleHints` means `system` only.",
        },
    ),
    *rules(
        Source.OURS,
        {
            "wire:capability:hints-are-lowered-to-fit": "The values in a reminder for a peer are lowered to what the peer's capability allows.",
            "wire:capability:places-in-order": "A peer's capability is looked for at the standard place, then under its extension or `experimental`, then where the proposal puts it, then at `_meta.harn.reminders`.",
            "wire:notification:invalid-has-no-reply": "A request sent as a notification that turns out invalid gets no reply, changes nothing and leaves a log record.",
        },
    ),
)

BRIDGES: Final[Rules] = rules(
    Source.OURS,
    {
        "wire:error:foreign-session-is-not-found": "A session or task of another principal is refused with the same codes and the same data as one that does not exist.",
        "wire:limit:frame": "A frame over 8 MiB on ACP, or in what an MCP host reads, and a frame or body over 1 MiB elsewhere is refused.",
        "wire:meta:namespace": "Sideband's own entries in any `_meta` are under the key `sideband`.",
    },
)
