"""The reminder record, the draft that a producer sends, and their closed vocabularies."""

import hashlib
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Literal, NewType, Required, Self, TypeAlias, TypedDict, cast

import msgspec

from sideband.core.errors import InvalidOption, shown
from sideband.core.seams import Mode, ModeWord
from sideband.core.serialize import JsonRecord

ReminderId = NewType("ReminderId", str)

MAX_TTL_TURNS = 1_000_000


class Propagate(StrEnum):
    """Which sub-agents get a copy of a reminder: every generation, direct sub-agents, or none."""

    ALL = "all"
    SESSION = "session"
    NONE = "none"


PropagateWord: TypeAlias = Propagate | Literal["all", "session", "none"]


class RoleHint(StrEnum):
    """The place in a request that a producer asks for; the model's route decides."""

    SYSTEM = "system"
    DEVELOPER = "developer"
    USER_BLOCK = "user_block"
    EPHEMERAL_CACHE = "ephemeral_cache"


RoleHintWord: TypeAlias = RoleHint | Literal["system", "developer", "user_block", "ephemeral_cache"]

# A plain `Sequence[str]` would let a type checker accept one string for a list of tags.
Tags: TypeAlias = list[str] | tuple[str, ...]


class Source(StrEnum):
    """The kind of producer that a reminder came from."""

    STDLIB_PROVIDER = "stdlib_provider"
    HOOK = "hook"
    BRIDGE = "bridge"
    IN_PIPELINE = "in_pipeline"
    INHERITED = "inherited"


class Reminder(JsonRecord, msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A typed, short-lived fact that no user typed. It is never a user message.

    A reminder with `ttl_turns=None` lives until it is cleared or a compaction ends it. With `dedupe_key=None` it
    replaces no other reminder. `originating_agent_id=None` means that it was not inherited from another agent.
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

    def as_dict(self) -> dict[str, Any]:
        """The record under its snake_case field names, as transcripts show it; fields that are None are left out."""
        fields: dict[str, Any] = msgspec.structs.asdict(self)
        fields["tags"] = list(self.tags)
        return {name: value for name, value in fields.items() if value is not None}

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The record that `to_json` has written; each field must be as a producer may send it."""
        from sideband.core.parse import read_record  # noqa: PLC0415 - the parser imports this module

        return cast("Self", read_record(super().from_json(text)))

    @classmethod
    def _prepared(cls, given: Mapping[str, Any], where: str) -> Mapping[str, Any]:
        present = {name: value for name, value in given.items() if value is not None}
        ttl = present.get("ttl_turns", 1)
        if isinstance(ttl, int) and not 1 <= ttl <= MAX_TTL_TURNS:
            raise InvalidOption(
                f"{where}ttl_turns must be a whole number from 1 to {MAX_TTL_TURNS:,}, not {shown(ttl)}",
                field=f"{where}ttl_turns",
                value=ttl,
            )
        return present


class ReminderOptions(TypedDict, total=False):
    """The options of a reminder, apart from its body; docs/lifecycle.md describes them."""

    tags: Tags
    dedupe_key: str | None
    ttl_turns: int | None
    preserve_on_compact: bool
    propagate: PropagateWord
    role_hint: RoleHintWord


class ReminderSpec(ReminderOptions):
    """A reminder as a hook or a provider returns it."""

    body: Required[str]


class RemindOptions(ReminderOptions, total=False):
    """The options of `Session.remind`."""

    mode: ModeWord


NO_CLAIMS: Final[Mapping[str, object]] = MappingProxyType({})


class Draft(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A parsed reminder that has no id yet.

    `caller_id` is the id that the caller supplied, which is also its idempotency key; None means that the session
    chooses the id. `claims` holds what the caller said about source, turn and originating agent; the session records
    claims and does not rely on them. `meta` is the `_meta` object of the request. `ignored` lists unknown keys on a
    surface that ignores them.
    """

    body: str
    tags: tuple[str, ...] = ()
    dedupe_key: str | None = None
    ttl_turns: int | None = None
    preserve_on_compact: bool = False
    propagate: Propagate = Propagate.SESSION
    role_hint: RoleHint = RoleHint.SYSTEM
    mode: Mode = Mode.FINISH_STEP
    caller_id: str | None = None
    claims: Mapping[str, object] = NO_CLAIMS
    meta: Mapping[str, object] = NO_CLAIMS
    ignored: tuple[str, ...] = ()


def in_name_of(draft: Draft, server: str) -> Draft:
    """The draft with the server's name as a prefix of its id, because two servers may choose the same id.

    Without a dedupe key, the id that the server chose serves as one, so that a newer version replaces an older one.
    """
    if draft.caller_id is None:
        return draft
    return msgspec.structs.replace(
        draft, caller_id=f"{server}:{draft.caller_id}", dedupe_key=draft.dedupe_key or draft.caller_id
    )


def mint(
    draft: Draft,
    *,
    reminder_id: ReminderId,
    source: Source,
    fired_at_turn: int = 0,
    originating_agent_id: str | None = None,
) -> Reminder:
    """Make the record of a draft. The fields that a producer cannot set are the parameters."""
    return Reminder(
        id=reminder_id,
        body=draft.body,
        tags=draft.tags,
        dedupe_key=draft.dedupe_key,
        ttl_turns=draft.ttl_turns,
        preserve_on_compact=draft.preserve_on_compact,
        propagate=draft.propagate,
        role_hint=draft.role_hint,
        source=source,
        fired_at_turn=fired_at_turn,
        originating_agent_id=originating_agent_id,
    )


def fingerprint(draft: Draft) -> str:
    """A hash that is equal for equal requests, whatever the order of their keys; it recognises idempotent repeats.

    `meta` is not part of it, because a retry may carry another trace id.
    """
    encoded = msgspec.json.encode(
        [
            draft.body,
            draft.tags,
            draft.dedupe_key,
            draft.ttl_turns,
            draft.preserve_on_compact,
            draft.propagate,
            draft.role_hint,
            draft.mode,
            dict(draft.claims),
        ],
        order="deterministic",
    )
    return hashlib.sha256(encoded).hexdigest()
