"""The hooks and providers of this process, and the functions that register them."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from sideband.loop.hooks import HookFunction, Hooks
from sideband.providers.context import ProviderContext
from sideband.providers.registry import Registry

HOOKS: Final = Hooks()
PROVIDERS: Final = Registry()


def register_tool_hook(pattern: str, *, pre: HookFunction | None = None, post: HookFunction | None = None) -> None:
    """Call `pre` before and `post` after every call of a tool whose name matches (`*` and `?` as in file names)."""
    HOOKS.register_tool_hook(pattern, pre=pre, post=post)


def register_step_hook(*, pre: HookFunction | None = None, post: HookFunction | None = None) -> None:
    """Call `pre` before and `post` after every iteration of a loop."""
    HOOKS.register_step_hook(pre=pre, post=post)


def register_persona_hook(pattern: str, *, pre: HookFunction | None = None, post: HookFunction | None = None) -> None:
    """Call `pre` before and `post` after every run of an agent whose name matches."""
    HOOKS.register_persona_hook(pattern, pre=pre, post=post)


def register_session_hook(event: str, function: HookFunction) -> None:
    """Call the function on every occurrence of the event.

    On a worker event a returned reminder is refused and reported as HARN-RMD-008.
    """
    HOOKS.register_session_hook(event, function)


def clear_hooks() -> None:
    """Remove every hook; mainly for tests."""
    HOOKS.clear()


def register_reminder_provider(
    *,
    id: str,
    subscribes_to: Sequence[str],
    evaluate: Callable[[ProviderContext], Any],
) -> None:
    """Add a provider of reminders, or replace the one with the same id."""
    PROVIDERS.register(id=id, subscribes_to=subscribes_to, evaluate=evaluate)


def clear_reminder_providers() -> None:
    """Remove every registered provider; the canonical ones stay."""
    PROVIDERS.clear()
