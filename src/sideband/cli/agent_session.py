"""A session of an agent over ACP as the target of a command: start the agent, act on the session, and end the agent."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from sideband.cli.target import AgentAddress
from sideband.core.errors import ReminderError, UnknownMessage, UnknownReminder, UnknownSession, shown
from sideband.core.parse import read_inject_mode
from sideband.core.reminder import ReminderId
from sideband.core.seams import InjectMode
from sideband.core.state import PendingState
from sideband.inspect.conversation import message_text
from sideband.inspect.report import CommandError, printable
from sideband.protocols.acp.client import (
    AgentClient,
    AgentFailed,
    AgentSession,
    NotSupportedByAgent,
    ReminderRoute,
    RpcError,
    connect,
)
from sideband.protocols.acp.client.capabilities import CapabilityPlace
from sideband.protocols.acp.client.failures import STDERR_LINES
from sideband.protocols.acp.messages import PendingMessage, PendingReminder
from sideband.runtime.producer import Accepted, RevokeStatus

# So many sessions of the agent are listed if the one that was named does not exist.
LISTED: Final = 10

_ValueT = TypeVar("_ValueT")


class AgentRecipient:
    """Tells a session of an agent what a command tells a stored session."""

    def __init__(self, client: AgentClient, session: AgentSession) -> None:
        self._client = client
        self._session = session

    async def remind(self, payload: Mapping[str, Any], /) -> Accepted:
        """Send a reminder; `id` of the payload is the idempotency key."""
        fields = dict(payload)
        reminded = await self._session.remind(fields.pop("body"), idempotency_key=fields.pop("id", None), **fields)
        if reminded.route is not ReminderRoute.ACCEPTED or reminded.reminder_id is None:
            raise CommandError(
                "the agent takes no reminders (it does not advertise `reminders.inject`), so nothing was sent; put "
                "`sideband acp-proxy --` before its command in your editor, or send the text in a prompt"
            )
        return Accepted(
            ReminderId(reminded.reminder_id), reminded.deduped_count, dict(reminded.requested), dict(reminded.effective)
        )

    async def inject(self, content: str, /, *, mode: str) -> str | None:
        """Send a user message into the running turn."""
        if mode == InjectMode.QUEUE:
            raise CommandError(
                "--mode queue: the turn that the message starts would end with this command, which ends the agent; use "
                "--mode steer, or name the session in its store with --to STORE_URL#ID"
            )
        return (await self._session.inject(content, mode=read_inject_mode(mode))).message_id

    async def revoke(self, item_id: str, /) -> RevokeStatus:
        """Withdraw a reminder or message that waits."""
        try:
            return await self._session.revoke_reminder(item_id)
        except (UnknownReminder, NotSupportedByAgent):
            if self._client.capabilities.inject is None:
                raise
        try:
            return await self._session.revoke_message(item_id)
        except UnknownMessage:
            raise UnknownReminder(item_id) from None

    async def clear(self, *, id: str | None = None, tag: str | None = None, dedupe_key: str | None = None) -> int:
        """End the reminders that match."""
        return await self._session.clear(id=id, tag=tag, dedupe_key=dedupe_key)

    async def pending(self) -> list[dict[str, Any]]:
        """What waits in the inbox, in the form that `sideband pending --json` prints."""
        return [*map(_row, await self._session.pending())]


def _row(item: PendingReminder | PendingMessage) -> dict[str, Any]:
    row: dict[str, Any] = {"state": PendingState.QUEUED, "position": item.position}
    if isinstance(item, PendingMessage):
        text = message_text({"content": list(item.content)})
        return row | {"kind": "user", "id": item.message_id, "mode": item.mode, "text": text}
    fields = ("body", "tags", "dedupe_key", "ttl_turns", "role_hint", "source")
    known = {name: value for name in fields if (value := getattr(item, name)) is not None}
    reminder = {"id": item.reminder_id, **known}
    return row | {"kind": "reminder", "id": item.reminder_id, "mode": item.mode, "reminder": reminder}


async def with_agent(wanted: AgentAddress, act: Callable[[AgentRecipient], Awaitable[_ValueT]]) -> _ValueT:
    """Start the agent, run `act` with the session, and end the agent; `CommandError` if the agent cannot do it."""
    try:
        async with connect(wanted.command) as client:
            return await _act(client, wanted.session_id, act)
    except AgentFailed as error:
        raise CommandError(error.summary, [*map(printable, error.stderr.splitlines()[-STDERR_LINES:])]) from None
    except NotSupportedByAgent as error:
        raise CommandError(str(error)) from None
    except RpcError as error:
        raise CommandError(f"the agent refused: {error.message} ({error.code})") from None


async def _act(client: AgentClient, session_id: str, act: Callable[[AgentRecipient], Awaitable[_ValueT]]) -> _ValueT:
    reminders = client.capabilities.reminders
    if reminders is not None and reminders.place is CapabilityPlace.EXTENSION:
        # Sideband reaches any session that it keeps. To open one could run what is queued for it, in a process that is
        # about to end.
        try:
            return await act(AgentRecipient(client, client.session(session_id)))
        except UnknownSession:
            pass
    return await act(AgentRecipient(client, await _opened(client, session_id)))


async def _opened(client: AgentClient, session_id: str) -> AgentSession:
    try:
        # To resume costs less than to load, which replays the conversation.
        if client.capabilities.resumes:
            return await client.resume_session(session_id)
        return await client.load_session(session_id)
    except UnknownSession:
        raise CommandError(f"the agent has no session {shown(session_id)}", await _listed(client)) from None


async def _listed(client: AgentClient) -> list[str]:
    lines: list[str] = []
    if not client.capabilities.lists:
        return lines
    try:
        async for listed in client.list_sessions():
            if len(lines) == LISTED:
                lines.append("...")
                break
            lines.append(printable("  ".join(filter(None, (listed.session_id, listed.title, listed.cwd)))))
    except (RpcError, ReminderError, NotSupportedByAgent):
        # The list is only a help.
        pass
    return lines
