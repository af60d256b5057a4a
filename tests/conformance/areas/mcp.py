"""The MCP bridge: servers that emit, watchers, and the host that listens."""

from typing import Final

from tests.conformance.entry import Rules, Source, divergence, rules

DEPARTURES: Final[Rules] = (
    *divergence(
        Source.MCP_NOTIFICATION,
        "mcp:server:listen-streams",
        "On revision 2026-07-28 a server emits only on listen streams that ask for reminders or inside a request of a client that declared them.",
        reason="The proposal emits at any time after initialize; that revision has no handshake and allows no message that belongs to neither a request nor a listen stream.",
    ),
    *divergence(
        Source.MCP_CAPABILITY,
        "mcp:capability:experimental-and-extension",
        "A server's capability is under `experimental.reminders` and under the extension's key.",
        reason="The proposal puts it at the top of the capabilities, where today's SDKs strip it on the way out and on the way in.",
    ),
)

SERVER: Final[Rules] = (
    *rules(
        Source.OURS,
        {
            "mcp:server:extension-mounts-anywhere": "Any `mcp` server can mount the extension and emit.",
            "mcp:server:both-eras-one-api": "One call emits on revisions up to 2025-11-25 and on 2026-07-28.",
            "mcp:server:up-to-2025-to-everyone": "Up to 2025-11-25 a server emits to every initialised client, and with `--only-declared` only to those that declare reminders.",
            "mcp:server:listen-filter": "`subscriptions/listen` with the filter key `reminders`, and `reminders/listen`, open a listen stream.",
            "mcp:client:declares-receive": "A client declares reminders by `experimental.reminders` with `receive` true or by the extension.",
            "mcp:server:claude-channel": "A server can also emit as `notifications/claude/channel`.",
            "mcp:watch:git": "The git watcher emits a reminder when the state of the repository changes.",
        },
    ),
    *rules(
        Source.MCP_WATCHERS,
        {
            "mcp:watch:files": "The file watcher emits with the key `file_changed:` and the relative path, TTL 2.",
            "mcp:watch:commands": "The command watcher emits with its name and `:status` as the key, TTL 1.",
            "mcp:watch:tests": "The test watcher emits with the key `test:` and the test's id, TTL 2.",
            "mcp:watch:resources-updated-too": "A watcher also sends `notifications/resources/updated` for what changed.",
        },
    ),
)

HOST: Final[Rules] = (
    *rules(
        Source.MCP_CAPABILITY,
        {
            "mcp:host:undeclared-emitter-is-dropped": "A reminder of a server that did not declare `emit` is logged, counted and `dropped` with the reason `undeclared_capability`.",
            "mcp:host:documents-capability-is-read": "A server's `capabilities.reminders` is read as a declaration.",
        },
    ),
    *rules(
        Source.MCP_MIGRATION,
        {"mcp:host:log-message-is-read": "A reminder under `_meta.harn.reminder` of `notifications/message` is read."},
    ),
    *rules(
        Source.OURS,
        {
            "mcp:host:errors-are-dropped-events": "An error in a server's reminder is a `dropped` event with the reason `invalid`, since a notification has no reply.",
            "mcp:host:excess-holds-the-newest": "If a server exceeds its rate or pending limit, the host holds the newest reminder for each server, session and key, up to 64 keys.",
            "mcp:host:excess-is-announced": "Beyond 64 held keys, one notice with the count replaces the rest.",
            "mcp:host:only-keyless-excess-is-dropped": "Of the excess reminders, only those without a key are dropped, each with a record.",
            "mcp:host:given-server-reaches-its-session": "A server given with a session reaches that session.",
            "mcp:host:configured-server-reaches-users-of-its-tools": "A configured server reaches the open sessions that have its tools.",
            "mcp:host:held-while-none-is-open": "While no such session is open, the host holds the newest reminder for each key.",
            "mcp:host:claude-channel-is-read": "`notifications/claude/channel` is read as a reminder.",
        },
    ),
)
