"""A session of an agent, as its client sees it: prompts, reminders, messages into a running turn, and their withdrawal.

What the agent does not support is done in another way only if the result says so; otherwise the caller gets an error.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeAlias

import msgspec

from sideband.core.errors import (
    AlreadyRevoked,
    InvalidOption,
    NoRunningTurn,
    ReminderError,
    TooManyPending,
    UnsupportedMode,
)
from sideband.core.messages import as_blocks
from sideband.core.parse import parse, read_inject_mode
from sideband.core.reminder import Draft, PropagateWord, RoleHintWord
from sideband.core.seams import InjectMode, InjectModeWord, Mode, ModeWord
from sideband.core.surfaces import LIFECYCLE, Case, Surface, spelled
from sideband.core.trust import REACHES, ROLE_HINTS
from sideband.protocols.acp.client.capabilities import CapabilityPlace, PeerReminders
from sideband.protocols.acp.client.refusals import NotSupportedByAgent
from sideband.protocols.acp.client.updates import ReminderReader, UpdateStream
from sideband.protocols.acp.messages import (
    PendingMessage,
    PendingReminder,
    ReminderUpdate,
    SessionPendingInjectionsResponse,
    SteeringOutcome,
)
from sideband.protocols.acp.methods import PREFIX, member
from sideband.protocols.jsonrpc import INTERNAL_ERROR, RpcError
from sideband.protocols.wire import fitted
from sideband.runtime.producer import RevokeStatus

if TYPE_CHECKING:
    from sideband.protocols.acp.client.client import AgentClient

# What stands above a reminder that is sent as a user message, for the model and for a person who reads the transcript.
MARKER: Final = "[Reminder from the host application. The user did not write this.]"
# How many reminders wait for the next prompt of a session.
MAX_HELD: Final = 64
# The modes of so many messages are remembered, for revoking a message and sending it anew.
_REMEMBERED: Final = 4_096
_SNAKE: Final[Mapping[str, str]] = MappingProxyType({spelled(name, Case.CAMEL): name for name in (*LIFECYCLE, "mode")})

MessageContent: TypeAlias = str | Sequence[Mapping[str, Any]]


class Fallback(StrEnum):
    """What happens to a reminder if the agent does not support reminders.

    It is dropped, or shown to the user, or put in front of the next prompt as a marked message. The last resort makes the
    reminder part of the conversation for good.
    """

    SUPPRESS = "suppress"
    SHOW = "show"
    MARKED_MESSAGE = "marked_message"


class ReminderRoute(StrEnum):
    """The way that a reminder went."""

    ACCEPTED = "accepted"
    SUPPRESSED = "suppressed"
    SHOWN = "shown"
    WITH_NEXT_PROMPT = "with_next_prompt"


class Reminded(NamedTuple):
    """What became of a reminder; it has an id only if the agent accepted it.

    `requested` and `effective` hold the hints that were lowered to what the agent supports, before and after.
    """

    route: ReminderRoute
    reminder_id: str | None = None
    deduped_count: int = 0
    requested: Mapping[str, Any] = MappingProxyType({})
    effective: Mapping[str, Any] = MappingProxyType({})


class InjectRoute(StrEnum):
    """`accepted` messages wait and can be revoked; the other two are what `_session/steering` reports."""

    ACCEPTED = "accepted"
    INJECTED = "injected"
    STARTED_NEW_TURN = "startedNewTurn"


class MessageSent(NamedTuple):
    """What became of a message; None as its id means that it can no longer be revoked."""

    route: InjectRoute
    message_id: str | None = None


class MessageReplaced(NamedTuple):
    """The id of the message with the new content; if its position was not kept, it is a new message at the end."""

    message_id: str | None
    kept_position: bool


ShowReminder: TypeAlias = Callable[["AgentSession", Draft], Awaitable[None]]


class PromptTurn:
    """A turn that a prompt has started: iterate over it for its updates, await it for the reason of its end.

    The turn goes on if its updates are not read. `AgentSession.cancel` ends it, and so does cancelling `await turn`.
    """

    def __init__(
        self,
        client: "AgentClient",
        session_id: str,
        blocks: Sequence[Mapping[str, Any]],
        *,
        on_failure: Callable[[], None],
    ) -> None:
        self._client = client
        self._on_failure = on_failure
        self._updates: UpdateStream[dict[str, Any]] = client.stream(_of(session_id))
        self._task = client.start_turn({"sessionId": session_id, "prompt": list(blocks)})
        self._task.add_done_callback(self._ended)

    def _ended(self, done: asyncio.Future[Any]) -> None:
        self._updates.close()
        if not done.cancelled() and done.exception() is not None:
            self._on_failure()

    @property
    def stop_reason(self) -> str | None:
        """Why the turn has ended; None while it runs, or if it failed."""
        done = self._task
        is_answered = done.done() and not done.cancelled() and done.exception() is None
        reason = member(done.result(), "stopReason") if is_answered else None
        return reason if isinstance(reason, str) else None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> dict[str, Any]:
        try:
            return await anext(self._updates)
        except StopAsyncIteration:
            # Raises what the prompt has failed with.
            await self._end()
            raise

    def __await__(self) -> Generator[Any, None, str]:
        return self._end().__await__()

    async def _end(self) -> str:
        result = await self._task
        if self.stop_reason is None:
            raise self._client.misunderstood("session/prompt", result)
        return self.stop_reason


class AgentSession:
    """A session of an agent; made by the methods of `AgentClient`."""

    def __init__(self, client: "AgentClient", session_id: str) -> None:
        self.id = session_id
        self._client = client
        self._held: dict[object, dict[str, Any]] = {}
        self._modes: dict[str, InjectMode] = {}

    # Turns.

    def prompt(self, content: MessageContent) -> PromptTurn:
        """Send a message of the user, which starts a turn."""
        held = dict(self._held)
        self._held.clear()
        return PromptTurn(
            self._client, self.id, (*held.values(), *as_blocks(content)), on_failure=lambda: self._keep(held)
        )

    def _keep(self, held: Mapping[object, dict[str, Any]]) -> None:
        """Hold reminders again that went with a prompt which the agent has refused, unless newer ones replace them."""
        self._held = {**held, **self._held}

    def cancel(self) -> None:
        """End the running turn; its prompt is answered `cancelled`. Messages that wait are not revoked by this."""
        self._client.cancel_turn(self.id)

    async def close(self) -> None:
        """Tell the agent that this client is done with the session; nothing happens if it does not support that."""
        if self._client.capabilities.closes:
            await self._client.request("session/close", {"sessionId": self.id})

    # What the agent reports.

    def updates(self) -> UpdateStream[dict[str, Any]]:
        """The updates of the session from now on, as the agent sends them."""
        return self._client.stream(_of(self.id))

    def reminder_updates(self) -> UpdateStream[ReminderUpdate]:
        """What happens to reminders in the session from now on."""
        reader = ReminderReader()

        def select(session_id: str, update: dict[str, Any]) -> Iterable[ReminderUpdate]:
            found = reader.read(session_id, update) if session_id == self.id else None
            return () if found is None else (found,)

        return self._client.stream(select)

    # Reminders.

    async def remind(
        self,
        body: str,
        *,
        tags: Sequence[str] | None = None,
        dedupe_key: str | None = None,
        ttl_turns: int | None = None,
        preserve_on_compact: bool | None = None,
        propagate: PropagateWord | None = None,
        role_hint: RoleHintWord | None = None,
        mode: ModeWord | None = None,
        idempotency_key: str | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Reminded:
        """Send a reminder. It never starts a turn.

        If the agent does not support reminders, the fallback of the connection applies, and the result says so. With an
        `idempotency_key` the request can be repeated safely, if the agent is Sideband. `meta` is added to `_meta`.
        """
        given = {
            "body": body,
            "tags": tags,
            "dedupe_key": dedupe_key,
            "ttl_turns": ttl_turns,
            "preserve_on_compact": preserve_on_compact,
            "propagate": propagate,
            "role_hint": role_hint,
            "mode": mode,
        }
        draft = parse({name: value for name, value in given.items() if value is not None}, Surface.SESSION)
        peer = self._client.capabilities.reminders
        if peer is None or not peer.inject:
            return await self._fall_back(draft)
        if idempotency_key is not None:
            if peer.place is not CapabilityPlace.EXTENSION:
                raise NotSupportedByAgent("idempotency keys", "send the reminder without one, and do not repeat it")
            ours = member(meta, "sideband")
            known = ours if isinstance(ours, dict) else {}
            meta = {**(meta or {}), "sideband": {**known, "idempotencyKey": idempotency_key}}
        fields, requested, effective = _fit(draft, {name for name, value in given.items() if value is not None}, peer)
        return await self._send(peer, fields, meta, Reminded(ReminderRoute.ACCEPTED, None, 0, requested, effective))

    async def _send(
        self, peer: PeerReminders, fields: Mapping[str, Any], meta: Mapping[str, Any] | None, lowered: Reminded
    ) -> Reminded:
        is_legacy = peer.place is CapabilityPlace.HARN
        case = Case.SNAKE if is_legacy else Case.CAMEL
        method = "session/remind" if is_legacy else f"{peer.prefix}session/inject_reminder"
        params = {"sessionId": self.id, **{spelled(name, case): value for name, value in fields.items()}}
        result = await self._client.request(method, params if meta is None else {**params, "_meta": meta})
        reminder_id, count = member(result, "reminderId"), member(result, "dedupedCount")
        if not isinstance(reminder_id, str):
            raise self._client.misunderstood(method, result)
        return Reminded(
            ReminderRoute.ACCEPTED,
            reminder_id,
            count if isinstance(count, int) else 0,
            {**_snake(member(result, "_meta", "sideband", "requested")), **lowered.requested},
            {**lowered.effective, **_snake(member(result, "_meta", "sideband", "effective"))},
        )

    async def _fall_back(self, draft: Draft) -> Reminded:
        match self._client.fallback:
            case Fallback.SHOW if self._client.show is not None:
                await self._client.show(self, draft)
                return Reminded(ReminderRoute.SHOWN)
            case Fallback.MARKED_MESSAGE if draft.mode is not Mode.AUDIT_ONLY:
                return self._hold(draft)
            case _:
                # The model never sees an audit_only reminder, so that is not sent either.
                return Reminded(ReminderRoute.SUPPRESSED)

    def _hold(self, draft: Draft) -> Reminded:
        key = object() if draft.dedupe_key is None else draft.dedupe_key
        replaced = self._held.pop(key, None)
        if len(self._held) >= MAX_HELD:
            raise TooManyPending(len(self._held), MAX_HELD, scope="session", remedy="send a prompt first")
        self._held[key] = {"type": "text", "text": f"{MARKER}\n{draft.body}"}
        return Reminded(ReminderRoute.WITH_NEXT_PROMPT, deduped_count=0 if replaced is None else 1)

    async def pending(self) -> tuple[PendingReminder | PendingMessage, ...]:
        """The reminders and messages that wait in the inbox of the session, in the order of acceptance."""
        known = self._client.capabilities.reminders or self._client.capabilities.inject
        if known is None:
            raise NotSupportedByAgent("session/pending_injections", "it takes neither reminders nor messages")
        method = f"{known.prefix}session/pending_injections"
        result = await self._client.request(method, {"sessionId": self.id})
        try:
            return msgspec.convert(result, type=SessionPendingInjectionsResponse).injections
        except msgspec.ValidationError:
            raise self._client.misunderstood(method, result) from None

    async def revoke_reminder(self, reminder_id: str) -> RevokeStatus:
        """Withdraw a reminder that waits; `AlreadyDelivered` if it is too late."""
        method = f"{self._reminders('session/revoke_reminder').prefix}session/revoke_reminder"
        return _status(await self._client.request(method, {"sessionId": self.id, "reminderId": reminder_id}))

    async def replace_reminder(self, reminder_id: str, body: str) -> None:
        """Replace the body of a reminder that waits; only Sideband supports this."""
        method = self._ours("session/replace_reminder")
        await self._client.request(method, {"sessionId": self.id, "reminderId": reminder_id, "body": body})

    async def clear(self, *, id: str | None = None, tag: str | None = None, dedupe_key: str | None = None) -> int:
        """End every waiting and every live reminder that matches all selectors; return how many. Only Sideband
        supports this.
        """
        selectors = {"id": id, "tag": tag, "dedupeKey": dedupe_key}
        chosen = {name: value for name, value in selectors.items() if value is not None}
        if not chosen:
            raise InvalidOption("name the reminders to clear with id, tag or dedupe_key", field="selector")
        method = self._ours("session/clear_reminders")
        result = await self._client.request(method, {"sessionId": self.id, **chosen})
        count = member(result, "removedCount")
        if not isinstance(count, int):
            raise self._client.misunderstood(method, result)
        return count

    def _reminders(self, method: str) -> PeerReminders:
        peer = self._client.capabilities.reminders
        if peer is None or not peer.inject:
            raise NotSupportedByAgent(method, "it takes no reminders")
        return peer

    def _ours(self, method: str) -> str:
        if self._reminders(method).place is not CapabilityPlace.EXTENSION:
            raise NotSupportedByAgent(method, "only agents that advertise `_meta.sideband` do")
        return f"{PREFIX}{method}"

    # Messages of the user while a turn runs.

    async def inject(self, content: MessageContent, *, mode: InjectModeWord = InjectMode.STEER) -> MessageSent:
        """Send a message of the user into the running turn (`steer`), or for the next turn (`queue`).

        An agent that supports only `_session/steering` takes only `steer`, and the message cannot be revoked.
        """
        blocks, wanted = list(as_blocks(content)), read_inject_mode(mode)
        capabilities = self._client.capabilities
        if capabilities.inject is None:
            return await self._steer(blocks, wanted)
        modes = capabilities.inject.modes
        if wanted is InjectMode.FINISH_STEP and wanted.value not in modes:
            wanted = InjectMode.STEER
        if modes and wanted.value not in modes:
            raise UnsupportedMode(
                f"the agent does not support mode {wanted.value!r}; it supports {', '.join(map(repr, modes))}",
                field="mode",
                value=mode,
            )
        method = f"{capabilities.inject.prefix}session/inject"
        result = await self._client.request(method, {"sessionId": self.id, "mode": wanted.value, "content": blocks})
        message_id = member(result, "messageId")
        if not isinstance(message_id, str):
            raise self._client.misunderstood(method, result)
        self._remember(message_id, wanted)
        return MessageSent(InjectRoute.ACCEPTED, message_id)

    async def _steer(self, blocks: list[dict[str, Any]], wanted: InjectMode) -> MessageSent:
        if not self._client.capabilities.steers:
            raise NotSupportedByAgent(
                "session/inject",
                "no message reaches a running turn; all there is is session/cancel: end the turn, then send the message "
                "as a prompt",
            )
        if wanted not in (InjectMode.STEER, InjectMode.FINISH_STEP):
            raise UnsupportedMode(
                f"the agent supports only mode 'steer', not {wanted.value!r}; to queue a message, keep it until the turn "
                "is over and send it as a prompt",
                field="mode",
                value=wanted.value,
            )
        # Without `promptRequired`, a message that comes too late would start a turn that no prompt owns.
        params = {"sessionId": self.id, "prompt": blocks, "_meta": {"steering": {"idleBehavior": "promptRequired"}}}
        result = await self._client.request("_session/steering", params)
        match member(result, "outcome"):
            case SteeringOutcome.INJECTED:
                return MessageSent(InjectRoute.INJECTED)
            case SteeringOutcome.STARTED_NEW_TURN:
                return MessageSent(InjectRoute.STARTED_NEW_TURN)
            case SteeringOutcome.PROMPT_REQUIRED:
                raise NoRunningTurn(wanted.value)
            case SteeringOutcome.FAILED:
                raise RpcError(
                    INTERNAL_ERROR,
                    "the agent could not add the message to its turn; send it as a prompt after the turn",
                )
            case _:
                raise self._client.misunderstood("_session/steering", result)

    async def revoke_message(self, message_id: str) -> RevokeStatus:
        """Withdraw a message that waits; `AlreadyDelivered` if it is too late."""
        peer = self._client.capabilities.inject
        if peer is None:
            raise NotSupportedByAgent("session/revoke_inject", "what was sent cannot be withdrawn")
        method = f"{peer.prefix}session/revoke_inject"
        return _status(await self._client.request(method, {"sessionId": self.id, "messageId": message_id}))

    async def replace_message(
        self, message_id: str, content: MessageContent, *, mode: InjectModeWord | None = None
    ) -> MessageReplaced:
        """Replace the content of a message that waits.

        If the agent cannot edit, the message is revoked and sent anew, at the end of the queue and with a new id. `mode`
        is needed only for a message that this object has not sent.
        """
        peer = self._client.capabilities.inject
        if peer is not None and peer.can_replace:
            params = {"sessionId": self.id, "messageId": message_id, "content": list(as_blocks(content))}
            result = await self._client.request(f"{peer.prefix}session/replace_inject", params)
            kept = member(result, "messageId")
            return MessageReplaced(kept if isinstance(kept, str) else message_id, kept_position=True)
        wanted = self._modes.get(message_id) if mode is None else read_inject_mode(mode)
        if wanted is None:
            raise InvalidOption("name the mode of a message that this session has not sent", field="mode", value=mode)
        blocks = as_blocks(content)
        if await self.revoke_message(message_id) is RevokeStatus.ALREADY_REVOKED:
            # It was withdrawn by an earlier request, so sending it now would bring it back.
            raise AlreadyRevoked(message_id)
        try:
            sent = await self.inject(blocks, mode=wanted)
        except (ReminderError, RpcError) as error:
            error.add_note(f"message {message_id} was revoked before, and is not sent anew")
            raise
        return MessageReplaced(sent.message_id, kept_position=False)

    def _remember(self, message_id: str, mode: InjectMode) -> None:
        self._modes[message_id] = mode
        if len(self._modes) > _REMEMBERED:
            del self._modes[next(iter(self._modes))]


def _of(session_id: str) -> Callable[[str, dict[str, Any]], Iterable[dict[str, Any]]]:
    return lambda about, update: (update,) if about == session_id else ()


def _fit(draft: Draft, given: set[str], peer: PeerReminders) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The fields to send, and the hints that were lowered to what the agent supports, before and after."""
    fields: dict[str, Any] = {name: getattr(draft, name) for name in (*LIFECYCLE, "mode") if name in given}
    requested: dict[str, Any] = {}
    effective: dict[str, Any] = {}
    hints = {
        "propagate": fitted(draft.propagate, peer.propagate, REACHES),
        "role_hint": fitted(draft.role_hint, peer.role_hints, ROLE_HINTS),
    }
    for name, word in hints.items():
        if word != getattr(draft, name):
            requested[name], effective[name] = getattr(draft, name), word
            fields[name] = word
    return fields, requested, effective


def _snake(fields: object) -> dict[str, Any]:
    return {_SNAKE.get(name, name): value for name, value in fields.items()} if isinstance(fields, dict) else {}


def _status(result: object) -> RevokeStatus:
    # The proposal answers with an empty object; a status says more.
    is_repeat = member(result, "status") == RevokeStatus.ALREADY_REVOKED
    return RevokeStatus.ALREADY_REVOKED if is_repeat else RevokeStatus.REVOKED
