"""Hooks: code that is told what happens in a loop, may answer with reminders, and around tools with an action."""

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from sideband.core.errors import InvalidOption, shown
from sideband.core.hookevents import SessionEvent, WorkerEvent, read_hook_event

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
    """What a hook is told; its entries can be read as attributes too.

    One that is not there reads as None, so that a hook on several events need not ask which of them it is told of. A
    name that is misspelt reads as None too: `context["name"]` says so.
    """

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
        self.tool.append(ToolHook(_pattern(pattern), _function(pre, "pre"), _function(post, "post")))

    def register_step_hook(self, *, pre: HookFunction | None = None, post: HookFunction | None = None) -> None:
        """Around one iteration of a loop."""
        self.step.append(AroundHook("*", _function(pre, "pre"), _function(post, "post")))

    def register_persona_hook(
        self, pattern: str, *, pre: HookFunction | None = None, post: HookFunction | None = None
    ) -> None:
        """Around the run of every agent whose name matches the pattern."""
        self.persona.append(AroundHook(_pattern(pattern), _function(pre, "pre"), _function(post, "post")))

    def register_session_hook(self, event: str, function: HookFunction) -> None:
        """Whenever this happens in a session."""
        if not callable(function):
            raise InvalidOption(f"a hook must be a function, not {shown(function)}", field="function", value=function)
        self.session.setdefault(read_hook_event(event), []).append(function)

    def functions(self) -> Iterable[HookFunction]:
        """All of them, each kind in the order in which they were registered."""
        around = [side for _, *sides in (*self.tool, *self.step, *self.persona) for side in sides]
        told = [function for functions in self.session.values() for function in functions]
        return [function for function in (*around, *told) if function is not None]

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


def _pattern(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidOption(
            f"pattern must be a name, in which * and ? stand for others, not {shown(value)}",
            field="pattern",
            value=value,
        )
    return value


def _function(value: HookFunction | None, field: str) -> HookFunction | None:
    if value is not None and not callable(value):
        raise InvalidOption(f"{field} must be a function, not {shown(value)}", field=field, value=value)
    return value
