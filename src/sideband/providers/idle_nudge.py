"""`idle_nudge`: tells the model that the session was idle for a long time."""

from typing import Any, Final

from sideband.core.hookevents import SessionEvent
from sideband.providers.context import Provider, ProviderContext
from sideband.providers.settings import A_NUMBER, is_number, read_number

ID: Final = "idle_nudge"
DEFAULT_SECONDS: Final = 60
LEAST_SECONDS: Final = 1


def evaluate(ctx: ProviderContext) -> dict[str, Any] | None:
    """Fire when the daemon's wake interval reaches the configured time."""
    seconds = max(LEAST_SECONDS, read_number(ctx.config, "idle_seconds", "seconds", default=DEFAULT_SECONDS))
    waited_ms = ctx.payload.get("wake_interval_ms")
    if not is_number(waited_ms) or waited_ms < seconds * 1000:
        return None
    return {
        # The body names the threshold, not the time that passed, so that it stays the same from wake to wake.
        "body": f"This session was idle for at least {seconds:,.10g} seconds, going by its wake interval. What "
        "happened meanwhile is not part of this conversation; check again what the next step relies on.",
        "tags": ["idle"],
        "dedupe_key": ID,
        "ttl_turns": 1,
        "propagate": "none",
    }


PROVIDER: Final = Provider(
    id=ID,
    subscribes_to=(SessionEvent.SESSION_IDLE,),
    evaluate=evaluate,
    canonical=True,
    settings={"idle_seconds": A_NUMBER, "seconds": A_NUMBER},
)
