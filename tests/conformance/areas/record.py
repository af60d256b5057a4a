"""The reminder record, its spelling on each wire, and its transcript event."""

from typing import Final

from tests.conformance.entry import Rules, Source, divergence, rules

RECORD: Final[Rules] = (
    *rules(
        Source.GUIDE_SPEC,
        {
            "core:record:eleven-fields": "A reminder has the fields `id`, `body`, `tags`, `dedupe_key`, `ttl_turns`, `preserve_on_compact`, `propagate`, `role_hint`, `source`, `fired_at_turn`, `originating_agent_id`, and no others.",
            "core:record:body-is-required": "A reminder cannot be built without a body.",
            "core:record:tags-default-to-none": "A reminder given no tags has an empty list of them.",
            "core:record:dedupe-key-defaults-to-none": "A reminder given no dedupe key has none.",
            "core:record:ttl-defaults-to-none": "A reminder given no TTL has none.",
            "core:record:preserve-defaults-to-false": "A reminder is not preserved on compaction unless that is asked for.",
            "core:record:propagate-defaults-to-session": "A reminder propagates as `session` unless something else is asked for.",
            "core:record:role-hint-defaults-to-system": "A reminder hints at the role `system` unless something else is asked for.",
            "core:record:origin-defaults-to-none": "A reminder that was not inherited has no `originating_agent_id`.",
            "core:record:propagate-words": "The words of `propagate` are `all`, `session` and `none`.",
            "core:record:role-hint-words": "The words of `role_hint` are `system`, `developer`, `user_block` and `ephemeral_cache`.",
            "core:record:source-words": "The words of `source` are `stdlib_provider`, `hook`, `bridge`, `in_pipeline` and `inherited`.",
            "core:record:source-names-the-producer": "The source of a reminder is set by the surface it came through: pipeline, hook, provider or bridge.",
            "core:record:pure-transform-stamps-turn-zero": "A reminder injected by the pure transform has `fired_at_turn` 0.",
        },
    ),
    *rules(
        Source.OURS,
        {
            "core:record:companions-stand-beside-it": "Provider id, trust level, principal, claims, requested values and the first and last turn are kept outside the record.",
            "core:id:uuid7": "A generated reminder id is a version 7 UUID.",
            "core:id:monotonic-in-a-process": "Each id generated in a process sorts after all ids generated before it, also within one millisecond and when the clock steps back.",
            "core:id:bare-on-every-wire": "A reminder id is written on every wire exactly as it is, without a prefix added for that wire.",
        },
    ),
    *divergence(
        Source.GUIDE_SPEC,
        "core:record:fired-at-turn-is-the-first-possible-request",
        "In a live session `fired_at_turn` is the number of the first request that can show the reminder.",
        reason="The guide calls it the turn in which the reminder was created, which does not say whether the request of that turn could still show it.",
    ),
)

WIRE: Final[Rules] = (
    *rules(
        Source.A2A_REFERENCE,
        {
            "core:wire:camel-case-outside": "`session/inject_reminder`, A2A, MCP and HTTP spell the fields in camelCase.",
            "core:wire:round-trip": "A record that is written in camelCase and read back has the same fields, with its source in the word for use outside.",
        },
    ),
    *rules(
        Source.GUIDE_BRIDGE,
        {"core:wire:snake-case-inside": "Python, the journal and `session/remind` spell the fields in snake_case."},
    ),
    *rules(
        Source.OURS,
        {
            "core:wire:absent-fields-are-left-out": "An optional field without a value is omitted, not written as null.",
            "core:wire:null-reads-as-absent": "A field that arrives as null is treated as if it had not been sent.",
            "core:wire:duplicate-keys-are-refused": "A JSON object that holds the same key twice, at any depth, is refused.",
            "core:wire:deduped-count-is-always-sent": "A reply to an accepted reminder carries `dedupedCount`, even if it is 0.",
            "core:wire:provider-id": "The provider id or hook name of a reminder is spelled `providerId` on camelCase wires.",
        },
    ),
)

SOURCE_WORDS: Final[Rules] = (
    *rules(
        Source.ACP_UPDATES,
        {
            "wire:source:provider": "A reminder of source `stdlib_provider` is called `provider` outside.",
            "wire:source:hook": "A reminder of source `hook` is called `hook` outside.",
            "wire:source:inherited": "A reminder of source `inherited` is called `inherited` outside.",
            "wire:source:bridge-from-a-client-is-host": "A reminder of source `bridge` that came over ACP or HTTP is called `host` outside.",
        },
    ),
    *rules(
        Source.OURS,
        {
            "wire:source:bridge-from-a-peer-is-bridge": "A reminder of source `bridge` that came over A2A or MCP is called `bridge` outside.",
            "wire:source:in-pipeline-is-host": "A reminder of source `in_pipeline` is called `host` outside.",
        },
    ),
)

TRANSCRIPT_EVENT: Final[Rules] = (
    *rules(
        Source.GUIDE_SPEC,
        {
            "core:event:kind": "A reminder stands in the transcript as an event of kind `system_reminder`.",
            "core:event:role-is-the-hint": "The event's `role` is the reminder's role hint.",
            "core:event:public": "The event's visibility is `public`, and so is that of its block.",
            "core:event:text-is-the-body": "The event's `text` is the reminder's body.",
            "core:event:one-text-block": "The event has exactly one block, of type `text`, that holds the body.",
            "core:event:metadata-mirrors-the-reminder": "The event's `reminder` and `metadata` are equal and hold the record's fields.",
        },
    ),
    *rules(
        Source.OURS,
        {
            "core:event:shows-the-remaining-ttl": "`ttl_turns` in the event's `reminder` and `metadata` is the remaining TTL, not the original one.",
        },
    ),
    *divergence(
        Source.GUIDE_SPEC,
        "core:event:own-id",
        "The event has an id of its own, different from the id of the reminder that it carries.",
        reason="The guide gives the event the id of its reminder; a reminder is recorded by several events in its life, and a list of events needs ids that are unique.",
    ),
)
