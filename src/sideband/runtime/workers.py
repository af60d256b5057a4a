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
from sideband.core.messages import as_blocks, read_content
from sideband.core.state import SessionState
from sideband.loop.agent import AgentRun
from sideband.loop.conversation import Conversation
from sideband.loop.guard import Problem, describe
from sideband.loop.hooks import HookRunner, Hooks
from sideband.loop.run import LoopResult, LoopStatus, Step
from sideband.loop.subagent import digest, envelope, receive
from sideband.providers.context import Provider
from sideband.runtime.agents import agent_run
from sideband.runtime.options import AgentOptions, check_names, check_session, read_run_options
from sideband.runtime.registries import HOOKS, PROVIDERS
from sideband.runtime.session import Session
from sideband.runtime.store import Store

# The named record of a worker's session that holds its `WorkerRecord`.
WORKER_RECORD: Final = "worker"


class WorkerPhase(StrEnum):
    """The phases in the life of a worker."""

    NEW = "new"
    WORKING = "working"
    LEFT = "left"
    """It worked when its process ended. Another process may resume it."""
    SUSPENDED = "suspended"
    ENDED = "ended"


class WorkerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What the session of a worker holds about it, so that another process can resume it.

    `parent` is the session that made it. `phase` is never `left`: the record of such a worker says `working`, and no
    process runs it. `reason` and `suspended_turn` are those of the suspension (None: it is not suspended, or no reason was
    given).
    """

    name: str
    task: str
    parent: str
    phase: WorkerPhase = WorkerPhase.NEW
    reason: str | None = None
    suspended_turn: int | None = None

    def records(
        self, phase: WorkerPhase, reason: str | None = None, suspended_turn: int | None = None
    ) -> dict[str, Any]:
        """The named records of a session whose worker is in this phase."""
        changed = msgspec.structs.replace(self, phase=phase, reason=reason, suspended_turn=suspended_turn)
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


# What a user can do with a worker in each phase.
_NEXT: Final[Mapping[WorkerPhase, str]] = MappingProxyType(
    {
        WorkerPhase.NEW: "the process that made it begins with `await worker.work()`",
        WorkerPhase.WORKING: "wait until it is suspended, or call `worker.suspend()`",
        WorkerPhase.LEFT: "go on with `await worker.resume(...)`",
        WorkerPhase.SUSPENDED: "go on with `await worker.resume(...)`",
        WorkerPhase.ENDED: "make a new worker with `spawn`",
    }
)

# The reason that a worker is told if it was not suspended.
PROCESS_ENDED: Final = "its process ended"


class WrongPhase(Exception):
    """A method of a worker was called in the wrong phase; nothing has changed."""

    code: ClassVar[str] = "SIDEBAND-402"

    def __init__(self, name: str, phase: WorkerPhase, wanted: WorkerPhase) -> None:
        super().__init__(
            f"worker {shown(name)} is {phase.value}; this can only be done while it is {wanted.value}; {_NEXT[phase]}"
        )
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
    check_session(parent, field="parent")
    _check(store, options)
    if not isinstance(task, str):
        raise InvalidOption(f"task must be a text, not {shown(task)}", field="task", value=task)
    read_content(as_blocks(task), store.limits)
    record = WorkerRecord(name=options.get("name", "worker"), task=task, parent=parent.id)
    session = await store.session()
    await receive(session.talk, await envelope(parent.talk, task), records=record.records(WorkerPhase.NEW))
    return Worker(session, record, parent.talk, options)


async def find_worker(
    store: Store, session_id: str, *, parent: Session | None = None, **options: Unpack[AgentOptions]
) -> "Worker":
    """The suspended worker with this session, to be resumed by this process; `await worker.resume(…)` runs it.

    A worker whose process ended while it worked can be resumed, too; its `phase` is `left`. The hooks of this process
    observe it for the session that made it, which may be passed as `parent`. The options are those of `agent_loop`; they
    are not stored, so pass them as for `spawn`. `UnknownSession` if there is no such session, `InvalidOption` if it is
    not that of a worker, `WrongPhase` if the worker is new or has ended, and `SessionBusy` if a process runs it.
    """
    if parent is not None:
        check_session(parent, field="parent")
    _check(store, options)
    session = await store.find(session_id)
    if session is None:
        raise UnknownSession(
            f"there is no session {shown(session_id)} in the store", field="session_id", value=session_id
        )
    record = await _read_resumable(session)
    if parent is not None and parent.id != record.parent:
        raise InvalidOption(
            f"the parent of worker {shown(record.name)} is session {shown(record.parent)}, not {shown(parent.id)}",
            field="parent",
            value=parent.id,
        )
    # Hooks on worker events only observe, so the session of the parent is not opened. It may not even exist any more.
    talk = Conversation(store.journal, record.parent, new_id=store.new_id, limits=store.limits)
    return Worker(session, record, talk if parent is None else parent.talk, options)


async def _read_resumable(session: Session) -> WorkerRecord:
    """The record of a worker that is suspended, or was left behind by a process that ended.

    Of the latter, the phase is `left`, and the reason says so.
    """

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
    if record.phase is WorkerPhase.WORKING:
        return msgspec.structs.replace(record, phase=WorkerPhase.LEFT, reason=PROCESS_ENDED)
    if record.phase is not WorkerPhase.SUSPENDED:
        raise WrongPhase(record.name, record.phase, WorkerPhase.SUSPENDED)
    return record


def _check(store: object, options: AgentOptions) -> None:
    """Raise for a store or options with which no worker can run, before there is one."""
    if not isinstance(store, Store):
        raise InvalidOption(
            f"store must be a Store, not {shown(store)}; open one with `open_store(...)`", field="store", value=store
        )
    check_names(options)
    read_run_options(None, options)


def _enabled(options: AgentOptions) -> Sequence[Provider]:
    reminders = {"reminders": options.get("reminders", True)}
    return options.get("providers", PROVIDERS).enabled(reminders)


def _closing(record: WorkerRecord, options: AgentOptions) -> Mapping[str, Closing]:
    """What the commit that ends a worker does: what the user has chosen, and the record of the end."""
    closing = dict(options.get("closing", {}))
    for status in _ENDS:
        chosen = closing.get(status, Closing())
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
        # The reason of the next suspension.
        self._reason: str | None = None
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
        if self.phase is not WorkerPhase.NEW:
            raise WrongPhase(self.name, self.phase, WorkerPhase.NEW)
        self._leave()
        async with self._reporting_failure():
            await self._notify(WorkerEvent.WORKER_SPAWNED, {"task": self.task})
            async with await self._begin(self.task) as run:
                return await self._drive(run)

    async def resume(self, resumption: Resumption) -> LoopResult:
        """Resume a worker that is suspended, or whose process ended; its first request tells it about the pause."""
        if not isinstance(resumption, Resumption):
            raise InvalidOption(
                f"resumption must be Resumption(...), not {shown(resumption)}", field="resumption", value=resumption
            )
        phase = self.phase
        if phase not in (WorkerPhase.SUSPENDED, WorkerPhase.LEFT):
            raise WrongPhase(self.name, phase, WorkerPhase.SUSPENDED)
        self._leave()
        try:
            # Another process may have resumed it, and it may have ended there.
            self._record = await _read_resumable(self.session)
            begun = await self._begin(resumption.input)
        except BaseException:
            # No hook was called and nothing has changed, so the worker can still be resumed.
            self.phase = phase
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
        reason = self._reason
        run.suspend(records=lambda turn: self._record.records(WorkerPhase.SUSPENDED, reason, turn))

    def cancel(self) -> None:
        """Cancel the worker's turn; a worker that is not running is cancelled when it is started or resumed."""
        self._cancelling = True
        if self._run is not None:
            self._run.cancel()

    async def _begin(self, prompt: str | None) -> AgentRun:
        run = await agent_run(prompt, session=self.session, **self._options)
        run.records = {**run.records, **self._record.records(WorkerPhase.WORKING)}
        return run

    def _leave(self) -> None:
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
        reason = self._record.reason
        payload: dict[str, Any] = {
            "suspended_turn": self._record.suspended_turn,
            "reason": reason,
            "process_ended": self._record.phase is WorkerPhase.LEFT,
            **msgspec.to_builtins(resumption),
        }
        if not resumption.continue_transcript:
            payload["digest"] = digest(talk.state)
            # A process that ended may have left calls and a request open, and they belong to the old conversation.
            await talk.recover()
            await talk.void_turn()
            await talk.compact(tuple(talk.state.messages), (), begun_at=talk.state.live.next_place)
        await self._child_hooks.notify(WorkerEvent.WORKER_RESUMED, payload)
        await self._notify(WorkerEvent.WORKER_RESUMED, {"reason": reason, "cause": str(resumption.cause)})

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
