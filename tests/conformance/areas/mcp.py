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
        "A server declares the same capability at `capabilities.reminders`, under `experimental.reminders` and under the extension's key.",
        reason="The proposal has the first place only, which the clients of today's SDKs do not show to their hosts.",
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
            "mcp:server:listen-frames": "A listen stream begins with an acknowledgement that repeats the filter, and each of its frames is stamped with the id of the subscription.",
            "mcp:server:filter-is-honoured": "A listen stream carries only reminders with one of the tags and at least the TTL that its filter asks for.",
            "mcp:server:wrong-filter": "A malformed filter is refused with -32602 and the name of the field.",
            "mcp:server:core-keys-keep-working": "The other keys of a filter are served beside `reminders`, and a filter without that key gets no reminders.",
            "mcp:server:one-carriage": "To one client a reminder travels on one carriage only, which is its listen stream if it has one.",
            "mcp:server:one-listen-stream": "A newer listen stream of a client takes over the reminders of the older one, which ends with a result unless it carries other notifications.",
            "mcp:server:cancelled-stream-ends": "A listen stream ends when its client cancels it or closes its connection.",
            "mcp:server:before-the-response": "What is emitted inside a request is written before its response.",
            "mcp:server:never-waits": "A server never waits for a client: at most 64 reminders wait, the newest of each key, and a notice counts the others.",
            "mcp:server:newest-clients-are-served": "Of the clients up to 2025-11-25, 256 have a standalone channel: a new client takes the place of one that does not read, or else of the one that was silent for longest.",
            "mcp:server:unheard": "With `keep_unheard`, as in the watchers, what is emitted while no client can be reached is kept for the first one that can: the newest of each key, for a minute.",
            "mcp:server:checked-in-process": "A wrong reminder raises its diagnostic code in the server, and nothing is sent.",
            "mcp:server:options": "The words that a server declares are checked when `Reminders` is made, and `hook_tool` is refused on a server that cannot have the tool.",
            "mcp:server:half-mounted": "A server that mounts the extension without the middleware is told so at its first tool call.",
            "mcp:client:declares-receive": "A client declares reminders by `experimental.reminders` with `receive` true or by the extension.",
            "mcp:server:claude-channel": "A server can emit as `notifications/claude/channel` to clients that do not declare reminders.",
            "mcp:watch:git": "The git watcher emits a reminder when the state of the repository changes.",
            "mcp:watch:legacy-subscriptions": "Up to 2025-11-25 a client subscribes to a watched resource with `resources/subscribe`.",
            "mcp:watch:files-are-resources": "Watched text files can be read as resources, and no other file.",
            "mcp:watch:latest-is-a-resource": "The latest result of a watcher of commands, tests or git can be read as a resource.",
            "mcp:watch:ends-with-0": "A server of watchers exits with 0 at the end of its input, on SIGTERM and on SIGINT, and ends what it has started.",
            "mcp:watch:only-json-on-stdout": "Standard output carries JSON-RPC only, and input that is not JSON-RPC does not end the server.",
            "mcp:watch:message-limit": "A message over 1 MiB is discarded with a warning, and answered with 413 over HTTP; the server goes on.",
            "mcp:watch:refused-at-the-start": "A folder outside of a Git repository, a missing git and a port in use are refused before serving, with the exit code 2 and the next step.",
            "mcp:watch:loopback-only": "Over HTTP a server of watchers accepts requests to loopback hosts only (421) and none from web pages (403).",
            "mcp:watch:missing-extras": "A missing extra is named in one sentence.",
            "mcp:watch:says-when-it-stops": "A watcher that ends is reported with a reminder.",
            "mcp:hook:answer-of-a-hook": "The tool `pending_reminders` returns what was emitted since its last call, in the form of a hook's answer and each reminder once.",
            "mcp:hook:one-carriage": "What the answer of `pending_reminders` has is not sent on the stream of the same request, nor kept for a later one.",
            "mcp:hook:bounded": "The text of the hook tool has at most 8,000 characters: the newest notices that fit, and the number of the others.",
            "mcp:hook:framed-as-a-notice": "The text of the hook tool names the server, states finite TTLs, and no reminder can break out of its frame.",
        },
    ),
    *rules(
        Source.MCP_WATCHERS,
        {
            "mcp:watch:files": "The file watcher emits with the key `file_changed:` and the relative path, TTL 2.",
            "mcp:watch:commands": "The command watcher emits with its name and `:status` as the key, TTL 1.",
            "mcp:watch:tests": "The test watcher emits with the key `test:` and the file of the tests, TTL 2.",
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
            "mcp:host:capability-places": "A server's declaration is read from the extension, `experimental`, the place of the proposal and `_meta.harn`, in this order; the first that is present decides.",
            "mcp:host:no-lifecycle-echo": "A server is told nothing of what becomes of its reminders.",
            "mcp:host:listens-where-advertised": "A host opens a listen stream only at a server that advertises reminders or changes of its tools.",
            "mcp:host:meta-is-kept": "The `_meta` of a notification, without the members of MCP itself, is kept beside the record.",
            "mcp:host:errors-are-dropped-events": "An error in a server's reminder is a `dropped` event with the reason `invalid`, since a notification has no reply.",
            "mcp:host:unknown-keys-are-ignored": "Unknown keys of a server's reminder are ignored; what it says of source, turn or origin is kept as a claim.",
            "mcp:host:large-input-is-bounded": "A body over 1 KiB, a notification over 256 KiB and a line over 8 MiB are dropped as `too_large` and do not end the connection.",
            "mcp:host:turned-off": "The configuration can turn the reminders of a server off; its tools stay.",
            "mcp:host:clamps-to-t3": "Hints of a server above the ceilings of T3 are lowered, and the requested values are recorded.",
            "mcp:host:grants": "The configuration of a server raises single ceilings with `grant`, and lifts all with `trust` as `seed`.",
            "mcp:host:keys-of-others-are-safe": "A server's key replaces only reminders of that server.",
            "mcp:host:tag-break-out": "A server's text cannot leave its frame in a request, and is in no message of the transcript.",
            "mcp:host:same-id-is-a-newer-version": "The same id with another text is a newer version, and the same id with the same text adds nothing.",
            "mcp:host:wire-order": "The reminders of a server are accepted in the order of the wire.",
            "mcp:host:excess-holds-the-newest": "If a server exceeds its rate or pending limit, the host holds the newest reminder for each server, session and key, up to 64 keys, and offers it again as soon as there is room.",
            "mcp:host:burst": "A burst that the limits of a session allow is accepted whole, however many keys it has: the host reads no faster than the session accepts.",
            "mcp:host:newer-version-at-once": "A newer version of a reminder that waits in the inbox is accepted whatever the rate, at most five times a second for a key, and always with the newest text in the end.",
            "mcp:host:excess-is-announced": "Beyond 64 held keys, one notice with the count replaces the rest.",
            "mcp:host:only-keyless-excess-is-dropped": "Of the excess reminders, only those without a key are dropped, each with a record.",
            "mcp:host:flood": "A flood of 100,000 reminders leaves a bounded number of them, and records of the others with their count.",
            "mcp:host:given-server-reaches-its-session": "A server given with a session reaches that session.",
            "mcp:host:configured-server-reaches-users-of-its-tools": "A configured server reaches the attached sessions that have its tools.",
            "mcp:host:held-while-none-is-attached": "While no such session is attached, the host holds the newest reminder for each key.",
            "mcp:host:session-keeps-running": "A session that ends while servers are attached disturbs neither them nor other sessions.",
            "mcp:host:connects-again": "A server that dies or cannot be reached is connected again with growing pauses; meanwhile its tools return an error that says why.",
            "mcp:host:close-is-bounded": "A server that does not answer delays neither the end of an attachment nor that of the host.",
            "mcp:host:attach-is-whole": "Attaching a session checks everything before a server is started, leaves out what a later `attach` replaces, and is refused by a host that does not run.",
            "mcp:host:transports": "Reminders arrive once over stdio and Streamable HTTP, on revisions 2025-11-25, with and without a session, and 2026-07-28.",
            "mcp:host:listens-again": "A listen stream or a connection that is lost is made again, with growing pauses.",
            "mcp:host:names": "The name of a server has 1 to 64 letters, digits, `_` or `-` of ASCII.",
            "mcp:host:claude-channel-is-read": "`notifications/claude/channel` is read as a reminder from a server that declares the channel and does not declare reminders.",
        },
    ),
)

TOOLS: Final[Rules] = rules(
    Source.OURS,
    {
        "mcp:tools:in-the-loop": "The tools of attached servers are offered to the loop, beside others.",
        "mcp:tools:names": "A tool is called `mcp__SERVER__TOOL`; a name is made shorter or changed if a model would not accept it or if two would be equal.",
        "mcp:tools:results": "A result is text; images, audio and binary resources are named with their type and size, and a long result is cut and says so.",
        "mcp:tools:idempotent": "Only the configuration makes a tool idempotent, and sets the time limit of its calls.",
        "mcp:tools:list-changes": "A change of a server's tools takes effect at the next run.",
        "mcp:tools:workspace-watcher": "Combining the tools with those of a workspace keeps the watcher of the workspace.",
        "mcp:config:format": "Servers are configured in the `mcpServers` format of other hosts, with variables of the environment and a `reminders` block for each server.",
        "mcp:config:errors": "A mistake in the configuration is refused with the place, the value and what is allowed.",
        "mcp:config:given": "The servers that a client gives with a session are read as ACP writes them, without variables.",
    },
)

END_TO_END: Final[Rules] = rules(
    Source.OURS,
    {
        "mcp:end-to-end:file-changed": "A file that is edited on disk while an agent runs is told in its next model request and in no message.",
        "mcp:end-to-end:git-checkout": "A checkout of 300 files ends as one reminder per top directory with the true number of files.",
        "mcp:end-to-end:newest-wins": "10,000 events on one key end as one pending reminder with the newest text.",
        "mcp:listen:prints": "`sideband mcp listen` prints what a host accepts, holds and drops, as text or JSON lines, and ends with Ctrl-C.",
        "mcp:listen:errors": "`sideband mcp listen` refuses what it cannot connect to in one sentence with the exit code 2.",
    },
)
