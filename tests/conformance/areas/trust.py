"""Who may do how much: levels, ceilings, grants, namespaces."""

from typing import Final

from tests.conformance.entry import Rules, Source, divergence, rules

LEVELS: Final[Rules] = rules(
    Source.OURS,
    {
        "trust:level:from-the-connection": "The trust level of an item comes from the authenticated connection and never from its payload.",
        "trust:level:t0-operator": "Code in process and watchers in process are T0, the operator.",
        "trust:level:t1-controller": "The session's own client, and any holder of the operator's local token on any transport, is T1, a controller.",
        "trust:level:t2-peer": "An authenticated A2A caller that owns the task is T2, a peer.",
        "trust:level:t3-server": "An MCP server that the user configured and that declares `emit` is T3, a server.",
        "trust:level:t4-content": "Content is T4 and can never inject.",
    },
)

CEILINGS: Final[Rules] = (
    *rules(
        Source.OURS,
        {
            "trust:ceiling:t0-has-none": "Role, mode, propagate, preserve and TTL of the operator are never clamped.",
            "trust:ceiling:t1-has-none": "Role, mode, propagate, preserve and TTL of a controller are never clamped.",
            "trust:ceiling:t1-pending": "A controller's 65th pending item is refused as `too_many_pending`.",
            "trust:ceiling:t1-rate": "A controller may send 20 items a second with a burst of 50.",
            "trust:ceiling:t2-role": "A peer's reminder is user-level data whatever its role hint.",
            "trust:ceiling:t2-mode": "A peer's `interrupt_immediate` is lowered to `finish_step`, and its other modes are kept.",
            "trust:ceiling:t2-propagate": "A peer's reminder does not propagate.",
            "trust:ceiling:t2-preserve": "A peer's reminder is not preserved on compaction.",
            "trust:ceiling:t2-ttl": "A peer's TTL is at most 3, also when it sends none.",
            "trust:ceiling:t2-size": "A peer's body over 1 KiB is refused as `body_too_large`.",
            "trust:ceiling:t2-pending": "A peer's ninth pending item is refused as `too_many_pending`.",
            "trust:ceiling:t2-rate": "A peer may send 6 items a minute with a burst of 4.",
            "trust:ceiling:t3-role": "A server's reminder is user-level data whatever its role hint.",
            "trust:ceiling:t3-mode": "A server's `interrupt_immediate` is lowered to `finish_step`, and its other modes are kept.",
            "trust:ceiling:t3-propagate": "A server's reminder does not propagate.",
            "trust:ceiling:t3-preserve": "A server's reminder is not preserved on compaction.",
            "trust:ceiling:t3-ttl": "A server's TTL is at most 2, also when it sends none.",
            "trust:ceiling:t3-size": "A server's body over 1 KiB is refused as `body_too_large`.",
            "trust:ceiling:t3-pending": "A server's fifth pending item is refused as `too_many_pending`.",
            "trust:ceiling:t3-rate": "A server may send 6 items a minute with a burst of 4.",
            "trust:clamp:hints-are-clamped-not-refused": "Role hint, mode, propagate, preserve and TTL above a ceiling are lowered to it and the item is accepted.",
            "trust:clamp:event-has-both-values": "The event of a clamped item holds the requested and the effective values.",
            "trust:clamp:below-the-ceiling-is-kept": "A value at or below its ceiling takes effect as requested and is not recorded as clamped.",
        },
    ),
    *divergence(
        Source.A2A_INJECT,
        "trust:clamp:examples-of-the-proposals",
        "The example reminders of the A2A and MCP proposals are accepted, and until they are granted more their effective values stay within the ceilings of a peer and a server.",
        reason="The proposals give a peer's or server's text the role, reach and lifetime it asks for, which gives text from a network connection the authority of the system inside another party's agent; the operator decides that for each source.",
    ),
)

CHECKS: Final[Rules] = rules(
    Source.OURS,
    {
        "trust:checks:in-one-order": "A request is checked for ownership of the session, a taken id, the end of the session, rate and capacity, in this order, and the first check that fails names the reason.",
        "trust:checks:repeat-comes-early": "A repeat of an accepted request gets its reply after the end of the session, without a token and when the inbox is full; from a peer that does not own the session it gets none.",
    },
)

GRANTS: Final[Rules] = rules(
    Source.OURS,
    {
        "trust:grant:raises-one-field-of-one-source": "A grant raises the named ceiling of the named source and no other.",
        "trust:grant:only-the-operator": "Only the operator can grant.",
        "trust:grant:is-logged": "Each grant is an event.",
        "trust:grant:trust-seed": 'For a source with `trust="seed"` no hint is clamped, while size, rate and authentication hold as before.',
        "trust:advertised:what-the-caller-would-get": "The capabilities computed for a caller are the ones its own reminders would be granted.",
    },
)

NAMESPACES: Final[Rules] = rules(
    Source.OURS,
    {
        "trust:namespace:own-is-shared": "Operator and controllers share the namespace `own`, so that newest wins across code, hooks, providers and clients.",
        "trust:namespace:one-for-each-principal": "Each peer and each server has a namespace of its own.",
        "trust:namespace:survives-reconnects": "A principal has the same namespace after it reconnects.",
        "trust:namespace:dedupe-never-crosses": "Equal dedupe keys in different namespaces displace nothing.",
        "trust:owner:own-may-end-anything": "The namespace `own` may clear and revoke any item.",
        "trust:owner:others-only-theirs": "A peer or server may clear and revoke only items of its own namespace.",
        "trust:owner:foreign-is-unknown": "To a peer or server, an item of another principal is answered as unknown, as if it did not exist.",
        "trust:inherited:keeps-the-lower-level": "An inherited copy has the lower trust of its origin and of the hop it came over.",
    },
)

RATE: Final[Rules] = rules(
    Source.OURS,
    {
        "trust:rate:excess-is-refused": "An item over its source's rate is refused as `rate_limited` with `retryAfterMs`.",
    },
)

IN_THE_BRIDGES: Final[Rules] = rules(
    Source.OURS,
    {
        "trust:clamp:reply-has-both-values": "The reply to a clamped item holds the requested and the effective values in `_meta.sideband`.",
    },
)
