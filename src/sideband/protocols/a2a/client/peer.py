"""An agent over A2A, as its client sees it: tasks, their events, and reminders for the agent that works on one."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast
from urllib.parse import quote

import httpx
import msgspec
from a2a.client import Client, ClientCallContext, ClientConfig, ClientFactory
from a2a.client.service_parameters import ServiceParametersFactory, with_a2a_extensions
from a2a.extensions.common import HTTP_EXTENSION_HEADER
from a2a.types import (
    AgentCard,
    AgentInterface,
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
)
from a2a.utils.constants import VERSION_HEADER
from google.protobuf.json_format import MessageToDict

from sideband.core.errors import InvalidOption, ReminderError, UnknownSession, shown
from sideband.core.parse import parse
from sideband.core.reminder import Draft, PropagateWord, RoleHintWord
from sideband.core.seams import Mode, ModeWord
from sideband.core.surfaces import Surface
from sideband.logs import LOG
from sideband.ports import Clock
from sideband.protocols.a2a.client.calls import decoded, first, misunderstood, translating
from sideband.protocols.a2a.client.capabilities import (
    INJECT,
    JSONRPC,
    CardPlace,
    Interface,
    read_reminders,
)
from sideband.protocols.a2a.client.events import EventReader, PeerEvent, PeerStatus, PeerTask, task_of
from sideband.protocols.a2a.client.failures import (
    PeerFailed,
    PeerNotTrusted,
    PeerNotUnderstood,
    PeerSilent,
    PeerUnreachable,
    TokenRefused,
)
from sideband.protocols.a2a.client.http import (
    LIMIT,
    MAX_REMINDER_BYTES,
)
from sideband.protocols.a2a.client.refusals import UNSUPPORTED_OPERATION, NotSupportedByPeer, member
from sideband.protocols.a2a.client.reminders import (
    HeldReminders,
    TaskFallback,
    TaskReminded,
    TaskReminderRoute,
    in_snake_case,
    lowered,
)
from sideband.protocols.a2a.messages import PendingReminder, PendingRemindersResult
from sideband.protocols.a2a.reminders import METHODS, URI, in_camel_case
from sideband.protocols.jsonrpc import RpcError
from sideband.runtime.producer import RevokeStatus
from sideband.runtime.system import new_id

# How often `wait` reconnects in a row after it has lost the connection.
MAX_RECONNECTS: Final = 5

_LEGACY_EXTENSIONS: Final = f"X-{HTTP_EXTENSION_HEADER}"

_TROUBLES: Final = (RpcError, ReminderError, NotSupportedByPeer, PeerFailed)
# With these, the request had no effect at the peer.
_REFUSALS: Final = (RpcError, ReminderError, NotSupportedByPeer, TokenRefused, PeerNotTrusted)
_MAY_HAVE_BEGUN: Final = "the agent may have accepted the task; list its tasks before you send it again"

_AnswerT = TypeVar("_AnswerT")

TaskContent: TypeAlias = str | Sequence[Part]


class PeerPatience(NamedTuple):
    """How long a peer is waited for."""

    answer_seconds: float
    poll_seconds: float
    clock: Clock


class PeerAgent:
    """A connection to an agent over A2A; made by `connect`.

    `card` is its card as it was read. `reminders` is what it does with reminders; None means that it does not support
    them, or has turned out not to.
    """

    def __init__(
        self,
        http: httpx.AsyncClient,
        url: str,
        card: Mapping[str, Any],
        parsed: AgentCard,
        interface: Interface,
        *,
        fallback: TaskFallback,
        patience: PeerPatience,
    ) -> None:
        self.url = url
        self.name = parsed.name
        self.card = card
        self.reminders = read_reminders(card)
        self.fallback = fallback
        self.interface = interface
        self._http = http
        self._patience = patience
        self._streams = parsed.capabilities.streaming
        self._held = HeldReminders()
        # With this one interface, so that the SDK cannot choose another.
        used = AgentCard()
        used.CopyFrom(parsed)
        del used.supported_interfaces[:]
        used.supported_interfaces.append(
            AgentInterface(
                url=interface.url,
                protocol_binding=interface.binding,
                protocol_version=interface.version,
                tenant=interface.tenant,
            )
        )
        self._unary = _sdk_client(used, http, interface, streaming=False)
        self._streaming = _sdk_client(used, http, interface, streaming=True)

    async def read_extended_card(self) -> None:
        """Read what this caller in particular may do with reminders; `connect` does this if there is a token."""
        request = GetExtendedAgentCardRequest(tenant=self.interface.tenant)
        try:
            card = await self._answered(
                self._unary.get_extended_agent_card(request, context=self._context()), "GetExtendedAgentCard"
            )
        except (RpcError, ReminderError, NotSupportedByPeer, PeerNotUnderstood, PeerUnreachable) as error:
            LOG.info("the peer %s has no extended card for this caller: %s", self.url, error)
            return
        self.reminders = read_reminders(MessageToDict(card)) or self.reminders

    # Tasks.

    async def send(
        self,
        content: TaskContent,
        *,
        task_id: str | None = None,
        context_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> PeerTask:
        """Send a message and wait until its task has ended or needs input. There is no time-out.

        With `task_id` the message answers a task that needs input; with `context_id` a new task continues an earlier
        conversation. `metadata` is that of the request.
        """
        with self._message(content, task_id, context_id, metadata) as request:
            task = await self._delivered(request, task_id, waits=True)
        # The first state that a stream tells of is not the whole task.
        is_whole = not task.id or (_is_settled(task) and not self._streams)
        return task if is_whole else await self._wait(task.id, follows=False)

    async def start(
        self,
        content: TaskContent,
        *,
        task_id: str | None = None,
        context_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> PeerTask:
        """Send a message and return as soon as the peer has accepted it. The options are those of `send`."""
        with self._message(content, task_id, context_id, metadata) as request:
            return await self._delivered(request, task_id, waits=False)

    @contextmanager
    def _message(
        self,
        content: TaskContent,
        task_id: str | None,
        context_id: str | None,
        metadata: Mapping[str, Any] | None,
    ) -> Iterator[SendMessageRequest]:
        """A request with a message and with a reminder that waits for it.

        The reminder waits again if the request certainly failed.
        """
        parts = _parts(content)
        message = Message(
            message_id=new_id(), role=Role.ROLE_USER, parts=parts, task_id=task_id or "", context_id=context_id or ""
        )
        request = SendMessageRequest(message=message)
        held = None
        try:
            given = _metadata(metadata)
            harn = given.get("harn", {})
            # A reminder has no place in a `harn` that is not an object, and waits for the next message.
            if task_id is not None and isinstance(harn, Mapping):
                held = self._held.take(task_id)
            if held is not None:
                given["harn"] = {**harn, "reminder": held.reminder}
            _add_metadata(request, given)
            yield request
        except _TROUBLES as error:
            has_failed = isinstance(error, _REFUSALS) or (
                isinstance(error, PeerUnreachable) and not error.may_have_arrived
            )
            if held is not None and has_failed:
                self._held.put_back(held)
            raise

    async def _delivered(self, request: SendMessageRequest, task_id: str | None, *, waits: bool) -> PeerTask:
        """Send a message; the task as the peer answered with it.

        An event stream is preferred, because some agents answer SendMessage only when the task has ended.
        """
        if self._streams:
            streaming = self._streamed(request, task_id, waits=waits)
            try:
                return await self._answered(
                    streaming, "SendStreamingMessage", task_id, limited=not waits, advice=_MAY_HAVE_BEGUN
                )
            except (NotSupportedByPeer, RpcError) as error:
                if not _is_unsupported(error):
                    raise
                LOG.info("the peer %s refuses event streams: %s", self.url, error)
        request.configuration.return_immediately = not waits
        sending = first(self._unary.send_message(request, context=self._context()))
        response = await self._answered(sending, "SendMessage", task_id, limited=not waits, advice=_MAY_HAVE_BEGUN)
        # The peer takes the message without a stream, so that it was the stream that it refused.
        self._streams = False
        return self._read(response.task if response.HasField("task") else response.message, "SendMessage")

    async def _streamed(self, request: SendMessageRequest, task_id: str | None, *, waits: bool) -> PeerTask:
        """Send a message and read the first event that answers it, or with `waits` all; the task as it was at first.

        Closing the stream does not cancel the task.
        """
        begun: PeerEvent | None = None
        stream = self._streaming.send_message(request, context=self._context())
        try:
            async with aclosing(self._events(stream, "SendStreamingMessage", task_id)) as events:
                async for event in events:
                    begun = begun or event
                    if not waits:
                        break
        except _TROUBLES as error:
            if begun is None:
                raise
            LOG.info("the event stream of the peer %s broke: %s", self.url, error)
        if begun is None:
            raise misunderstood("SendStreamingMessage", None)
        return begun if isinstance(begun, PeerTask) else await self.get(begun.task_id)

    async def _events(
        self, stream: AsyncIterator[StreamResponse], method: str, task_id: str | None
    ) -> AsyncGenerator[PeerEvent, None]:
        """The events of a stream, up to the one that says that the task has ended or needs input.

        Some peers keep the stream open after that.
        """
        reader = EventReader()
        with translating(method, task_id):
            async with aclosing(cast("AsyncGenerator[StreamResponse, None]", stream)) as events:
                async for event in events:
                    told = [*reader.read(event)]
                    for one in told:
                        yield one
                    if any(map(_is_last, told)):
                        return

    async def get(self, task_id: str, *, history_length: int | None = None) -> PeerTask:
        """The task as it is now; `history_length` limits how many messages it has."""
        request = GetTaskRequest(id=task_id, history_length=history_length)
        asking = self._unary.get_task(request, context=self._context())
        return self._read(await self._answered(asking, "GetTask", task_id), "GetTask", task_id)

    async def cancel(self, task_id: str) -> PeerTask:
        """End the task."""
        request = CancelTaskRequest(id=task_id)
        asking = self._unary.cancel_task(request, context=self._context())
        return self._read(await self._answered(asking, "CancelTask", task_id), "CancelTask", task_id)

    def _read(self, answer: Task | Message, method: str, task_id: str | None = None) -> PeerTask:
        """The task in an answer, which must be the one that was asked for."""
        with translating(method, task_id):
            task = task_of(answer)
        if task_id is not None and task.id != task_id:
            raise misunderstood(method, f"task {task.id}")
        if task.state.is_over:
            self._held.drop(task.id)
        return task

    async def wait(self, task: PeerTask | str) -> PeerTask:
        """The task when it has ended or needs input. There is no time-out.

        Args:
            task: The id of the task, or what `start` has returned, which saves a request.
        """
        if isinstance(task, PeerTask):
            return await self._wait(task.id, follows=not _is_settled(task))
        found = await self.get(task)
        return found if _is_settled(found) else await self._wait(found.id)

    async def _wait(self, task_id: str, *, follows: bool = True) -> PeerTask:
        """The task when it is settled. It is looked at, and before that its events are read to their end if `follows`."""
        losses = 0
        while True:
            if self._streams and follows:
                await self._read_to_the_end(task_id)
            try:
                task = await self.get(task_id)
            except (PeerUnreachable, PeerSilent) as error:
                losses += 1
                if losses > MAX_RECONNECTS:
                    raise
                LOG.info("the connection to the peer %s was lost, and is made again: %s", self.url, error)
            else:
                losses = 0
                if _is_settled(task):
                    return task
            follows = True
            await self._patience.clock.sleep(self._patience.poll_seconds)

    async def _read_to_the_end(self, task_id: str) -> None:
        try:
            async with aclosing(self.follow(task_id)) as events:
                async for _ in events:
                    pass
        except _TROUBLES as error:
            # The stream broke, the task has ended meanwhile, or the peer has no streams after all. `get` tells which.
            LOG.info("the event stream of the peer %s for task %s ended: %s", self.url, task_id, error)

    async def follow(self, task_id: str) -> AsyncGenerator[PeerEvent, None]:
        """The task as it is now, and then what happens to it, until it has ended or needs input.

        Events about reminders are those that this caller may see.
        """
        if not self._streams:
            raise NotSupportedByPeer("SubscribeToTask", "it has no event streams; use wait() or get()")
        has_begun = False
        stream = self._streaming.subscribe(SubscribeToTaskRequest(id=task_id), context=self._context())
        try:
            async with aclosing(self._events(stream, "SubscribeToTask", task_id)) as events:
                async for event in events:
                    has_begun = True
                    yield event
        except (RpcError, UnknownSession, NotSupportedByPeer, PeerNotUnderstood) as error:
            if has_begun:
                raise
            # A task that has ended cannot be subscribed to, and it may have ended just now.
            task = await self.get(task_id)
            if not _is_settled(task):
                if _is_unsupported(error):
                    self._streams = False
                raise
            yield task

    # Reminders.

    def offers(self, method: str) -> bool:
        """Whether the peer has this method for reminders, such as `tasks/clear_reminders`."""
        return self.reminders is not None and self.reminders.inject and method in self.reminders.methods

    async def remind(
        self,
        task_id: str,
        body: str,
        *,
        tags: Sequence[str] | None = None,
        dedupe_key: str | None = None,
        ttl_turns: int | None = None,
        preserve_on_compact: bool | None = None,
        propagate: PropagateWord | None = None,
        role_hint: RoleHintWord | None = None,
        mode: ModeWord | None = None,
        id: str | None = None,
        source: str | None = None,
        fired_at_turn: int | None = None,
        originating_agent_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> TaskReminded:
        """Tell the agent that works on a task something. It is no message, and the task need not ask for one.

        `propagate` and `role_hint` are lowered to what the peer advertises. With an `id` the request can be repeated
        safely. `source`, `fired_at_turn` and `originating_agent_id` say where the reminder comes from; a peer that is
        Sideband records them as claims. If the peer does not support reminders, the fallback of the connection applies,
        and the result says so.
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
        chosen = {name: value for name, value in given.items() if value is not None}
        draft = parse(chosen, Surface.SESSION)
        claims = {
            "id": id,
            "source": source,
            "fired_at_turn": fired_at_turn,
            "originating_agent_id": originating_agent_id,
        }
        fields = {name: getattr(draft, name) for name in chosen}
        fields |= {name: value for name, value in claims.items() if value is not None}
        peer = self.reminders
        if peer is None or not peer.inject:
            return self._fall_back(task_id, draft, fields)
        fits = lowered(draft, peer)
        params: dict[str, Any] = {"reminder": in_camel_case(fields | fits)}
        if metadata is not None:
            params["metadata"] = metadata
        try:
            result = await self._call(INJECT, task_id, params)
        except NotSupportedByPeer as error:
            LOG.warning("the peer %s takes no reminders, although its card says so: %s", self.url, error)
            self.reminders = None
            return self._fall_back(task_id, draft, fields)
        reminder_id, count, at = (member(result, name) for name in ("reminderId", "dedupedCount", "acceptedAt"))
        if not isinstance(reminder_id, str):
            raise misunderstood(INJECT, result)
        return TaskReminded(
            TaskReminderRoute.ACCEPTED,
            reminder_id,
            count if isinstance(count, int) else 0,
            at if isinstance(at, str) else None,
            {
                **in_snake_case(member(result, "_meta", "sideband", "requested")),
                **{name: getattr(draft, name) for name in fits},
            },
            {**fits, **in_snake_case(member(result, "_meta", "sideband", "effective"))},
        )

    def _fall_back(self, task_id: str, draft: Draft, fields: Mapping[str, Any]) -> TaskReminded:
        if self.fallback is TaskFallback.SUPPRESS or draft.mode is Mode.AUDIT_ONLY:
            # The model never sees an audit_only reminder, so that is not sent either.
            return TaskReminded(TaskReminderRoute.SUPPRESSED)
        # With an id, the peer recognises a reminder that is sent again.
        named = {"id": new_id(), **fields}
        replaced = self._held.hold(task_id, in_camel_case(named), draft.dedupe_key)
        return TaskReminded(TaskReminderRoute.WITH_NEXT_MESSAGE, deduped_count=replaced)

    async def pending(self, task_id: str) -> tuple[PendingReminder, ...]:
        """The reminders of a task that wait or are live, as far as this caller may see them."""
        method = self._offered("tasks/pending_reminders")
        result = await self._call(method, task_id, {})
        try:
            return msgspec.convert(result, type=PendingRemindersResult).reminders
        except (msgspec.ValidationError, RecursionError):
            raise misunderstood(method, result) from None

    async def revoke(self, task_id: str, reminder_id: str) -> RevokeStatus:
        """Withdraw a reminder that waits; `AlreadyDelivered` if it is too late."""
        method = self._offered("tasks/revoke_reminder")
        status = member(await self._call(method, task_id, {"reminderId": reminder_id}), "status")
        return RevokeStatus.ALREADY_REVOKED if status == RevokeStatus.ALREADY_REVOKED else RevokeStatus.REVOKED

    async def clear(
        self, task_id: str, *, id: str | None = None, tag: str | None = None, dedupe_key: str | None = None
    ) -> int:
        """End every waiting and every live reminder of a task that matches all selectors; return how many."""
        selectors = {"id": id, "tag": tag, "dedupeKey": dedupe_key}
        chosen = {name: value for name, value in selectors.items() if value is not None}
        if not chosen:
            raise InvalidOption("name the reminders to clear with id, tag or dedupe_key", field="selector")
        method = self._offered("tasks/clear_reminders")
        result = await self._call(method, task_id, chosen)
        count = member(result, "removedCount")
        if not isinstance(count, int):
            raise misunderstood(method, result)
        return count

    def _offered(self, method: str) -> str:
        if not self.offers(method):
            raise NotSupportedByPeer(method, "its card does not offer the method")
        return method

    # Requests.

    async def _call(self, method: str, task_id: str, params: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any JSON value
        """The result of a method for reminders, which the SDK does not know."""
        interface = self.interface
        about = {"tenant": interface.tenant} if interface.tenant else {}
        if interface.binding == JSONRPC:
            place = interface.url
            asked = {"taskId": task_id, **params, **about}
            body = {"jsonrpc": "2.0", "id": new_id(), "method": method, "params": asked}
        else:
            below = f"/{quote(interface.tenant, safe='')}" if interface.tenant else ""
            place = f"{interface.url.rstrip('/')}{below}/tasks/{quote(task_id, safe='')}:{METHODS[method].verb}"
            body = {**params, **about}
        sending = self._http.post(
            place,
            content=msgspec.json.encode(body),
            headers={
                "Content-Type": "application/json",
                "Accept": "application/json",
                VERSION_HEADER: interface.version,
                **self._extensions(),
            },
            extensions={LIMIT: MAX_REMINDER_BYTES},
        )
        answer = decoded((await self._answered(sending, method, task_id, is_extension=True)).content)
        result = answer.get("result") if isinstance(answer, dict) and interface.binding == JSONRPC else answer
        if not isinstance(result, dict):
            raise misunderstood(method, answer)
        return result

    async def _answered(
        self,
        asking: Awaitable[_AnswerT],
        method: str,
        task_id: str | None = None,
        *,
        limited: bool = True,
        is_extension: bool = False,
        advice: str = "try again, or allow it more time",
    ) -> _AnswerT:
        """What a request is answered with; without `limited`, that may take any time."""
        seconds = self._patience.answer_seconds
        is_rpc = self.interface.binding == JSONRPC
        try:
            with translating(method, task_id, is_extension=is_extension, is_rpc=is_rpc):
                async with asyncio.timeout(seconds if limited else None):
                    return await asking
        except TimeoutError:
            raise PeerSilent(f"the peer did not answer {method} within {seconds:g} s; {advice}") from None

    def _context(self) -> ClientCallContext:
        uris = [URI] if self.reminders is not None and self.reminders.place is CardPlace.EXTENSION else []
        return ClientCallContext(service_parameters=ServiceParametersFactory.create([with_a2a_extensions(uris)]))

    def _extensions(self) -> dict[str, str]:
        if self.reminders is None or self.reminders.place is not CardPlace.EXTENSION:
            return {}
        return {(_LEGACY_EXTENSIONS if self.interface.is_legacy else HTTP_EXTENSION_HEADER): URI}


def _sdk_client(card: AgentCard, http: httpx.AsyncClient, interface: Interface, *, streaming: bool) -> Client:
    config = ClientConfig(httpx_client=http, streaming=streaming, supported_protocol_bindings=[interface.binding])
    return ClientFactory(config).create(card)


def _is_settled(task: PeerTask) -> bool:
    return not task.id or task.state.is_over or task.state.needs_input


def _is_last(event: PeerEvent) -> bool:
    """Whether the task has ended or needs input after this event."""
    match event:
        case PeerTask():
            return _is_settled(event)
        case PeerStatus(state=state):
            return state.is_over or state.needs_input
        case _:
            return False


def _is_unsupported(error: Exception) -> bool:
    """Whether this answer to a request for an event stream means that the peer has none."""
    if isinstance(error, RpcError):
        return error.code == UNSUPPORTED_OPERATION
    return isinstance(error, NotSupportedByPeer | PeerNotUnderstood)


def _parts(content: object) -> list[Part]:
    if isinstance(content, str):
        return [Part(text=content)]
    if isinstance(content, Sequence) and all(isinstance(part, Part) for part in content):
        return [*content]
    raise InvalidOption(
        f"content must be a text or a list of Part objects, not {shown(content)}", field="content", value=content
    )


def _metadata(given: object) -> dict[str, Any]:
    if given is None or isinstance(given, Mapping):
        return dict(given or {})
    raise InvalidOption(f"metadata must be a mapping, not {shown(given)}", field="metadata", value=given)


def _add_metadata(request: SendMessageRequest, metadata: Mapping[str, Any]) -> None:
    try:
        request.metadata.update(metadata)
    except (TypeError, ValueError) as error:
        raise InvalidOption(f"metadata must have values that JSON can represent: {error}", field="metadata") from None
