"""`workspace_anchor`: tells the model the primary path of the session and the mounted roots."""

from typing import Any, Final

from sideband.core.hookevents import SessionEvent
from sideband.providers.context import Provider, ProviderContext
from sideband.providers.quote import one_line, packed

ID: Final = "workspace_anchor"
PATH_CHARACTERS: Final = 500


def evaluate(ctx: ProviderContext) -> dict[str, Any] | None:
    """Fire when the session has an anchor."""
    if ctx.anchor is None:
        return None
    lines = [f"primary: {one_line(ctx.anchor.primary, most=PATH_CHARACTERS)}"]
    lines += [f"mounted, {root.mode}: {one_line(root.path, most=PATH_CHARACTERS)}" for root in ctx.anchor.roots]
    paths, left_out = packed(lines)
    body = f"The workspace of this session, as its host set it:\n{paths}"
    return {
        "body": f"{body}\n{left_out} more roots did not fit here." if left_out else body,
        "tags": [ID],
        "dedupe_key": ID,
        "ttl_turns": 1,
        "propagate": "session",
    }


PROVIDER: Final = Provider(
    id=ID,
    subscribes_to=(SessionEvent.SESSION_START, SessionEvent.ON_BUDGET_THRESHOLD),
    evaluate=evaluate,
    canonical=True,
    settings={},
)
