"""The hooks and providers of this process, and the functions that register them."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from sideband.loop.hooks import HookFunction, Hooks
from sideband.providers.context import ProviderContext
from sideband.providers.registry import Registry

HOOKS: Final = Hooks()
PROVIDERS: Final = Registry()


def register_tool_hook(pattern: str, *, pre: HookFunction | None = None, post: HookFunction | None = None) -> None:
    """Be asked before or after every call of a tool whose name matches (`*` and `?` as in file names)."""
    HOOKS.register_tool_hook(pattern, pre=pre, post=post)


def register_step_hook(*, pre: HookFunction | None = None, post: HookFunction | None = None) -> None:
    """Be asked before or after every iteration of a loop."""
    HOOKS.register_step_hook(pre=pre, post=post)


def register_persona_hook(pattern: str, *, pre: HookFunction | None = None, post: HookFunction | None = None) -> None:
    """Be asked before or after the run of every agent whose name matches."""
    HOOKS.register_persona_hook(pattern, pre=pre, post=post)


def register_session_hook(event: str, function: HookFunction) -> None:
    """Be told whenever this happens in a session; worker events can only be watched."""
    HOOKS.register_session_hook(event, function)


def clear_hooks() -> None:
    """Forget every hook, mainly for tests."""
    HOOKS.clear()


def register_reminder_provider(
    *,
    id: str,
    subscribes_to: Sequence[str],
    evaluate: Callable[[ProviderContext], Any],
) -> None:
    """Add a provider of reminders. One of the same id takes the place of the earlier one."""
    PROVIDERS.register(id=id, subscribes_to=subscribes_to, evaluate=evaluate)


def clear_reminder_providers() -> None:
    """Forget every registered provider; the canonical ones stay."""
    PROVIDERS.clear()
