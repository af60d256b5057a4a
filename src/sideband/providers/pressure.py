"""How full the context window is: the tokens of the current prompt, never a running total of a session."""

from typing import Final, NamedTuple

from sideband.providers.context import ProviderContext
from sideband.providers.options import config_for
from sideband.providers.settings import find_number, is_count, is_number

WINDOW: Final = "context_window"
# What says how long the current prompt is, the surer first.
PROMPT: Final = ("context_tokens", "prompt_tokens")
# Whose settings name the window for all.
_CONFIGURED_BY: Final = "token_pressure"


class Fill(NamedTuple):
    """How many tokens the current prompt has, and how many it may have."""

    used: int
    window: float

    @property
    def ratio(self) -> float:
        return self.used / self.window


def fill(ctx: ProviderContext) -> Fill | None:
    """None where the prompt or the window is not known."""
    used = next((ctx.payload[name] for name in PROMPT if is_count(ctx.payload.get(name))), None)
    window = _window(ctx)
    return None if used is None or window is None or window <= 0 else Fill(used, window)


def _window(ctx: ProviderContext) -> float | None:
    """The first that is known of what the event, the settings, the loop and the profile say."""
    stated = ctx.payload.get(WINDOW)
    if is_number(stated):
        return stated
    configured = find_number(ctx.config, WINDOW)
    if configured is None:
        configured = find_number(config_for(ctx.options, _CONFIGURED_BY), WINDOW)
    known = (
        configured,
        ctx.options.get(WINDOW),
        ctx.options.get("max_context_tokens"),
        (ctx.profile or {}).get(WINDOW),
    )
    return next((window for window in known if is_number(window)), None)
