"""`post_compact_recap`: tells the model what a compaction removed, and the summary that replaces it."""

from typing import Any, Final

from sideband.core.hookevents import SessionEvent
from sideband.core.reminder import MAX_TTL_TURNS
from sideband.providers.context import Provider, ProviderContext
from sideband.providers.quote import quoted
from sideband.providers.settings import A_WHOLE_NUMBER, is_count, read_number

ID: Final = "post_compact_recap"
TTL_TURNS: Final = 2


def evaluate(ctx: ProviderContext) -> dict[str, Any] | None:
    """Fire when messages were archived."""
    archived = ctx.payload.get("archived_messages")
    if not is_count(archived) or archived == 0:
        return None
    summary = ctx.payload.get("summary")
    ttl_turns = int(read_number(ctx.config, "ttl_turns", default=TTL_TURNS))
    return {
        "body": _body(archived, summary if isinstance(summary, str) else ""),
        "tags": ["recap"],
        "dedupe_key": ID,
        "ttl_turns": min(max(ttl_turns, TTL_TURNS), MAX_TTL_TURNS),
        "propagate": "session",
    }


def _body(archived: int, summary: str) -> str:
    messages, their, them = ("1 message", "its", "it") if archived == 1 else (f"{archived:,} messages", "their", "them")
    happened = f"A compaction took {messages} out of this conversation; {their} exact words are no longer part of it."
    if not summary.strip():
        return f"{happened} The compaction gave no summary of {them}."
    return f"{happened} The summary that the compaction made of {them}:\n{quoted(summary)}"


PROVIDER: Final = Provider(
    id=ID,
    subscribes_to=(SessionEvent.POST_COMPACT,),
    evaluate=evaluate,
    canonical=True,
    settings={"ttl_turns": A_WHOLE_NUMBER},
)
