"""The inbox: modes, seams and drains; queued and steering user messages."""

from typing import Final

from tests.conformance.entry import Rules, Source, divergence, rules

MODES: Final[Rules] = (
    *rules(
        Source.GUIDE_BRIDGE,
        {"inbox:mode:words": "The modes of a reminder are `interrupt_immediate`, `finish_step` and `audit_only`."},
    ),
    *rules(
        Source.ACP_QUESTIONS,
        {"inbox:mode:default-is-finish-step": "A reminder accepted without a mode has the mode `finish_step`."},
    ),
    *divergence(
        Source.GUIDE_BRIDGE,
        "inbox:mode:unknown-word-is-refused",
        "A mode other than these three words is an error, and nothing is accepted.",
        reason="The documents name the words without saying what happens to others; taking an unknown one as `audit_only`, as is done elsewhere, hides from the sender that no model will read it.",
    ),
    *rules(
        Source.ACP_QUESTIONS,
        {
            "inbox:mode:wait-for-completion-has-a-hint": "The error for `wait_for_completion` says that the mode is now called `audit_only`."
        },
    ),
)

SEAMS: Final[Rules] = (
    *rules(
        Source.GUIDE_BRIDGE,
        {
            "inbox:seam:iteration-start": "`iteration_start` drains `interrupt_immediate`, then `finish_step`.",
            "inbox:seam:pre-tool-dispatch": "`pre_tool_dispatch` drains `interrupt_immediate` only.",
            "inbox:seam:post-tool-dispatch": "`post_tool_dispatch` drains `interrupt_immediate`, then `finish_step`.",
            "inbox:seam:iteration-end": "`iteration_end` drains `interrupt_immediate`, then `finish_step`.",
            "inbox:seam:daemon-idle-pre": "`daemon_idle_pre` drains `interrupt_immediate` only.",
            "inbox:seam:daemon-idle-post": "`daemon_idle_post` drains `interrupt_immediate` only.",
            "inbox:seam:loop-exit": "`loop_exit` drains `audit_only` only.",
        },
    ),
    *rules(
        Source.OURS,
        {
            "inbox:seam:pre-compact": "`pre_compact` drains nothing.",
            "inbox:seam:post-compact": "`post_compact` drains nothing.",
            "inbox:drain:acceptance-order": "Items of one mode are drained in the order in which they were accepted.",
            "inbox:drain:others-keep-their-place": "Items that a drain does not take keep their places in the inbox.",
            "inbox:drain:user-text-follows-reminders": "User text that a drain takes stands after the reminders that the same drain takes.",
            "inbox:drain:exactly-once": "An item is taken by at most one drain.",
        },
    ),
)

INTERRUPT: Final[Rules] = (
    *rules(
        Source.GUIDE_BRIDGE,
        {
            "inbox:interrupt:skips-the-tool-batch": "An interrupt drained at `pre_tool_dispatch` makes the loop skip the pending tool batch.",
            "inbox:interrupt:finish-step-never-skips": "A waiting `finish_step` reminder never makes the loop skip a tool batch.",
        },
    ),
    *rules(
        Source.OURS,
        {
            "inbox:closing:something-taken-keeps-the-turn-open": "A closing drain of `iteration_end` that takes something leaves the session running.",
            "inbox:closing:nothing-taken-makes-the-session-idle": "A closing drain of `iteration_end` that takes nothing makes the session idle in the same decision.",
            "inbox:closing:no-accept-falls-between": "An accept either comes before the closing drain and is seen by it, or finds that no turn is running.",
            "inbox:daemon:interrupt-wakes": "An interrupt accepted for an idle daemon wakes it at once.",
            "inbox:daemon:time-alone-asks-nothing": "A daemon whose wake interval has passed sends no request unless there is something to answer.",
            "inbox:daemon:others-do-not-wake": "A `finish_step` or `audit_only` reminder does not wake an idle daemon.",
            "inbox:checkpoint:written-when-something-happened": "A drain that took something or skipped a batch writes a checkpoint to the journal.",
            "inbox:checkpoint:fields": "A checkpoint names the turn, the seam, the ids taken and `dispatch_skipped`.",
            "inbox:checkpoint:empty-drain-writes-none": "A drain that takes nothing and skips nothing writes no checkpoint.",
            "inbox:limit:per-session": "The 257th pending reminder of a session is refused as `too_many_pending`.",
            "inbox:limit:messages-have-their-own": "A session accepts 256 pending user messages, however many reminders are pending.",
            "inbox:limit:the-record-has-its-own": "`audit_only` items have a limit of their own and take no capacity from other items.",
            "inbox:limit:interrupts-have-a-reserve": "A session or a source that has reached its limit accepts 16 more interrupts.",
            "inbox:limit:refuses-and-never-evicts": "When an item is refused because the inbox is full, every accepted item stays in place.",
        },
    ),
    *divergence(
        Source.GUIDE_BRIDGE,
        "inbox:interrupt:at-most-three-skips-in-a-row",
        "After three skipped batches in a row interrupts wait like `finish_step` until a batch has run.",
        reason="The guide lets every interrupt skip the pending tools, so a sender that interrupts in every turn would keep the agent from ever running a tool.",
    ),
)

AUDIT_ONLY: Final[Rules] = (
    *rules(
        Source.GUIDE_BRIDGE,
        {
            "inbox:audit:becomes-an-internal-event": "At `loop_exit` an `audit_only` reminder becomes a `system_reminder` event with the visibility `internal`.",
            "inbox:audit:is-never-live": "An `audit_only` reminder is never live, so that no request can show it.",
        },
    ),
    *rules(
        Source.OURS,
        {
            "inbox:audit:ends-as-audit-recorded": "Recording an `audit_only` reminder ends it with the event `audit_recorded`.",
            "inbox:audit:is-never-aged": "Neither turns nor compactions age a recorded `audit_only` reminder.",
            "inbox:audit:is-never-deduped": "A recorded `audit_only` reminder is not replaced by a later one of its key.",
            "inbox:audit:is-never-cleared": "No selector clears a recorded `audit_only` reminder.",
            "inbox:audit:outlives-compaction": "A recorded `audit_only` reminder stands in the compacted transcript as it was.",
            "inbox:audit:is-never-propagated": "A recorded `audit_only` reminder is not handed to a sub-agent.",
        },
    ),
)

USER_INJECT: Final[Rules] = (
    *rules(
        Source.RFD_SUMMARY,
        {
            "inbox:inject:mints-a-message-id": "Accepting a user message returns the `messageId` the agent minted for it.",
            "inbox:inject:is-never-a-reminder": "A user message shares the inbox with reminders and is never turned into one.",
        },
    ),
    *rules(
        Source.RFD_SEMANTICS,
        {
            "inbox:steer:drains-with-finish-step": "A `steer` is drained where `finish_step` is.",
            "inbox:steer:never-skips": "A `steer` never makes the loop skip a tool batch.",
            "inbox:steer:needs-a-running-turn": "A `steer` to an idle session is refused as `no_running_turn`.",
            "inbox:queue:one-turn-each-in-order": "Queued messages are delivered in order once the session is idle, and each starts a turn.",
            "inbox:queue:idle-session-starts-at-once": "A message queued for an idle session starts a turn at once.",
        },
    ),
    *divergence(
        Source.GUIDE_BRIDGE,
        "inbox:queue:reaches-the-model",
        "A message accepted in the mode `queue` is shown to the model, in a turn of its own.",
        reason="In the guide what waits for the end of the loop is `audit_only`, which no model reads; the inject proposal promises queued text a turn, and people who queue a message expect an answer.",
    ),
    *rules(
        Source.GUIDE_BRIDGE,
        {
            "inbox:inject:finish-step-is-steer": "The mode `finish_step` of a user message is another word for `steer`.",
            "inbox:inject:interrupt-skips-the-batch": "A user message in the mode `interrupt_immediate` makes the loop skip the pending tool batch.",
            "inbox:inject:audit-only": "A user message in the mode `audit_only` is taken at `loop_exit` and shown to no model.",
        },
    ),
    *rules(
        Source.OURS,
        {
            "inbox:steer:may-follow-a-prompt": "A `steer` is accepted while a queued message that may start a turn waits, and is delivered in that turn.",
            "inbox:steer:outlives-its-turn": "A `steer` whose turn ended before its drain stays pending and starts no turn.",
            "inbox:steer:goes-to-the-next-turn": "A `steer` left over from an ended turn is delivered at the first break-point of the next turn.",
            "inbox:inject:only-controllers": "Only controllers may inject, revoke and replace user messages.",
        },
    ),
)

PENDING: Final[Rules] = (
    *rules(
        Source.RFD_PENDING,
        {
            "inbox:revoke:revoked": "Revoking a message that still waits takes it out of the inbox and answers `revoked`.",
            "inbox:revoke:repeat-is-already-revoked": "Revoking a revoked message again answers `already_revoked` and changes nothing.",
            "inbox:revoke:after-the-drain-is-already-delivered": "Revoking a message that was drained is refused as `already_delivered`.",
            "inbox:revoke:unknown-message": "Revoking or replacing a message with an unknown id is refused as `unknown_message_id`.",
            "inbox:replace:replaced": "Replacing a message that still waits swaps its content and answers `replaced`.",
            "inbox:replace:keeps-id-mode-and-position": "A replaced message keeps its id, its mode and its place in the inbox.",
            "inbox:replace:after-the-drain-is-already-delivered": "Replacing a message that was drained is refused as `already_delivered`.",
        },
    ),
    *rules(
        Source.OURS,
        {
            "inbox:replace:after-a-revoke-is-an-error": "Replacing a revoked message is refused as `already_revoked`.",
            "inbox:replace:body-of-a-reminder": "Replacing the body of a queued reminder changes nothing else: its id, mode, key, TTL and place stay.",
            "inbox:replace:reminder-competes-with-the-drain": "Replacing the body of a reminder is refused as `already_delivered` after its drain, as `already_revoked` after a revoke or a clear, and as `unknown_reminder_id` for an id that is unknown or belongs to another sender.",
        },
    ),
    *rules(
        Source.RFD_SEMANTICS,
        {
            "inbox:order:first-in-first-out-for-each-controller": "Messages of one controller in one mode are delivered in the order in which that controller sent them."
        },
    ),
    *rules(
        Source.RFD_IN_FLIGHT,
        {"inbox:cancel:leaves-the-inbox": "Cancelling a turn takes nothing out of the inbox."},
    ),
    *divergence(
        Source.RFD_IN_FLIGHT,
        "inbox:cancel:queued-messages-are-held",
        "After a cancel, queued messages start no turn until the client sends the next prompt.",
        reason="The proposal delivers them as soon as the session is idle, so that pressing stop starts the next queued task; a user who cancels wants the agent to stop.",
    ),
    *rules(
        Source.RFD_IN_FLIGHT,
        {
            "inbox:cancel:deliver-is-an-option": "With `queue_after_cancel` set to `deliver`, the first queued message starts a turn as soon as the cancelled turn has ended."
        },
    ),
    *rules(
        Source.GUIDE_BRIDGE,
        {
            "inbox:pending:lists-the-inbox-in-order": "The list of pending injections holds every item of the inbox in acceptance order, with its count.",
            "inbox:pending:reminder-row": "A reminder's row has `reminderId`, `mode`, `body`, `tags`, `dedupeKey`, `ttlTurns`, `roleHint` and `source`.",
            "inbox:revoke_reminder:revoked": "Revoking a queued reminder takes it out of the inbox and answers `revoked`.",
            "inbox:revoke_reminder:repeat-is-already-revoked": "Revoking the reminder again answers `already_revoked`.",
            "inbox:revoke_reminder:after-the-drain-is-already-delivered": "Revoking a reminder that was drained is refused as `already_delivered`.",
        },
    ),
    *rules(
        Source.OURS,
        {
            "inbox:pending:kind-and-position": "Each row says its `kind`, which is `reminder` or `user`, and its `position` counted from 0.",
            "inbox:pending:user-row": "A user message's row has its `messageId` and `mode`.",
            "inbox:revoke_reminder:unknown": "Revoking a reminder with an unknown id is refused as `unknown_reminder_id`.",
        },
    ),
    *divergence(
        Source.RFD_PENDING,
        "inbox:delivery:is-the-drain",
        "A user message is delivered by the drain that takes it; from then on it can be neither revoked nor replaced.",
        reason="The proposal lets a client revoke a message until its update is published; by then the message is part of the conversation, and a request with it may have left.",
    ),
)

IN_THE_LOOP: Final[Rules] = (
    *rules(
        Source.OURS,
        {
            "loop:interrupt:every-call-gets-a-result": "Each call of a skipped batch gets a synthetic result with the status `interrupted`.",
            "loop:interrupt:names-the-true-source": "The synthetic result of a skipped call names the sender of the interrupt.",
            "loop:interrupt:usage-is-counted": "The usage of a reply whose batch was skipped is counted.",
            "loop:interrupt:budgets-still-apply": "A skipped batch does not suspend any budget of the loop.",
            "loop:begin:nothing-to-answer": "A run without a task completes without a request if no message is queued, the last message is a reply or a summary or there is none, and every reminder that is queued or live was shown or is `audit_only`.",
            "loop:end:reminder-that-cannot-be-shown": "A reminder that would add an iteration, and cannot be shown on the route of the run, is dropped, and the run ends without another request.",
            "loop:begin:new-reminders-are-answered": "A run without a task sends a request for queued reminders and for live ones that no turn has shown.",
            "loop:closing:the-rest-is-undelivered": "Items that those extra iterations did not take are listed in the result as `undelivered`.",
        },
    ),
    *rules(
        Source.GUIDE_BRIDGE,
        {
            "loop:interrupt:the-next-request-contains-it": "The request after a skipped batch contains the interrupting reminder."
        },
    ),
    *rules(
        Source.RFD_IN_FLIGHT,
        {
            "loop:permission:steers-and-interrupts-are-held": "While a permission request is open steers and interrupts are held and delivered after the decision.",
        },
    ),
    *rules(
        Source.RFD_SEMANTICS,
        {
            "loop:steer:waits-for-the-stream": "A `steer` that arrives while a reply is streaming waits until the reply has ended."
        },
    ),
    *divergence(
        Source.GUIDE_BRIDGE,
        "loop:closing:at-most-eight-extra-iterations",
        "Each closing drain that takes items adds one iteration, at most eight in a row.",
        reason="The guide delivers everything that waits at the end of an iteration, so a sender that always has something to say would keep the run from ending.",
    ),
)
