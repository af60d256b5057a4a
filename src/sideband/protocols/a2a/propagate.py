"""Delegation: a tool that gives a task to another agent, and with `propagate_remote` passes on reminders while it runs.

A sub-agent in this process gets the reminders of its parent when it is made. An agent over A2A gets them when its task has
begun, and those that come later while it works on the task.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from typing import Annotated, Any, Final, NamedTuple

from sideband.core.errors import (
    IdempotencyConflict,
    InvalidOption,
    RateLimited,
    ReminderError,
    TaskFinished,
    TooManyPending,
    UnknownSession,
    shown,
)
from sideband.core.propagation import Handed, propagate
from sideband.core.reminder import Propagate, Source
from sideband.core.trust import Trust
from sideband.core.updates import ReminderUpdate
from sideband.logs import LOG
from sideband.ports import ToolOutput
from sideband.protocols.a2a.client import (
    NotSupportedByPeer,
    PeerAgent,
    PeerFailed,
    PeerSilent,
    PeerState,
    PeerTask,
    PeerUnreachable,
    RpcError,
    TaskReminderRoute,
    connect,
)
from sideband.protocols.a2a.client.capabilities import INJECT
from sideband.protocols.wire import outward
from sideband.runtime.options import check_session
from sideband.runtime.session import Session
from sideband.runtime.system import new_id
from sideband.tools.function import FunctionTool, tool

# How long a task may take, unless the caller chooses another limit.
DELEGATION_SECONDS: Final = 3_600.0
# How long a cancelled call waits for the end of the task. The loop abandons a tool that takes longer than 2 s to stop.
CANCEL_SECONDS: Final = 1.5

# When to try again if the peer has too many reminders pending.
ROOM_SECONDS: Final = 10.0
# When to try again if the peer could not be reached; no attempt is made sooner, whatever the peer says.
RETRY_SECONDS: Final = 1.0

_CLEAR: Final = "tasks/clear_reminders"
_ABOUT: Final = "Give a task to the agent {name}, wait until it is done, and get its result."
_TROUBLES: Final = (ReminderError, RpcError, PeerFailed, NotSupportedByPeer)


def delegate_tool(
    peer: PeerAgent | str,
    *,
    name: str = "delegate",
    description: str | None = None,
    token: str | None = None,
    session: Session | None = None,
    propagate_remote: bool = False,
    seconds: float = DELEGATION_SECONDS,
) -> FunctionTool[..., Any]:
    """Make a tool with which an agent gives tasks to another agent over A2A and gets their results.

    With `propagate_remote`, the reminders of `session` that propagate (`all`, and `session` if they began there) are sent
    to the other agent while it works, and cleared there when they end, as far as its card allows. Reminders that other
    peers or servers sent to the session are not passed on, because the other agent would trust them like this one. Those
    of the canonical providers are not passed on either, because they state facts of this process, such as the use of its
    context window and local paths. Cancelling the call cancels the task, and so does a task that needs input, because the
    tool cannot answer it.

    Args:
        peer: A connection to the other agent, or its address; then each call makes a connection of its own.
        name: The name of the tool.
        description: What the model is told of the tool; the default names the other agent.
        token: The token for an address.
        session: The session whose agent gets the tool; needed with `propagate_remote` only.
        propagate_remote: Whether reminders of the session are sent to the other agent.
        seconds: How long a task may take.
    """
    if not isinstance(peer, PeerAgent | str):
        raise InvalidOption(
            f"peer must be the address of an agent, or what connect() returns, not {shown(peer)}",
            field="peer",
            value=peer,
        )
    if token is not None and isinstance(peer, PeerAgent):
        raise InvalidOption("token belongs to an address; a connection has its own", field="token")
    if propagate_remote:
        check_session(session, field="session")
    delegation = _Delegation(peer, token, session if propagate_remote else None)

    async def delegate(
        task: Annotated[str, "What the other agent is to do. It does not know this conversation, so say all it needs."],
    ) -> ToolOutput:
        return await delegation.run(task)

    shown_name = peer.name if isinstance(peer, PeerAgent) else peer
    about = _ABOUT.format(name=shown_name) if description is None else description
    return tool(delegate, name=name, description=about, seconds=seconds)


class _Delegation:
    """Gives tasks to one agent; `session=None` passes no reminders on."""

    def __init__(self, peer: PeerAgent | str, token: str | None, session: Session | None) -> None:
        self._peer = peer
        self._token = token
        self._session = session
        self._working: set[asyncio.Task[ToolOutput]] = set()

    async def run(self, text: str) -> ToolOutput:
        # In a task of its own: a call that is cancelled before the other agent has answered would not know the id of the
        # task, and could not cancel it.
        cancelled = asyncio.Event()
        working = asyncio.create_task(self._work(text, cancelled), name="sideband-a2a-delegation")
        self._working.add(working)
        working.add_done_callback(self._ended)
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            cancelled.set()
            await asyncio.wait({working}, timeout=CANCEL_SECONDS)
            raise

    def _ended(self, working: asyncio.Task[ToolOutput]) -> None:
        self._working.discard(working)
        if not working.cancelled():
            # The call may no longer be there to get it.
            working.exception()

    async def _work(self, text: str, cancelled: asyncio.Event) -> ToolOutput:
        async with self._reached() as peer:
            task = await peer.start(text)
            if not task.id:
                return _result(task, peer)
            try:
                async with self._passing_on(peer, task.id):
                    ended = await _until(cancelled, peer, task)
            except BaseException:
                await _cancel(peer, task.id)
                raise
            if ended is None:
                await _cancel(peer, task.id)
                return ToolOutput(text=f"Cancelled, with the task {task.id} of the agent {peer.name}.", is_error=True)
            if ended.state.needs_input:
                return _result(ended, peer, was_cancelled=await _cancel(peer, task.id))
            return _result(ended, peer)

    @asynccontextmanager
    async def _reached(self) -> AsyncIterator[PeerAgent]:
        if isinstance(self._peer, PeerAgent):
            yield self._peer
            return
        async with connect(self._peer, token=self._token) as peer:
            yield peer

    @asynccontextmanager
    async def _passing_on(self, peer: PeerAgent, task_id: str) -> AsyncIterator[None]:
        if self._session is None:
            yield
            return
        passing = asyncio.create_task(
            RemotePropagation(peer, task_id, self._session).run(), name="sideband-a2a-propagation"
        )
        try:
            yield
        finally:
            passing.cancel()
            await asyncio.wait({passing})
            error = None if passing.cancelled() else passing.exception()
            if error is not None:
                LOG.error("reminders of session %s were no longer passed on", self._session.id, exc_info=error)


async def _until(cancelled: asyncio.Event, peer: PeerAgent, task: PeerTask) -> PeerTask | None:
    """The task when it has ended or needs input; None if the call was cancelled first."""
    waiting, stopping = asyncio.ensure_future(peer.wait(task)), asyncio.ensure_future(cancelled.wait())
    try:
        await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return None if cancelled.is_set() else waiting.result()
    finally:
        for one in (waiting, stopping):
            one.cancel()
        await asyncio.gather(waiting, stopping, return_exceptions=True)


async def _cancel(peer: PeerAgent, task_id: str) -> bool:
    """Cancel a task whose result is no longer wanted; False if it has ended, or its agent is gone."""
    try:
        await peer.cancel(task_id)
    except _TROUBLES as error:
        LOG.info("task %s of the peer %s was not cancelled: %s", task_id, peer.url, error)
        return False
    return True


def _result(task: PeerTask, peer: PeerAgent, *, was_cancelled: bool = False) -> ToolOutput:
    data = {"task_id": task.id, "context_id": task.context_id, "state": task.state.value}
    if task.state is PeerState.COMPLETED:
        return ToolOutput(text=task.text or "The agent has finished and gave no result.", data=data)
    why = f": {task.status.note}" if task.status.note else "."
    if task.state.needs_input:
        became = "was cancelled" if was_cancelled else "could not be cancelled"
        text = (
            f"The agent {peer.name} needs input before it can go on with its task {task.id}{why}\n"
            f"The task {became}, because this tool cannot answer. Give it again, with all that the agent needs."
        )
    else:
        text = f"The task of the agent {peer.name} ended as {task.state}{why}"
    return ToolOutput(text=text, is_error=True, data=data)


# Reminders.


class _Sent(NamedTuple):
    """A reminder that was sent; `remote_id=None` if the peer did not take it."""

    remote_id: str | None
    body: str
    dedupe_key: str | None


class RemotePropagation:
    """Sends the reminders of a session that propagate to a task of a peer, and clears them there when they end.

    It compares what should be there with what was sent, after each commit of the session that concerns a reminder.
    """

    def __init__(self, peer: PeerAgent, task_id: str, session: Session) -> None:
        self._peer = peer
        self._task_id = task_id
        self._session = session
        self._sent: dict[str, _Sent] = {}
        self._has_complained = False
        self._is_over = False
        # Of reminders that the peer may have taken, although it did not answer: their ids there, by id and body here. With
        # its id the peer recognises what is sent again.
        self._unanswered: dict[tuple[str, str], str] = {}
        # When to send again what the peer did not take, in the time of the event loop; None if there is nothing.
        self._retry_at: float | None = None
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Pass reminders on until this is cancelled or the peer takes no more."""
        if not self._peer.offers(INJECT):
            self._complain("its card does not say that it takes reminders")
            return
        watching = asyncio.create_task(self._watch(await self._compare()))
        try:
            while not self._is_over:
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(self._retry_at):
                        await self._changed.wait()
                self._changed.clear()
                await self._compare()
        finally:
            watching.cancel()
            await asyncio.wait({watching})
        if not watching.cancelled():
            watching.result()

    async def _watch(self, cursor: int) -> None:
        try:
            async with aclosing(self._session.updates(after=cursor)) as updates:
                async for update in updates:
                    if isinstance(update, ReminderUpdate):
                        self._changed.set()
        finally:
            # The store was closed or failed.
            self._is_over = True
            self._changed.set()

    async def _compare(self) -> int:
        """Send what is missing at the peer, then clear what should no longer be there; the position in the journal."""
        if self._retry_at is not None and self._retry_at <= asyncio.get_running_loop().time():
            self._retry_at = None
        handoff, cursor = await self._session.talk.journal.read(
            self._session.id, partial(propagate, agent_id=self._session.id, limits=self._session.talk.limits)
        )
        wanted = _newest(handoff.reminder_propagation)
        for reminder_id, handed in wanted.items():
            earlier = self._sent.get(reminder_id)
            is_missing = earlier is None or earlier.body != handed.reminder.body
            if is_missing and not self._is_over and self._retry_at is None:
                await self._send(handed, earlier)
        for reminder_id in [*self._sent]:
            if reminder_id not in wanted:
                await self._end(self._sent.pop(reminder_id))
        for reminder_id, body in [*self._unanswered]:
            if reminder_id not in wanted or wanted[reminder_id].reminder.body != body:
                await self._end(_Sent(self._unanswered.pop((reminder_id, body)), body, None))
        return cursor

    async def _send(self, handed: Handed, earlier: _Sent | None) -> None:
        reminder = handed.reminder
        remote_id: str | None = None
        given_id = self._unanswered.pop((reminder.id, reminder.body), None) or new_id()
        try:
            reminded = await self._peer.remind(
                self._task_id,
                reminder.body,
                tags=reminder.tags,
                dedupe_key=reminder.dedupe_key,
                ttl_turns=reminder.ttl_turns,
                preserve_on_compact=reminder.preserve_on_compact,
                # The other agent would hand a `session` reminder on, because it does not know that it was handed on once.
                propagate=Propagate.ALL if reminder.propagate is Propagate.ALL else Propagate.NONE,
                role_hint=reminder.role_hint,
                id=given_id,
                source=outward(reminder.source, handed.provenance.via),
                fired_at_turn=reminder.fired_at_turn,
                originating_agent_id=reminder.originating_agent_id,
            )
        except (TaskFinished, UnknownSession):
            self._is_over = True
        except (RateLimited, TooManyPending, PeerUnreachable, PeerSilent) as error:
            self._complain(error)
            self._retry_at = asyncio.get_running_loop().time() + _delay(error)
            if isinstance(error, PeerFailed):
                self._unanswered[reminder.id, reminder.body] = given_id
            return
        except IdempotencyConflict:
            # The peer took it, although its answer was lost; since then its remaining TTL has changed here.
            remote_id = given_id
        except _TROUBLES as error:
            self._complain(error)
        else:
            remote_id = reminded.reminder_id
            if reminded.route is not TaskReminderRoute.ACCEPTED:
                self._is_over = True
                self._complain("it takes no reminders")
        self._sent[reminder.id] = _Sent(remote_id, reminder.body, reminder.dedupe_key)
        if earlier is not None:
            await self._end(earlier)

    async def _end(self, sent: _Sent) -> None:
        """End a reminder at the peer, unless a newer one with its key does that there."""
        replaced = sent.dedupe_key is not None and any(
            other.remote_id is not None and other.dedupe_key == sent.dedupe_key for other in self._sent.values()
        )
        if sent.remote_id is None or replaced or self._is_over or not self._peer.offers(_CLEAR):
            return
        try:
            await self._peer.clear(self._task_id, id=sent.remote_id)
        except _TROUBLES as error:
            self._complain(error)

    def _complain(self, why: object) -> None:
        """Log that the peer refuses; once, because it may refuse every reminder that follows."""
        if not self._has_complained:
            self._has_complained = True
            LOG.warning(
                "the peer %s does not take all reminders of session %s: %s", self._peer.url, self._session.id, why
            )


def _delay(error: Exception) -> float:
    """After how many seconds to try again."""
    if isinstance(error, RateLimited):
        return max(RETRY_SECONDS, error.retry_after_ms / 1_000)
    return ROOM_SECONDS if isinstance(error, TooManyPending) else RETRY_SECONDS


def _newest(handed: tuple[Handed, ...]) -> dict[str, Handed]:
    """The reminders to pass on, by id: those of the operator and of controllers, the newest of each key.

    Reminders of the canonical providers state facts of this process, such as local paths.
    """
    slots: dict[object, Handed] = {}
    for entry in handed:
        if entry.provenance.trust > Trust.CONTROLLER or entry.reminder.source is Source.STDLIB_PROVIDER:
            continue
        slot = (entry.reminder.id,) if entry.reminder.dedupe_key is None else entry.reminder.dedupe_key
        slots.pop(slot, None)
        slots[slot] = entry
    return {entry.reminder.id: entry for entry in slots.values()}
