"""What is promised about every accepted item, and the commits that keep the promise."""

from typing import Final

from tests.conformance.entry import Rules, Source, rules

STATES: Final[Rules] = rules(
    Source.OURS,
    {
        "promises:state:queued-moves": "A queued item moves to drained, `deduped`, `revoked`, `dropped` or `audit_recorded`, and nowhere else.",
        "promises:state:drained-moves": "A drained item is fired any number of times and ends as `expired`, `cleared`, `deduped`, `compacted_out` or `dropped`.",
        "promises:state:drained-names-turn-and-seam": "The drained state of an item names the turn and the seam.",
        "promises:state:hooks-and-providers-start-drained": "Reminders of hooks and providers start in the drained state.",
        "promises:state:at-most-one-terminal": "No item ever reaches a second terminal state.",
        "promises:state:exactly-one-once-closed": "Once a session is closed every item of it is in exactly one terminal state.",
        "promises:close:live-ends-as-cleared": "Closing a session ends its live reminders as `cleared`.",
        "promises:close:queued-ends-as-dropped": "Closing a session ends the items in its inbox as `dropped` with the reason `session_closed`.",
        "promises:race:one-of-revoke-and-drain-wins": "If a revoke and a drain compete for an item, exactly one of them succeeds, whichever is decided first.",
        "promises:idempotency:same-payload-same-reply": "The same idempotency key with the same payload gives the same reply and no second item.",
        "promises:idempotency:other-payload-conflicts": "The same idempotency key with another payload is refused as `idempotency_conflict`.",
        "promises:idempotency:belongs-to-a-principal": "An id that another principal has taken is refused as `idempotency_conflict`.",
        "promises:user-code:never-inside-a-commit": "No hook, provider, tool, compactor, watcher or model code runs inside a commit or on a thread of the store.",
        "promises:values:hold-no-reference-into-the-state": "What a method of a session returns can be changed by the caller without any effect on the session.",
        "promises:plan:accepts-cause-no-re-planning": "A request is planned outside its commit, and accepts of any process do not cause it to be planned again.",
        "promises:journal:folding-rebuilds-the-state": "Folding the events of a session's journal gives the state that deciding and applying them gave.",
    },
)

COMMITS: Final[Rules] = rules(
    Source.OURS,
    {
        "store:commit:accept": "The reply to an accept is sent after its commit.",
        "store:commit:drain": "A drain and the reminders that it displaces are one commit.",
        "store:commit:nothing-to-write": "A decision without events causes no commit.",
        "store:durable:acknowledged-survives": "Acknowledged data survives a killed process and a power cut.",
        "store:durable:delivered-once": "A killed and resumed session delivers each item once in the transcript.",
        "store:durable:order-under-concurrency": "With concurrent senders, the items of each sender are delivered in the order in which it sent them.",
        "store:durable:dedupe-is-atomic": "Concurrent senders of one key never leave two pending items of that key.",
        "store:durable:revoke-is-linearisable": "Under any schedule the answer to a revoke matches what the model saw.",
        "store:durable:replace-is-atomic": "A drain that races a replace takes either version of the content as a whole.",
        "store:durable:ttl-is-monotone": "No crash, retry or restart raises a TTL or lowers it twice.",
        "store:durable:idempotency-outlives-a-restart": "A request that is repeated after a restart gets the reply of the first.",
        "store:durable:torn-tail-is-detected": "A journal whose end is torn is detected and never skipped over.",
        "store:durable:compaction-is-atomic": "A crash during a compaction leaves either the transcript before it or the one after it, whole.",
        "store:subscribers:same-order-for-all": "Every subscriber sees the same order of events, and one that reconnects with its cursor sees neither gap nor repetition.",
        "store:bounded:overflow-is-an-error": "No input makes memory, disk or prompt grow without limit, because input beyond a limit is refused.",
        "store:isolation:slow-code-delays-no-accept": "A hook, provider or subscriber that hangs or fails neither delays an accept nor loses an item.",
        "store:bounded:idle-sessions-leave-memory": "In addition to the sessions that the program holds or runs, a store file keeps at most the configured number of sessions in memory, and a session that is read again is unchanged.",
        "store:bounded:retention-is-configuration": "The number of events of a session that are kept is an option of `open_store`, for every kind of store.",
        "store:isolation:one-bad-session-fails-alone": "A session that cannot be rebuilt, or whose id no store can hold, fails no commit of another.",
        "store:lease:lapsed-ends-the-run": "A run whose lease lapses because it cannot be renewed is cancelled and writes nothing more.",
        "store:lease:time-is-configuration": "The duration of a lease is an option of `open_store`, for every kind of store.",
        "store:open:damaged-or-newer-is-refused": "A store that is cut short, lacks a table or index, has a torn commit or has a newer schema is refused when it is opened, and a damaged row is refused when it is read, each with a diagnostic; a damaged store is never opened empty.",
        "store:open:moved-file-accepts-nothing": "A store file that is removed or replaced while it is open accepts nothing more.",
    },
)

TURNS: Final[Rules] = rules(
    Source.OURS,
    {
        "loop:commit:request": "A request and the `fired` events of the reminders in it are committed before its bytes are sent.",
        "loop:commit:turn": "The reply and the TTL pass of a turn are one commit.",
        "loop:commit:results": "Tool results are committed one by one as the tools finish.",
        "loop:commit:tools-follow-the-turn": "No tool starts before its turn is committed.",
        "loop:void:causes": "A permanent provider error, a cancel, or the next run after the process died, with the same model or another, voids an open turn.",
        "loop:void:no-compaction-under-an-open-request": "A compaction that is requested while a request is open changes nothing.",
        "loop:void:takes-back-what-was-fired": "After a turn was voided, the reminders that it fired do not count as shown, and the number of the turn is used again.",
        "loop:void:consumes-no-ttl": "A voided turn consumes no TTL.",
        "loop:retry:causes": "A lost connection, a time-out and the statuses 408, 409, 429 and 5xx are retried, and nothing else is.",
        "loop:retry:at-most-four": "A request is retried at most four times.",
        "loop:retry:same-fragments": "A retry sends the same fragments with the attempt raised by one.",
        "loop:retry:restarted-stream-is-announced": "When a stream starts again from the beginning, the listener is told.",
        "loop:resume:no-tool-runs-again": "A resumed session runs no tool again; a call without a result gets one with the status `unknown`.",
        "loop:resume:idempotent-tools-may-repeat": "A resumed session may repeat a call of a tool marked as `idempotent`.",
        "loop:resume:names-what-is-missing": "A resumed session names the hooks and providers that were registered when it last ran and are not registered now.",
        "loop:session:remind-uses-the-inbox": "`Session.remind` goes through the inbox like a bridge.",
        "loop:session:pending-lists-queued-and-live": "`Session.pending` lists queued and live items with their states.",
        "loop:result:never-silent": "An accepted item that is not `audit_only` is shown to a model, reported as undelivered, or live for the next request.",
    },
)
