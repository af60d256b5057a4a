"""Validation: what each surface does with each kind of fault, and the rules for single fields."""

from typing import Final

from tests.conformance.entry import Rules, Source, divergence, rules

_FAULT = "A value of the wrong type, a blank body, a TTL below 1 or an unknown role hint"

SURFACES: Final[Rules] = (
    *rules(
        Source.GUIDE_SPEC,
        {
            "parse:lenient:unknown-key-is-ignored": "`transcript_reminder_event` ignores keys it does not know.",
            "parse:lenient:bad-value-takes-the-default": "`transcript_reminder_event` replaces a value of the wrong type, a TTL below 1 or an unknown role hint by the default of the field.",
            "parse:lenient:missing-body-is-empty": "`transcript_reminder_event` builds an event with an empty body when no body is given.",
            "parse:lenient:bad-propagate-is-session": "`transcript_reminder_event` reads an unknown `propagate` as `session`.",
            "parse:lenient:body-is-kept": "`transcript_reminder_event` keeps the body that it is given, including surrounding space.",
        },
    ),
    *rules(
        Source.GUIDE_PIPELINE,
        {
            "parse:pipeline:unknown-key-is-001": "An unknown option of a pipeline producer is HARN-RMD-001.",
            "parse:pipeline:bad-value-is-001": f"{_FAULT} given to a pipeline producer is HARN-RMD-001.",
            "parse:pipeline:bad-propagate-is-005": "An unknown `propagate` given to a pipeline producer is HARN-RMD-005.",
            "parse:pipeline:body-is-verbatim": "A pipeline producer keeps a body that is not blank exactly as it was given.",
        },
    ),
    *rules(
        Source.GUIDE_HOOK,
        {
            "parse:hook:unknown-key-is-001": "An unknown key in a hook's reminder is HARN-RMD-001.",
            "parse:hook:bad-value-is-001": f"{_FAULT} in a hook's reminder is HARN-RMD-001.",
            "parse:hook:bad-propagate-is-005": "An unknown `propagate` in a hook's reminder is HARN-RMD-005.",
            "parse:hook:body-is-verbatim": "The body of a hook's reminder is kept exactly as it was returned.",
        },
    ),
    *rules(
        Source.GUIDE_PROVIDER,
        {
            "parse:provider:unknown-key-is-001": "An unknown key in a provider's reminder is HARN-RMD-001.",
            "parse:provider:bad-value-is-006": f"{_FAULT} in a provider's reminder is HARN-RMD-006.",
            "parse:provider:bad-propagate-is-005": "An unknown `propagate` in a provider's reminder is HARN-RMD-005.",
            "parse:provider:body-is-verbatim": "The body of a provider's reminder is kept exactly as it was returned.",
        },
    ),
    *rules(
        Source.GUIDE_BRIDGE,
        {
            "parse:bridge:unknown-key-is-001": "An unknown top-level option of an ACP, A2A or HTTP reminder is HARN-RMD-001.",
            "parse:bridge:content-is-002": "`content` in an ACP, A2A or HTTP reminder is HARN-RMD-002, because a reminder has a body and no content.",
            "parse:bridge:bad-value-is-002": f"{_FAULT} in an ACP, A2A or HTTP reminder is HARN-RMD-002.",
            "parse:bridge:bad-propagate-is-005": "An unknown `propagate` in an ACP, A2A or HTTP reminder is HARN-RMD-005.",
        },
    ),
    *rules(
        Source.OURS,
        {"parse:bridge:body-is-trimmed": "Surrounding space is removed from the body of an ACP, A2A or HTTP reminder."},
    ),
    *rules(
        Source.MCP_NOTIFICATION,
        {
            "parse:mcp:id-is-required": "An MCP reminder without an `id` is invalid.",
            "parse:mcp:bad-value-is-002": f"{_FAULT} in an MCP reminder is HARN-RMD-002.",
            "parse:mcp:bad-propagate-is-005": "An unknown `propagate` in an MCP reminder is HARN-RMD-005.",
        },
    ),
    *rules(
        Source.OURS,
        {
            "parse:mcp:unknown-key-is-counted": "Unknown keys of an MCP reminder are ignored and counted.",
            "parse:mcp:body-is-trimmed": "Surrounding space is removed from the body of an MCP reminder.",
        },
    ),
)

FIELDS: Final[Rules] = rules(
    Source.OURS,
    {
        "parse:tags:trimmed": "Surrounding space is removed from each tag.",
        "parse:tags:blank-is-an-error": "A blank tag is an error on every strict surface.",
        "parse:tags:duplicates-are-removed": "Of equal tags the first is kept, and the order of the others does not change.",
        "parse:dedupe-key:trimmed": "Surrounding space is removed from a dedupe key.",
        "parse:dedupe-key:blank-is-none": "A blank dedupe key is read as no dedupe key.",
        "parse:ttl:bounds": "`ttl_turns` is at least 1 and at most 1,000,000.",
        "parse:ttl:only-integers": '`true`, `1.0` and `"2"` are refused as a TTL on every strict surface.',
        "parse:ttl:whole-doubles-from-a-struct": "A whole number that an A2A Struct carries as a double is read as that TTL, and a fraction is an error.",
        "parse:text:control-characters-are-errors": "A control character other than newline, carriage return and tab is an error in any text field.",
        "parse:text:lone-surrogates-are-errors": "A lone surrogate is an error in any text field.",
        "parse:limits:body": "A body over 8 KiB of UTF-8 is refused as `body_too_large`, at every trust level.",
        "parse:limits:tags": "More than 16 tags are refused.",
        "parse:limits:tag-length": "A tag over 64 bytes of UTF-8 is refused.",
        "parse:limits:dedupe-key-length": "A dedupe key over 256 bytes of UTF-8 is refused.",
        "parse:limits:meta-size": "A `_meta` object over 4 KiB is refused.",
        "parse:limits:meta-depth": "A `_meta` object nested deeper than 8 levels is refused.",
        "parse:in-process:reserved-fields": "Producers in process cannot set `id`, `source`, `fired_at_turn` or `originating_agent_id`.",
        "parse:in-process:mode-is-not-theirs": "`mode` is an unknown option in a hook's or provider's reminder and in the pure transform.",
        "parse:caller-id:pattern": "An id chosen by a caller is 1 to 128 letters, digits, dots, underscores, colons and dashes.",
        "parse:caller-id:acp-id-is-unknown": "A top-level `id` in an ACP reminder is HARN-RMD-001.",
        "parse:caller-id:acp-idempotency-key": "On ACP the caller's id is read from `_meta.sideband.idempotencyKey`.",
        "parse:caller-id:becomes-the-id": "An id that the caller chose becomes the id of the reminder.",
        "parse:caller-id:mcp-ids-get-a-prefix": "The id that an MCP server chose becomes the reminder's id, prefixed with the server's name.",
        "parse:claims:are-kept": "The source, turn and origin that a caller claims are kept as claims outside the record.",
        "parse:errors:name-field-and-value": "The message of a validation error names the wrong field and its value.",
        "parse:errors:carry-their-code": "A validation error carries the diagnostic code of the surface on which it occurred.",
        "parse:errors:change-nothing": "A refused reminder changes neither the transcript nor the inbox nor the live reminders.",
    },
)

CLAIMS: Final[Rules] = divergence(
    Source.A2A_INJECT,
    "parse:claims:are-not-believed",
    "`source`, `firedAtTurn` and origin in a caller's payload never reach the record, which gets them from the connection and the session.",
    reason="The A2A proposal lets the caller fill in `source` and `firedAtTurn`, so that any peer could pose as the host or as a hook; identity comes from the authenticated connection instead.",
)
