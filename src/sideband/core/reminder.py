"""The reminder record and its closed vocabularies."""

from enum import StrEnum
from typing import Any, NewType

import msgspec

ReminderId = NewType("ReminderId", str)

MAX_TTL_TURNS = 1_000_000


class Propagate(StrEnum):
    """How far a reminder travels into sub-agents."""

    ALL = "all"
    SESSION = "session"
    NONE = "none"


class RoleHint(StrEnum):
    """The slot a producer would like; the route decides."""

    SYSTEM = "system"
    DEVELOPER = "developer"
    USER_BLOCK = "user_block"
    EPHEMERAL_CACHE = "ephemeral_cache"


class Source(StrEnum):
    """Which kind of producer a reminder came from."""

    STDLIB_PROVIDER = "stdlib_provider"
    HOOK = "hook"
    BRIDGE = "bridge"
    IN_PIPELINE = "in_pipeline"
    INHERITED = "inherited"


# No cycle leads through a reminder, so that the garbage collector need not visit them, however many there are.
class Reminder(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A typed, short-lived fact nobody typed.

    `ttl_turns=None` lives until cleared or compacted away; `dedupe_key=None` never replaces anything;
    `originating_agent_id=None` means that this session is the first to have it.
    """

    id: ReminderId
    body: str
    tags: tuple[str, ...] = ()
    dedupe_key: str | None = None
    ttl_turns: int | None = None
    preserve_on_compact: bool = False
    propagate: Propagate = Propagate.SESSION
    role_hint: RoleHint = RoleHint.SYSTEM
    source: Source = Source.IN_PIPELINE
    fired_at_turn: int = 0
    originating_agent_id: str | None = None


def as_dict(reminder: Reminder) -> dict[str, Any]:
    """The record with its own field names, as journals and transcripts show it; absent fields are left out."""
    fields = msgspec.structs.asdict(reminder)
    fields["tags"] = list(reminder.tags)
    return {name: value for name, value in fields.items() if value is not None}
