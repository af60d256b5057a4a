"""The studio: its HTTP API, its event streams, its page, and who may use them."""

from typing import Final

from tests.conformance.entry import Rules, Source, rules

API: Final[Rules] = rules(
    Source.OURS,
    {
        "studio:api:verbs": "Over HTTP a session can be prompted, told something, steered, and what waits can be revoked, replaced and cleared, by a controller whose bridge is `http`.",
        "studio:api:refusals": "A refused HTTP request has the status of its reason, names reason, code and field, and changes nothing.",
        "studio:api:malformed": "A body that is not JSON, repeats a key, is nested too deeply, is too large or has an unknown field, and a query with an unknown or repeated parameter, are refused and name what is wrong.",
        "studio:api:complete": "A request whose client leaves before the body is complete does nothing.",
        "studio:api:reads-end-with-their-client": "A read whose client has left is given up, and does not keep others waiting.",
        "studio:api:idempotency": "A reminder that is sent again over HTTP with the same idempotency key gets the same answer and adds nothing.",
        "studio:api:begin": "A session that is begun over HTTP is durable and listed when it is answered, and a prompt starts it.",
        "studio:api:prompt-needs-idle": "A prompt over HTTP is refused as `session_busy` while a turn runs or another prompt waits.",
        "studio:api:prompt-after-cancel": "A prompt after a cancelled turn is accepted although messages are held, and these are run before it.",
        "studio:api:no-model": "Without a model a prompt is refused as `no_model`, and everything else works.",
        "studio:api:cancel": "Cancelling over HTTP ends the turn in whichever process, and names what stays in the inbox.",
        "studio:api:permission": "A tool that may change something waits for an answer over HTTP, which any server of the store takes, once or for all calls of the tool in this session.",
        "studio:api:reads": "The pending items, the transcript and the timeline of a session that are read over HTTP are those of the session.",
        "studio:api:results": "Tool output that an update shortens can be read in full.",
        "studio:api:events": "The events of a session or of the store are read page by page over HTTP, without bodies.",
        "studio:api:requests": "The request inspector returns each request of a session byte for byte as it was sent, and as another model or placement would build it.",
        "studio:api:facts": "Facts can be listed, recalled, stored and removed over HTTP.",
        "studio:api:openapi": "The OpenAPI document describes every operation, and its schemas admit what the operations answer.",
    },
)

SERVE: Final[Rules] = rules(
    Source.OURS,
    {
        "serve:address:next-port": "If its port is taken, `sideband serve` takes the next free one and says so.",
        "serve:address:loopback-only": "`sideband serve` refuses to listen on an address that other machines can reach.",
        "serve:options:refused": "A model, a folder, a store or a file that cannot be used is refused in one sentence with the exit code 2.",
        "serve:end:signal": "`sideband serve` ends with the exit code 0 at SIGINT, SIGTERM and SIGHUP, and leaves no temporary folder.",
        "serve:model:by-key": "Without `--model`, new sessions run a model of the provider whose key is in the environment.",
        "serve:agents:acp": "`sideband serve` is an ACP agent at `/acp`, whose sessions are those of the page.",
        "serve:agents:a2a": "`sideband serve` is an A2A agent at `/a2a` with its card at the well-known path; callers need the operator's token or one of `--peers`.",
        "serve:rehearsal:ended": "A rehearsal whose server has ended is not continued by the model of another one, and a prompt to it is refused with a reason.",
    },
)

STREAM: Final[Rules] = rules(
    Source.OURS,
    {
        "studio:stream:no-gap": "The event stream gives all updates after a cursor and then the future ones, without gap or repeat, in the same order to every watcher.",
        "studio:stream:last-event-id": "A watcher that reconnects with `Last-Event-ID` continues after that update.",
        "studio:stream:slow-watcher": "A watcher that falls behind the newest updates gets all of them from the journal.",
        "studio:stream:expired": "A watcher whose cursor is older than what the journal keeps is told so.",
        "studio:stream:sessions": "The event stream lists the sessions of the store, and tells when one is begun or changes.",
        "studio:stream:text": "The event stream passes on the text of a reply while it is written, also to a watcher that comes in the middle.",
        "studio:stream:ends-with-server": "When the server ends, its event streams end, and it does not wait for their clients.",
        "studio:stream:topic": "The events of the topic can be followed over HTTP, with their sequence as the id.",
        "studio:stream:other-processes": "A watcher is told of what other processes do with the session.",
    },
)

RUNS: Final[Rules] = rules(
    Source.OURS,
    {
        "studio:runs:left-turn": "A turn of a studio session that was running when its server ended is resumed by the next server of the store.",
        "studio:runs:queued-elsewhere": "A message that another program queues for a session that the studio runs is run, too.",
        "studio:runs:servers-share": "Several servers of one store show the same sessions, and each runs the prompts that it has accepted.",
    },
)

REHEARSAL: Final[Rules] = rules(
    Source.OURS,
    {
        "rehearsal:story:ends": "A rehearsal ends by itself with the bug of its workspace fixed and with its session open.",
        "rehearsal:story:every-state": "Every state of the lifecycle of a reminder occurs in a rehearsal.",
        "rehearsal:story:dedupe": "In a rehearsal one reminder replaces one that waits, and one replaces a live one.",
        "rehearsal:story:compaction": "In a rehearsal a compaction keeps a preserved reminder and ends one that is not preserved.",
        "rehearsal:story:interrupt": "In a rehearsal an interrupt of the editor skips a batch of tool calls and is shown in the next request.",
        "rehearsal:story:messages": "In a rehearsal a steer reaches the running turn and a queued message waits for its end.",
        "rehearsal:story:sub-agent": "In a rehearsal a sub-agent inherits the reminders that propagate, and ends.",
        "rehearsal:producers:watcher": "In a rehearsal the file watcher tells of changes by the user and not of those by the agent.",
        "rehearsal:producers:providers": "In a rehearsal the canonical providers fire for a failed test run, truncated output, a full context and a compaction.",
        "rehearsal:producers:clamped": "In a rehearsal an MCP server and an A2A peer speak over their own transports and get no more than their trust level allows.",
        "rehearsal:model:real-requests": "The scripted model of a rehearsal builds the requests of a real profile and writes its replies piece by piece.",
        "rehearsal:end:nothing-left": "When a rehearsal is closed, also in the middle, its processes and folders are gone.",
        "rehearsal:end:again": "A rehearsal can be started again, and the first one is released.",
        "rehearsal:person:joins": "A person may interrupt, steer, cancel or close a rehearsal, and prompts after its end are answered.",
        "rehearsal:extras:left-out": "A rehearsal without an extra plays without the producers that need it, and names them.",
    },
)

# Proven in a real browser, by tests/studio.
PAGE: Final[Rules] = rules(
    Source.OURS,
    {
        "studio:page:login": "A browser is logged in by a link that works once; the code leaves the address, no secret is in reach of scripts, and without the cookie the page says what to do.",
        "studio:page:own-origin": "The page talks to its own origin only and cannot be shown in a frame of another site.",
        "studio:page:rehearsal": "The page shows a rehearsal from its start to its end, with every state of the lifecycle by its word and at its place.",
        "studio:page:marks-agree": "Lanes, margin notes and cards of the page agree on the turns that showed a reminder.",
        "studio:page:requested": "The page shows beside each other what a sender asked for and what it got.",
        "studio:page:inspector": "The request inspector of the page shows the exact request of a turn.",
        "studio:page:told": "A prompt, a reminder, a steer, an interrupt and a queued message that are sent from the page are in the model's request when they should be.",
        "studio:page:edited": "What is edited on the page before its delivery is told as it was edited, and what is revoked or cleared is not told.",
        "studio:page:cancel": "Cancelling a turn on the page leaves the inbox alone.",
        "studio:page:refused": "A refusal on the page keeps the text and names the code and the field.",
        "studio:page:lost-answer": "What was sent from the page and got no answer is found out and never sent twice.",
        "studio:page:permission": "A tool that asks for permission is allowed or denied on the page, and what waits is held meanwhile.",
        "studio:page:begin": "A session is begun on the page.",
        "studio:page:hostile": "Hostile text is shown as text in every pane, and violates no rule of the content security policy.",
        "studio:page:keyboard": "Everything on the page can be reached and done with the keyboard, and each stop shows its focus.",
        "studio:page:place": "The page keeps its scroll position while another view is open, and when the focused element goes, the focus moves to a neighbour or to the composer.",
        "studio:page:accessible": "The page has no serious accessibility fault in any view, light or dark.",
        "studio:page:layout": "The page fits widths from 380 to 2,000 pixels and a zoom of 200 percent.",
        "studio:page:responsive": "A session with 5,000 events and 200 reminders is loaded and followed without a long task and without moving what has not changed.",
        "studio:page:restart": "The page continues after a restart of its server without gap or repeat.",
        "studio:page:same-order": "Two browsers see the same events in the same order, also on two servers of one PostgreSQL store.",
        "studio:api:described": "Generated requests are answered as the OpenAPI document says.",
    },
)

SAFETY: Final[Rules] = rules(
    Source.OURS,
    {
        "studio:safety:host": "A request for another host than the server's own, without a host or with two is refused with 421.",
        "studio:safety:origin": "A request from a page of another origin or another site is refused with 403, and no other origin may read an answer.",
        "studio:safety:login": "Everything under `/api` needs the operator's token or the cookie, and what needs neither holds no data.",
        "studio:safety:link": "The code of a link logs in once, and sets a cookie that scripts and other sites cannot use.",
        "studio:safety:json-only": "A body that is not announced as JSON is refused with 415, and one that is too large with 413 before it is read.",
        "studio:safety:malformed": "A body that cannot be understood changes nothing.",
        "studio:safety:addresses": "An address that does not exist is not found, and no method or header other than the documented ones changes anything.",
        "studio:safety:headers": "Every answer has the headers that protect the page, and refusals are JSON without internals.",
        "studio:safety:websocket": "A WebSocket connection is checked for its host, its origin and its token or cookie before it is accepted.",
        "studio:safety:no-leak": "Neither the token nor a code is logged, and the file with the token can be read by its owner only.",
    },
)
