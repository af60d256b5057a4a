"""Runs what is queued in a session: one run for each prompt, whichever process or client has sent it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from enum import StrEnum
from types import TracebackType
from typing import Any, Final, Literal, NamedTuple, Self, TypeAlias, Unpack

import msgspec

from sideband.core.drain import startable, wakes_daemon
from sideband.core.errors import CursorExpired, CursorLost, InvalidOption, SessionBusy, StoreClosed, UnknownMessage
from sideband.core.events import Cancelled, Closed, Deleted, Event, Idled, InjectDelivered, InjectRevoked
from sideband.core.masking import mask_text
from sideband.core.messages import text_of
from sideband.core.state import Decided, SessionState
from sideband.loop.agent import AgentRun
from sideband.loop.cancel import GRACE_SECONDS, CancelScope
from sideband.loop.guard import describe
from sideband.loop.run import Begins, LoopResult, LoopStatus, RunOptions
from sideband.ports import Logged
from sideband.runtime.options import AgentOptions, check_names, check_session, read_run_options
from sideband.runtime.session import Session
from sideband.tools.function import read_tools

# How often a runner asks again for a session that another process or handle runs. The process may have died.
RETRY_SECONDS: Final = 1.0
# The first pause before the next try when the session is idle; it doubles with each try.
SHORTEST_PAUSE: Final = 0.02

# The results of so many prompts are kept for `Runner.outcome` and `Runner.result`.
MAX_RESULTS: Final = 256

# Whether the message with this id is this runner's own to run.
IsOwn: TypeAlias = Callable[[str], bool]
# Called with the id of the reply and a piece of its text.
OnReply: TypeAlias = Callable[[str, str], Awaitable[None] | None]
# Called after each run with the id of its prompt; None if it had none.
OnResult: TypeAlias = Callable[[str | None, LoopResult], Awaitable[None] | None]

_LOG: Final = logging.getLogger("sideband")


class TurnStatus(StrEnum):
    """How the turn of a message ended: the words of `LoopStatus`, or `closed` if the session was closed first."""

    COMPLETED = "completed"
    MAX_TURNS = "max_turns"
    MAX_TOKENS = "max_tokens"
    CANCELLED = "cancelled"
    SUSPENDED = "suspended"
    FAILED = "failed"
    LEASE_LOST = "lease_lost"
    CLOSED = "closed"


class Outcome(NamedTuple):
    """How the turn of a message ended.

    `error` is the model's final failure, if this process has run the turn and the model was the reason.
    """

    status: TurnStatus
    error: str | None = None


class _Stage(NamedTuple):
    """How far a message has got."""

    known: bool
    waits: bool
    runs: bool


class _End(NamedTuple):
    """How the turn of a message ended (None: it is not over), and whether the message was delivered."""

    status: TurnStatus | None = None
    delivered: bool = False


class Runner:
    """Runs the queued messages of one session in order, each in a run of its own; any number of processes may have one.

    A message that is held after a cancelled turn starts no run. While another process or handle runs the session, the
    runner waits. A turn that a dead process left open is ended; with `resume`, one that was open when the runner was
    started is continued, and with `resume="always"` every one. With `daemon=True` an interrupt starts a run, too. A message for which `is_own` returns False is
    left to the runners of other processes for `RETRY_SECONDS`: its sender expects the tools and permissions of its own
    process.

    Write `async with Runner(session, model=…):`. The other options are those of `AgentOptions`. `tools` is read again
    when a run begins.
    """

    def __init__(
        self,
        session: Session,
        *,
        on_reply: OnReply | None = None,
        on_result: OnResult | None = None,
        resume: bool | Literal["always"] = False,
        is_own: IsOwn | None = None,
        **options: Unpack[AgentOptions],
    ) -> None:
        check_session(session)
        check_names(options)
        if options.get("wake_seconds") is not None:
            raise InvalidOption(
                "wake_seconds: a runner and a chat do not wake by themselves; use agent_run", field="wake_seconds"
            )
        self.run: AgentRun | None = None
        self.session = session
        self._talk = session.talk
        self._on_reply = on_reply
        self._on_result = on_result
        self._resume = bool(resume)
        self._always_resumes = resume == "always"
        self._is_own = is_own
        # The message of another process that this runner has waited for.
        self._taken_over: str | None = None
        self._pause = SHORTEST_PAUSE
        read = read_run_options(None, options)
        self._given_tools: object = options.get("tools", ())
        self._is_daemon = read.daemon
        self._on_text = read.on_text
        on_text = read.on_text if on_reply is None else self._pass_text
        self._options = msgspec.structs.replace(read, daemon=False, on_text=on_text)
        self._results: dict[str, LoopResult] = {}
        # Set while no run of this runner is in progress.
        self._is_free = asyncio.Event()
        self._is_free.set()
        # Kept, because the journal forgets an event to which nothing refers.
        self._wake = session.talk.journal.wake(session.id)
        self._task: asyncio.Task[None] | None = None
        self._is_beginning = self._is_stopping = False
        self._warned = ""

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def start(self) -> None:
        """Begin to run what is queued, in a task of the running event loop."""
        if self._task is None:
            self._task = asyncio.ensure_future(self._serve())

    async def aclose(self, *, leaves_turn: bool = False) -> None:
        """Stop; a turn that runs is cancelled, and code that ignores this is abandoned after two seconds.

        With `leaves_turn` the turn is left open instead, for a runner with `resume`. What is queued is not held. If the
        store does not answer within another two seconds, the turn is left open and the lease lapses.
        """
        self._is_stopping = True
        if self._task is None:
            return
        if leaves_turn and self.run is not None:
            self.run.leave()
        if not self._is_beginning:
            self._task.cancel()
        # While a run begins, the store may just have granted a lease, which is released when the run has begun.
        _, late = await asyncio.wait((self._task,), timeout=GRACE_SECONDS)
        for task in late:
            task.cancel()
            _, stuck = await asyncio.wait((task,), timeout=GRACE_SECONDS)
            if stuck:
                _LOG.warning(
                    "runner of session %s: the store does not answer, so its turn is left open", self.session.id
                )
                return
        if not self._task.cancelled():
            self._task.result()

    @property
    def has_work(self) -> bool:
        """Whether this runner runs a turn, or will run one for what is queued."""
        return self.run is not None or self._is_beginning or self._choose(self._talk.state) is not None

    # Serving.

    async def _serve(self) -> None:
        while not self._is_stopping:
            await self._until_work()
            if self._talk.state.closed:
                return
            if (left := self._left_to_others()) is not None:
                await self._wait_for(self._until_taken(left), RETRY_SECONDS)
                if self._left_to_others() != left:
                    continue
                self._taken_over = left
            try:
                await self._run_next()
                self._pause = SHORTEST_PAUSE
            except SessionBusy:
                await self._retry_later()
            except StoreClosed:
                return
            except Exception as error:  # noqa: BLE001 - a failure of one run must not end the runner
                self._warn(describe(error))
                await self._retry_later()

    def _warn(self, failure: str) -> None:
        """Log a failure once, however often it is repeated."""
        if failure != self._warned:
            self._warned = failure
            _LOG.warning("runner of session %s: %s", self.session.id, mask_text(failure))

    async def _until_work(self) -> None:
        # The look at the state directly precedes the wait: other waiters clear the same event.
        while True:
            self._wake.clear()
            if self._has_work(self._talk.state):
                return
            await self._wake.wait()

    def _has_work(self, state: SessionState) -> bool:
        if not state.running:
            # The turn that was open when the runner started is over.
            self._resume = self._always_resumes
        # A session that runs without this runner was perhaps left behind by a process that has died.
        return state.closed or state.running or self._choose(state) is not None

    def _choose(self, state: SessionState) -> RunOptions | None:
        """The options of the next run; None if nothing may start one."""
        message = startable(state, steers=not self._options.hold_queue_after_cancel)
        if message is not None:
            task = text_of({"content": list(message.content)})
            return msgspec.structs.replace(self._options, begins=Begins.PROMPT, prompt=message.id, task=task)
        if self._is_daemon and not state.running and any(map(wakes_daemon, state.inbox.items())):
            return msgspec.structs.replace(self._options, begins=Begins.INTERRUPT)
        return None

    def _left_to_others(self) -> str | None:
        """The message that would start the next run, if another process should run it; None if this one may."""
        options = None if self._is_own is None else self._choose(self._talk.state)
        return None if options is None or self._may_run(options.prompt) else options.prompt

    def _may_run(self, message_id: str | None) -> bool:
        return message_id in (None, self._taken_over) or self._is_own is None or self._is_own(message_id)

    async def _until_taken(self, message_id: str) -> None:
        """Return when another process runs the message, or when it is gone."""
        while True:
            self._wake.clear()
            if self._left_to_others() != message_id:
                return
            await self._wake.wait()

    async def _retry_later(self) -> None:
        """Wait until the session has perhaps been released: until it is idle, or for a while.

        An idle session is released soon: the process that ran it has only to tidy up.
        """
        if self._talk.state.running:
            await self._wait_for(self._until_idle(), RETRY_SECONDS)
        else:
            await self._wait_for(self._until_idle(), self._pause)
            self._pause = min(2 * self._pause, RETRY_SECONDS)

    async def _wait_for(self, event: Coroutine[Any, Any, None], seconds: float) -> None:
        """Wait for this, but not longer."""
        sleeping = asyncio.ensure_future(self._options.clock.sleep(seconds))
        waking = asyncio.ensure_future(event)
        try:
            await asyncio.wait((sleeping, waking), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            waking.cancel()

    async def _until_idle(self) -> None:
        while True:
            self._wake.clear()
            await self._wake.wait()
            if not self._talk.state.running:
                return

    # Running.

    async def _run_next(self) -> None:
        self._is_beginning = True
        try:
            run = await self._begin()
        finally:
            self._is_beginning = False
        if run is None:
            return
        if self._is_stopping:
            await run.aclose()
            return
        self.run = run
        self._is_free.clear()
        try:
            result = await run.finish()
            if run.prompt_id is not None:
                self._keep(run.prompt_id, result)
        finally:
            self.run = None
            self._is_free.set()
            await run.aclose()
        await self._tell(run.prompt_id, result)

    async def _begin(self) -> AgentRun | None:
        """Take the lease and begin the next run; None if nothing is left to run. Raise `SessionBusy` without the lease."""
        session, talk = self.session, self._talk
        with session.calling():
            lease = await session.attend()
            try:
                options = await self._next_options()
                if options is not None:
                    session.run = run = AgentRun(talk, self._with_current_tools(options), lease)
                    return run
            except BaseException:
                await lease.release()
                raise
            await lease.release()
            return None

    async def _next_options(self) -> RunOptions | None:
        """Read the newest state, which another process may have changed, and end what a dead process left open."""
        is_open, prompt = await self._talk.commit(lambda state: Decided((), (state.running, state.prompt)))
        if is_open:
            if self._resume:
                self._resume = False
                return msgspec.structs.replace(self._options, begins=Begins.RESUMED, prompt=prompt or None)
            await self._talk.recover()
        options = await self._talk.commit(lambda state: Decided((), self._choose(state)))
        return options if options is None or self._may_run(options.prompt) else None

    def _with_current_tools(self, options: RunOptions) -> RunOptions:
        """The options with the tools as they are now: a sequence that was given may have changed since the last run."""
        try:
            self._options = msgspec.structs.replace(self._options, tools=read_tools(self._given_tools))
        except InvalidOption as error:
            self._warn(f"the tools of the last run are used: {error}")
        return msgspec.structs.replace(options, tools=self._options.tools)

    def _keep(self, message_id: str, result: LoopResult) -> None:
        self._results[message_id] = result
        if len(self._results) > MAX_RESULTS:
            del self._results[next(iter(self._results))]

    # Listeners.

    async def _pass_text(self, text: str) -> None:
        if self._on_text is not None:
            await _call(self._on_text, text)
        request = self._talk.state.request
        if self._on_reply is not None and request is not None:
            await _call(self._on_reply, request.reply_id, text)

    async def _tell(self, message_id: str | None, result: LoopResult) -> None:
        if self._on_result is not None:
            try:
                told = _call(self._on_result, message_id, result)
                await CancelScope().run(told, seconds=self._options.hook_seconds)
            except Exception as error:  # noqa: BLE001 - a listener is user code
                self._warn(f"on_result: {describe(error)}")

    # Outcomes.

    async def outcome(self, message_id: str, *, after: int = 0) -> Outcome:
        """How the turn of this message ended, in whichever process; wait for the end if it is not over.

        `after` is a sequence before the message was delivered; a message that is over is looked for in the journal from
        there on. `UnknownMessage` if the session never had this message, or if its end is not in the journal from there
        on: it was pruned, or `after` is too late.
        """
        journal, session_id = self._talk.journal, self.session.id
        while True:
            stage, at = await journal.read(session_id, lambda state: _stage_of(state, message_id))
            if not stage.known:
                raise UnknownMessage(message_id)
            end = _End(delivered=stage.runs)
            try:
                if not (stage.waits or stage.runs):
                    async with aclosing(journal.history(session_id=session_id, after=after)) as past:
                        end = await _end_of(message_id, past)
                    if end == _End():
                        raise UnknownMessage(message_id)
                if end.status is None:
                    async with aclosing(journal.subscribe(session_id=session_id, after=at)) as events:
                        end = await _end_of(message_id, events, delivered=end.delivered)
            except CursorLost:
                continue
            except CursorExpired as expired:
                after = max(after, expired.oldest)
                continue
            if end.status is None:
                raise StoreClosed
            result = await self.result(message_id) if end.status is TurnStatus.FAILED else None
            return Outcome(end.status, None if result is None else result.error)

    async def result(self, message_id: str) -> LoopResult | None:
        """The result of the run of this message; None if this runner has not run it, or has forgotten it.

        The turn of a message ends a moment before its run has a result, which this waits for.
        """
        while self.run is not None and self.run.prompt_id == message_id:
            await self._is_free.wait()
        return self._results.get(message_id)


def _stage_of(state: SessionState, message_id: str) -> _Stage:
    waits = state.inbox.get(message_id) is not None
    runs = state.running and state.prompt == message_id
    return _Stage(waits or runs or state.inbox.tombstone(message_id) is not None, waits, runs)


def status_of_withdrawn(revoked: InjectRevoked) -> TurnStatus:
    """The status of a message that never started a turn."""
    return TurnStatus.CANCELLED if revoked.reason is None else TurnStatus.CLOSED


def status_of_end(event: Event) -> TurnStatus | None:
    """The status with which this event ends a turn; None if it ends none."""
    match event:
        case Idled(status=status):
            # Without a status, a process that has died left the turn open.
            return TurnStatus(status or LoopStatus.LEASE_LOST)
        case Cancelled():
            return TurnStatus.CANCELLED
        case Closed() | Deleted():
            return TurnStatus.CLOSED
        case _:
            return None


async def _end_of(message_id: str, events: AsyncIterator[Logged], *, delivered: bool = False) -> _End:
    """What these events tell of a message, up to the end of its turn; `delivered` if it was delivered before them."""
    async for logged in events:
        match logged.event:
            case InjectRevoked(message_id=gone) as revoked if gone == message_id:
                return _End(status_of_withdrawn(revoked))
            case InjectDelivered(message_id=begun, audit_only=audit_only) if begun == message_id:
                if audit_only:
                    # It is on record, and starts no turn.
                    return _End(TurnStatus.COMPLETED)
                delivered = True
            case event if delivered and (status := status_of_end(event)) is not None:
                return _End(status)
            case _:
                pass
    return _End(delivered=delivered)


async def _call(listener: Callable[..., Any], *args: object) -> None:
    result = listener(*args)
    if isinstance(result, Awaitable):
        await result
