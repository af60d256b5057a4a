"""The example payloads, walks and recipes of the documents, each a file in `examples/`."""

from typing import Final

from tests.conformance.entry import Rules, Source, rules

PAYLOADS: Final[Rules] = (
    *rules(
        Source.GUIDE_SPEC,
        {
            "examples:guide:transcript-event": "The guide's example event is what `transcript_reminder_event` builds from its fields.",
        },
    ),
    *rules(
        Source.GUIDE_PIPELINE,
        {
            "examples:guide:inject-and-clear": "The guide's pipeline example injects one reminder, replaces none, and clears it again by its tag.",
        },
    ),
    *rules(
        Source.GUIDE_HOOK,
        {
            "examples:guide:hook-return": "The value that the guide's `read_file` hook returns is read as one reminder effect with its fields.",
        },
    ),
    *rules(
        Source.GUIDE_BRIDGE,
        {
            "examples:guide:session-remind": "The guide's `session/remind` example is valid under its schema and is accepted as an interrupt with TTL 2.",
        },
    ),
    *rules(
        Source.A2A_INJECT,
        {
            "examples:a2a:inject-request": "The A2A example request is valid under its schema and is accepted.",
            "examples:a2a:inject-response": "The A2A example response is valid under its schema.",
        },
    ),
    *rules(
        Source.A2A_STREAM,
        {"examples:a2a:reminder-emitted": "The A2A example notification is valid under its schema."},
    ),
    *rules(
        Source.A2A_CARD,
        {"examples:a2a:card": "The capability object of the A2A example card is valid under its schema."},
    ),
    *rules(
        Source.MCP_NOTIFICATION,
        {
            "examples:mcp:notification": "The MCP example notification, with its `firedAtTurn` of null, is valid under its schema and is accepted."
        },
    ),
    *rules(
        Source.MCP_CAPABILITY,
        {"examples:mcp:capability": "The MCP example capability is valid under its schema."},
    ),
    *rules(
        Source.GUIDE_COOKBOOK,
        {
            "examples:cookbook:memory-derived-reminder": "The recipe of a reminder taken from memory gives one that lives 4 turns, outlives compaction and reaches every descendant.",
            "examples:cookbook:clear-when-resolved": "The recipe of clearing by key removes the reminder whose condition is over and no other.",
            "examples:cookbook:idle-workspace-nudge": "The recipe of a host's nudge is accepted over `session/remind` as `finish_step` with TTL 1 and no propagation.",
            "examples:cookbook:custom-compactor": "The recipe of a custom compactor sees the bodies of the surviving reminders and returns the messages unchanged.",
        },
    ),
)

IN_THE_LOOP: Final[Rules] = (
    *rules(
        Source.GUIDE_COOKBOOK,
        {
            "examples:cookbook:token-pressure": "The recipe that sets only the context window makes `token_pressure` fire at that window's thresholds.",
            "examples:cookbook:project-facts": "The recipe that stores a fact and tunes the filters shows that fact at the next session start.",
            "examples:cookbook:file-changed-hook": "The recipe of a file-change hook leaves one reminder for each file however often it changed.",
        },
    ),
    *rules(
        Source.GUIDE_PROVIDER,
        {
            "examples:guide:provider": "The guide's `workspace_guard` provider fires when the session is idle and not when its config turns it off."
        },
    ),
)

RENDERED: Final[Rules] = rules(
    Source.GUIDE_COOKBOOK,
    {
        "examples:cookbook:ephemeral-cache": "The recipe of an ephemeral cache hint is rendered for one turn, marked for caching where the route supports it.",
    },
)

WATCHED: Final[Rules] = rules(
    Source.MCP_WATCHERS,
    {
        "examples:mcp:build-watcher": "The build-watcher walk shows the agent in its next turn that the build passed, and in no later one.",
        "examples:mcp:test-watcher": "The test-watcher walk sends the resource update and then shows the agent that the test passes, for two turns.",
    },
)
