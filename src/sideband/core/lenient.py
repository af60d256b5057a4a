"""The lenient reading of a reminder-like mapping: what cannot be used becomes its default, no value is refused."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TypeGuard, TypeVar

from sideband.core.errors import InvalidOption, shown
from sideband.core.fields import INT64
from sideband.core.reminder import MAX_TTL_TURNS, Propagate, Reminder, ReminderId, RoleHint, Source

_Word = TypeVar("_Word", bound=StrEnum)


def read_leniently(payload: object, *, new_id: Callable[[], str]) -> Reminder:
    """The record in `payload`; one without a body has an empty one, and is dropped when it comes to be rendered."""
    if not isinstance(payload, Mapping):
        raise InvalidOption(f"a reminder must be an object, not {shown(payload)}", value=payload)
    ttl = payload.get("ttl_turns")
    fired_at_turn = payload.get("fired_at_turn")
    return Reminder(
        id=ReminderId(_text(payload.get("id")) or new_id()),
        body=_text(payload.get("body")) or "",
        tags=_tags(payload.get("tags")),
        dedupe_key=(_text(payload.get("dedupe_key")) or "").strip() or None,
        ttl_turns=ttl if _is_int(ttl) and 1 <= ttl <= MAX_TTL_TURNS else None,
        preserve_on_compact=payload.get("preserve_on_compact") is True,
        propagate=_word(payload.get("propagate"), Propagate.SESSION),
        role_hint=_word(payload.get("role_hint"), RoleHint.SYSTEM),
        source=_word(payload.get("source"), Source.IN_PIPELINE),
        fired_at_turn=fired_at_turn if _is_int(fired_at_turn) and -INT64 <= fired_at_turn < INT64 else 0,
        originating_agent_id=_text(payload.get("originating_agent_id")) or None,
    )


def _text(value: object) -> str | None:
    """None for what is no text, and for text with half a character in it, which nothing could write down."""
    if not isinstance(value, str):
        return None
    try:
        value.encode()
    except UnicodeEncodeError:
        return None
    return value


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _tags(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        return ()
    trimmed = ((_text(tag) or "").strip() for tag in value)
    return tuple(dict.fromkeys(tag for tag in trimmed if tag))


def _word(value: object, default: _Word) -> _Word:
    words = type(default)
    return words(value) if isinstance(value, str) and value in words.__members__.values() else default
