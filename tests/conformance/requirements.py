"""The requirements manifest: every behaviour of the system, and what each part that is not built yet keeps waiting.

A behaviour is a line in one of the `areas`; this module joins them. A rule that has no `deferred` part is proven by
a test below this folder that carries `@pytest.mark.requirement("its:own:id")`. To build a waiting rule, move its
group, or its line, out of `waiting(...)` and write the test.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tests.conformance.areas import (
    a2a,
    acp,
    diagnostics,
    door,
    events,
    examples,
    guest,
    hooks,
    inbox,
    library,
    lifecycle,
    mcp,
    options,
    parse,
    promises,
    providers,
    recall,
    record,
    rendering,
    runner,
    trust,
    wire,
)
from tests.conformance.entry import Part, Requirement, Rules, waiting

# Headings of the generated page, in its order.
AREAS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "core": "The pure core",
        "parse": "Validation",
        "inbox": "Inbox, modes and seams",
        "promises": "Promises",
        "door": "The door",
        "trust": "Trust",
        "propagation": "Sub-agents",
        "events": "Events",
        "updates": "Updates",
        "hooks": "Hooks",
        "providers": "Providers",
        "recall": "Recall",
        "render": "Rendering",
        "loop": "The agent loop",
        "runner": "The runner",
        "guest": "The guest",
        "options": "Options",
        "receipts": "Receipts",
        "library": "The library",
        "store": "Stores",
        "diagnostics": "Diagnostics",
        "lint": "Lint",
        "cli": "Command line",
        "wire": "All wires",
        "acp": "ACP",
        "a2a": "A2A",
        "mcp": "MCP",
        "artifacts": "Protocol artifacts",
        "examples": "Examples",
    }
)

BUILT: Final[Rules] = (
    *door.DOOR,
    *record.RECORD,
    *record.WIRE,
    *record.SOURCE_WORDS,
    *record.TRANSCRIPT_EVENT,
    *parse.SURFACES,
    *parse.FIELDS,
    *parse.CLAIMS,
    *lifecycle.INJECT,
    *lifecycle.DEDUPE,
    *lifecycle.TTL,
    *lifecycle.TTL_IN_THE_LOOP,
    *lifecycle.COMPACTION,
    *lifecycle.COMPACTION_IN_THE_LOOP,
    *rendering.ESCAPER,
    *rendering.SUMMARY,
    *rendering.LLM_CALL,
    *rendering.REQUEST,
    *rendering.SHAPE,
    *rendering.PLACEMENT,
    *rendering.KEPT,
    *rendering.LEDGER,
    *rendering.PROFILES,
    *rendering.CONTENT,
    *rendering.BUDGET,
    *inbox.MODES,
    *inbox.SEAMS,
    *inbox.INTERRUPT,
    *inbox.AUDIT_ONLY,
    *inbox.USER_INJECT,
    *inbox.PENDING,
    *inbox.IN_THE_LOOP,
    *runner.RUNNER,
    *runner.ENDINGS,
    *options.OPTIONS,
    *library.TOOLS,
    *library.CHAT,
    *library.JSON,
    *library.TRANSCRIPT,
    *library.TYPES,
    *hooks.EFFECTS,
    *hooks.IN_THE_LOOP,
    *providers.LIMIT,
    *providers.FRAMEWORK,
    *providers.CANONICAL,
    *recall.RECALL,
    *promises.STATES,
    *promises.COMMITS,
    *promises.SESSIONS,
    *promises.TURNS,
    *trust.LEVELS,
    *trust.CEILINGS,
    *trust.CHECKS,
    *trust.GRANTS,
    *trust.NAMESPACES,
    *trust.RATE,
    *events.PROPAGATION,
    *events.RECEIPTS,
    *events.KINDS,
    *events.TOPIC,
    *events.UPDATES,
    *diagnostics.TABLE,
    *diagnostics.LINT,
    *diagnostics.COMMAND_LINE,
    *wire.ERRORS,
    *wire.SHAPES,
    *wire.ARTIFACTS,
    *wire.PEERS,
    *acp.REMIND,
    *acp.METHODS,
    *acp.SESSIONS,
    *acp.TURNS,
    *acp.FRAMES,
    *acp.UPDATES,
    *acp.NEGOTIATION,
    *acp.CLIENT,
    *acp.PROXY,
    *mcp.DEPARTURES,
    *mcp.SERVER,
    *mcp.HOST,
    *mcp.TOOLS,
    *mcp.END_TO_END,
    *examples.WATCHED,
    *examples.PAYLOADS,
    *examples.IN_THE_LOOP,
    *examples.RENDERED,
)

WAITING: Final[Rules] = (
    *waiting(wire.BRIDGES, trust.IN_THE_BRIDGES, deferred=Part.BRIDGES),
    *waiting(a2a.DEPARTURES, a2a.METHODS, a2a.TASKS, deferred=Part.A2A),
    *waiting(guest.GUEST, deferred=Part.GUEST),
    *waiting(diagnostics.WATCH, deferred=Part.WATCHERS),
    *waiting(diagnostics.TIMELINE, deferred=Part.TIMELINE),
)

REQUIREMENTS: Final[Rules] = (*BUILT, *WAITING)

BY_ID: Final[Mapping[str, Requirement]] = MappingProxyType({rule.id: rule for rule in REQUIREMENTS})


def in_area(area: str) -> Rules:
    """The rules of one area, in the order of the manifest."""
    return tuple(rule for rule in REQUIREMENTS if rule.area == area)
