"""Builders for tests of a running agent: a scene with a session, a scripted model, hooks, tools and a fake clock."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from sideband.core.apply import fold
from sideband.core.events import Checkpoint, Event, Usage
from sideband.core.limits import DEFAULT_LIMITS, Limits
from sideband.core.messages import Message, Reply, ToolCall
from sideband.core.seams import Seam
from sideband.core.state import SessionState
from sideband.loop.agent import AgentRun
from sideband.loop.hooks import Hooks
from sideband.loop.run import LoopResult, Step
from sideband.models.scripted import Line
from sideband.ports import ToolContext, ToolOutput
from sideband.providers.registry import Registry
from sideband.runtime.agents import agent_run
from sideband.runtime.producer import Intake
from sideband.runtime.session import Session
from sideband.testing import CountingIds, FakeClock, MemoryStore, ScriptedModel

_EventT = TypeVar("_EventT", bound=Event)
Work: TypeAlias = Callable[[Mapping[str, Any], ToolContext], Any]

TASK = "Mend the build."


def a_session(name: str = "main", *, store: MemoryStore | None = None, limits: Limits = DEFAULT_LIMITS) -> Session:
    """A session in memory whose ids count."""
    intake = Intake(limits, FakeClock())
    return Session(store or MemoryStore(), name, new_id=CountingIds(name), limits=limits, intake=intake)


def a_call(name: str = "work", call_id: str = "c1", **args: object) -> ToolCall:
    return ToolCall(id=call_id, name=name, args=dict(args))


def a_reply(*calls: ToolCall | str, text: str = "", tokens: int = 0) -> Reply:
    """A reply that asks for these calls; a plain name is a call without arguments. `tokens` is the prompt's length."""
    asked = tuple(
        a_call(call, f"c{place}") if isinstance(call, str) else call for place, call in enumerate(calls, start=1)
    )
    return Reply(text=text, tool_calls=asked, usage=Usage(prompt_tokens=tokens, output_tokens=1 if tokens else 0))


class ATool:
    """A tool that records its calls and runs `do`; without it, its result is `done`."""

    def __init__(self, name: str = "work", do: Work | None = None, *, idempotent: bool = False) -> None:
        self.name = name
        self.description = f"{name}, for a test"
        self.parameters: Mapping[str, Any] = {"type": "object"}
        self.idempotent = idempotent
        self.calls: list[dict[str, Any]] = []
        self._do = do

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        self.calls.append(dict(args))
        returned: Any = "done" if self._do is None else self._do(args, context)
        if isinstance(returned, Awaitable):
            returned = await returned
        output: ToolOutput = ToolOutput(text=returned) if isinstance(returned, str) else returned
        return output


async def hang(*_: object) -> Any:  # noqa: ANN401 - it never returns anything
    """Wait for ever."""
    await asyncio.Event().wait()


class AScene:
    """One session and everything a run on it needs; requests, events and problems can be inspected afterwards."""

    def __init__(self, *tools: ATool, name: str = "main", store: MemoryStore | None = None) -> None:
        self.store = store or MemoryStore()
        self.session = a_session(name, store=self.store)
        self.tools = tools or (ATool(),)
        self.hooks = Hooks()
        self.providers = Registry()
        self.clock = FakeClock()
        self.model = ScriptedModel()

    def says(self, *script: Line, context_window: int | None = None) -> None:
        """Set the script of the model."""
        self.model = ScriptedModel(script, context_window=context_window)

    async def begin(self, task: str | None = TASK, **options: Any) -> AgentRun:  # noqa: ANN401 - those of agent_run
        """A run to be driven. Providers are off unless the test wants them."""
        defaults: dict[str, Any] = {
            "session": self.session,
            "model": self.model,
            "tools": self.tools,
            "hooks": self.hooks,
            "providers": self.providers,
            "clock": self.clock,
            "reminders": False,
        }
        return await agent_run(task, **(defaults | options))

    async def play(self, task: str | None = TASK, **options: Any) -> LoopResult:  # noqa: ANN401 - those of agent_run
        return await (await self.begin(task, **options)).finish()

    # What happened.

    @property
    def state(self) -> SessionState:
        return self.session.talk.state

    @property
    def journal(self) -> list[Event]:
        return [logged.event for logged in self.store.journal if logged.session_id == self.session.id]

    @property
    def kinds(self) -> list[str]:
        return [type(event).__name__ for event in self.journal]

    def events(self, kind: type[_EventT]) -> list[_EventT]:
        return [event for event in self.journal if isinstance(event, kind)]

    def seam_of(self, item_id: str) -> Seam | None:
        """The seam that drained an item, or None."""
        return next((event.seam for event in self.events(Checkpoint) if item_id in event.ids), None)

    def requests_with(self, text: str) -> list[int]:
        """The numbers, from 1, of the requests that contain this text."""
        return [number for number, request in enumerate(self.model.requests, start=1) if text in request.text]

    def results(self) -> list[tuple[str, str]]:
        """The call ids and statuses of the results in the conversation."""
        return [(entry["tool_call_id"], entry["status"]) for entry in self.state.messages if entry["role"] == "tool"]

    def result_text(self, call_id: str = "c1") -> str:
        (text,) = [entry["content"] for entry in self.state.messages if entry.get("tool_call_id") == call_id]
        return str(text)


def unanswered_calls(messages: Sequence[Message]) -> list[str]:
    """The calls in a conversation that have no result or more than one, before the next reply."""
    wrong: list[str] = []
    for place, message in enumerate(messages):
        rest = messages[place + 1 :]
        until = next((at for at, entry in enumerate(rest) if entry["role"] == "assistant"), len(rest))
        answered = [entry["tool_call_id"] for entry in rest[:until] if entry["role"] == "tool"]
        wrong += [call["id"] for call in message.get("tool_calls", ()) if answered.count(call["id"]) != 1]
    return wrong


def same_state(scene: AScene) -> bool:
    """Whether folding the journal gives the state that the session has."""
    folded = fold(scene.journal)
    return vars_of(folded) == vars_of(scene.state)


def vars_of(state: SessionState) -> dict[str, Any]:
    shown = {name: value for name, value in vars(state).items() if name not in ("inbox", "live")}
    shown["inbox"] = list(state.inbox.items())
    shown["live"] = [(item.reminder, item.provenance, item.first_turn, item.last_turn) for item in state.live]
    shown["turn"] = state.live.turn
    return shown


async def until(run: AgentRun, step: Step) -> None:
    """Drive a run up to such a step."""
    while True:
        event = await run.step()
        assert event is not None, f"the run was over before {step}"
        if event.name is step:
            return


async def others() -> None:
    """Let all other tasks run until each of them waits."""
    for _ in range(50):
        await asyncio.sleep(0)
