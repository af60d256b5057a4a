"""What a producer asked for, checked and normalised, before anything of the session's own is added."""

import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from sideband.core.reminder import Propagate, Reminder, ReminderId, RoleHint, Source
from sideband.core.seams import Mode

NO_CLAIMS: Final[Mapping[str, object]] = MappingProxyType({})


# Nothing that it holds leads back to it: the garbage collector need not look.
class Draft(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A reminder without identity.

    `caller_id` is the id the caller chose and its idempotency key (None: ours is minted); `claims` is what it said
    of source, turn and origin; `meta` its extension envelope; `ignored` the keys of a tolerant surface we do not know.
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
    """The draft of a server that names its own reminders: two servers may well choose the same id."""
    if draft.caller_id is None:
        return draft
    return msgspec.structs.replace(draft, caller_id=f"{server}:{draft.caller_id}")


def mint(
    draft: Draft,
    *,
    reminder_id: ReminderId,
    source: Source,
    fired_at_turn: int = 0,
    originating_agent_id: str | None = None,
) -> Reminder:
    """The record for a draft; everything a producer cannot set comes from the session."""
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
    """Equal for equal requests, whatever order their keys were written in: what an idempotent repeat is compared by.

    The extension envelope is not part of it: a retry may well carry another trace.
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
