"""The reminder record as peers see it, and the words and shapes that ACP, A2A and MCP share.

Internally names are snake_case and `source` distinguishes all kinds of producers; on the wire names are camelCase and
`source` is one of five words that are meaningful to a peer. Only this module translates between the two.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final, TypeVar

import msgspec
from msgspec import Meta

from sideband.core.reminder import MAX_TTL_TURNS, Propagate, Reminder, ReminderId, RoleHint, Source
from sideband.core.seams import Mode

_WordT = TypeVar("_WordT", bound=StrEnum)


class Via(StrEnum):
    """The bridge over which a reminder arrived."""

    ACP = "acp"
    A2A = "a2a"
    HTTP = "http"
    MCP = "mcp"


class SourceWord(StrEnum):
    """The origin of a reminder, in the words that peers see."""

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
# On these bridges the sender is the session's own client; on the others the client does not vouch for it.
HOST_BRIDGES: Final[frozenset[str | None]] = frozenset({Via.ACP, Via.HTTP})


def outward(source: Source, via: str | None = None) -> SourceWord:
    """The word for `source` on every wire; `via` is the bridge it arrived over, or None if that is unknown."""
    return SourceWord.HOST if source is Source.BRIDGE and via in HOST_BRIDGES else OUTWARD[source]


# The descriptions of shared fields; the generated schemas and types repeat them.

Body = Annotated[str, Meta(min_length=1, description="The text that the model reads.")]
Tag = Annotated[str, Meta(min_length=1)]
Tags = Annotated[tuple[Tag, ...], Meta(description="Labels for finding, clearing and auditing the reminder.")]
DedupeKey = Annotated[str, Meta(description="A newer reminder with the same key replaces this one.")]
TtlTurns = Annotated[
    int,
    Meta(
        ge=1,
        le=MAX_TTL_TURNS,
        description="The number of turns in which it is shown; if absent, it stays until cleared or compacted away.",
    ),
]
PreserveOnCompact = Annotated[bool, Meta(description="Whether it survives a compaction of the transcript.")]
FiredAtTurn = Annotated[int, Meta(description="The number of the first request that could show it.")]
CallerId = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9._:-]{1,128}$",
        description="An id chosen by the caller; a repeat with the same content has no further effect.",
    ),
]
MintedId = Annotated[str, Meta(description="The reminder's id.")]
Position = Annotated[int, Meta(ge=0, description="Its position in the order of delivery, from 0.")]
DedupedCount = Annotated[int, Meta(ge=0, description="How many waiting reminders it replaced.")]
RemovedCount = Annotated[int, Meta(ge=0, description="How many reminders were withdrawn.")]
PendingCount = Annotated[int, Meta(ge=0, description="How many rows follow.")]
SelectedId = Annotated[str, Meta(description="Only the reminder with this id.")]
SelectedTag = Annotated[str, Meta(description="Only reminders with this tag.")]
SelectedKey = Annotated[str, Meta(description="Only the reminder with this key.")]
ANY_SELECTOR: Final[Mapping[str, object]] = MappingProxyType(
    {"anyOf": [{"required": ["id"]}, {"required": ["tag"]}, {"required": ["dedupeKey"]}]}
)
Extension = Annotated[
    dict[str, Any], Meta(description="Fields beyond the protocol; those of Sideband are under `sideband`.")
]


# The `rename` of a struct whose names stay in snake_case.
SNAKE: Final[Mapping[str, str]] = MappingProxyType({})

# A struct's `schema` adds to its generated JSON Schema what the types cannot express.


class Inbound(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A message from a peer: an optional field may be absent or null."""

    schema: ClassVar[Mapping[str, object]] = MappingProxyType({})


class Outbound(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A message to a peer: a field that would be null is omitted."""

    schema: ClassVar[Mapping[str, object]] = MappingProxyType({})


class InjectedReminder(Inbound, frozen=True, kw_only=True):
    """A reminder as a caller submits it; the session adds the rest of the record."""

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
    """The hints that were reduced to what this caller may use; absent if none was."""

    requested: Annotated[dict[str, Any], Meta(description="The requested values, by field.")] | None = None
    effective: Annotated[dict[str, Any], Meta(description="The effective values, by field.")] | None = None


class ReplyMeta(Outbound, frozen=True, kw_only=True):
    """The fields of a reply beyond the protocol."""

    sideband: Clamped | None = None


class ReminderCapability(Outbound, frozen=True, kw_only=True):
    """What the requesting peer may do with reminders."""

    inject: Annotated[bool, Meta(description="Reminders are accepted.")]
    emit: Annotated[bool, Meta(description="The lifecycle of reminders is reported.")]
    propagate: (
        Annotated[tuple[Propagate, ...], Meta(description="The values that are honoured; absent means only `session`.")]
        | None
    ) = None
    role_hints: (
        Annotated[tuple[RoleHint, ...], Meta(description="The hints that are honoured; absent means only `system`.")]
        | None
    ) = None


def fitted(wanted: _WordT, supported: Sequence[_WordT], rising: Sequence[_WordT]) -> _WordT:
    """The highest value that a peer supports and that is not above `wanted`; if all are above it, the lowest.

    `rising` is the whole vocabulary in rising order.
    """
    ranked = sorted(supported, key=rising.index)
    below = [word for word in ranked if rising.index(word) <= rising.index(wanted)]
    return below[-1] if below else ranked[0]


class ReminderSpec(Outbound, frozen=True, kw_only=True):
    """The complete record of a reminder as peers see it."""

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
    originating_agent_id: Annotated[str, Meta(description="The agent that created it, if not this one.")] | None = None


class ReminderRecord(Outbound, frozen=True, kw_only=True, rename=SNAKE):
    """The complete record of a reminder in its internal form, as in journals and `_meta.harn.reminder`."""

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
    """The record for a peer as JSON; fields that are None are omitted."""
    return _encode(_spec(reminder, via))


def to_camel(reminder: Reminder, *, via: str | None = None) -> dict[str, Any]:
    """The record for a peer as an object, to be put into a message."""
    return _plain(_spec(reminder, via))


def to_snake(reminder: Reminder) -> dict[str, Any]:
    """The record in its internal form; fields that are None are omitted."""
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
    # JSON has no tuples; code that reads the message before it is encoded should see a list as well.
    plain["tags"] = list(plain["tags"])
    return plain
