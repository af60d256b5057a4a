"""The ACP bridge: reminders, user messages, updates, the client side and the proxy."""

from typing import Final

from tests.conformance.entry import Rules, Source, divergence, rules

REMIND: Final[Rules] = divergence(
    Source.ACP_MIGRATION,
    "acp:remind:snake-case-only",
    "`session/remind` reads snake_case fields, and a camelCase field there is HARN-RMD-001.",
    reason="The RFC calls `session/inject_reminder` the same shape under another name, yet the guide's `session/remind` is snake_case; one spelling for each method keeps a mistyped field from being taken for the other one.",
)

METHODS: Final[Rules] = (
    *rules(
        Source.ACP_INJECT,
        {
            "acp:inject_reminder:reminder-id": "`session/inject_reminder` answers with the `reminderId` that later updates use.",
            "acp:inject_reminder:deduped-count": "`session/inject_reminder` answers with the number of queued reminders the new one displaced.",
        },
    ),
    *rules(
        Source.ACP_MIGRATION,
        {
            "acp:remind:deprecated-alias": "`session/remind` is served by the handler of `session/inject_reminder` and marked as deprecated.",
            "acp:remind:fields-from-harn-meta": "Lifecycle fields missing in `session/remind` are taken from `_meta.harn.reminder`.",
        },
    ),
    *rules(
        Source.GUIDE_BRIDGE,
        {
            "acp:remind:request-or-notification": "`session/remind` works as a request and as a notification.",
            "acp:pending_injections:lists-the-inbox": "`session/pending_injections` answers with the inbox of the session.",
            "acp:revoke_reminder:withdraws": "`session/revoke_reminder` withdraws a queued reminder.",
        },
    ),
    *rules(
        Source.OURS,
        {
            "acp:names:prefixed-twins": "Each method of the documents is also answered under its name with `_sideband/` in front, by the same handler.",
            "acp:remind:flat-or-nested": "`session/remind` takes its fields flat or inside `reminder`.",
            "acp:remind:without-a-session-id": "`session/remind` without a `sessionId` goes to the connection's only session and is -32602 when there is not exactly one.",
            "acp:steering:same-handlers": "`_session/steering` is served by the handlers of `session/inject`.",
            "acp:steering:idle-session": "`_session/steering` on an idle session answers `promptRequired` when the client asked for that and else starts a turn and answers `startedNewTurn`.",
            "acp:clear_reminders:withdraws-live-ones": "`_sideband/session/clear_reminders` takes an id, tag or dedupe key, withdraws the live reminders that match and answers with `removedCount`.",
            "acp:prompt:while-running-is-queued": "A prompt sent while a turn runs is a queued message.",
            "acp:prompt:foreign-process-is-queued": "A prompt to a session that another process runs is a queued message.",
        },
    ),
)

UPDATES: Final[Rules] = (
    *rules(
        Source.ACP_UPDATES,
        {
            "acp:update:fired-is-emitted": "A committed showing is sent as `reminder_emitted`.",
            "acp:update:deduped": "A replacement is sent as one `reminder_deduped` with all `droppedReminderIds`.",
            "acp:update:expired-phases": "The ends `ttl`, `cleared` and `compaction` are sent as `reminder_expired` with the phases `ttl_expired`, `cleared` and `compacted_out`.",
            "acp:update:fired-at-turn-is-that-of-the-record": "`firedAtTurn` in an update is the record's.",
        },
    ),
    *rules(
        Source.ACP_MIGRATION,
        {},
    ),
    *rules(
        Source.OURS,
        {
            "acp:update:revoked-is-expired-as-cleared": "A revoked reminder is sent as `reminder_expired` with the phase `cleared` and `_meta.sideband.event` `revoked`.",
            "acp:update:others-are-not-sent": "The other kinds of reminder events are not sent to clients.",
            "acp:update:rendering-turn-and-role": "The turn that showed a reminder and the rendered role are in `_meta.sideband` of its update.",
            "acp:update:v2-clients": "Clients of protocol v2 are sent the reminder updates.",
            "acp:update:v1-clients-that-ask": "Clients of protocol v1 are sent the reminder updates if their capabilities say `_meta.sideband.reminders.emit`.",
        },
    ),
    *divergence(
        Source.ACP_UPDATES,
        "acp:update:other-v1-clients",
        "Other clients of protocol v1 are sent `session_info_update` with the same object in `_meta.sideband.update`.",
        reason="The proposal sends `reminder_emitted` to every client; today's v1 clients refuse an update of an unknown kind, and `session_info_update` is one that they read.",
    ),
    *divergence(
        Source.ACP_MIGRATION,
        "acp:update:harn-decoration",
        "Reminder updates, and no others, carry the whole record in snake_case under `_meta.harn.reminder`.",
        reason="The proposal puts the record on updates of tool calls and messages until reminders have updates of their own; they have them, and a record elsewhere would claim that the other update is about a reminder.",
    ),
)

NEGOTIATION: Final[Rules] = (
    *rules(
        Source.ACP_CAPABILITY,
        {
            "acp:capability:reminders-at-the-documents-place": "Reminder support is advertised at `agentCapabilities.reminders`.",
            "acp:client:fallbacks": "For an agent without `reminders.inject` the client suppresses the reminder, or shows it to the user when so configured.",
            "acp:client:marked-message-only-if-asked": "The client sends a reminder as a marked user message only if it is configured to.",
        },
    ),
    *rules(
        Source.RFD_CAPABILITY,
        {
            "acp:capability:inject": "`session.inject` is advertised with the modes `queue` and `steer`, `steerInStream` `finish` and `pending.replace` true.",
            "acp:capability:mode-not-advertised": "A mode that was not advertised is refused as `unsupported_mode` and never served as another one.",
        },
    ),
    *divergence(
        Source.ACP_CAPABILITY,
        "acp:capability:also-under-meta",
        "Reminders and inject are also advertised under `agentCapabilities._meta.sideband`.",
        reason="ACP keeps the root of its objects to itself and today's SDKs strip unknown keys there, so that only what is under `_meta` reaches a client.",
    ),
    *divergence(
        Source.RFD_SUMMARY,
        "acp:v2:state-update",
        "Protocol v2 clients learn of running and idle by `state_update`.",
        reason="The proposal says `state_change`, a name that the v2 prompt lifecycle has since given up for `state_update`.",
    ),
    *rules(
        Source.RFD_SEMANTICS,
        {
            "acp:delivery:published-after-the-drain": "The message update with the agreed id is published from the journal after the drain that delivered it.",
            "acp:delivery:every-attached-client": "Every attached client gets the message update, and a client that missed it gets it on replay.",
            "acp:v2:user-message-is-the-delivery": "On protocol v2 a delivered message is sent as `user_message`.",
        },
    ),
    *rules(
        Source.OURS,
        {
            "acp:capability:steering": "`_meta.steering.supported` is advertised at the top of the initialize response.",
            "acp:capability:snake-twin-is-read": "`steer_in_stream` of a peer is read as `steerInStream`.",
            "acp:replace:method-not-found": "A peer's -32601 on `session/replace_inject` means `replace_not_supported`.",
            "acp:v1:chunk-is-the-delivery": "On protocol v1 a delivered message is sent as `user_message_chunk` with `_meta.sideband.messageId`.",
            "acp:v2:prompt-response": "On protocol v2 the response to a prompt means that it was inserted and has its `messageId`.",
        },
    ),
)

PROXY: Final[Rules] = rules(
    Source.OURS,
    {
        "acp:proxy:a-turn-is-a-prompt": "To the proxy a turn is one prompt.",
        "acp:proxy:handed-over-once": "The proxy hands over each item once, whatever its TTL, and reports it as expired after that number of prompts.",
        "acp:proxy:preserved-again-after-compaction": "The proxy hands preserved reminders over again after a `compaction_update`.",
        "acp:proxy:interrupt-by-steering": "The proxy hands an interrupt over at once by `_session/steering`.",
        "acp:proxy:finish-step-between-tools": "The proxy hands a `finish_step` over when no tool call is open, else with the next prompt.",
        "acp:proxy:starts-no-turn": "The proxy starts no turn of its own.",
        "acp:proxy:ids-cannot-collide": "Request ids of the proxy cannot collide with those of client and agent.",
        "acp:proxy:own-blocks-leave-replays": "The proxy's own blocks carry a nonce and are removed from replays.",
        "acp:proxy:rendered-role": "Items that the proxy hands over have a `fired` event with the rendered role `user` and `via: proxy`.",
        "acp:proxy:other-frames-are-untouched": "The proxy forwards every other frame byte for byte.",
    },
)
