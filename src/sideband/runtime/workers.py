"""Sub-agents (workers): how one is made, run, suspended, and resumed, also by another process."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, Final, Unpack

import msgspec

from sideband.core.errors import InvalidOption, SessionBusy, UnknownSession, shown
from sideband.core.events import Closing
from sideband.core.hookevents import WorkerEvent
from sideband.core.state import SessionState
from sideband.loop.agent import AgentRun
from sideband.loop.conversation import Conversation
from sideband.loop.guard import Problem, describe
from sideband.loop.hooks import HookRunner, Hooks
from sideband.loop.run import LoopResult, LoopStatus, Step
from sideband.loop.subagent import digest, envelope, receive
from sideband.providers.context import Provider
from sideband.runtime.agents import AgentOptions, agent_run, check_names
from sideband.runtime.registries import HOOKS, PROVIDERS
from sideband.runtime.session import Session
from sideband.runtime.store import Store

# The named record of a worker's session that holds its `WorkerRecord`.
WORKER_RECORD: Final = "worker"


class WorkerPhase(StrEnum):
    """The phases in the life of a worker."""

    NEW = "new"
    WORKING = "working"
    SUSPENDED = "suspended"
    ENDED = "ended"


class WorkerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What the session of a worker holds about it, so that another process can resume it.

    `parent` is the session that made it. `phase` is `new` until the worker is suspended or has ended. `reason` is that of
    the last suspension; None if none was given.
    """

    name: str
    task: str
    parent: str
    phase: WorkerPhase = WorkerPhase.NEW
    reason: str | None = None

    def records(self, phase: WorkerPhase, reason: str | None = None) -> dict[str, Any]:
        """The named records of a session whose worker is in this phase."""
        changed = msgspec.structs.replace(self, phase=phase, reason=reason)
        return {WORKER_RECORD: msgspec.to_builtins(changed)}


class ResumeCause(StrEnum):
    """What resumed a worker."""

    PARENT = "parent"
    TIMEOUT = "timeout"
    TRIGGER = "trigger"
    OPERATOR = "operator"


class Resumption(msgspec.Struct, frozen=True, kw_only=True):
    """How a suspended worker is resumed. Without `continue_transcript` its conversation is replaced with a digest.

    `cause` is `parent`, `timeout`, `trigger` or `operator`; `trigger_id` and `event_id` name the trigger. `input` is the
    user message that the worker goes on with (None: it goes on without one).
    """

    cause: ResumeCause | str = ResumeCause.OPERATOR
    input: str | None = None
    continue_transcript: bool = True
    trigger_id: str | None = None
    event_id: str | None = None

    def __post_init__(self) -> None:
        if self.cause not in list(ResumeCause):
            raise InvalidOption(
                f"the cause of a resumption must be {', '.join(ResumeCause)}, not {shown(self.cause)}",
                field="cause",
                value=self.cause,
            )
        msgspec.structs.force_setattr(self, "cause", ResumeCause(self.cause))


class WrongPhase(Exception):
    """A method of a worker was called in the wrong phase; nothing has changed."""

    code: ClassVar[str] = "SIDEBAND-402"

    def __init__(self, name: str, phase: WorkerPhase, wanted: WorkerPhase) -> None:
        super().__init__(f"worker {shown(name)} is {phase.value}; this can only be done while it is {wanted.value}")
        self.phase = phase


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

# After a run with one of these statuses the worker has ended. A run that has lost its lease writes nothing.
_ENDS: Final = frozenset(LoopStatus) - {LoopStatus.SUSPENDED, LoopStatus.LEASE_LOST}


async def spawn(parent: Session, store: Store, task: str, **options: Unpack[AgentOptions]) -> "Worker":
    """Make a sub-agent of `parent` with the reminders that propagate to it; `await worker.work()` runs it.

    Those are the live ones in transcript order, then the queued ones, which also stay queued in the parent. The options
    are those of `agent_loop`, for the worker; its `name` is "worker" by default.
    """
    _check(options)
    record = WorkerRecord(name=options.get("name", "worker"), task=task, parent=parent.id)
    session = await store.session()
    await receive(session.talk, await envelope(parent.talk, task), records=record.records(WorkerPhase.NEW))
    return Worker(session, record, parent.talk, options)


async def find_worker(
    store: Store, session_id: str, *, parent: Session | None = None, **options: Unpack[AgentOptions]
) -> "Worker":
    """The suspended worker with this session, to be resumed by this process; `await worker.resume(…)` runs it.

    The hooks of this process observe it for the session that made it, which may be passed as `parent`. The options are
    those of `agent_loop`; they are not stored, so pass them as for `spawn`. `UnknownSession` if there is no such session,
    `InvalidOption` if it is not that of a worker, `WrongPhase` if the worker is not suspended, and `SessionBusy` if a
    process runs it.
    """
    _check(options)
    session = await store.find(session_id)
    if session is None:
        raise UnknownSession(
            f"there is no session {shown(session_id)} in the store", field="session_id", value=session_id
        )
    record = await _read_suspended(session)
    if parent is not None and parent.id != record.parent:
        raise InvalidOption(
            f"the parent of worker {shown(record.name)} is session {shown(record.parent)}, not {shown(parent.id)}",
            field="parent",
            value=parent.id,
        )
    # Hooks on worker events only observe, so the session of the parent is not opened. It may not even exist any more.
    talk = Conversation(store.journal, record.parent, new_id=store.new_id, limits=store.limits)
    return Worker(session, record, talk if parent is None else parent.talk, options)


async def _read_suspended(session: Session) -> WorkerRecord:
    """The record of a worker that is suspended and that no process runs, as it stands in the store."""

    def look(state: SessionState) -> tuple[Any, bool]:
        return state.records.get(WORKER_RECORD), state.attended

    (value, attended), _ = await session.talk.journal.read(session.id, look)
    try:
        record = msgspec.convert(value, WorkerRecord)
    except msgspec.ValidationError:
        raise InvalidOption(
            f"session {shown(session.id)} is not that of a worker; spawn makes workers",
            field="session_id",
            value=session.id,
        ) from None
    if attended:
        raise SessionBusy(
            f"worker {shown(record.name)} is being run; wait until it is suspended", field="session", value=session.id
        )
    if record.phase is not WorkerPhase.SUSPENDED:
        raise WrongPhase(record.name, record.phase, WorkerPhase.SUSPENDED)
    return record


def _check(options: AgentOptions) -> None:
    """Raise for options that no worker can have, before there is one."""
    check_names(options)
    _enabled(options)


def _enabled(options: AgentOptions) -> Sequence[Provider]:
    reminders = {"reminders": options.get("reminders", True)}
    return options.get("providers", PROVIDERS).enabled(reminders)


def _closing(record: WorkerRecord, options: AgentOptions) -> Mapping[str, Closing]:
    """What the commit that ends a worker does: what the user has chosen, and the record of the end."""
    closing = dict(options.get("closing", {}))
    for status in _ENDS:
        chosen = closing.get(status, Closing())
        # A wrong value is refused when the worker begins to run.
        if isinstance(chosen, Closing):
            records = {**chosen.records, **record.records(WorkerPhase.ENDED)}
            closing[status] = msgspec.structs.replace(chosen, records=records)
    return closing


class Worker:
    """A sub-agent: `session` is its session. The hooks of its parent observe its events; they cannot decide anything."""

    def __init__(self, session: Session, record: WorkerRecord, parent: Conversation, options: AgentOptions) -> None:
        self.name = record.name
        self.task = record.task
        self.session = session
        self.phase = record.phase
        self.problems: list[Problem] = []
        self._record = record
        self._reason = record.reason
        self._options: AgentOptions = {**options, "name": record.name, "closing": _closing(record, options)}
        hooks, report = options.get("hooks", HOOKS), self.problems.append
        reminders = {"reminders": options.get("reminders", True)}
        self._parent_hooks = HookRunner(parent, hooks, report)
        self._child_hooks = HookRunner(
            session.talk, Hooks(), report, providers=_enabled(options), options=reminders, task=record.task
        )
        self._run: AgentRun | None = None
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
            # Another process may have resumed it, and it may have ended there.
            self._reason = (await _read_suspended(self.session)).reason
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
            self._suspend(self._run)

    def _suspend(self, run: AgentRun) -> None:
        run.suspend(records=self._record.records(WorkerPhase.SUSPENDED, self._reason))

    def cancel(self) -> None:
        """Cancel the worker's turn; a worker that is not running is cancelled when it is started or resumed."""
        self._cancelling = True
        if self._run is not None:
            self._run.cancel()

    async def _begin(self, prompt: str | None) -> AgentRun:
        return await agent_run(prompt, session=self.session, **self._options)

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
        talk = self.session.talk
        payload: dict[str, Any] = {
            "suspended_turn": talk.state.live.turn,
            "reason": self._reason,
            **msgspec.to_builtins(resumption),
        }
        if not resumption.continue_transcript:
            payload["digest"] = digest(talk.state)
            await talk.compact(tuple(talk.state.messages), (), begun_at=talk.state.live.next_place)
        await self._child_hooks.notify(WorkerEvent.WORKER_RESUMED, payload)
        await self._notify(WorkerEvent.WORKER_RESUMED, {"reason": self._reason, "cause": str(resumption.cause)})

    async def _drive(self, run: AgentRun) -> LoopResult:
        self._run = run
        if self._suspending:
            self._suspend(run)
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
        worker = {"worker": self.name, "worker_session_id": self.session.id}
        await self._parent_hooks.notify(event, worker | payload)
