"""Hooks: code that is told what happens in a loop, may answer with reminders, and around tools with an action."""

import asyncio
import contextlib
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from sideband.core.hookevents import SessionEvent, WorkerEvent, read_hook_event
from sideband.loop.problems import describe
from sideband.loop.scope import OutOfTime, Scope

HOOK_SECONDS: Final = 5.0

HookFunction: TypeAlias = Callable[[Any], Any]

# Between which points of the loop an event is told. What a hook adds is live at once and shown by the next request;
# what is added after the closing drain waits for the next prompt.
WHEN: Final[Mapping[SessionEvent, str]] = MappingProxyType(
    {
        SessionEvent.SESSION_START: "before the first iteration_start of a session",
        SessionEvent.USER_PROMPT_SUBMIT: "after a prompt is delivered, before iteration_start",
        SessionEvent.FILE_EDITED: "before iteration_start, once per file that somebody else changed",
        SessionEvent.PRE_COMPACT: "before a compaction, which it may block; before iteration_start",
        SessionEvent.POST_COMPACT: "after a compaction, before iteration_start",
        SessionEvent.POST_TURN: "after the reply is committed, before pre_tool_dispatch",
        SessionEvent.ON_BUDGET_THRESHOLD: "after post_turn, when a share of a budget is first reached",
        SessionEvent.PERMISSION_ASKED: "between pre_tool_dispatch and the call that needs a permission",
        SessionEvent.PERMISSION_REPLIED: "after the answer, before the call runs or is denied",
        SessionEvent.POST_TOOL_USE: "after each result is recorded, before post_tool_dispatch",
        SessionEvent.POST_STEP: "after post_tool_dispatch, before iteration_end",
        SessionEvent.POST_AGENT_TURN: "after a reply without tool calls, before the closing iteration_end",
        SessionEvent.PRE_FINISH: "after post_agent_turn, before the closing iteration_end",
        SessionEvent.POST_FINISH: "after loop_exit",
        SessionEvent.SESSION_IDLE: "between daemon_idle_pre and daemon_idle_post",
        SessionEvent.SESSION_ERROR: "when a model fails for good, before loop_exit",
        SessionEvent.SESSION_END: "when the session is closed",
    }
)


class HookContext(dict[str, Any]):
    """What a hook is told; its entries can be read as attributes too, and one that is not there reads as None."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the entry is
        if name.startswith("__"):
            raise AttributeError(name)
        return self.get(name)


class ToolHook(NamedTuple):
    pattern: str
    pre: HookFunction | None
    post: HookFunction | None


class AroundHook(NamedTuple):
    """A hook around an iteration, or around the run of an agent whose name matches."""

    pattern: str
    pre: HookFunction | None
    post: HookFunction | None


class Hooks:
    """The hooks of a process, in the order in which they were registered."""

    def __init__(self) -> None:
        self.tool: list[ToolHook] = []
        self.step: list[AroundHook] = []
        self.persona: list[AroundHook] = []
        self.session: dict[SessionEvent | WorkerEvent, list[HookFunction]] = {}

    def register_tool_hook(
        self, pattern: str, *, pre: HookFunction | None = None, post: HookFunction | None = None
    ) -> None:
        """Around every call of a tool whose name matches the pattern (`*` and `?` as in file names)."""
        self.tool.append(ToolHook(pattern, pre, post))

    def register_step_hook(self, *, pre: HookFunction | None = None, post: HookFunction | None = None) -> None:
        """Around one iteration of a loop."""
        self.step.append(AroundHook("*", pre, post))

    def register_persona_hook(
        self, pattern: str, *, pre: HookFunction | None = None, post: HookFunction | None = None
    ) -> None:
        """Around the run of every agent whose name matches the pattern."""
        self.persona.append(AroundHook(pattern, pre, post))

    def register_session_hook(self, event: str, function: HookFunction) -> None:
        """Whenever this happens in a session."""
        self.session.setdefault(read_hook_event(event), []).append(function)

    def clear(self) -> None:
        """Forget every hook."""
        self.tool.clear()
        self.step.clear()
        self.persona.clear()
        self.session.clear()

    def tools_matching(self, name: str) -> Iterable[ToolHook]:
        return [hook for hook in self.tool if fnmatchcase(name, hook.pattern)]

    def personas_matching(self, name: str) -> Iterable[AroundHook]:
        return [hook for hook in self.persona if fnmatchcase(name, hook.pattern)]


class HookFailure(Exception):
    """A hook or a provider raised or took too long; the loop goes on."""


async def call(function: Callable[..., Any], *args: object, seconds: float | None = HOOK_SECONDS) -> object:
    """What the function returns. One that is no coroutine runs beside the loop, so that it cannot stop it."""
    try:
        return await Scope().inside(_answer(function, *args), seconds=seconds)
    except OutOfTime:
        raise HookFailure(f"{name_of(function)} took longer than {seconds or 0:g} s") from None
    except HookFailure:
        raise
    # A program ends by its own word, not by that of a hook.
    except (Exception, SystemExit) as error:
        raise _raised(function, error) from error


def name_of(function: Callable[..., Any]) -> str:
    """The name under which a hook is reported."""
    return getattr(function, "__qualname__", type(function).__qualname__)


async def _answer(function: Callable[..., Any], *args: object) -> object:
    if inspect.iscoroutinefunction(function):
        return await function(*args)
    returned = await _beside(function, *args)
    return await returned if isinstance(returned, Awaitable) else returned


async def _beside(function: Callable[..., Any], *args: object) -> object:
    """Run in a thread that the end of the program does not wait for: it may hang for ever."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[tuple[object, BaseException | None]] = loop.create_future()

    def settle(value: object, error: BaseException | None) -> None:
        if not outcome.done():
            outcome.set_result((value, error))

    def work() -> None:
        told: tuple[object, BaseException | None]
        try:
            told = function(*args), None
        except BaseException as error:  # noqa: BLE001 - handed on to whoever waits
            told = None, error
        # The loop may be gone by now; then nobody waits for this.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, *told)

    threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True).start()
    value, error = await outcome
    if error is not None:
        raise _raised(function, error) from error
    return value


def _raised(function: Callable[..., Any], error: BaseException) -> HookFailure:
    return HookFailure(f"{name_of(function)} raised {describe(error)}")
