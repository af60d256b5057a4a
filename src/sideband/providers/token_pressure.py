"""`token_pressure`: tells the model how full the context window is, at three levels."""

from typing import Any, Final, NamedTuple

from sideband.core.hookevents import SessionEvent
from sideband.providers.context import Provider, ProviderContext
from sideband.providers.settings import A_COUNT_FROM_ONE, config_for, find_number, is_count, is_number

ID: Final = "token_pressure"
WINDOW: Final = "context_window"
# The payload fields with the length of the current prompt, the more reliable first.
PROMPT: Final = ("context_tokens", "prompt_tokens")


class Fill(NamedTuple):
    """The tokens of the current prompt, never a running total of the session, and the context window."""

    used: int
    window: float

    @property
    def ratio(self) -> float:
        return self.used / self.window


def fill(ctx: ProviderContext) -> Fill | None:
    """How full the context window is; None if the prompt or the window is unknown."""
    used = next((ctx.payload[name] for name in PROMPT if is_count(ctx.payload.get(name))), None)
    window = _window(ctx)
    return None if used is None or window is None or window <= 0 else Fill(used, window)


def _window(ctx: ProviderContext) -> float | None:
    """The window from the event, else from the settings, the loop's options, or the profile."""
    stated = ctx.payload.get(WINDOW)
    if is_number(stated):
        return stated
    configured = find_number(ctx.config, WINDOW)
    if configured is None:
        configured = find_number(config_for(ctx.options, ID), WINDOW)
    known = (
        configured,
        ctx.options.get(WINDOW),
        ctx.options.get("max_context_tokens"),
        (ctx.profile or {}).get(WINDOW),
    )
    return next((window for window in known if is_number(window)), None)


class PressureLevel(NamedTuple):
    """A share of the window and the advice from there on; the reminder of a critical level survives compaction."""

    percent: int
    advice: str
    critical: bool = False


# The highest first. A body states what a past prompt took, and its advice depends on what happened after it: the
# reminder is shown for more than one turn and may live through a compaction.
LEVELS: Final = (
    PressureLevel(
        95,
        "At most 5% was left: unless a compaction has followed, compact, or write a summary of the open work, before "
        "anything else.",
        critical=True,
    ),
    PressureLevel(85, "Finish or summarise the work in progress before starting more."),
    PressureLevel(70, "Prefer narrow reads and short tool output from here on."),
)


def evaluate(ctx: ProviderContext) -> dict[str, Any] | None:
    """Fire with the highest level that is reached."""
    filled = fill(ctx)
    if filled is None:
        return None
    level = next((level for level in LEVELS if filled.ratio >= level.percent / 100), None)
    if level is None:
        return None
    return {
        "body": f"[{level.percent}%] {_prompt(ctx)} took {level.percent}% or more of the context window "
        f"of {filled.window:,.0f} tokens. {level.advice}",
        "tags": [ID],
        "dedupe_key": ID,
        "ttl_turns": 2,
        "preserve_on_compact": level.critical,
        "propagate": "session",
        "role_hint": "developer",
    }


def _prompt(ctx: ProviderContext) -> str:
    turn = ctx.payload.get("turn")
    return f"The prompt of turn {turn}" if is_count(turn) else "A prompt of this conversation"


PROVIDER: Final = Provider(
    id=ID,
    subscribes_to=(SessionEvent.ON_BUDGET_THRESHOLD,),
    evaluate=evaluate,
    canonical=True,
    settings={WINDOW: A_COUNT_FROM_ONE},
)
