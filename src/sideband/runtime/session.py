"""A session as a program holds it: send it reminders and messages, list what is pending, withdraw it."""

import asyncio
import itertools
import os
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any, Final, Unpack

import msgspec

from sideband.core import accept, turn
from sideband.core.accept import Accepted, RevokeStatus, Selector
from sideband.core.errors import SessionBusy, shown
from sideband.core.hookevents import SessionEvent
from sideband.core.limits import Limits, Throttle
from sideband.core.messages import as_blocks, read_content
from sideband.core.parse import parse, read_inject_mode
from sideband.core.reminder import Source
from sideband.core.seams import InjectMode
from sideband.core.state import Decided, Decision, Pending, SessionState, ValueT, Waiting, pending, waiting
from sideband.core.surfaces import Surface
from sideband.core.transcript import Transcript, Visibility, reminder_event
from sideband.core.trust import IN_PROCESS, Trust
from sideband.loop.conversation import Conversation
from sideband.loop.guard import Problem
from sideband.loop.hooks import HookRunner
from sideband.loop.lease import HeldLease, acquire_lease
from sideband.ports import Journal, Logged
from sideband.runtime.registries import HOOKS
from sideband.runtime.transcripts import ReminderOptions

if TYPE_CHECKING:
    from sideband.loop.agent import AgentRun

# Each handle on a session holds leases of its own, so that two handles of one process exclude each other.
_HANDLES: Final = itertools.count(1)


class RemindOptions(ReminderOptions, total=False):
    """The options of `Session.remind`; docs/lifecycle.md describes them."""

    mode: str


class Session:
    """One conversation of one agent. What a method has accepted or changed is durable when it returns."""

    def __init__(self, journal: Journal, session_id: str, *, new_id: Callable[[], str], limits: Limits) -> None:
        self.id = session_id
        self.talk = Conversation(journal, session_id, new_id=new_id, limits=limits)
        self.run: AgentRun | None = None
        self._calling = False
        self._handle = next(_HANDLES)
        # None if no rate is configured for this process.
        self._throttle = Throttle(limits) if Trust.OPERATOR in limits.accept_rate else None

    @property
    def busy(self) -> bool:
        """Whether a loop or a call of this process runs on the session."""
        return self._calling or (self.run is not None and not self.run.over)

    def refuse_busy(self) -> None:
        """Raise `SessionBusy` if a loop or a call of this process runs on the session."""
        if self.busy:
            raise SessionBusy(
                f"session {shown(self.id)} is in use by a loop or a call; await it to its end, or leave it with "
                "`async with run:` or `await run.aclose()`",
                field="session",
                value=self.id,
            )

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Exclude other calls and loops of this process for the duration of the block."""
        self.refuse_busy()
        self._calling = True
        try:
            yield
        finally:
            self._calling = False

    async def attend(self) -> HeldLease:
        """Take the session's lease, for a run or a call; `SessionBusy` if another process or handle holds it."""
        return await acquire_lease(self.talk, f"{socket.gethostname()}:{os.getpid()}:{self._handle}")

    async def remind(self, body: str, **options: Unpack[RemindOptions]) -> Accepted:
        """Accept a reminder into the inbox; the next seam that drains its mode makes it live.

        A wrong or unknown option raises `ReminderError`.
        """
        limits = self.talk.limits
        draft = parse({"body": body, **options}, Surface.SESSION, limits=limits)
        self._admit()
        new_id = self.talk.new_id()
        return await self._commit(
            lambda state: accept.accept(
                state, draft, IN_PROCESS, new_id=new_id, limits=limits, source=Source.IN_PIPELINE
            )
        )

    async def inject(self, content: str | Sequence[Mapping[str, Any]], *, mode: str = InjectMode.STEER) -> str:
        """Accept a user message and return its id. `steer` reaches the running turn, `queue` starts the next one."""
        limits = self.talk.limits
        blocks = read_content(as_blocks(content), limits)
        wanted = read_inject_mode(mode)
        self._admit()
        new_id = self.talk.new_id()
        return await self._commit(
            lambda state: accept.accept_message(state, blocks, wanted, IN_PROCESS, new_id=new_id, limits=limits)
        )

    async def prompt(self, content: str | Sequence[Mapping[str, Any]]) -> str:
        """Queue the user's next message and return its id; it starts a turn when the session is idle."""
        return await self.inject(content, mode=InjectMode.QUEUE)

    async def pending(self) -> tuple[Pending, ...]:
        """Every queued and every live reminder."""
        return await self._read(pending)

    async def waiting(self) -> tuple[Waiting, ...]:
        """The inbox in acceptance order: reminders and user messages that no seam has drained."""
        return await self._read(waiting)

    async def _read(self, look: Callable[[SessionState], ValueT]) -> ValueT:
        """Read the newest committed state, including what other processes committed."""
        return await self._decide(lambda state: Decided((), look(state)))

    async def revoke(self, item_id: str) -> RevokeStatus:
        """Withdraw a queued reminder or message; `AlreadyDelivered` if it was drained."""
        return await self._decide(lambda state: accept.revoke(state, item_id, IN_PROCESS))

    async def replace(self, message_id: str, content: str | Sequence[Mapping[str, Any]]) -> None:
        """Replace the content of a queued message; its id, mode and position stay."""
        blocks = read_content(as_blocks(content), self.talk.limits)
        self._admit()
        await self._commit(lambda state: accept.replace_message(state, message_id, blocks, IN_PROCESS))

    def _admit(self) -> None:
        """Raise `RateLimited` if this process sends faster than its configured rate."""
        if self._throttle is not None:
            self._throttle.admit(IN_PROCESS, now=asyncio.get_running_loop().time())

    async def _decide(self, decide: Decision[ValueT]) -> ValueT:
        """Commit a decision; it needs no lease, because a producer may send while another process runs the session."""
        return await self.talk.journal.commit(self.id, decide)

    def _commit(self, decide: Decision[ValueT]) -> Awaitable[ValueT]:
        """Commit a decision; with a throttle, together with a record of what it has refused since the last commit."""
        if self._throttle is None:
            return self.talk.journal.commit(self.id, decide)
        return self._commit_with_refusals(self._throttle, decide)

    async def _commit_with_refusals(self, throttle: Throttle, decide: Decision[ValueT]) -> ValueT:
        refused = throttle.take_refusals(self.talk.new_id)

        def with_refused(state: SessionState) -> Decided[ValueT]:
            events, value = decide(state)
            return Decided(events if state.closed else (*refused, *events), value)

        try:
            return await self._decide(with_refused)
        except Exception:
            throttle.restore_refusals(refused)
            raise

    async def clear(
        self,
        *,
        id: str | None = None,
        tag: str | None = None,
        dedupe_key: str | None = None,
    ) -> int:
        """End every live reminder that matches all given selectors; return how many."""
        selector = Selector(id=id, tag=tag, dedupe_key=dedupe_key)
        return await self._decide(lambda state: accept.clear(state, selector, IN_PROCESS))

    async def cancel(self) -> bool:
        """End the turn that runs on this handle; the inbox stays as it is. Return False if nothing runs.

        A run that no task is driving is over when this returns; any other run ends soon after. `SessionBusy` if another
        process or handle runs the session, because only that one can cancel it.
        """
        run = self.run
        if run is None or run.over:
            if not self._calling and await self._read(lambda state: state.running and state.attended):
                raise SessionBusy(
                    f"session {shown(self.id)} is held by another process or another handle on it, or by a run that "
                    "could not give it back; cancel it there, or wait for the lease to lapse",
                    field="session",
                    value=self.id,
                )
            return False
        run.cancel()
        if not run.driven:
            await run.finish()
        return True

    async def events(self, *, kind_prefix: str = "", after: int = 0) -> AsyncGenerator[Logged, None]:
        """The events of this session after a sequence number, past and future."""
        logged = self.talk.journal.subscribe(session_id=self.id, kind_prefix=kind_prefix, after=after)
        async with aclosing(logged):
            async for entry in logged:
                yield entry

    async def transcript(self) -> Transcript:
        """The conversation and its reminders as they stand now."""
        return await self._read(_transcript)

    async def close(self) -> tuple[Problem, ...]:
        """End the session and everything it still has; return the problems of hooks on `session_end`.

        A loop that runs on the session has to be cancelled first.
        """
        problems: list[Problem] = []
        # Hooks may take a while; no run may begin until the end is committed.
        with self.calling():
            if not self.talk.state.closed:
                await self._end_hooks(problems).notify(SessionEvent.SESSION_END, {})
                await self.talk.write_notes()
            await self._commit(turn.close)
        return tuple(problems)

    def _end_hooks(self, problems: list[Problem]) -> HookRunner:
        """The hooks and providers of the last run; for a session that never ran, the hooks of the process."""
        if self.run is None:
            return HookRunner(self.talk, HOOKS, problems.append)
        self.run.hooks.report = problems.append
        return self.run.hooks


def _transcript(state: SessionState) -> Transcript:
    live = [
        reminder_event(state.live.current(item), event_id=f"{item.id}/live", visibility=Visibility.PUBLIC)
        for item in state.live
    ]
    audit = [
        reminder_event(entry.reminder, event_id=f"{entry.reminder.id}/audit", visibility=Visibility.INTERNAL)
        for entry in state.audit
    ]
    # Copies: the caller may change the messages.
    return Transcript(messages=tuple(map(msgspec.to_builtins, state.messages)), events=(*live, *audit))
