"""One client attached to one session: its updates in one order, and the ends of the turns that it waits for.

Everything that a client is told of a session comes from one cursor over the journal, past and live. Text that the model
is writing in this process is sent only after the update that opened its turn, so it never overtakes the journal.
"""

import asyncio
from collections.abc import Awaitable, Iterable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from sideband.core.errors import CursorExpired, StoreClosed, UnknownSession
from sideband.core.messages import ToolCall
from sideband.core.updates import (
    MessageUpdate,
    ResultUpdate,
    RunUpdate,
    SessionUpdate,
    TurnUpdate,
    Update,
    UpdateKind,
    View,
    Viewer,
)
from sideband.logs import LOG
from sideband.protocols.acp.agent.session_updates import Abilities, Translator, calls_of, idle_state, running_state
from sideband.protocols.frames import ConnectionLost
from sideband.protocols.jsonrpc import Peer
from sideband.runtime.runner import TurnStatus

if TYPE_CHECKING:
    from sideband.protocols.acp.agent.hosted import HostedSession


class Attachment:
    """A client that is told of a session. An observer is told the same as a controller, and may change nothing."""

    def __init__(
        self, peer: Peer, hosted: "HostedSession", viewer: Viewer, abilities: Abilities, *, is_observer: bool = False
    ) -> None:
        self.peer = peer
        self.hosted = hosted
        self.is_observer = is_observer
        self.abilities = abilities
        self._viewer = viewer
        self._translator = Translator(abilities, hosted.cwd)
        self._task: asyncio.Task[None] | None = None
        # The calls that were announced and have no result yet.
        self._calls: dict[str, ToolCall] = {}
        self._changed = asyncio.Event()
        # The terminals of this client in which calls run.
        self._terminals: dict[str, str] = {}
        # The reply whose turn is open, how many of its pieces were sent, and their text since its last restart.
        self._reply_id: str | None = None
        self._pieces = self._attempt = 0
        self._text = ""
        # Text waits until the reminders of its request were told, which follow the update that opened the turn.
        self._is_gated = False
        # Cleared while a prompt of this client is being accepted: its updates come after its id is known here.
        self._goes_on = asyncio.Event()
        self._goes_on.set()
        # Prompts of this client that are not answered, with the future that its answer waits for.
        self._prompts: dict[str, asyncio.Future[TurnStatus]] = {}
        self._running: str | None = None

    # Beginning and end.

    async def attach(self, *, replay: bool, is_new: bool = False) -> None:
        """Send the past if wanted, and then the updates that follow it; return when the past was sent.

        A client is told nothing about a new session before it knows the id.
        """
        session = self.hosted.session
        sync = await session.view(self._viewer)
        if replay:
            try:
                async with aclosing(session.updates(self._viewer, follow=False)) as past:
                    async for update in past:
                        if update.cursor > sync.cursor:
                            # It was committed after the view, from which the live updates continue.
                            break
                        self._tell(update, live=False)
                        await self.peer.transport.drain()
            except CursorExpired:
                # The oldest events were pruned. What is left of the conversation is in the view.
                self._tell_view(sync.view)
        if not is_new:
            self._continue(sync.view)
        self._task = asyncio.ensure_future(self._follow(sync.cursor))

    def _continue(self, view: View) -> None:
        """Start from the state that the live updates continue."""
        if view.session is None:
            return
        self._running = self._running or ("" if view.session.running else None)
        for message in view.session.messages:
            self._calls |= {call.id: call for call in calls_of(message)}
            self._calls.pop(str(message.get("tool_call_id", "")), None)
        if view.session.reply_id is not None:
            self._open_reply(view.session.reply_id)
            self._open_gate()
        if self.abilities.version > 1:
            waits = "requires_action" if view.session.permissions else "running"
            self._send([running_state(waits) if view.session.running else idle_state(None)])

    async def detach(self, successor: "Attachment | None" = None) -> None:
        """Tell this client nothing more. Its prompts stay in the session; a `successor` waits for their ends."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
        for message_id, waiting in self._prompts.items():
            if successor is None:
                waiting.cancel()
            else:
                successor.expect(message_id, waiting)

    async def _follow(self, after: int) -> None:
        session = self.hosted.session
        while True:
            try:
                async with aclosing(session.updates(self._viewer, after=after)) as updates:
                    async for update in updates:
                        await self._goes_on.wait()
                        self._tell(update, live=True)
                        after = update.cursor
                        await self.peer.transport.drain()
                        if self._is_gated:
                            # Runs when this task waits for the next commit.
                            asyncio.get_running_loop().call_soon(self._open_gate)
            except CursorExpired as expired:
                LOG.warning("session %s: a slow client has missed events that were pruned", session.id)
                after = expired.oldest
                continue
            except (ConnectionLost, StoreClosed, UnknownSession):
                pass
            self._end_all(TurnStatus.CLOSED)
            return

    # Prompts.

    async def accept(self, prompting: Awaitable[str]) -> tuple[str, asyncio.Future[TurnStatus]]:
        """Accept a prompt; return its id and the end of its turn, for a client of version 2 its delivery."""
        self._goes_on.clear()
        try:
            message_id = await prompting
            ended: asyncio.Future[TurnStatus] = asyncio.get_running_loop().create_future()
            self.expect(message_id, ended)
            return message_id, ended
        finally:
            self._goes_on.set()

    def expect(self, message_id: str, ended: asyncio.Future[TurnStatus]) -> None:
        """Tell this future how the turn of a message ends."""
        self._prompts[message_id] = ended
        ended.add_done_callback(lambda _done: self._prompts.pop(message_id, None))

    def awaits(self, message_id: str | None) -> bool:
        """Whether this client has sent the prompt and waits for its answer."""
        return message_id in self._prompts

    def _end(self, message_id: str | None, status: TurnStatus) -> None:
        waiting = self._prompts.get(message_id or "")
        if waiting is not None and not waiting.done():
            waiting.set_result(status)

    def _end_all(self, status: TurnStatus) -> None:
        for message_id in tuple(self._prompts):
            self._end(message_id, status)

    async def until_announced(self, call_id: str) -> None:
        """Wait until this client was told of a call."""
        while call_id not in self._calls:
            self._changed.clear()
            await self._changed.wait()

    # Sending.

    def _send(self, told: Iterable[dict[str, Any]]) -> None:
        session_id = self.hosted.session.id
        for update in told:
            self.peer.notify("session/update", {"sessionId": session_id, "update": update})

    def _tell(self, update: Update, *, live: bool) -> None:
        try:
            self._tell_one(update, live=live)
        except Exception:  # noqa: BLE001 - one update that cannot be told must not keep the others from the client
            LOG.exception("session %s: a client was not told of %s", self.hosted.session.id, update.kind)

    def _tell_one(self, update: Update, *, live: bool) -> None:
        match update:
            case TurnUpdate():
                self._tell_turn(update, live=live)
            case ResultUpdate():
                call = self._calls.pop(update.call_id, None) or ToolCall(
                    id=update.call_id, name=str(update.message.get("name", ""))
                )
                change = self.hosted.changes.get(update.call_id) if live else None
                text = str(update.message.get("content", ""))
                terminal = self._terminals.pop(update.call_id, None)
                self._send([self._translator.tool_ended(call, update.status, text, change, terminal)])
            case MessageUpdate():
                self._tell_message(update, live=live)
            case RunUpdate():
                self._tell_run(update, live=live)
            case SessionUpdate(kind=UpdateKind.SESSION_BEGUN):
                self._tell_messages(update.messages)
            case SessionUpdate(kind=UpdateKind.SESSION_RECORDED) if not live:
                # The list has the title, and the answer to the request has the mode.
                pass
            case SessionUpdate(kind=UpdateKind.SESSION_CLOSED | UpdateKind.SESSION_DELETED):
                self._end_all(TurnStatus.CLOSED)
            case _:
                self._send(self._translator.other(update))
                if live:
                    self._send(self._translator.state(update))

    def _tell_messages(self, messages: Iterable[dict[str, Any]]) -> None:
        calls: dict[str, ToolCall] = {}
        for message in messages:
            calls |= {call.id: call for call in calls_of(message)}
            self._send(self._translator.message(message, calls))

    def _tell_view(self, view: View) -> None:
        if view.session is not None:
            self._tell_messages(view.session.messages)

    def _tell_message(self, update: MessageUpdate, *, live: bool) -> None:
        if update.kind is UpdateKind.MESSAGE_REVOKED:
            self._end(update.message_id, TurnStatus.CANCELLED)
            return
        # A client of version 1 shows the prompt that it has sent by itself.
        is_own = live and update.message_id in self._prompts and self.abilities.version == 1
        if not is_own:
            self._send(self._translator.other(update))
        if update.kind is UpdateKind.MESSAGE_DELIVERED and self.abilities.version > 1:
            self._end(update.message_id, TurnStatus.COMPLETED)

    def _tell_run(self, update: RunUpdate, *, live: bool) -> None:
        if live:
            self._send(self._translator.state(update))
        if update.kind is UpdateKind.RUN_STARTED:
            self._running = update.message_id
            return
        if update.kind is UpdateKind.RUN_CANCELLED:
            status = TurnStatus.CANCELLED
        else:
            # Without a status, a process that has died left the turn open.
            status = TurnStatus(update.status or TurnStatus.LEASE_LOST)
        self._end(self._running, status)
        self._running = None

    def _tell_turn(self, update: TurnUpdate, *, live: bool) -> None:
        match update.kind:
            case UpdateKind.TURN_OPENED if update.reply_id is not None and live:
                self._open_reply(update.reply_id)
            case UpdateKind.TURN_VOIDED:
                self._close_reply()
            case UpdateKind.TURN_COMMITTED if update.reply is not None:
                self._finish_reply(str(update.reply_id or ""), str(update.reply.get("content", "")))
                for call in calls_of(update.reply):
                    self._calls[call.id] = call
                    status = "in_progress" if live and call.id in self.hosted.started else "pending"
                    self._send([self._translator.tool_call(call, status=status)])
                    self._tell_terminal(call.id)
                self._changed.set()
            case _:
                pass

    def tool_started(self, call_id: str) -> None:
        """Tell that a call runs; if the client has not been told of the call yet, it learns both together."""
        if call_id in self._calls:
            self._send([self._translator.tool_started(call_id)])

    def show_terminal(self, call_id: str, terminal_id: str) -> None:
        """Tell in which terminal of this client a call runs."""
        self._terminals[call_id] = terminal_id
        if call_id in self._calls:
            self._tell_terminal(call_id)

    def _tell_terminal(self, call_id: str) -> None:
        if call_id in self._terminals:
            self._send([self._translator.tool_terminal(call_id, self._terminals[call_id])])

    # The text of the reply that is being written.

    def _open_reply(self, reply_id: str) -> None:
        self._close_reply()
        self._reply_id, self._is_gated = reply_id, True

    def _open_gate(self) -> None:
        if self._is_gated and self._reply_id is not None:
            self._is_gated = False
            self.pass_text(self._reply_id)

    def _close_reply(self) -> None:
        self._reply_id, self._text, self._is_gated = None, "", False
        self._pieces = self._attempt = 0

    def pass_text(self, reply_id: str) -> None:
        """Send the pieces of this reply that are not sent yet.

        While the client is too slow they wait: the rest of the reply is sent when its turn is committed.
        """
        stream = self.hosted.stream
        if self._is_gated or reply_id != self._reply_id or stream.reply_id != reply_id:
            return
        if self.peer.transport.is_congested:
            return
        for attempt, text in stream.pieces[self._pieces :]:
            self._pieces += 1
            if attempt != self._attempt:
                self._restart(reply_id)
                self._attempt = attempt
            self._text += text
            self._send([self._translator.reply_text(reply_id, text)])

    def _restart(self, reply_id: str) -> None:
        if self._text:
            self._send([self._translator.reply_restarted(reply_id)])
        self._text = ""

    def _finish_reply(self, reply_id: str, text: str) -> None:
        """Send what is missing of a committed reply."""
        if reply_id != self._reply_id:
            self._close_reply()
        if not text.startswith(self._text):
            self._restart(reply_id)
        rest = text[len(self._text) :]
        if rest:
            self._send([self._translator.reply_text(reply_id, rest)])
        self._close_reply()
