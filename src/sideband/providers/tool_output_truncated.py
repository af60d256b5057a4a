"""`tool_output_truncated`: tells the model that it saw only a part of a tool's output."""

from collections.abc import Mapping
from typing import Any, Final

from sideband.core.hookevents import SessionEvent
from sideband.providers.context import Provider, ProviderContext
from sideband.providers.evidence import fields_of, tool_name
from sideband.providers.quote import named, one_line
from sideband.providers.settings import is_count

ID: Final = "tool_output_truncated"
# A dedupe key has at most 256 bytes, and a character up to four.
KEY_CHARACTERS: Final = 56


def evaluate(ctx: ProviderContext) -> dict[str, Any] | None:
    """Fire when the event, or the result in it, is marked as truncated or compacted."""
    told = (ctx.payload, fields_of(ctx.payload.get("result")))
    if not (_is_marked(told[0]) or _is_marked(told[1])):
        return None
    tool = tool_name(ctx.payload) or "tool"
    return {
        "body": f"The output of {named(tool)} was shortened before it reached this conversation. {_size(told)}",
        "tags": ["truncation"],
        "dedupe_key": f"{ID}:{one_line(tool, most=KEY_CHARACTERS)}",
        "ttl_turns": 1,
        "propagate": "none",
    }


def _is_marked(fields: Mapping[str, object]) -> bool:
    """Whether either flag is true; a false one does not override the other."""
    return fields.get("truncated") is True or fields.get("compacted") is True


def _size(told: tuple[Mapping[str, object], ...]) -> str:
    in_bytes = _count("original_bytes", told)
    if in_bytes is not None:
        size = f"Its original size was {in_bytes:,} bytes."
    else:
        reported = _count("original_size", told)
        size = "Its original size is not known." if reported is None else f"Its original size was {reported:,}."
    dropped = _count("dropped_bytes", told)
    return size if dropped is None else f"{size} {dropped:,} bytes were left out."


def _count(name: str, told: tuple[Mapping[str, object], ...]) -> int | None:
    values = (fields.get(name) for fields in told)
    return next((value for value in values if is_count(value)), None)


PROVIDER: Final = Provider(
    id=ID,
    subscribes_to=(SessionEvent.POST_TOOL_USE,),
    evaluate=evaluate,
    canonical=True,
    settings={},
)
