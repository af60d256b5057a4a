"""Workers: agents that an agent starts, what they inherit, and how they pause and go on."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

import msgspec

from sideband.core.errors import shown
from sideband.core.hookevents import WorkerEvent
from sideband.core.propagation import Handed, propagate, seed_child
from sideband.core.state import SessionState
from sideband.loop.agent import AgentRun
from sideband.loop.conversation import Conversation
from sideband.loop.messages import text_of
from sideband.loop.problems import Problem, describe
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
        LoopStatus.LEASE_LOST: WorkerEvent.WORKER_FAILED,
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


class Phase(StrEnum):
    """Where a worker is in its life."""

    NEW = "new"
    WORKING = "working"
    SUSPENDED = "suspended"
    ENDED = "ended"


class WrongPhase(Exception):
    """A worker was asked for what it cannot do in its phase; nothing has changed."""

    def __init__(self, name: str, phase: Phase, wanted: Phase) -> None:
        super().__init__(f"worker {shown(name)} is {phase.value}, and only one that is {wanted.value} can do that")
        self.phase = phase


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
        self.phase = Phase.NEW
        self._parent_teller = parent_teller
        self._child_teller = child_teller
        self._begin = begin
        self._run: AgentRun | None = None
        self._reason: str | None = None
        # Asked for, perhaps before there is a run to ask.
        self._pausing = self._ending = False

    async def work(self) -> LoopResult:
        """Run until it ends or is suspended."""
        self._leave(Phase.NEW)
        async with self._watched():
            await self._tell(WorkerEvent.WORKER_SPAWNED, task=self.task)
            async with await self._begin(self.task) as run:
                return await self._drive(run)

    async def resume(self, resumption: Resumption) -> LoopResult:
        """Let a suspended one go on; what it is told of the pause is shown by its first request."""
        self._leave(Phase.SUSPENDED)
        try:
            begun = await self._begin(resumption.input)
        except BaseException:
            # Nothing was told and nothing has changed: it can be resumed later.
            self.phase = Phase.SUSPENDED
            raise
        async with self._watched(), begun as run:
            await self._welcome(resumption)
            return await self._drive(run)

    def suspend(self, reason: str | None = None) -> None:
        """Let it pause after the step it is in; one that has not begun pauses before its first."""
        if self.phase not in (Phase.NEW, Phase.WORKING):
            return
        self._reason, self._pausing = reason, True
        if self._run is not None:
            self._run.suspend()

    def cancel(self) -> None:
        """End its turn; one that is not at work ends where it would begin or go on."""
        self._ending = True
        if self._run is not None:
            self._run.cancel()

    def _leave(self, phase: Phase) -> None:
        if self.phase is not phase:
            raise WrongPhase(self.name, self.phase, phase)
        self.phase, self._run = Phase.WORKING, None

    @asynccontextmanager
    async def _watched(self) -> AsyncIterator[None]:
        """However the work ends, the parent hears of it, once the child has come to rest."""
        try:
            yield
        except asyncio.CancelledError:
            await self._end(WorkerEvent.WORKER_CANCELLED, status=LoopStatus.CANCELLED.value)
            raise
        except Exception as error:
            await self._end(WorkerEvent.WORKER_FAILED, status=LoopStatus.FAILED.value, error=describe(error))
            raise

    async def _end(self, event: WorkerEvent, **payload: Any) -> None:  # noqa: ANN401 - the event's own
        # One that had its end already was only interrupted in telling it.
        if self.phase is Phase.WORKING:
            self.phase = Phase.ENDED
            await self._tell(event, **payload)

    async def _welcome(self, resumption: Resumption) -> None:
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

    async def _drive(self, run: AgentRun) -> LoopResult:
        self._run = run
        if self._pausing:
            run.suspend()
        if self._ending:
            run.cancel()
        while (event := await run.step()) is not None:
            if event.name is Step.TURN:
                await self._tell(WorkerEvent.WORKER_PROGRESSED, text=event.value.text)
            elif event.name is Step.IDLE:
                await self._tell(WorkerEvent.WORKER_WAITING_FOR_INPUT)
        result = await run.finish()
        suspended = result.status is LoopStatus.SUSPENDED
        self.phase, self._pausing = Phase.SUSPENDED if suspended else Phase.ENDED, False
        await self._tell(_OUTCOMES[result.status], status=result.status.value, text=result.text, error=result.error)
        return result

    async def _tell(self, event: WorkerEvent, **payload: Any) -> None:  # noqa: ANN401 - the event's own
        await self._parent_teller.tell(event, worker=self.name, worker_session_id=self.child.session_id, **payload)


def digest(state: SessionState, *, messages: int = 4, characters: int = 400) -> str:
    """The last messages in short, for a worker that goes on without them."""
    lines = [f"{message['role']}: {text_of(message)[:characters]}" for message in state.messages[-messages:]]
    return "\n".join(lines)
