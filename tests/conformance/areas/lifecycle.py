"""Inject, dedupe and clear; how long a reminder lives; what compaction does to it."""

from typing import Final

from tests.conformance.entry import Rules, Source, divergence, rules

INJECT: Final[Rules] = (
    *rules(
        Source.GUIDE_PIPELINE,
        {
            "core:inject:returns-transcript-id-and-count": "`inject_reminder` returns the new transcript, the id of the new reminder and the number of reminders that it replaced.",
            "core:inject:appends-at-the-end": "`inject_reminder` appends the new reminder after every event that is already in the transcript.",
            "core:inject:replaces-every-one-of-its-key": "`inject_reminder` removes every live reminder that has the dedupe key of the new one.",
            "core:inject:counts-what-it-replaced": "`deduped_count` is the number of reminders that `inject_reminder` removed.",
            "core:inject:without-a-key-replaces-nothing": "`inject_reminder` without a dedupe key removes nothing, even if a reminder with the same body is live.",
            "core:inject:input-is-unchanged": "`inject_reminder` does not change the transcript that it is given.",
            "core:inject:messages-are-unchanged": "`inject_reminder` does not change the list of messages.",
            "core:clear:returns-transcript-and-count": "`clear_reminders` returns the new transcript and the number of reminders that it removed.",
            "core:clear:by-id": "`clear_reminders` with an id removes the reminder of that id.",
            "core:clear:by-tag": "`clear_reminders` with a tag removes every reminder that has the tag.",
            "core:clear:by-dedupe-key": "`clear_reminders` with a dedupe key removes every reminder that has the key.",
            "core:clear:selectors-are-joined-by-and": "`clear_reminders` with several selectors removes only reminders that match them all.",
            "core:clear:needs-a-selector": "`clear_reminders` without any selector is HARN-RMD-001.",
            "core:clear:input-is-unchanged": "`clear_reminders` does not change the transcript that it is given.",
        },
    ),
    *rules(
        Source.OURS,
        {
            "core:clear:matches-exactly": "A selector of `clear_reminders` matches only the whole value, and upper and lower case differ.",
            "core:clear:no-match-is-no-error": "If nothing matches, `clear_reminders` returns the same transcript and 0.",
            "core:clear:ends-queued-and-live-reminders-of-a-session": "Clearing in a live session ends the queued and the live reminders that match.",
            "core:clear:audit-records-only-by-id": "Clearing ends a queued `audit_only` reminder only if it is selected by its id.",
            "core:clear:competes-with-the-drain": "A queued reminder is either cleared or drained, and after it was cleared a revoke answers `already_revoked`.",
        },
    ),
    *rules(
        Source.GUIDE_EVENTS,
        {
            "core:clear:each-ends-as-cleared": "Each cleared reminder has one `expired` event with the reason `cleared`.",
            "core:dedupe:one-event-for-each-replaced": "Each replaced reminder has one `deduped` event that names it, its successor and the key.",
            "core:dedupe:events-precede-the-new-one": "The `deduped` events of a replacement come before the `queued` or `injected` event of the new reminder.",
        },
    ),
)

DEDUPE: Final[Rules] = (
    *divergence(
        Source.ACP_INJECT,
        "core:dedupe:accept-displaces-only-queued-items",
        "Accepting a reminder displaces only items of its key that still wait in the inbox and leaves the live one in place.",
        reason="The documents drop every older pending reminder at once; then a request sent between accept and drain would hold neither the old fact nor the new one.",
    ),
    *rules(
        Source.OURS,
        {
            "core:dedupe:same-namespace-key-and-kind": "An accepted item displaces a queued one only if namespace, key and kind are all the same.",
            "core:dedupe:audit-only-stays-apart": "An `audit_only` reminder displaces, and is displaced by, only `audit_only` reminders.",
            "core:dedupe:count-is-what-left-the-inbox": "The `dedupedCount` of an accept is the number of items that it displaced from the inbox.",
            "core:dedupe:live-one-goes-when-the-newer-is-drained": "The decision that drains a newer reminder of a key also ends the live one.",
            "core:dedupe:no-request-has-neither": "Once a keyed reminder has been shown, accepting a newer one of its key never leads to a request without any reminder of that key.",
            "core:dedupe:at-most-one-queued-and-one-live": "At every moment a session has at most one queued and one live reminder for each namespace and key, `audit_only` ones counted apart.",
        },
    ),
)

TTL: Final[Rules] = (
    *divergence(
        Source.GUIDE_COMPACTION,
        "core:ttl:shown-in-exactly-ttl-turns",
        "A finite reminder is shown in exactly `ttl_turns` committed turns, less one for each compaction it lives through after its first showing.",
        reason="The guide counts post-turn passes, so a reminder that arrives late in a turn, or that the budget leaves out, would lose turns in which no model could read it.",
    ),
    *divergence(
        Source.GUIDE_COMPACTION,
        "core:ttl:unseen-never-expires",
        "A reminder that no committed turn has shown cannot expire by TTL.",
        reason="The guide ages every finite reminder at each pass, so one with a TTL of 1 could end without any model having read it.",
    ),
    *rules(
        Source.GUIDE_SPEC,
        {"core:ttl:none-never-expires": "A reminder without a TTL does not expire, however many turns pass."},
    ),
    *rules(
        Source.OURS,
        {
            "core:turn:counts-from-one": "The first committed turn of a session is turn 1.",
            "core:ttl:last-turn-is-set-at-the-first-showing": "The first committed turn that shows a finite reminder fixes its last turn as that turn plus its TTL minus 1.",
            "core:ttl:compaction-lowers-the-last-turn": "Each compaction after the first showing lowers the last turn of a finite reminder by one.",
            "core:ttl:being-left-out-raises-the-last-turn": "Each committed turn in which the budget left out a finite reminder that was shown before raises its last turn by one.",
            "core:ttl:expires-once-its-last-turn-is-committed": "After the commit of turn n every reminder whose last turn is n or earlier expires with the reason `ttl`.",
            "core:ttl:retries-and-voids-cost-nothing": "Retried and voided requests change neither the turn count nor any remaining TTL.",
            "core:ttl:follows-from-the-journal": "Replaying the committed turns and compactions of a session gives every reminder the same last turn.",
            "core:ttl:added-after-the-pass-is-not-aged": "A reminder that becomes live after turn n was committed does not age in turn n.",
        },
    ),
    *rules(
        Source.GUIDE_COMPACTION,
        {
            "core:end_turn:ages-what-had-fired": "The pure `end_turn` lowers by one the TTL of each finite reminder whose `fired_at_turn` is that turn or earlier.",
            "core:end_turn:expires-at-one": "The pure `end_turn` removes a reminder whose TTL is 1 and reports it as expired with the reason `ttl`.",
            "core:end_turn:leaves-later-ones": "The pure `end_turn` does not age a reminder whose `fired_at_turn` is after that turn.",
            "core:end_turn:leaves-those-without-a-ttl": "The pure `end_turn` does not touch a reminder without a TTL.",
        },
    ),
)

TTL_IN_THE_LOOP: Final[Rules] = rules(
    Source.OURS,
    {
        "loop:turn:ttl-pass-comes-before-tools": "The TTL pass of a turn runs after the reply and before its tools, so that reminders of tools and hooks are first shown by the next request.",
    },
)

COMPACTION: Final[Rules] = (
    *rules(
        Source.GUIDE_COMPACTION,
        {
            "core:compaction:ages-finite-reminders-first": "The pure `transcript_compact` begins by taking one from every finite TTL.",
            "core:compaction:expired-there-end-by-ttl": "A reminder whose TTL runs out at a compaction ends with the reason `ttl` at the boundary `pre_compact`.",
            "core:compaction:newest-of-a-key-wins": "Of several reminders with one key, only the newest outlives a compaction; the others end as `deduped`.",
            "core:compaction:preserved-are-copied": "A surviving reminder with `preserve_on_compact` stands in the compacted transcript.",
            "core:compaction:others-are-compacted-out": "A surviving reminder without `preserve_on_compact` ends as `expired` with the reason `compaction`.",
            "core:compaction:custom-compactor-gets-messages-and-survivors": "A custom compactor is called with the messages and the surviving reminders.",
        },
    ),
    *rules(
        Source.OURS,
        {
            "core:compaction:live-session-ages-only-the-shown": "In a live session, a compaction takes a turn only from finite reminders that have been shown.",
            "core:compaction:expiry-comes-before-dedupe": "A reminder whose TTL runs out at a compaction displaces no older one of its key.",
            "core:compaction:survivors-include-those-about-to-go": "The survivors that a custom compactor gets include reminders that the compaction will not preserve.",
            "core:compaction:custom-result-is-checked": "The result of a custom compactor is refused if it is empty, has an unknown role, blank content or a block of an unknown type, or separates a tool call from its result.",
            "core:compaction:reminders-in-a-result-are-ignored": "Reminder events in the result of a custom compactor are ignored.",
            "core:compaction:nothing-to-compact-changes-nothing": "When there is nothing to compact, TTLs, reminders and events do not change.",
            "core:compaction:order-of-the-new-transcript": "The compacted transcript is the summary, then the kept tail of messages, then the preserved reminders.",
            "core:compaction:strategy-words": "The strategies are `summarize`, `keep_last` and `custom`, and any other word is an error.",
            "core:compaction:summarize": "The strategy `summarize` puts the summary of the older messages before the kept messages.",
            "core:compaction:keep-last": "The strategy `keep_last` keeps the requested number of last messages unchanged.",
            "core:compaction:one-decision": "One decision returns all events of a compaction, so they are committed together or not at all; reminders that went live after the compaction began are left alone.",
            "core:compaction:inbox-is-untouched": "No compaction takes, ages, displaces or drops anything in the inbox.",
            "core:compaction:input-is-unchanged": "`transcript_compact` does not change the transcript that it is given.",
        },
    ),
)

COMPACTION_IN_THE_LOOP: Final[Rules] = (
    *rules(
        Source.OURS,
        {
            "loop:compaction:a-block-aborts": "A `pre_compact` hook that blocks prevents the compaction before anything has changed.",
            "loop:compaction:post-compact-carries-counts": "After a compaction the `post_compact` hooks and providers run and get the counts.",
            "loop:compaction:by-tokens": "`keep_last` and `summarize` archive the oldest messages until the prompt is under half of the context window, however few messages there are.",
            "loop:compaction:size-outlives-a-run": "The size of the last prompt of a session is known to its next run, which may compact before its first request.",
            "loop:compaction:the-last-step-is-kept": "`keep_last` and `summarize` keep the last reply and what came after it, and separate no tool call from its result; `keep_last` also keeps what the user has said in the turn that runs.",
            "loop:compaction:nothing-to-archive-is-reported": "If the prompt is over the target and no more can be archived, this is reported once, until a compaction reaches the target.",
            "loop:compaction:result-is-checked": "In a run, a result of a compactor with which the conversation cannot go on, also because it does not end with the messages that have no reply, is refused and reported, and the conversation stays as it was.",
            "loop:compaction:summary-of-any-role": "`post_compact` has the first new message of the compactor as its summary, whatever its role.",
            "loop:compaction:runs-before-the-first-drain": "An automatic compaction runs before the drain of `iteration_start`.",
        },
    ),
)
