"""A guest: the loop of another program, which uses the reminders of a session."""

from typing import Final

from tests.conformance.entry import Rules, Source, rules

GUEST: Final[Rules] = rules(
    Source.OURS,
    {
        "guest:attach:lease": "`session.attach` holds the lease of the session for the loop of another program and voids a request that a dead process left open, and a turn is not committed without the lease.",
        "guest:attach:same-rules": "A guest has the same commit points, TTLs, dedupe, budget, trust, receipts, events and prefix law as the loop of Sideband.",
        "guest:attach:seams": "`guest.turn` drains `iteration_start`, `guest.interrupted` decides once per turn whether the batch of tool calls is skipped, `guest.closing` says whether one more request is due, and leaving `attach` drains `loop_exit`.",
        "guest:attach:queued-messages-stay": "Steered messages become part of `turn.messages`, and queued user messages stay in the inbox.",
        "guest:attach:history-is-the-guests": "The messages of a guest are not stored and not changed in place, and their content has the list form with or without reminders.",
        "guest:attach:fragments": "`turn.fragments` and `turn.kept` are public, for adapters with typed messages.",
        "guest:attach:exception-voids": "A turn is committed at the end of its block, and an exception in the block voids it.",
        "guest:attach:new-window": "A trimmed or rewritten history opens a new window; `guest.compacted` states it and runs `post_compact`.",
        "guest:attach:hooks": "`guest.tell` runs the hooks and the canonical providers of an event, as the loop of Sideband does.",
        "guest:attach:kept-text": "Where a host keeps what it is told in its own transcript, finite TTLs are stated, ends are withdrawal lines, and a stop event with nothing but a withdrawal says nothing.",
        "guest:sync:mirrors-attach": "`sideband.sync` offers `attach` to threads and to synchronous code.",
        "guest:sync:verbs": "`sideband.sync` has `remind`, `pending`, `revoke` and `clear` for programs without an event loop.",
    },
)
