"""Says that a daemon was idle for long."""

from typing import Any, Final

from sideband.core.hookevents import SessionEvent
from sideband.providers.context import Provider, ProviderContext
from sideband.providers.settings import is_number, read_number

ID: Final = "idle_nudge"
DEFAULT_SECONDS: Final = 60
LEAST_SECONDS: Final = 1


def evaluate(ctx: ProviderContext) -> dict[str, Any] | None:
    """Fires when the daemon's wake interval reaches the configured time."""
    seconds = max(LEAST_SECONDS, read_number(ctx.config, "idle_seconds", "seconds", default=DEFAULT_SECONDS))
    waited_ms = ctx.payload.get("wake_interval_ms")
    if not is_number(waited_ms) or waited_ms < seconds * 1000:
        return None
    return {
        # The time that really passed differs from wake to wake; the threshold does not.
        "body": f"This session was idle for at least {seconds:,.10g} seconds, going by its wake interval. What "
        "happened meanwhile is not part of this conversation; check again what the next step relies on.",
        "tags": ["idle"],
        "dedupe_key": ID,
        "ttl_turns": 1,
        "propagate": "none",
    }


PROVIDER: Final = Provider(id=ID, subscribes_to=(SessionEvent.SESSION_IDLE,), evaluate=evaluate, canonical=True)
