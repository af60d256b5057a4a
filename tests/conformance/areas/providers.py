"""Reminder providers: the framework and the eight canonical ones."""

from typing import Final

from tests.conformance.entry import Rules, Source, divergence, rules

LIMIT: Final[Rules] = divergence(
    Source.GUIDE_CANONICAL,
    "providers:limit:counts-what-is-not-canonical",
    "HARN-RMD-007 counts the distinct enabled provider ids that are not canonical, and more than eight of them are too many.",
    reason="The guide says eight distinct providers, yet the eight canonical ones are on by default, so that, read literally, the first provider of a user would already be one too many.",
)

FRAMEWORK: Final[Rules] = (
    *rules(
        Source.GUIDE_PROVIDER,
        {
            "providers:register:id-events-evaluate": "`register_reminder_provider` takes an id, the events it subscribes to and the function that evaluates it.",
            "providers:register:clear-leaves-the-canonical": "`clear_reminder_providers` removes registered providers and leaves the canonical ones.",
            "providers:evaluate:context": "`evaluate` gets `event`, `session`, `session_id`, `payload`, `options` and `config`.",
            "providers:evaluate:returns": "`evaluate` may return nothing, a bare spec, `{reminder}` or a list of effects.",
        },
    ),
    *rules(
        Source.GUIDE_EVENTS,
        {
            "providers:evaluated:one-for-each-subscriber": "Each provider subscribed to an event has one `provider_evaluated` for it, whether it fired or not.",
        },
    ),
    *divergence(
        Source.GUIDE_PROVIDER,
        "providers:failure:is-isolated",
        "A provider that fails is reported and the others still run.",
        reason="The guide leaves open what a failing provider does to the others; if the error ended the pass, one broken provider would silence all that come after it.",
    ),
    *rules(
        Source.GUIDE_DIAGNOSTICS,
        {
            "providers:failure:malformed-is-006": "A provider that returns anything but nothing, a valid reminder, `{reminder}` or a list of these is reported as HARN-RMD-006."
        },
    ),
    *rules(
        Source.GUIDE_CANONICAL,
        {
            "providers:options:on-by-default": "`agent_loop` evaluates the canonical providers unless told otherwise.",
            "providers:options:false": "`reminders=False` turns every provider off.",
            "providers:options:enabled-false": '`reminders={"enabled": False}` turns every provider off.',
            "providers:options:minus-removes": "An id with a minus sign in `providers` turns that provider off.",
            "providers:options:config": "`config` hands each provider the settings under its id.",
            "providers:limit:raised-when-the-loop-starts": "Too many providers raise HARN-RMD-007 when the loop starts.",
        },
    ),
    *rules(
        Source.OURS,
        {
            "providers:register:unknown-event-is-001": "Subscribing to an event that does not exist is HARN-RMD-001.",
            "providers:register:worker-resumed": "Providers may subscribe to `worker_resumed`, although hooks on that event may add no reminder.",
            "providers:evaluate:profile-facts-anchor": "`evaluate` also gets the profile, the facts and the workspace anchor.",
            "providers:evaluated:comes-before-its-injections": "The `provider_evaluated` event of a provider comes before the events of the reminders that it injects.",
            "providers:evaluated:event-words": "`provider_evaluated` spells the event in snake_case.",
            "providers:policy:outside-the-tool-policy": "Providers run outside the tool policy of the agent.",
            "providers:options:unknown-id-is-001": "A provider id in `providers` or `config` that no provider has is HARN-RMD-001 when the loop starts, and the error names the nearest known id.",
            "providers:options:unknown-setting-is-001": "A setting that a canonical provider does not have, and an option that `reminders` does not have, is HARN-RMD-001 when the loop starts, and the error names the nearest known one; the settings of registered providers are free.",
            "providers:options:wrong-value-is-001": "A setting of a canonical provider with a value of the wrong type, and `reminders` of a wrong type, is HARN-RMD-001 when the loop starts.",
            "providers:options:plain-id-adds": "A plain id in `providers` adds that provider and removes none.",
            "providers:budget:bytes-per-pass": "The bodies of one evaluation pass take at most 16 KiB, and a reminder over that is reported with `skipped` as `budget`.",
            "providers:text:facts-and-origin": "The built-in texts state facts and where they come from.",
            "providers:text:no-unobserved-cause": "The built-in texts claim no cause that was not observed.",
            "providers:text:no-secrecy": "The built-in texts never ask the model to hide anything.",
        },
    ),
)

CANONICAL: Final[Rules] = (
    *rules(
        Source.GUIDE_CANONICAL,
        {
            "providers:token_pressure:fields": "`token_pressure` listens to `on_budget_threshold` and fires with tag and key `token_pressure`, TTL 2, hint `developer` and propagate `session`.",
            "providers:token_pressure:preserved-when-critical": "`token_pressure` sets `preserve_on_compact` at 95 % and not below.",
            "providers:idle_nudge:fields": "`idle_nudge` listens to `session_idle` and fires with tag `idle`, key `idle_nudge`, TTL 1 and propagate `none`.",
            "providers:idle_nudge:threshold": "`idle_nudge` fires when the wake interval reaches `idle_seconds`, or its alias `seconds`, by default 60.",
            "providers:tool_output_truncated:fields": "`tool_output_truncated` listens to `post_tool_use` and fires with tag `truncation`, key `tool_output_truncated:` and the tool, TTL 1 and propagate `none`.",
            "providers:post_compact_recap:fields": "`post_compact_recap` listens to `post_compact` and fires with tag `recap`, key `post_compact_recap`, TTL 2 and propagate `session`.",
            "providers:post_compact_recap:only-if-archived": "`post_compact_recap` fires only when the compaction archived something.",
            "providers:resume_continuity:fields": "`resume_continuity` listens to `worker_resumed` and fires with tag and key `resume_continuity`, TTL 1, preserved, and propagate `none`.",
            "providers:resume_continuity:reason-and-cause": "`resume_continuity` names the reason of the suspension and the cause of the resumption.",
            "providers:resume_continuity:digest": "`resume_continuity` gives a digest of what came before only when `continue_transcript` is false.",
            "providers:project_facts:fields": "`project_facts` listens to `session_start` and `on_budget_threshold` and fires with tag and key `project_facts`, TTL 1 and propagate `session`.",
            "providers:project_facts:namespace": "`project_facts` reads the namespace `project/facts` unless told otherwise.",
            "providers:project_facts:refresh-ratio": "`project_facts` refreshes under budget pressure only from `refresh_ratio` on, by default 0.70.",
            "providers:project_facts:silent-without-facts": "`project_facts` is silent when no fact passes its filters.",
            "providers:workspace_anchor:fields": "`workspace_anchor` listens to `session_start` and `on_budget_threshold` and fires with tag and key `workspace_anchor`, TTL 1 and propagate `session`.",
            "providers:workspace_anchor:silent-without-one": "`workspace_anchor` is silent when the session has no anchor.",
            "providers:grounded_review:fields": "`grounded_review` listens to `post_tool_use`, `post_step` and `post_agent_turn` and fires with tags `grounded_review` and `code_review`, TTL 2, hint `developer` and propagate `none`.",
            "providers:grounded_review:concrete-evidence": "`grounded_review` fires on runtime errors, verifier signals, parse errors, undefined names, error diagnostics and failure lines of known verification commands, and on nothing else.",
            "providers:grounded_review:warnings-on-demand": "`grounded_review` reports warnings only with `include_warnings`.",
        },
    ),
    *rules(
        Source.OURS,
        {
            "providers:token_pressure:thresholds-are-inclusive": "`token_pressure` fires at 0.70, 0.85 and 0.95 of the window, those values included.",
            "providers:token_pressure:current-prompt": "`token_pressure` measures the current prompt and not the running total.",
            "providers:token_pressure:window": "`token_pressure` takes the window from the payload, else the config, else the options, else the profile.",
            "providers:token_pressure:silent-without-a-window": "`token_pressure` is silent when the window is unknown.",
            "providers:token_pressure:highest-only": "`token_pressure` reports only the highest threshold crossed.",
            "providers:idle_nudge:floor": "`idle_nudge` takes a threshold below one second as one second.",
            "providers:tool_output_truncated:flag": "`tool_output_truncated` finds the flag in the payload or in its `result`.",
            "providers:tool_output_truncated:original-size": "`tool_output_truncated` states the size before truncation.",
            "providers:post_compact_recap:summary-or-count": "`post_compact_recap` gives the summary, or the number of archived messages if there is no summary.",
            "providers:post_compact_recap:ttl-may-be-raised": "`ttl_turns` in the config may raise the TTL of `post_compact_recap` above 2.",
            "providers:resume_continuity:causes": "The causes of a resumption are the parent, a timeout, a trigger with its ids, and the operator; an event without a cause is told as such.",
            "providers:resume_continuity:input": "`resume_continuity` quotes the input given on resumption or says that there was none.",
            "providers:project_facts:from-the-store": "Without `facts`, `project_facts` recalls the facts that the session's store has at that moment, at the start of a session and at each refresh.",
            "providers:project_facts:book-wins": "A `FactBook` that is passed as `facts` is recalled instead of the facts of the store.",
            "providers:project_facts:root": "`root` names the store from which `project_facts` recalls, by its URL or the path of its file; a store that cannot be opened is a reported problem, and a missing file is not created.",
            "providers:project_facts:max-facts": "`project_facts` shows `max_facts` facts, or its alias `limit`, from 0 to 25 and by default 5.",
            "providers:project_facts:min-confidence": "`project_facts` shows facts from `min_confidence` on, by default 0.5.",
            "providers:project_facts:kind-filter": "`project_facts` shows only the kinds in `kind_filter` when that is given.",
            "providers:project_facts:namespace-beats-scope": "In `project_facts` a namespace beats a scope, which is `workspace` or `user`.",
            "providers:project_facts:query": "`project_facts` searches for `relevance_query`, else for the task.",
            "providers:workspace_anchor:body": "`workspace_anchor` states the primary path and each mounted root with its mode.",
            "providers:grounded_review:commands": "`grounded_review` reads the failure lines of cargo, harn lint, pytest, go test, tsc, ruff, mypy, npm test and eslint.",
            "providers:grounded_review:never-from-file-display": "`grounded_review` ignores the output of tools that display files.",
            "providers:grounded_review:passing-lines": "`grounded_review` does not read passing lines and `0 failed` as failures.",
            "providers:grounded_review:ansi": "`grounded_review` removes ANSI sequences from the text before it reads it.",
            "providers:grounded_review:counted-once": "`grounded_review` counts a failure once, however often an event states it: as data and as text, in several lines of one tool, or in the summary of a run.",
            "providers:grounded_review:max-findings": "`grounded_review` lists `max_findings` findings, or its alias `limit`, from 1 to 20 and by default 6.",
            "providers:grounded_review:text-scan": "With `text_scan` off, `grounded_review` scans no text.",
            "providers:grounded_review:key": "The key of `grounded_review` is its name, the event and 16 hex digits of the findings.",
        },
    ),
)
