"""The producer surfaces: which fields each accepts, how strictly it reads them, and which error it raises."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

import msgspec

from sideband.core.errors import InvalidOption, InvalidReminder, MalformedProviderResult, ReminderError

LIFECYCLE: Final = (
    "body",
    "tags",
    "dedupe_key",
    "ttl_turns",
    "preserve_on_compact",
    "propagate",
    "role_hint",
)
# What a caller may say about a reminder's origin; it is recorded and not relied on.
CLAIMS: Final = ("source", "fired_at_turn", "originating_agent_id")


class Surface(StrEnum):
    """A way to send a reminder to a session; the value is its name in error messages."""

    PIPELINE = "inject_reminder"
    SESSION = "Session.remind"
    COMMAND_LINE = "sideband remind"
    HOOK = "hook result"
    PROVIDER = "provider result"
    ACP = "session/inject_reminder"
    ACP_LEGACY = "session/remind"
    A2A = "tasks/inject_reminder"
    A2A_METADATA = "A2A metadata"
    HTTP = "HTTP"
    MCP = "notifications/reminder"


class Case(StrEnum):
    """How a surface spells field names."""

    SNAKE = "snake"
    CAMEL = "camel"


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """How one surface validates a payload.

    `invalid` is the error for a wrong value. `wants_id` makes the caller's id required. `skips_unknown` ignores and
    counts unknown keys instead of refusing them. `integral_floats` reads 2.0 as 2, because some carriers (a protobuf
    Struct) have no integers. `versioned` reads another payload under the same id as a newer version, and the id as the
    dedupe key of a reminder that has none.
    """

    fields: tuple[str, ...] = LIFECYCLE
    case: Case = Case.SNAKE
    invalid: type[ReminderError] = InvalidOption
    trims_body: bool = False
    wants_id: bool = False
    skips_unknown: bool = False
    integral_floats: bool = False
    versioned: bool = False


_BRIDGE: Final = Rules(fields=(*LIFECYCLE, "mode", "_meta"), case=Case.CAMEL, invalid=InvalidReminder, trims_body=True)
_A2A: Final = msgspec.structs.replace(_BRIDGE, fields=(*LIFECYCLE, "mode", "id", *CLAIMS, "_meta"))

RULES: Final[Mapping[Surface, Rules]] = MappingProxyType(
    {
        Surface.PIPELINE: Rules(),
        Surface.SESSION: Rules(fields=(*LIFECYCLE, "mode")),
        # Text from a shell or a file often ends with a newline, so the body is trimmed.
        Surface.COMMAND_LINE: Rules(fields=(*LIFECYCLE, "mode", "id"), trims_body=True),
        Surface.HOOK: Rules(),
        Surface.PROVIDER: Rules(invalid=MalformedProviderResult),
        Surface.ACP: _BRIDGE,
        Surface.ACP_LEGACY: msgspec.structs.replace(_BRIDGE, case=Case.SNAKE),
        Surface.A2A: _A2A,
        Surface.A2A_METADATA: msgspec.structs.replace(_A2A, integral_floats=True),
        Surface.HTTP: _BRIDGE,
        Surface.MCP: Rules(
            fields=(*LIFECYCLE, "id", *CLAIMS),
            case=Case.CAMEL,
            invalid=InvalidReminder,
            trims_body=True,
            wants_id=True,
            skips_unknown=True,
            versioned=True,
        ),
    }
)


def spelled(field: str, case: Case) -> str:
    """The name of a field in the given case; `_meta` is the same in both."""
    if case is Case.SNAKE or field.startswith("_"):
        return field
    head, *rest = field.split("_")
    return head + "".join(part.title() for part in rest)
