"""Says how full the context window is, once the prompt has reached one of three shares of it."""

from typing import Any, Final, NamedTuple

from sideband.core.hookevents import SessionEvent
from sideband.providers.context import Provider, ProviderContext
from sideband.providers.pressure import fill

ID: Final = "token_pressure"


class Level(NamedTuple):
    """A share of the window, and what is said from there on. A critical level survives compaction."""

    percent: int
    advice: str
    critical: bool = False


# The highest first. A body names the level and not the count, so that it stays the same from turn to turn.
LEVELS: Final = (
    Level(95, "At most 5% is left: compact, or write a summary of the open work, before anything else.", critical=True),
    Level(85, "Finish or summarise the work in progress before starting more."),
    Level(70, "Prefer narrow reads and short tool output from here on."),
)


def evaluate(ctx: ProviderContext) -> dict[str, Any] | None:
    """The highest level that is reached."""
    filled = fill(ctx)
    if filled is None:
        return None
    level = next((level for level in LEVELS if filled.ratio >= level.percent / 100), None)
    if level is None:
        return None
    return {
        "body": f"[{level.percent}%] The current prompt takes {level.percent}% or more of the context window "
        f"of {filled.window:,.0f} tokens. {level.advice}",
        "tags": [ID],
        "dedupe_key": ID,
        "ttl_turns": 2,
        "preserve_on_compact": level.critical,
        "propagate": "session",
        "role_hint": "developer",
    }


PROVIDER: Final = Provider(id=ID, subscribes_to=(SessionEvent.ON_BUDGET_THRESHOLD,), evaluate=evaluate, canonical=True)
