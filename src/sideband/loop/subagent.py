"""Workers: agents that an agent starts, what they inherit, and how they pause and go on."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

import msgspec

from sideband.core.hookevents import WorkerEvent
from sideband.core.propagation import Handed, propagate, seed_child
from sideband.core.state import SessionState
from sideband.loop.agent import AgentRun
from sideband.loop.conversation import Conversation
from sideband.loop.messages import text_of
from sideband.loop.problems import Problem
from sideband.loop.run import LoopResult, LoopStatus, Step
from sideband.loop.telling import Teller


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """What a parent hands to a child: its task, and the reminders that travel with it."""

    task: str
    reminder_propagation: tuple[Handed, ...] = ()


class ResumeCause(StrEnum):
    """Who let a worker go on."""

    PARENT = "parent"
    TIMEOUT = "timeout"
    TRIGGER = "trigger"
    OPERATOR = "operator"


class Resumption(msgspec.Struct, frozen=True, kw_only=True):
    """How a suspended worker goes on; without `continue_transcript` it starts afresh, with a digest of what was."""

    cause: ResumeCause = ResumeCause.OPERATOR
    input: str | None = None
    continue_transcript: bool = True
    trigger_id: str | None = None
    event_id: str | None = None


_OUTCOMES: Final[Mapping[LoopStatus, WorkerEvent]] = MappingProxyType(
    {
        LoopStatus.COMPLETED: WorkerEvent.WORKER_COMPLETED,
        LoopStatus.MAX_TURNS: WorkerEvent.WORKER_COMPLETED,
        LoopStatus.MAX_TOKENS: WorkerEvent.WORKER_COMPLETED,
        LoopStatus.CANCELLED: WorkerEvent.WORKER_CANCELLED,
        LoopStatus.SUSPENDED: WorkerEvent.WORKER_SUSPENDED,
        LoopStatus.FAILED: WorkerEvent.WORKER_FAILED,
    }
)


def envelope(parent: Conversation, task: str) -> Envelope:
    """What the parent hands over now."""
    handoff = propagate(parent.state.live, agent_id=parent.session_id, limits=parent.limits)
    return Envelope(task=task, reminder_propagation=handoff.reminder_propagation)


async def receive(child: Conversation, handed: Envelope) -> None:
    """The child has its copies before its first turn."""
    await child.commit(
        lambda state: seed_child(
            state.live,
            handed.reminder_propagation,
            sub_agent_id=child.session_id,
            next_turn=state.next_turn,
            inbox=state.inbox,
        )
    )


class Worker:
    """A child of an agent; its parent's hooks are told of everything that becomes of it, and can only watch.

    `begin` makes the child's next run, with a prompt or without.
    """

    def __init__(
        self,
        name: str,
        task: str,
        child: Conversation,
        *,
        parent_teller: Teller,
        child_teller: Teller,
        begin: Callable[[str | None], Awaitable[AgentRun]],
        problems: list[Problem],
    ) -> None:
        self.name = name
        self.task = task
        self.problems = problems
        self.child = child
        self._parent_teller = parent_teller
        self._child_teller = child_teller
        self._begin = begin
        self._run: AgentRun | None = None
        self._reason: str | None = None

    async def work(self) -> LoopResult:
        """Run until it ends or is suspended."""
        await self._tell(WorkerEvent.WORKER_SPAWNED, task=self.task)
        return await self._drive(self.task)

    def suspend(self, reason: str | None = None) -> None:
        """Let it pause after the step it is in."""
        self._reason = reason
        if self._run is not None:
            self._run.suspend()

    def cancel(self) -> None:
        """End its turn."""
        if self._run is not None:
            self._run.cancel()

    async def resume(self, resumption: Resumption) -> LoopResult:
        """Let it go on; what it is told of the pause is shown by its first request."""
        payload: dict[str, Any] = {
            "suspended_turn": self.child.state.live.turn,
            "reason": self._reason,
            **msgspec.to_builtins(resumption),
        }
        if not resumption.continue_transcript:
            payload["digest"] = digest(self.child.state)
            await self.child.compact(tuple(self.child.state.messages), ())
        await self._child_teller.tell(WorkerEvent.WORKER_RESUMED, **payload)
        await self._tell(WorkerEvent.WORKER_RESUMED, reason=self._reason, cause=resumption.cause.value)
        return await self._drive(resumption.input)

    async def _drive(self, prompt: str | None) -> LoopResult:
        self._run = run = await self._begin(prompt)
        try:
            async for event in run:
                if event.name is Step.TURN:
                    await self._tell(WorkerEvent.WORKER_PROGRESSED, text=event.value.text)
                elif event.name is Step.IDLE:
                    await self._tell(WorkerEvent.WORKER_WAITING_FOR_INPUT)
        except asyncio.CancelledError:
            await self._tell(WorkerEvent.WORKER_CANCELLED)
            raise
        result = await run.finish()
        await self._tell(_OUTCOMES[result.status], status=result.status.value, text=result.text)
        return result

    async def _tell(self, event: WorkerEvent, **payload: Any) -> None:  # noqa: ANN401 - the event's own
        await self._parent_teller.tell(event, worker=self.name, worker_session_id=self.child.session_id, **payload)


def digest(state: SessionState, *, messages: int = 4, characters: int = 400) -> str:
    """The last messages in short, for a worker that goes on without them."""
    lines = [f"{message['role']}: {text_of(message)[:characters]}" for message in state.messages[-messages:]]
    return "\n".join(lines)
