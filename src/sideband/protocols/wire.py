"""The record as the wires spell it, and the words and shapes that ACP, A2A and MCP have in common.

Inside, names are snake_case and `source` tells the kinds of producers apart; outside, names are camelCase and
`source` is one of five words that mean something to a peer. Nothing else translates between the two.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final

import msgspec
from msgspec import Meta

from sideband.core.reminder import MAX_TTL_TURNS, Propagate, Reminder, ReminderId, RoleHint, Source
from sideband.core.seams import Mode


class Via(StrEnum):
    """The bridge a reminder came over."""

    ACP = "acp"
    A2A = "a2a"
    HTTP = "http"
    MCP = "mcp"


class SourceWord(StrEnum):
    """Where a reminder came from, in the words a peer is told."""

    HOST = "host"
    PROVIDER = "provider"
    HOOK = "hook"
    BRIDGE = "bridge"
    INHERITED = "inherited"


OUTWARD: Final[Mapping[Source, SourceWord]] = MappingProxyType(
    {
        Source.STDLIB_PROVIDER: SourceWord.PROVIDER,
        Source.HOOK: SourceWord.HOOK,
        Source.BRIDGE: SourceWord.BRIDGE,
        Source.IN_PIPELINE: SourceWord.HOST,
        Source.INHERITED: SourceWord.INHERITED,
    }
)
# Over these two it is the session's own client that speaks; over the others somebody it does not vouch for.
OF_THE_HOST: Final[frozenset[str | None]] = frozenset({Via.ACP, Via.HTTP})


def outward(source: Source, via: str | None = None) -> SourceWord:
    """The word for `source` on every wire; `via` is the bridge it came over, None where that is not known."""
    return SourceWord.HOST if source is Source.BRIDGE and via in OF_THE_HOST else OUTWARD[source]


# What a field means is said once, here; the generated schemas and types repeat it.

Body = Annotated[str, Meta(min_length=1, description="The text that the model gets to read.")]
Tag = Annotated[str, Meta(min_length=1)]
Tags = Annotated[tuple[Tag, ...], Meta(description="Labels to find, clear and audit it by.")]
DedupeKey = Annotated[str, Meta(description="A newer reminder with the same key takes the place of this one.")]
TtlTurns = Annotated[
    int,
    Meta(
        ge=1,
        le=MAX_TTL_TURNS,
        description="The number of turns it is shown in; without it, it stays until cleared or compacted away.",
    ),
]
PreserveOnCompact = Annotated[bool, Meta(description="Whether it outlives a compaction of the transcript.")]
FiredAtTurn = Annotated[int, Meta(description="The number of the first request that could show it.")]
CallerId = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9._:-]{1,128}$",
        description="An id of the caller's choice: sent again with the same content, it adds nothing.",
    ),
]
MintedId = Annotated[str, Meta(description="The reminder's id.")]
Position = Annotated[int, Meta(ge=0, description="Its place in the order of delivery, from 0.")]
DedupedCount = Annotated[int, Meta(ge=0, description="How many waiting reminders it took the place of.")]
RemovedCount = Annotated[int, Meta(ge=0, description="How many reminders were withdrawn.")]
PendingCount = Annotated[int, Meta(ge=0, description="How many rows follow.")]
SelectedId = Annotated[str, Meta(description="Only the reminder with this id.")]
SelectedTag = Annotated[str, Meta(description="Only reminders with this tag.")]
SelectedKey = Annotated[str, Meta(description="Only the reminder with this key.")]
ANY_SELECTOR: Final[Mapping[str, object]] = MappingProxyType(
    {"anyOf": [{"required": ["id"]}, {"required": ["tag"]}, {"required": ["dedupeKey"]}]}
)
Extension = Annotated[dict[str, Any], Meta(description="Fields beyond the protocol; ours are below `sideband`.")]


# The `rename` of a struct whose names stay as they are.
SNAKE: Final[Mapping[str, str]] = MappingProxyType({})

# A struct's `schema` adds to its generated JSON Schema what types cannot say.


class Inbound(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What a peer sends us: for what it leaves out it may also write null."""

    schema: ClassVar[Mapping[str, object]] = MappingProxyType({})


class Outbound(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What we send: a field that would be null is left out."""

    schema: ClassVar[Mapping[str, object]] = MappingProxyType({})


class InjectedReminder(Inbound, frozen=True, kw_only=True):
    """A reminder as a caller hands it in; the session adds the rest of the record."""

    body: Body
    tags: Tags | None = ()
    dedupe_key: DedupeKey | None = None
    ttl_turns: TtlTurns | None = None
    preserve_on_compact: PreserveOnCompact | None = False
    propagate: Propagate | None = Propagate.SESSION
    role_hint: RoleHint | None = RoleHint.SYSTEM
    mode: Mode | None = Mode.FINISH_STEP
    meta: Extension | None = msgspec.field(default=None, name="_meta")


class Clamped(Outbound, frozen=True, kw_only=True):
    """The hints that were lowered to what this caller may have; absent when none was."""

    requested: Annotated[dict[str, Any], Meta(description="What was asked for, by field.")] | None = None
    effective: Annotated[dict[str, Any], Meta(description="What it became, by field.")] | None = None


class ReplyMeta(Outbound, frozen=True, kw_only=True):
    """What a reply says beyond the protocol."""

    sideband: Clamped | None = None


class ReminderCapability(Outbound, frozen=True, kw_only=True):
    """What the asking peer may do with reminders here."""

    inject: Annotated[bool, Meta(description="Reminders are accepted.")]
    emit: Annotated[bool, Meta(description="The life of reminders is reported.")]
    propagate: (
        Annotated[tuple[Propagate, ...], Meta(description="The values that are kept; absent means `session` alone.")]
        | None
    ) = None
    role_hints: (
        Annotated[tuple[RoleHint, ...], Meta(description="The hints that are kept; absent means `system` alone.")]
        | None
    ) = None


class ReminderSpec(Outbound, frozen=True, kw_only=True):
    """The whole record of a reminder as peers see it."""

    id: MintedId
    body: Body
    tags: Tags
    dedupe_key: DedupeKey | None = None
    ttl_turns: TtlTurns | None = None
    preserve_on_compact: PreserveOnCompact
    propagate: Propagate
    role_hint: RoleHint
    source: SourceWord
    fired_at_turn: FiredAtTurn
    originating_agent_id: Annotated[str, Meta(description="The agent that had it first, if not this one.")] | None = (
        None
    )


class ReminderRecord(Outbound, frozen=True, kw_only=True, rename=SNAKE):
    """The whole record of a reminder with its own names and words, as journals and `_meta.harn.reminder` have it."""

    id: ReminderId
    body: str
    tags: tuple[str, ...]
    dedupe_key: str | None = None
    ttl_turns: int | None = None
    preserve_on_compact: bool
    propagate: Propagate
    role_hint: RoleHint
    source: Source
    fired_at_turn: int
    originating_agent_id: str | None = None


_encode: Final = msgspec.json.Encoder().encode


def encode_camel(reminder: Reminder, *, via: str | None = None) -> bytes:
    """The JSON of the record for a peer; what is None is left out."""
    return _encode(_spec(reminder, via))


def to_camel(reminder: Reminder, *, via: str | None = None) -> dict[str, Any]:
    """The same as an object, to be put into a message."""
    return _plain(_spec(reminder, via))


def to_snake(reminder: Reminder) -> dict[str, Any]:
    """The record under its own names; what is None is left out."""
    return _plain(
        ReminderRecord(
            id=reminder.id,
            body=reminder.body,
            tags=reminder.tags,
            dedupe_key=reminder.dedupe_key,
            ttl_turns=reminder.ttl_turns,
            preserve_on_compact=reminder.preserve_on_compact,
            propagate=reminder.propagate,
            role_hint=reminder.role_hint,
            source=reminder.source,
            fired_at_turn=reminder.fired_at_turn,
            originating_agent_id=reminder.originating_agent_id,
        )
    )


def _spec(reminder: Reminder, via: str | None) -> ReminderSpec:
    return ReminderSpec(
        id=reminder.id,
        body=reminder.body,
        tags=reminder.tags,
        dedupe_key=reminder.dedupe_key,
        ttl_turns=reminder.ttl_turns,
        preserve_on_compact=reminder.preserve_on_compact,
        propagate=reminder.propagate,
        role_hint=reminder.role_hint,
        source=outward(reminder.source, via),
        fired_at_turn=reminder.fired_at_turn,
        originating_agent_id=reminder.originating_agent_id,
    )


def _plain(message: ReminderSpec | ReminderRecord) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(message)
    # JSON knows no tuples, and what reads a message before it is written should see what JSON will say.
    plain["tags"] = list(plain["tags"])
    return plain
