"""The options of a run, and how each is read: what could only fail in the middle of it is refused before it begins."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Required, TypeAlias, TypedDict, TypeVar, cast

from sideband.core.errors import InvalidOption, shown
from sideband.loop.budget import Budget
from sideband.loop.compaction import Custom
from sideband.loop.hooks import Hooks
from sideband.loop.run import LoopSettings
from sideband.loop.sending import OnRestart
from sideband.ports import Clock, Compactor, Model, OnText, Permission, Tool, Watcher
from sideband.providers import pressure, token_pressure
from sideband.providers.context import WorkspaceAnchor
from sideband.providers.registry import Registry
from sideband.providers.settings import find_number
from sideband.recall.facts import FactBook
from sideband.render.view import SystemText, system_text

_Value = TypeVar("_Value")

CompactorChoice: TypeAlias = Compactor | str | Callable[..., Any] | None


class AgentOptions(TypedDict, total=False):
    """What an agent is run with.

    `model` is the only one that there has to be. The system text is `system_prompt_parts`, `system`, `system_appendix`
    and `system_suffix`, in this order. `reminders=False` turns all providers off; `{"providers": ["-id"], "config":
    {id: {…}}}` turns some off and configures others.

    `max_turns` (50) and `max_tokens` bound the run; None is no bound. `daemon=True` keeps it going when it is idle,
    until an interrupt or a message wakes it, or `wake_seconds` have passed.

    `permission` is asked before every tool call. `compactor` is `"keep_last"`, `"summarize"`, a function of messages and
    reminders, or an object with `compact`. `on_text` gets the text as it arrives, `on_restart` is told when a broken
    reply is asked for again from the start. `queue_after_cancel` is `"hold"` or `"deliver"`.

    A request has `model_seconds` (600), a tool `tool_seconds` (120) unless it says itself how long it takes, a hook, a
    provider, a watcher or a listener `hook_seconds` (5).
    """

    model: Required[str | Model]
    system: str
    system_prompt_parts: Sequence[str]
    system_appendix: str
    system_suffix: str
    tools: Sequence[Tool]
    reminders: bool | Mapping[str, Any]
    name: str
    max_turns: int | None
    max_tokens: int | None
    daemon: bool
    wake_seconds: float | None
    permission: Permission | None
    compactor: CompactorChoice
    watcher: Watcher | None
    on_text: OnText | None
    on_restart: OnRestart | None
    facts: FactBook | None
    anchor: WorkspaceAnchor | None
    queue_after_cancel: str
    model_seconds: float
    tool_seconds: float
    hook_seconds: float
    clock: Clock | None
    hooks: Hooks
    providers: Registry


NAMES: Final = AgentOptions.__required_keys__ | AgentOptions.__optional_keys__

# What a run is told under the same name.
_SETTINGS: Final = ("name", "daemon", "wake_seconds", "model_seconds", "tool_seconds", "hook_seconds")
_BUDGET: Final = ("max_turns", "max_tokens")


def refuse_unknown(options: AgentOptions) -> None:
    """As Python does with the arguments of a function."""
    for name in options:
        if name not in NAMES:
            raise TypeError(f"a run has no option {name!r}")
    if "model" not in options:
        raise TypeError("a run needs a model")


def read_settings(task: str | None, options: AgentOptions, *, context_window: int | None) -> LoopSettings:
    """How the run behaves."""
    given: Mapping[str, Any] = options
    after_cancel = given.get("queue_after_cancel", "hold")
    if after_cancel not in ("hold", "deliver"):
        raise InvalidOption(
            f"queue_after_cancel must be 'hold' or 'deliver', not {shown(after_cancel)}",
            field="queue_after_cancel",
            value=after_cancel,
        )
    return LoopSettings(
        system=read_system(options),
        task=task or "",
        budget=Budget(**{name: given[name] for name in _BUDGET if name in given}),
        context_window=context_window,
        hold_queue_after_cancel=after_cancel == "hold",
        **{name: given[name] for name in _SETTINGS if name in given},
    )


def read_system(options: AgentOptions) -> SystemText:
    return system_text(
        parts=options.get("system_prompt_parts", ()),
        system=options.get("system", ""),
        appendix=options.get("system_appendix", ""),
        suffix=options.get("system_suffix", ""),
    )


def read_tools(tools: Sequence[Tool]) -> Sequence[Tool]:
    """Tools that a model can tell apart."""
    names: list[object] = [tool.name for tool in tools]
    for name in names:
        if not isinstance(name, str) or not name or names.count(name) > 1:
            raise InvalidOption(
                f"every tool has a name of its own, and {shown(name)} is none", field="tools", value=name
            )
    return tools


def read_window(model: Model, config: Mapping[str, Mapping[str, Any]]) -> int | None:
    """What was configured, for whoever knows better than the model; else what the model says."""
    said: object = model.context_window
    if said is not None and (not isinstance(said, int) or isinstance(said, bool) or said < 1):
        raise InvalidOption(
            f"the context window of a model is a number of tokens, not {shown(said)}",
            field="context_window",
            value=said,
        )
    configured = find_number(config.get(token_pressure.ID, {}), pressure.WINDOW)
    return said if configured is None else int(configured)


def read_permission(permission: Permission | None) -> Permission | None:
    return permission if permission is None else _with(permission, "ask", "permission")


def read_watcher(watcher: Watcher | None, tools: object) -> Watcher | None:
    """The watcher that was given, or the tools, if they watch what they have touched."""
    if watcher is None:
        return tools if isinstance(tools, Watcher) else None
    return _with(watcher, "changes", "watcher")


def read_custom(compactor: object) -> Compactor:
    """An object that compacts, or a function that does."""
    if hasattr(compactor, "compact"):
        compacting: Any = _with(compactor, "compact", "compactor")
        return cast("Compactor", compacting)
    if callable(compactor):
        return Custom(compactor)
    raise InvalidOption(
        f"compactor must be 'summarize', 'keep_last', a function or an object, not {shown(compactor)}",
        field="compactor",
        value=compactor,
    )


def _with(value: _Value, method: str, field: str) -> _Value:
    if not callable(getattr(value, method, None)):
        raise InvalidOption(
            f"{field} must have a method {method!r}, and {shown(value)} has none", field=field, value=value
        )
    return value
