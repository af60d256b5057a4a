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
            "acp:inject:until-delivered": "A queued message can be replaced and revoked until it is delivered; afterwards both are `already_delivered`.",
            "acp:steering:same-handlers": "`_session/steering` is served by the handlers of `session/inject`.",
            "acp:steering:idle-session": "`_session/steering` on an idle session answers `promptRequired` when the client asked for that and else starts a turn and answers `startedNewTurn`.",
            "acp:clear_reminders:ends-queued-and-live": "`_sideband/session/clear_reminders` takes an id, a tag or a dedupe key, ends the queued and the live reminders that match, and answers with `removedCount`.",
            "acp:replace_reminder:replaces-the-body": "`_sideband/session/replace_reminder` replaces the body of a queued reminder, which keeps its id and position.",
            "acp:remind:notification-is-not-answered": "A reminder in a notification is not answered; a refused one changes nothing and is recorded with its reason.",
            "acp:steering:idle-behaviour-is-checked": "Any `idleBehavior` but `promptRequired` is -32602.",
            "acp:idempotency:key-in-meta": "A reminder with the same `_meta.sideband.idempotencyKey` and the same payload gets the same answer; with another payload it is `idempotency_conflict`.",
            "acp:meta:repeated-to-its-sender": "The `_meta` of a request is repeated in the updates that its own sender gets.",
            "acp:meta:never-overrides": "Nothing in `_meta` overrides a parameter.",
            "acp:error:data": "An error has the reason, the code that `explain` knows and the id or field it is about; -32002 and -32010 have the messages of the proposal.",
            "acp:prompt:while-running-is-queued": "A prompt sent while a turn runs is a queued message.",
            "acp:prompt:foreign-process-is-queued": "A prompt to a session that another process runs is a queued message.",
        },
    ),
)

SESSIONS: Final[Rules] = rules(
    Source.OURS,
    {
        "acp:initialize:version": "The agent answers with the version that was asked for if it speaks it, else with its newest; a version below 1 is refused.",
        "acp:initialize:first": "Before `initialize` every other request is refused, and a second `initialize` too.",
        "acp:authenticate:none-needed": "`authenticate` succeeds, and no method is advertised.",
        "acp:new:durable": "A new session has its id, folder, title and time in the store before `session/new` is answered.",
        "acp:new:folder": "`session/new` refuses a folder that does not exist or is not absolute.",
        "acp:mcp:given": "The MCP servers that a client gives when it begins or opens a session serve that session with their tools and reminders; one that cannot be started keeps no session from being used.",
        "acp:mcp:configured": "The MCP servers of the file given with `--mcp-config` serve every session.",
        "acp:mcp:wrong": "MCP servers that are written wrongly, and all if the packages for MCP are missing, are refused with a reason before a session is begun.",
        "acp:mcp:capability": "The transports of MCP servers are advertised if servers can be connected.",
        "acp:list:sessions": "`session/list` lists the sessions of this protocol, newest first, by folder if one is given, page by page.",
        "acp:session:unknown": "An unknown session is -32002 in every method, and nothing is created; one that was closed can be loaded and read.",
        "acp:close:detaches": "`session/close` detaches the client; the session goes on and can be loaded.",
        "acp:attach:several-clients": "Several clients may be attached to one session; each gets the same updates in the same order.",
        "acp:observer:reads-only": "A client that loads or resumes as an observer gets the updates, and every change that it asks for is `not_permitted`.",
        "acp:replay:one-cursor": "Replay and live updates come from one cursor, reminders included: a client that loads while a turn runs misses nothing and gets nothing twice.",
        "acp:replay:message-ids": "Message ids are the same live, in a replay, after a restart and after pruning.",
        "acp:resume:without-replay": "`session/resume` continues without a replay.",
        "acp:stream:text-of-another-process": "Text that another process streams arrives whole when its turn is committed.",
        "acp:processes:one-store": "Prompts, steers, reminders and cancels work from a process that does not run the session.",
        "acp:processes:prompt-runs-where-it-was-sent": "A prompt is run by the process that has accepted it, with its tools and permissions; another one takes it over when that process does not.",
        "acp:restart:queued-prompts": "After a restart the queued prompts of a loaded session are run, and a reminder that was accepted before is drained exactly once.",
        "acp:mode:set": "`session/set_mode` takes `ask`, `edits` and `read_only`, lasts beyond a restart, and is told to every client.",
    },
)

TURNS: Final[Rules] = rules(
    Source.OURS,
    {
        "acp:prompt:answered-at-the-end-of-its-turn": "A prompt of version 1 is answered when the turn that it started is over, not when the queue is empty.",
        "acp:prompt:stop-reasons": "A completed turn ends with `end_turn`, one out of turns with `max_turn_requests`, one out of tokens with `max_tokens`, a cancelled one with `cancelled`.",
        "acp:prompt:model-failed": "A turn whose model fails is -32603 with the reason `model_failed`, without the text of an exception.",
        "acp:prompt:no-model": "Without a model or a key the first prompt is refused in one sentence that says what to set, and nothing is accepted.",
        "acp:prompt:content-blocks": "Text, images, audio, resources and links of a prompt reach the model.",
        "acp:prompt:withdrawn": "A queued prompt that is revoked or cancelled is answered with `cancelled`.",
        "acp:prompt:own-is-not-echoed": "A client of version 1 gets no update with the prompt that it has sent itself; the others do.",
        "acp:prompt:cancel-request": "`$/cancel_request` of a prompt cancels its turn and is answered with -32800.",
        "acp:order:cancel-after-its-prompt": "A cancel sent directly after a prompt cancels it.",
        "acp:order:steer-after-its-prompt": "A steer sent directly after a prompt waits for the turn to begin and is delivered in it.",
        "acp:order:updates-before-the-answer": "All updates of a turn leave before the answer to its prompt.",
        "acp:order:text-after-the-journal": "Streamed text never overtakes the updates of the journal before it.",
        "acp:order:slow-client": "A client that does not read delays neither the turn nor other clients, and gets everything when it reads.",
        "acp:stream:restart": "A reply that begins again after a lost connection is announced.",
        "acp:tool:described": "A tool call is told with title, kind, files and arguments, when it starts, and with its result.",
        "acp:tool:diff": "A call that changed a file shows the change.",
        "acp:permission:asks-to-write-and-run": "In the mode `ask` the client is asked before a file is changed or a command is run, and shown the change; in `edits` only before a command; in `read_only` both are refused.",
        "acp:permission:options": "Allowed once, allowed for the session, rejected and cancelled each have their effect.",
        "acp:permission:any-controller": "Every attached controller is asked, the first answer counts, and the other requests are cancelled.",
        "acp:permission:needs-a-client": "A call that needs permission is refused when no client is attached that can be asked.",
        "acp:permission:steers-wait": "While the client is asked for permission, steers and interrupts wait.",
        "acp:cancel:during-permission": "A cancel while the client is asked ends the turn, and the request is withdrawn.",
        "acp:client:files": "When the client offers its files, the agent reads and writes through it, and sees what is not saved yet.",
        "acp:client:terminals": "When the client offers terminals, commands run in one that the client shows.",
    },
)

FRAMES: Final[Rules] = rules(
    Source.OURS,
    {
        "acp:frames:junk": "A value that is no request, invalid JSON, deep nesting, repeated keys and bad ids each get the answer of JSON-RPC, and the connection lives.",
        "acp:frames:batch": "A batch is answered with the answers to its requests.",
        "acp:frames:too-large": "A frame over 8 MiB is discarded and answered with an error.",
        "acp:frames:unknown-method": "An unknown request is -32601; an unknown notification is ignored.",
        "acp:frames:no-exception-text": "An unexpected exception is -32603 without its text.",
        "acp:frames:large-body": "A body over the limit is refused as `body_too_large`.",
        "acp:process:signals": "SIGINT and SIGTERM end the agent with 0.",
        "acp:process:terminal": "A person who starts the agent in a terminal is told on standard error what it waits for.",
        "acp:process:options": "A folder, a store or a file with MCP servers that cannot be used is refused in one sentence with the exit code 2.",
        "acp:process:principal": "What a client sends is recorded as that of a controller with the name that `--principal` gives.",
        "acp:stdout:frames-only": "Standard output carries frames only, and the process ends with 0 at the end of its input.",
        "acp:websocket:same-agent": "The agent can be mounted as a WebSocket application, with one frame per message; other origins and hosts are refused before the connection is accepted.",
    },
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
        Source.OURS,
        {
            "acp:update:revoked-is-expired-as-cleared": "A revoked reminder is sent as `reminder_expired` with the phase `cleared` and `_meta.sideband.event` `revoked`.",
            "acp:update:others-are-not-sent": "The other kinds of reminder events are not sent to clients.",
            "acp:update:rendering-turn-and-role": "The turn that showed a reminder and the rendered role are in `_meta.sideband` of its update.",
            "acp:update:compaction": "Clients that ask for it, and those of protocol v2, are told of a compaction.",
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
            "acp:v1:chunk-is-the-delivery": "On protocol v1 a delivered message is sent as `user_message_chunk` with `_meta.sideband.messageId`.",
            "acp:v2:prompt-response": "On protocol v2 the response to a prompt means that it was inserted and has its `messageId`.",
            "acp:v2:requires-action": "Protocol v2 clients are told `requires_action` while permission is asked.",
            "acp:v2:names": "Protocol v2 clients get `tool_call_update` and `config_option_update` and no update that only version 1 has.",
            "acp:v2:replay-from-start": "On protocol v2 `session/resume` with `replayFrom` `start` replays the conversation.",
            "acp:v2:withdrawn-prompt": "On protocol v2 a prompt that is withdrawn before its delivery is -32800.",
            "acp:v2:failed-turn": "On protocol v2 a turn whose model failed ends with the stop reason `error`.",
        },
    ),
)

CLIENT: Final[Rules] = (
    *rules(
        Source.ACP_CAPABILITY,
        {
            "acp:client:capability-defaults": "The client reads an absent `propagate` of an agent as `session` only, and an absent `roleHints` as `system` only.",
            "acp:client:fallbacks": "For an agent without `reminders.inject` the client suppresses the reminder, or shows it to the user when so configured, and says so.",
            "acp:client:marked-message-only-if-asked": "The client sends a reminder as a marked user message, with the next prompt, only if it is configured to.",
        },
    ),
    *rules(
        Source.ACP_MIGRATION,
        {
            "acp:client:legacy-remind": "The client calls `session/remind` only if the agent advertises nothing but `_meta.harn.reminders`.",
        },
    ),
    *rules(
        Source.RFD_CAPABILITY,
        {
            "acp:client:edit-only-with-pending-replace": "The client edits a waiting message only if the agent advertises `pending.replace`; otherwise it revokes the message, sends it anew, and says that the position is lost.",
            "acp:client:withdrawn-is-not-sent-again": "A message that was revoked or delivered before it could be replaced is not sent again.",
            "acp:client:without-inject": "For an agent without `session.inject` and steering the client refuses an inject and says that `session/cancel` is all there is.",
        },
    ),
    *rules(
        Source.OURS,
        {
            "acp:client:capability-places": "The client reads a capability at the place of the standard, under `_meta.sideband`, at the place of the proposal, and for reminders under `_meta.harn`; the first that it finds counts.",
            "acp:client:markers-of-version-2": "An object as the mark of a capability means yes, even an empty one.",
            "acp:client:malformed-capabilities": "A malformed capability counts as absent.",
            "acp:client:method-names": "The client calls the names with `_sideband/` in front if the agent advertises under `_meta.sideband`, and else those of the proposals.",
            "acp:client:hints-are-lowered": "The client lowers `propagate` and `roleHint` to what the agent supports; the result has the requested and the effective values, also of hints that the agent has lowered.",
            "acp:client:starts-no-turn": "A reminder never becomes a prompt of its own.",
            "acp:client:declares-emit": "The client declares `_meta.sideband.reminders.emit`.",
            "acp:client:reads-every-form-of-update": "The client reads reminder updates by their names, inside `session_info_update`, and as a record under `_meta.harn` of another update; what it cannot read it skips.",
            "acp:client:errors-by-reason": "An error of an agent with a reason that Sideband knows is the error of Sideband with this reason.",
            "acp:client:steering": "For an agent that supports only `_session/steering` the client steers with `idleBehavior` `promptRequired`, and reports each outcome.",
            "acp:client:unknown-session": "The client takes -32002, -32602 and -32603 in the answer to `session/load` and `session/resume` as an unknown session.",
            "acp:client:sessions": "The client begins, loads and lists the sessions of an agent, sends prompts, gets the updates of a turn before the reason of its end, and answers what the agent asks.",
            "acp:client:unanswered-requests": "Without a callback the client refuses a permission once and answers every other request of the agent with -32601.",
            "acp:client:cancel-answers-permissions": "When a turn is cancelled, the client answers the open permission requests of the session with `cancelled`.",
            "acp:client:version": "An agent that answers `initialize` with another version than 1, or with something else, is an error that says so.",
            "acp:client:failures-of-agents": "An agent that cannot be started, ends, is silent, floods or answers garbage is an error that says what happened and what to do, with the end of the agent's standard error.",
            "acp:client:ends-the-process-group": "When the connection is closed, the agent and every process that it has started in its group are ended.",
            "acp:client:command-line-target": "`--to acp:COMMAND#ID` starts an agent, and reaches its session with `remind`, `inject`, `pending`, `revoke` and `clear`.",
            "acp:capability:snake-twin-is-read": "`steer_in_stream` of a peer is read as `steerInStream`.",
            "acp:replace:method-not-found": "A peer's -32601 on `session/replace_inject` means `replace_not_supported`.",
        },
    ),
)

PROXY: Final[Rules] = rules(
    Source.OURS,
    {
        "acp:proxy:capabilities-are-added": "The proxy adds its capabilities to the agent's reply to `initialize` and keeps the agent's own; the steering modes are among them if the agent can be steered.",
        "acp:proxy:answers-the-methods": "The proxy answers every reminder and inject method itself.",
        "acp:proxy:sessions-are-named": "The sessions of the proxy are `proxy:<agent>:<id>` in its store, also those that the agent had before.",
        "acp:proxy:durable-before-the-reply": "A session of the proxy is durable before the editor learns its id.",
        "acp:proxy:other-processes": "Other processes send reminders and messages to the sessions of a proxy by the store.",
        "acp:proxy:updates-of-every-process": "The proxy tells the editor of the reminders of its sessions, whichever process has sent them.",
        "acp:proxy:another-process-runs-it": "A prompt to a session that another process runs is forwarded as it is.",
        "acp:proxy:cancelled-elsewhere": "The proxy passes the cancellation of a turn by another program on to the agent.",
        "acp:proxy:a-turn-is-a-prompt": "To the proxy a turn is one prompt.",
        "acp:proxy:prompt-while-one-runs": "A prompt that arrives while another one runs is forwarded as it is, and is a turn once the agent runs it.",
        "acp:proxy:prompt-that-was-not-run": "What a prompt handed over that the agent refused without running it is handed over with the next one.",
        "acp:proxy:in-front-of-the-next-prompt": "What is not handed over while a turn runs stands as marked blocks in front of the next prompt.",
        "acp:proxy:commands-are-left-alone": "Nothing is put in front of a prompt that is a command of the agent.",
        "acp:proxy:handed-over-once": "The proxy hands over each item once, whatever its TTL, and reports it as expired after that number of prompts.",
        "acp:proxy:preserved-again-after-compaction": "The proxy hands preserved reminders over again after a `compaction_update`; the others that the agent had are compacted out.",
        "acp:proxy:sender-is-named": "A reminder of a peer or a server is a notice that names its sender and that its text cannot leave.",
        "acp:proxy:messages-are-the-users": "A message of the user is marked as one, and content that the agent cannot read is named instead.",
        "acp:proxy:interrupt-by-steering": "The proxy hands an interrupt over at once by `_session/steering` if the agent can be steered.",
        "acp:proxy:finish-step-while-a-tool-runs": "The proxy hands everything else over by `_session/steering` while a tool of the agent runs, and never while the agent writes.",
        "acp:proxy:one-steer-at-a-time": "The proxy steers with one item at a time, in order.",
        "acp:proxy:agents-without-steering": "An agent that cannot be steered gets everything in front of the next prompt, and a message that would steer it is refused as `unsupported_mode`.",
        "acp:proxy:held-while-a-permission-is-open": "The proxy does not steer while the agent asks for a permission.",
        "acp:proxy:not-taken-is-put-back": "What the agent does not take is handed over with the next prompt, and what it takes is not.",
        "acp:proxy:steering-of-the-editor": "A `_session/steering` of the editor goes through the inbox and reaches the agent at once.",
        "acp:proxy:steers-start-no-turn": "Every steer of the proxy carries `idleBehavior: promptRequired`.",
        "acp:proxy:starts-no-turn": "The proxy starts no turn and sends no prompt of its own.",
        "acp:proxy:nothing-is-lost": "Whatever a proxy that is killed has accepted is handed over by the next one, and twice only if it was killed before the agent's answer.",
        "acp:proxy:ids-cannot-collide": "Request ids of the proxy are texts with a nonce, and the answers to them are not forwarded.",
        "acp:proxy:own-blocks-leave-replays": "The proxy's own blocks carry a nonce and are removed from replays, also where the agent has joined them with the user's text; the words of the user stay.",
        "acp:proxy:rendered-role": "Items that the proxy hands over have a `fired` event with the rendered role `user` and `via: proxy`.",
        "acp:proxy:other-frames-are-untouched": "The proxy forwards every other frame byte for byte.",
        "acp:proxy:large-frames": "The proxy forwards frames of up to 64 MiB, of which it reads those of up to 8 MiB.",
        "acp:proxy:ends-with-the-agent": "The proxy ends with the exit status of the agent and says why; if the editor leaves, it ends the agent.",
    },
)
