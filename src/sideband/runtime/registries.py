"""The hooks and providers of this process, and the functions that register them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeAlias

from sideband.core.hookevents import HookEventWord, ProviderEventWord
from sideband.loop.hooks import HookContext, Hooks
from sideband.providers.context import ProviderContext
from sideband.providers.registry import Registry

# What a hook or a provider returns: a `ReminderSpec`, `{"reminder": {…}, "then": …}`, a list of these, or nothing.
EffectResult: TypeAlias = Mapping[str, object] | Sequence[Mapping[str, object]] | None
Hook: TypeAlias = Callable[[HookContext], EffectResult | Awaitable[EffectResult]]
Evaluator: TypeAlias = Callable[[ProviderContext], EffectResult | Awaitable[EffectResult]]

HOOKS: Final = Hooks()
PROVIDERS: Final = Registry()


def register_tool_hook(pattern: str, *, pre: Hook | None = None, post: Hook | None = None) -> None:
    """Call `pre` before and `post` after every call of a tool whose name matches (`*` and `?` as in file names)."""
    HOOKS.register_tool_hook(pattern, pre=pre, post=post)


def register_step_hook(*, pre: Hook | None = None, post: Hook | None = None) -> None:
    """Call `pre` before and `post` after every iteration of a loop."""
    HOOKS.register_step_hook(pre=pre, post=post)


def register_persona_hook(pattern: str, *, pre: Hook | None = None, post: Hook | None = None) -> None:
    """Call `pre` before and `post` after every run of an agent whose name matches."""
    HOOKS.register_persona_hook(pattern, pre=pre, post=post)


def register_session_hook(event: HookEventWord, function: Hook) -> None:
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
    subscribes_to: Sequence[ProviderEventWord],
    evaluate: Evaluator,
) -> None:
    """Add a provider of reminders, or replace the one with the same id."""
    PROVIDERS.register(id=id, subscribes_to=subscribes_to, evaluate=evaluate)


def clear_reminder_providers() -> None:
    """Remove every registered provider; the canonical ones stay."""
    PROVIDERS.clear()
