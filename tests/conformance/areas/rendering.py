"""How live reminders become part of a model request."""

from typing import Final

from tests.conformance.entry import Rules, Source, divergence, rules

ESCAPER: Final[Rules] = rules(
    Source.OURS,
    {
        "render:escape:framing-tags-are-neutralised": "In a tagged shape, a framing tag in the body cannot open or close the frame: in any case, with spaces, attributes or a slash, cut off at the end, with invisible characters, with letters, brackets, hyphens and slashes that look alike, or with blanks or nothing between its words.",
        "render:escape:lines-like-ours-are-quoted": "Outside the `seed` preset, a line that reads like one that the renderer writes itself is quoted in every body that is not the operator's, in any spelling and as any Markdown; a body of the operator keeps it in a tagged shape.",
        "render:escape:leads-are-one-table": "Every line that the renderer adds to a conversation is a framing tag, begins with a lead of one table, or stands inside a frame.",
        "render:escape:a-notice-reads-like-nothing-of-ours": "In the text of a peer or a server a line that reads like one that the renderer writes itself is quoted, on every route and in every placement.",
        "render:escape:results-are-no-reminders": "Outside the `seed` preset, tool output in a request holds no framing tag and no line that reads like one that the renderer writes itself; the transcript keeps the original.",
        "render:escape:names-of-senders": "The name of a sender stands on one line and holds no markup, in the frame of a notice and in the result of a skipped call.",
        "render:escape:the-rest-is-verbatim": "Outside the `seed` preset, a tagged shape keeps every byte of a body that holds no framing tag and, unless it is the operator's, no line like ours.",
    },
)

SUMMARY: Final[Rules] = (
    *divergence(
        Source.GUIDE_COMPACTION,
        "render:summary:has-no-privilege",
        "What a compactor returns as `system` is user text between `<conversation-summary>` tags, on every wire and in every placement.",
        reason="A summary repeats what users, tools and pages have said. In the role of the system or the developer, a sentence that a page got into the summary would have the authority of the operator.",
    ),
    *rules(
        Source.OURS,
        {
            "render:summary:stays-in-its-frame": "A summary holds no framing tag, its own included, and no line that reads like one that the renderer writes itself, in every placement.",
        },
    ),
)

REQUEST: Final[Rules] = (
    *rules(
        Source.GUIDE_RENDERING,
        {
            "render:request:every-request-in-transcript-order": "Every request renders the live reminders in transcript order.",
            "render:request:order-of-the-system-text": "The system text is `system_prompt_parts`, `system`, in `seed` the reminders, `system_appendix`, `system_suffix`, in that order.",
        },
    ),
    *rules(
        Source.GUIDE_EVENTS,
        {
            "render:drop:malformed-is-dropped-once": "A malformed or blank reminder is reported once as `dropped` with the reason `invalid` and pruned.",
            "render:drop:no-slot-is-a-mismatch": "A reminder for which the route has no slot at its trust level is `dropped` with the reason `capability_mismatch`.",
            "render:fired:once-for-each-turn-shown": "A reminder has one `fired` event for each turn that shows it.",
            "render:fired:only-when-the-request-is-committed": "Only a committed request has `fired` events.",
            "render:fired:role-is-that-of-the-carrier": "`rendered_role` is the role of the message that carries the reminder.",
        },
    ),
    *rules(
        Source.OURS,
        {
            "render:request:ids-of-messages-are-not-sent": "A request is the same with and without the ids of messages and replies, on every wire.",
            "render:request:no-user-text-that-nobody-wrote": "All user text of a request was written by a user or a sender, or stands in a frame of ours; after a reply the reminders are the next user turn.",
            "render:request:nothing-to-answer": "A request that would say nothing new is refused as `nothing_to_answer`, and is not sent.",
            "render:request:a-reply-to-nothing": "Where a wire requires a user turn before a reply and the conversation has none, a sentence in a `<conversation-summary>` frame says that the reply answers no message that is shown.",
        },
    ),
)

LLM_CALL: Final[Rules] = (
    *rules(
        Source.GUIDE_CANONICAL,
        {
            "loop:llm_call:renders-the-session": "`llm_call` with a session renders its live reminders.",
            "loop:llm_call:evaluates-no-provider": "`llm_call` evaluates no provider.",
        },
    ),
    *rules(
        Source.OURS,
        {
            "loop:llm_call:is-one-turn": "`llm_call` with a session is one turn with all its commit points.",
            "loop:llm_call:busy-session": "`llm_call` on a session whose loop is running is refused as `session_busy`.",
            "loop:llm_call:drains-reminders": "`llm_call` with a session first makes the queued `interrupt_immediate` and `finish_step` reminders live, which is recorded as a drain at `iteration_start`.",
            "loop:llm_call:leaves-messages-queued": "`llm_call` leaves user messages and `audit_only` items in the inbox.",
            "loop:llm_call:without-a-session": "`llm_call` without a session renders and counts nothing.",
            "loop:llm_call:own-calls-are-bare": "Model calls the runtime makes for itself, such as summaries, render and count nothing.",
        },
    ),
)

SHAPE: Final[Rules] = (
    *rules(
        Source.OURS,
        {
            "render:shape:peers-and-servers-are-notices": "A reminder of a peer or a server is user text in `<peer-notice from>` or `<server-notice from>`, whatever its hint and its placement.",
            "render:shape:first-match-wins": "The shape of a reminder is that of the first row of the shape table whose condition holds.",
        },
    ),
    *rules(
        Source.GUIDE_RENDERING,
        {
            "render:shape:developer-route": "On a route that prefers the developer role a reminder is a developer message of its own that reads `System reminder:` and the body, whatever its hint.",
            "render:shape:anthropic-user-block": "On the Anthropic wire a `user_block` is a text block with the body between `<system-reminder>` tags.",
            "render:shape:anthropic-ephemeral-cache": "On the Anthropic wire an `ephemeral_cache` is the same block, marked for ephemeral caching when the route caches prompts.",
            "render:shape:xml-scaffolding": "On a route that prefers XML scaffolding a reminder is system text between `<system-reminder>` tags.",
            "render:shape:fallback": "On any other route a reminder is system text that reads `System reminder:` and the body.",
            "render:shape:degraded-hint-is-003": "If the route cannot keep a hint, the reminder takes the shape of the next row and HARN-RMD-003 is reported, once for each route and key.",
        },
    ),
)

PLACEMENT: Final[Rules] = (
    *rules(
        Source.GUIDE_RENDERING,
        {
            "render:seed:system-text-is-in-the-system-prompt": "The preset `seed` puts system text into the system prompt.",
            "render:seed:user-blocks-come-first": "The preset `seed` prepends user blocks to the first user content in transcript order.",
            "render:seed:user-blocks-follow-tool-results": "The preset `seed` puts user blocks after tool results that stand in the same message.",
            "render:seed:developer-messages-come-first": "The preset `seed` puts developer messages before the conversation.",
        },
    ),
    *divergence(
        Source.GUIDE_RENDERING,
        "render:seed:last-turn-after-a-reply",
        "Where a request would end with a reply and the provider requires a user turn after it, the preset `seed` puts the reminders into a user turn at the end.",
        reason="The guide's places all lie before the reply. Providers refuse such a request, and the turn that they require may not be invented.",
    ),
    *divergence(
        Source.GUIDE_RENDERING,
        "render:tail:is-the-default",
        "Without another choice reminders are placed by the preset `tail`, at the end of the request.",
        reason="The guide's places lie in the cached prefix, so each change of the set of reminders makes the provider read the whole conversation again; at the end it costs only the reminder.",
    ),
    *rules(
        Source.OURS,
        {
            "render:placement:is-an-option-of-a-model": "Every model class takes `placement` by name, `seed`, `tail` or `native`, over that of its profile; another value is refused with the nearest of these.",
            "loop:model:environment-is-read-for-each-run": "A key or an address that changes in the environment holds from the next run on, also for a model that has sent requests before.",
            "render:tail:shapes-are-the-same": "The preset `tail` keeps the shapes of the shape table.",
            "render:tail:developer-message-is-last": "The preset `tail` puts developer messages last.",
            "render:tail:text-joins-an-unanswered-user-turn": "The preset `tail` puts text at the end of the last message if that is an unanswered user turn.",
            "render:tail:text-follows-tool-results": "The preset `tail` puts text after the tool results if the wire allows text there.",
            "render:tail:text-folds-into-the-last-tool-result": "The preset `tail` appends text to the last tool result if the wire allows no text after it.",
            "render:tail:new-user-turn-only-after-the-assistant": "The preset `tail` opens a user turn only after an assistant turn.",
            "render:native:default-where-prefix-bound-and-clearing": "The preset `native` is the default on profiles that are bound to their prefix and clear by themselves.",
            "render:native:only-verified-slots": "The preset `native` uses a provider's own slot only where the profile marks it as verified to be honoured, and `tail` elsewhere.",
            "render:native:anthropic-clearing-entry": "On Anthropic `native` merges finite reminders into one system entry that clears at the next user message.",
            "render:native:anthropic-beta-header": "On Anthropic `native` sends the beta header exactly when a request holds a clearing entry.",
            "render:native:anthropic-lasting-text": "On Anthropic, `native` puts lasting text and withdrawals in a tagged user block before the clearing entry.",
            "render:native:anthropic-one-system-entry": "On Anthropic `native` never puts two system entries in one slot.",
            "render:native:openai-developer-items": "On OpenAI `native` uses developer items.",
        },
    ),
)

KEPT: Final[Rules] = (
    *rules(
        Source.OURS,
        {
            "render:volatile:one-request-only": "A volatile fragment stands after the last cache breakpoint of one request, and is rendered again in the next request while the reminder lives.",
            "render:kept:placed-once": "A kept fragment is placed once, and is part of the history after the reply to its request is committed.",
            "render:kept:states-its-turns": "A kept fragment of a reminder with a TTL over 1 states the number of turns in its tag.",
            "render:kept:withdrawn-by-one-line": "When a kept reminder expires, is cleared or is replaced, one line that withdraws it is appended.",
            "render:kept:finite-is-volatile": "A finite reminder is volatile and one without a TTL is kept, unless the route demands otherwise.",
            "render:kept:own-messages": "A fragment that is a message of its own is kept, unless the profile allows two assistant turns in a row.",
            "render:kept:prefix-bound-models": "On a model whose thinking is bound to its prefix and that cannot clear entries, every fragment is kept.",
            "render:kept:server-side-history": "If the server keeps the history, every fragment is kept.",
            "render:kept:local-servers": "On local servers with a KV prefix every fragment is kept.",
            "render:kept:foreign-breakpoints": "User text is kept if Sideband cannot place the cache breakpoints.",
            "render:kept:before-volatile": "In one slot kept fragments precede volatile ones, each group in transcript order.",
            "render:kept:ended-is-not-shown": "A kept reminder that has ended does not count as shown, though its bytes may remain.",
        },
    ),
    *divergence(
        Source.ACP_UPDATES,
        "render:fired:carried-without-new-bytes",
        "A `fired` event whose request added no bytes for the reminder has `carried: true`, and clients get no `reminder_emitted` for it.",
        reason="The proposal sends an update for each showing; text that stays in the history is shown again by every request, and clients would display the same reminder in every turn.",
    ),
)

LEDGER: Final[Rules] = rules(
    Source.OURS,
    {
        "render:ledger:row": "The ledger holds each fragment's exact bytes with turn, attempt, anchor and scope.",
        "render:ledger:committed-with-the-request": "The ledger rows of a request are part of the commit before its bytes are sent, and are voided with its turn.",
        "render:ledger:head-on-record": "Model, profile, system text and tools of a route are recorded once, in the commit of its first request.",
        "render:ledger:one-content-form": "Each wire has one form of message content, used with and without reminders.",
        "render:ledger:head-is-constant": "Inside a window the bytes of the head, that is model, tools and system text, do not change.",
        "render:ledger:stable-part-is-a-prefix": "Inside a window the stable part of a request is a byte prefix of the stable part of the next.",
        "render:ledger:stable-part-starts-both-requests": "The stable part of a request is a byte prefix of that request and of the next once their cache markers are removed.",
        "render:ledger:window-ends": "A compaction or a change of model, profile, tools or system text opens a new window.",
        "render:ledger:bound-thinking-stays-in-its-window": "On a model whose thinking is bound to its prefix, thinking from an earlier window is not sent back.",
        "render:ledger:joins-when-answered": "A fragment becomes part of the stable part when the reply to its request is committed.",
        "render:ledger:unanswered-is-planned-again": "The fragments of a request without a reply are planned again.",
        "render:ledger:retry-is-byte-equal": "A retry at an unchanged end of the conversation sends the same bytes.",
        "render:cost:cache-traffic-is-unchanged": "With volatile and clearing fragments only, the tokens read from and written to the cache are those of the same run without reminders.",
        "render:cost:law": "The extra cost of a run is each volatile fragment once per request, plus 1.25 of each kept one and a tenth of it for every later request.",
        "render:cost:law-of-a-prefix": "Where a cache keeps every prefix of a request, a request pays in full for at most its own fragments in addition to what it would pay without reminders; a server that also caches its own reply may compute that reply again if a fragment before it was removed.",
        "render:breakpoint:places": "Breakpoints stand at the end of tools and system text, at the last breakpoint of the previous answered request, and at the last stable block.",
        "render:breakpoint:never-at-volatile-text": "No breakpoint stands on or after volatile or clearing text.",
        "render:breakpoint:at-most-four": "A request never has more than four breakpoints, and the renderer leaves the fourth free.",
        "render:breakpoint:openai-explicit": "From GPT-5.6 on the OpenAI wires set explicit caching, use the session as `prompt_cache_key` and write content as lists of parts.",
        "render:breakpoint:ephemeral-cache-marks-the-stable-part": "Outside `seed` an `ephemeral_cache` reminder asks for caching of the stable part, or of itself when it is kept.",
        "render:breakpoint:seed-marks-the-last-block": "In `seed` only the last `ephemeral_cache` block carries the marker.",
        "render:breakpoint:automatic-caching": "Automatic caching is used only with kept text and while a turn adds fewer than 20 blocks, and a diagnostic says when it is not.",
    },
)

PROFILES: Final[Rules] = rules(
    Source.OURS,
    {
        "render:profile:unknown-model-is-strictest": "An unknown model is treated as a template with one leading system message, no developer role, strict alternation and plain string content.",
        "render:profile:unknown-model-folds-into-the-last-message": "For an unknown model reminders are folded into the last user text or tool result and never into an earlier message.",
        "render:profile:rows-are-data": "Profiles are data with one row for each transport and model prefix, each with a source and a date.",
        "render:profile:user-overrides": "The fields of a user's profile row override every built-in row.",
        "render:profile:templates-without-tools": "For a chat template that drops or refuses tool results, calls and results are written as text, and the model reads every result, every message of the user and every reminder.",
        "render:wire:openai-chat": "Reminders can be rendered on the OpenAI Chat wire.",
        "render:wire:openai-responses": "Reminders can be rendered on the OpenAI Responses wire without state on the server.",
        "render:wire:anthropic": "Reminders can be rendered on the Anthropic Messages wire.",
        "render:wire:gemini": "Reminders can be rendered on the Gemini wire.",
        "render:wire:gemini-calls-are-signed": "From Gemini 3 on, the first call of a reply without a signature gets the placeholder that the provider's guide names.",
        "render:wire:call-ids-are-unique": "If a model gives the same id to calls of several replies, the calls have different ids in a request, and each result has the id of its call; what was sent once does not change, and the journal keeps the ids of the model.",
        "render:wire:generic": "Reminders can be rendered for any server that speaks the OpenAI Chat format.",
        "render:escape:seed-escapes-markup": "The preset `seed` escapes ampersands and angle brackets in tagged shapes.",
        "render:escape:plain-shapes": "Plain shapes neutralise framing tags and a forged `System reminder:` line.",
    },
)

CONTENT: Final[Rules] = rules(
    Source.OURS,
    {
        "render:content:in-the-form-of-the-provider": "An image, a document or audio of the user is in the request in the provider's own form if the profile names its media type.",
        "render:content:left-out-is-said-and-reported": "A block that the model does not take is replaced by a text that says so, and the run reports a problem that names the block, once for each block.",
        "render:content:is-stable": "Requests with images, documents and audio obey the prefix law, whichever store the session was read from.",
        "render:content:resources-are-text": "The text of a resource that a client embeds reaches the model, and cannot imitate a reminder.",
    },
)

BUDGET: Final[Rules] = (
    *rules(
        Source.OURS,
        {
            "render:budget:final-text": "The budget is measured on the text as it will be sent.",
            "render:budget:order": "The budget serves carried reminders first, then higher trust, then older ones.",
            "render:budget:the-first-always-fits": "The first reminder in that order is shown even if it exceeds the budget.",
            "render:budget:three-times-left-out-goes-first": "A reminder that was left out of three requests in a row comes first in the next request.",
            "render:budget:larger-than-the-budget-goes-alone": "A reminder larger than the whole budget is shown alone.",
            "render:budget:left-out-is-reported": "Each reminder the budget leaves out is named in an event.",
        },
    ),
    *divergence(
        Source.GUIDE_RENDERING,
        "render:budget:size",
        "The reminders of a request may take 2,000 tokens or 2 % of the window, whichever is less.",
        reason="The guide shows every live reminder in every request; without a limit, reminders could crowd out the conversation they are about.",
    ),
    *divergence(
        Source.GUIDE_RENDERING,
        "render:budget:too-large",
        "A reminder larger than 10 % of the window is `dropped` with the reason `too_large`.",
        reason="The guide shows every reminder whatever its length; one that takes a tenth of the window would stay in each request for as long as it lives.",
    ),
)
