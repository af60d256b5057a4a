"""The options of a run: their names and types, and how they are read.

Options are checked before a run begins, so that a mistake does not fail in the middle of it.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, Required, TypeAlias, TypedDict, TypeVar

from sideband.core.errors import InvalidOption, shown, suggestion
from sideband.core.events import Closing
from sideband.core.limits import Bound
from sideband.core.live import LiveIndex
from sideband.core.masking import mask_text
from sideband.core.messages import Message
from sideband.loop.cancel import CancelScope
from sideband.loop.compaction import Custom, KeepLast, RunCompactor, Summarize, TokenCompactor, as_document
from sideband.loop.guard import Problem, name_of
from sideband.loop.hooks import HOOK_SECONDS, Hooks
from sideband.loop.run import LoopStatus, RunOptions
from sideband.loop.turn import OnRestart, RequestSender, make_plan
from sideband.ports import Clock, Compactor, Model, ModelError, OnText, Permission, Tool, Watcher
from sideband.providers import token_pressure
from sideband.providers.context import WorkspaceAnchor
from sideband.providers.registry import Registry
from sideband.providers.settings import find_number, read_options
from sideband.recall.facts import FactBook
from sideband.render.profiles import PlacementWord
from sideband.render.view import RequestView, system_text
from sideband.runtime.facts import facts_from
from sideband.runtime.models import read_model
from sideband.runtime.registries import HOOKS, PROVIDERS
from sideband.runtime.session import Session
from sideband.runtime.system import SystemClock
from sideband.tools.function import ToolLike, read_tools, watcher_of

_Value = TypeVar("_Value")

CompactorChoice: TypeAlias = Compactor | TokenCompactor | Literal["keep_last", "summarize"] | Callable[..., Any] | None

MODEL_SECONDS: Final = 600.0
TOOL_SECONDS: Final = 120.0

SUMMARY_INSTRUCTION: Final = (
    "Summarise this conversation for the agent that goes on with it: facts, decisions, open tasks."
)

_LOG: Final = logging.getLogger("sideband")


class RemindersOption(TypedDict, total=False):
    """Which providers run: `providers` lists ids to add, or to turn off with a leading `-`; `config` is by id."""

    enabled: bool
    providers: Sequence[str]
    config: Mapping[str, Mapping[str, Any]]


class AgentOptions(TypedDict, total=False):
    """The options of `agent_loop`, which describes them; `agent_run`, `spawn`, `Session.chat` and `Runner` share them."""

    model: Required[str | Model]
    system: str
    system_prompt_parts: Sequence[str]
    system_appendix: str
    system_suffix: str
    placement: PlacementWord | None
    base_url: str | None
    api_key: str | None
    tools: Sequence[ToolLike]
    reminders: bool | RemindersOption
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
    queue_after_cancel: Literal["hold", "deliver"]
    closing: Mapping[str, Closing]
    model_seconds: float
    tool_seconds: float
    hook_seconds: float
    clock: Clock | None
    hooks: Hooks
    providers: Registry


_NAMES: Final = AgentOptions.__required_keys__ | AgentOptions.__optional_keys__

# Options that a run takes as they are.
_UNCHANGED: Final = (
    "name",
    "max_turns",
    "max_tokens",
    "daemon",
    "wake_seconds",
    "on_text",
    "on_restart",
    "facts",
    "anchor",
    "model_seconds",
    "tool_seconds",
    "hook_seconds",
)

_SECONDS: Final = Bound(0, whole=False, above=True)
_NUMBERS: Final[Mapping[str, Bound]] = MappingProxyType(
    {
        "max_turns": Bound(0, optional=True),
        "max_tokens": Bound(0, optional=True),
        "wake_seconds": Bound(0, whole=False, above=True, optional=True),
        "model_seconds": _SECONDS,
        "tool_seconds": _SECONDS,
        "hook_seconds": _SECONDS,
    }
)


class _Kind(NamedTuple):
    """The values that an option may have, and how an error describes them."""

    admits: Callable[[object], bool]
    wanted: str


def _is_callable(value: object) -> bool:
    return value is None or callable(value)


def _is_clock(value: object) -> bool:
    return value is None or all(callable(getattr(value, name, None)) for name in ("monotonic", "now_ms", "sleep"))


_KINDS: Final[Mapping[str, _Kind]] = MappingProxyType(
    {
        "name": _Kind(lambda value: isinstance(value, str), "a text"),
        "daemon": _Kind(lambda value: isinstance(value, bool), "True or False"),
        "on_text": _Kind(_is_callable, "a function or None"),
        "on_restart": _Kind(_is_callable, "a function or None"),
        "facts": _Kind(lambda value: isinstance(value, FactBook | None), "a FactBook or None"),
        "anchor": _Kind(lambda value: isinstance(value, WorkspaceAnchor | None), "a WorkspaceAnchor or None"),
        "clock": _Kind(_is_clock, "an object with monotonic(), now_ms() and sleep(), or None"),
        "closing": _Kind(lambda value: isinstance(value, Mapping), "a mapping from statuses to Closing(...)"),
        "hooks": _Kind(lambda value: isinstance(value, Hooks), "Hooks(); register_session_hook and others fill it"),
        "providers": _Kind(
            lambda value: isinstance(value, Registry),
            "a Registry of providers; the option that turns providers on and off is reminders={'providers': [...]}",
        ),
    }
)

# The statuses with which a run makes its session idle. A run that has lost its lease writes nothing.
_CLOSES: Final = frozenset(LoopStatus) - {LoopStatus.LEASE_LOST}


def check_names(options: AgentOptions) -> None:
    """Raise TypeError for an unknown option or a missing model, as Python does for the arguments of a function."""
    for name in options:
        if name not in _NAMES:
            raise TypeError(f"a run has no option {name!r}; {suggestion(name, sorted(_NAMES), kind='options')}")
    if "model" not in options:
        raise TypeError("a run needs a model")


def check_session(session: object, *, field: str = "session") -> Session:
    """Raise `InvalidOption` if this is not a session, for example only the name of one."""
    if isinstance(session, Session):
        return session
    name = shown(session) if isinstance(session, str) else "..."
    raise InvalidOption(
        f"{field} must be a Session, not {shown(session)}; get it with `await store.session({name})`",
        field=field,
        value=session,
    )


def read_run_options(task: str | None, options: AgentOptions) -> RunOptions:
    check_values(options)
    model = read_model(
        options["model"],
        placement=options.get("placement"),
        base_url=options.get("base_url"),
        api_key=options.get("api_key"),
    )
    seen_by_providers = {
        "reminders": options.get("reminders", True),
        "model": options["model"] if isinstance(options["model"], str) else type(model).__name__,
    }
    after_cancel = options.get("queue_after_cancel", "hold")
    if after_cancel not in ("hold", "deliver"):
        raise InvalidOption(
            f"queue_after_cancel must be 'hold' or 'deliver', not {shown(after_cancel)}",
            field="queue_after_cancel",
            value=after_cancel,
        )
    tools = read_tools(options.get("tools", ()))
    hooks, providers = options.get("hooks", HOOKS), options.get("providers", PROVIDERS)
    unchanged: dict[str, Any] = {name: value for name, value in options.items() if name in _UNCHANGED}
    return RunOptions(
        model=model,
        clock=options.get("clock") or SystemClock(),
        hooks=hooks,
        task=task or "",
        system=system_text(
            parts=options.get("system_prompt_parts", ()),
            system=options.get("system", ""),
            appendix=options.get("system_appendix", ""),
            suffix=options.get("system_suffix", ""),
        ),
        tools=tools,
        permission=_with_method(options.get("permission"), "ask", "permission"),
        compactor=read_compactor(options.get("compactor"), model),
        watcher=_read_watcher(options, tools),
        providers=providers.enabled(seen_by_providers),
        provider_options=seen_by_providers,
        recall=facts_from,
        registered=_registered(hooks, providers),
        context_window=_read_window(model, read_options(seen_by_providers).config),
        hold_queue_after_cancel=after_cancel == "hold",
        closing=_read_closing(options.get("closing", {})),
        **unchanged,
    )


def check_values(options: AgentOptions) -> None:
    for name, bound in _NUMBERS.items():
        if name in options:
            bound.check(name, options.get(name))
    for name, (is_right, wanted) in _KINDS.items():
        if name in options and not is_right(value := options.get(name)):
            raise InvalidOption(f"{name} must be {wanted}, not {shown(value)}", field=name, value=value)


def _read_closing(closing: Mapping[str, Closing]) -> Mapping[str, Closing]:
    for status, entry in closing.items():
        if status not in _CLOSES or not isinstance(entry, Closing):
            raise InvalidOption(
                f"closing must map {', '.join(sorted(_CLOSES))} to Closing(...), not {shown(status)} to {shown(entry)}",
                field="closing",
                value=status,
            )
    return closing


def _read_window(model: Model, config: Mapping[str, Mapping[str, Any]]) -> int | None:
    """The context window that is configured for the provider of token pressure, else the model's own."""
    own: object = getattr(model, "context_window", None)
    if own is not None and (not isinstance(own, int) or isinstance(own, bool) or own < 1):
        raise InvalidOption(
            f"the context window of a model must be a number of tokens, not {shown(own)}",
            field="context_window",
            value=own,
        )
    configured = find_number(config.get(token_pressure.ID, {}), token_pressure.WINDOW)
    return own if configured is None else int(configured)


def _read_watcher(options: AgentOptions, tools: Sequence[Tool]) -> Watcher | None:
    """The given watcher; without one, what watches the files that the tools have touched."""
    watcher = options.get("watcher")
    if watcher is None:
        return watcher_of(options.get("tools"), tools)
    return _with_method(watcher, "changes", "watcher")


def read_compactor(compactor: CompactorChoice, model: Model) -> RunCompactor | None:
    """The chosen compactor; a function or an object of the user becomes one."""
    match compactor:
        case None:
            return None
        case "keep_last":
            return KeepLast()
        case "summarize":
            return Summarize(lambda messages: _summary(messages, model))
        case TokenCompactor():
            return compactor
    method = getattr(compactor, "compact", compactor)
    if callable(method):
        return Custom(method)
    raise InvalidOption(
        f"compactor must be 'summarize', 'keep_last', a function or an object, not {shown(compactor)}",
        field="compactor",
        value=compactor,
    )


def _with_method(value: _Value, method: str, field: str) -> _Value:
    if value is not None and not callable(getattr(value, method, None)):
        raise InvalidOption(f"{field} must have a method {method!r}; {shown(value)} has none", field=field, value=value)
    return value


def _registered(hooks: Hooks, providers: Registry) -> tuple[str, ...]:
    """The ids that a later process has to register too, to continue the session in the same way."""
    named = {f"hook {name_of(function)}" for function in hooks.functions()}
    return (*sorted(f"provider {provider_id}" for provider_id in providers.registered), *sorted(named))


async def _summary(messages: Sequence[Message], model: Model) -> str:
    # Without a session: the request shows no reminder and is not a turn.
    document: Message = {"role": "user", "content": as_document(messages)}
    view = RequestView(turn=1, system=SUMMARY_INSTRUCTION, messages=[document], tools=[], live=LiveIndex())
    sender = RequestSender(
        model, SystemClock(), CancelScope(), log_problem, seconds=MODEL_SECONDS, listener_seconds=HOOK_SECONDS
    )
    summary = (await sender.send(make_plan(model, view))).text
    if not summary.strip():
        # A conversation that is too long is better than one that has lost its beginning.
        raise ModelError("it returned an empty one")
    return summary


def log_problem(problem: Problem) -> None:
    _LOG.warning("%s: %s", problem.where, mask_text(problem.message))
