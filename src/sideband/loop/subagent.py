"""Sub-agents (workers): what a worker inherits from its parent, and how it is run, suspended and resumed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from enum import StrEnum
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Final

import msgspec

from sideband.core.errors import shown
from sideband.core.hookevents import WorkerEvent
from sideband.core.messages import text_of
from sideband.core.propagation import Handed, propagate, seed_child
from sideband.core.state import SessionState
from sideband.core.trust import Trust
from sideband.loop.agent import AgentRun
from sideband.loop.conversation import Conversation
from sideband.loop.guard import Problem, describe
from sideband.loop.hooks import HookRunner
from sideband.loop.run import LoopResult, LoopStatus, Step


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """What a parent hands to a child: the task, and the reminders that propagate."""

    task: str
    reminder_propagation: tuple[Handed, ...] = ()


class ResumeCause(StrEnum):
    """What resumed a worker."""

    PARENT = "parent"
    TIMEOUT = "timeout"
    TRIGGER = "trigger"
    OPERATOR = "operator"


class Resumption(msgspec.Struct, frozen=True, kw_only=True):
    """How a suspended worker is resumed. Without `continue_transcript` its conversation is replaced with a digest."""

    cause: ResumeCause = ResumeCause.OPERATOR
    input: str | None = None
    continue_transcript: bool = True
    trigger_id: str | None = None
    event_id: str | None = None


_EVENT_OF_STATUS: Final[Mapping[LoopStatus, WorkerEvent]] = MappingProxyType(
    {
        LoopStatus.COMPLETED: WorkerEvent.WORKER_COMPLETED,
        LoopStatus.MAX_TURNS: WorkerEvent.WORKER_COMPLETED,
        LoopStatus.MAX_TOKENS: WorkerEvent.WORKER_COMPLETED,
        LoopStatus.CANCELLED: WorkerEvent.WORKER_CANCELLED,
        LoopStatus.SUSPENDED: WorkerEvent.WORKER_SUSPENDED,
        LoopStatus.FAILED: WorkerEvent.WORKER_FAILED,
        LoopStatus.LEASE_LOST: WorkerEvent.WORKER_FAILED,
    }
)


async def envelope(parent: Conversation, task: str) -> Envelope:
    """The envelope for a child that is started now."""
    # Read from the journal, because another process may have sent reminders that this one has not seen yet.
    handoff, _ = await parent.journal.read(
        parent.session_id, partial(propagate, agent_id=parent.session_id, limits=parent.limits)
    )
    return Envelope(task=task, reminder_propagation=handoff.reminder_propagation)


async def receive(child: Conversation, handed: Envelope) -> None:
    """Make the propagated reminders live in the child, before its first turn."""
    await child.commit(
        lambda state: seed_child(state, handed.reminder_propagation, sub_agent_id=child.session_id, hop=Trust.OPERATOR)
    )


class WorkerPhase(StrEnum):
    """The phases in the life of a worker."""

    NEW = "new"
    WORKING = "working"
    SUSPENDED = "suspended"
    ENDED = "ended"


class WrongPhase(Exception):
    """A method of a worker was called in the wrong phase; nothing has changed."""

    code: ClassVar[str] = "SIDEBAND-402"

    def __init__(self, name: str, phase: WorkerPhase, wanted: WorkerPhase) -> None:
        super().__init__(f"worker {shown(name)} is {phase.value}; this can only be done while it is {wanted.value}")
        self.phase = phase


class Worker:
    """A sub-agent. The hooks of its parent observe its worker events; they cannot decide anything.

    `begin` starts the next run of the child, with a prompt or without one.
    """

    def __init__(
        self,
        name: str,
        task: str,
        child: Conversation,
        *,
        parent_hooks: HookRunner,
        child_hooks: HookRunner,
        begin: Callable[[str | None], Awaitable[AgentRun]],
        problems: list[Problem],
    ) -> None:
        self.name = name
        self.task = task
        self.problems = problems
        self.child = child
        self.phase = WorkerPhase.NEW
        self._parent_hooks = parent_hooks
        self._child_hooks = child_hooks
        self._begin = begin
        self._run: AgentRun | None = None
        self._reason: str | None = None
        # `suspend` and `cancel` may be called before there is a run.
        self._suspending = self._cancelling = False

    async def work(self) -> LoopResult:
        """Run the worker until it ends or is suspended."""
        self._leave(WorkerPhase.NEW)
        async with self._reporting_failure():
            await self._notify(WorkerEvent.WORKER_SPAWNED, {"task": self.task})
            async with await self._begin(self.task) as run:
                return await self._drive(run)

    async def resume(self, resumption: Resumption) -> LoopResult:
        """Resume a suspended worker; its first request shows the reminders about the pause."""
        self._leave(WorkerPhase.SUSPENDED)
        try:
            begun = await self._begin(resumption.input)
        except BaseException:
            # No hook was called and nothing has changed, so the worker can still be resumed.
            self.phase = WorkerPhase.SUSPENDED
            raise
        async with self._reporting_failure(), begun as run:
            await self._announce_resumption(resumption)
            return await self._drive(run)

    def suspend(self, reason: str | None = None) -> None:
        """Suspend the worker after its current step, or before its first one."""
        if self.phase not in (WorkerPhase.NEW, WorkerPhase.WORKING):
            return
        self._reason, self._suspending = reason, True
        if self._run is not None:
            self._run.suspend()

    def cancel(self) -> None:
        """Cancel the worker's turn; a worker that is not running is cancelled when it is started or resumed."""
        self._cancelling = True
        if self._run is not None:
            self._run.cancel()

    def _leave(self, phase: WorkerPhase) -> None:
        if self.phase is not phase:
            raise WrongPhase(self.name, self.phase, phase)
        self.phase, self._run = WorkerPhase.WORKING, None

    @asynccontextmanager
    async def _reporting_failure(self) -> AsyncIterator[None]:
        """Report an exception to the hooks of the parent, after the child has become idle."""
        try:
            yield
        except asyncio.CancelledError:
            await self._end(WorkerEvent.WORKER_CANCELLED, {"status": LoopStatus.CANCELLED.value})
            raise
        except Exception as error:
            payload = {"status": LoopStatus.FAILED.value, "error": describe(error)}
            await self._end(WorkerEvent.WORKER_FAILED, payload)
            raise

    async def _end(self, event: WorkerEvent, payload: dict[str, Any]) -> None:
        # In any other phase the end was already reported, and only a hook on it was interrupted.
        if self.phase is WorkerPhase.WORKING:
            self.phase = WorkerPhase.ENDED
            await self._notify(event, payload)

    async def _announce_resumption(self, resumption: Resumption) -> None:
        payload: dict[str, Any] = {
            "suspended_turn": self.child.state.live.turn,
            "reason": self._reason,
            **msgspec.to_builtins(resumption),
        }
        if not resumption.continue_transcript:
            payload["digest"] = digest(self.child.state)
            await self.child.compact(tuple(self.child.state.messages), (), begun_at=self.child.state.live.next_place)
        await self._child_hooks.notify(WorkerEvent.WORKER_RESUMED, payload)
        cause = resumption.cause.value
        await self._notify(WorkerEvent.WORKER_RESUMED, {"reason": self._reason, "cause": cause})

    async def _drive(self, run: AgentRun) -> LoopResult:
        self._run = run
        if self._suspending:
            run.suspend()
        if self._cancelling:
            run.cancel()
        while (event := await run.step()) is not None:
            if event.name is Step.TURN:
                await self._notify(WorkerEvent.WORKER_PROGRESSED, {"text": event.value.text})
            elif event.name is Step.IDLE:
                await self._notify(WorkerEvent.WORKER_WAITING_FOR_INPUT, {})
        result = await run.finish()
        suspended = result.status is LoopStatus.SUSPENDED
        self.phase, self._suspending = WorkerPhase.SUSPENDED if suspended else WorkerPhase.ENDED, False
        payload = {"status": result.status.value, "text": result.text, "error": result.error}
        await self._notify(_EVENT_OF_STATUS[result.status], payload)
        return result

    async def _notify(self, event: WorkerEvent, payload: dict[str, Any]) -> None:
        worker = {"worker": self.name, "worker_session_id": self.child.session_id}
        await self._parent_hooks.notify(event, worker | payload)


def digest(state: SessionState, *, messages: int = 4, characters: int = 400) -> str:
    """The beginnings of the last messages, for a worker that is resumed without its conversation."""
    lines = [f"{message['role']}: {text_of(message)[:characters]}" for message in state.messages[-messages:]]
    return "\n".join(lines)
