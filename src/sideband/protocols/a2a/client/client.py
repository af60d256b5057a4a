"""The client side of A2A: give tasks to another agent, follow them, and tell the agent something while it works.

```python
async with connect("http://127.0.0.1:8642") as peer:
    task = await peer.start("Rebase the branch.")
    await peer.remind(task.id, "The pull request you depend on was merged.", dedupe_key="upstream", ttl_turns=2)
    print((await peer.wait(task.id)).text)
```
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from enum import StrEnum
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias, cast
from urllib.parse import quote

import httpx
import msgspec
from a2a.client import (
    A2AClientError,
    A2AClientTimeoutError,
    Client,
    ClientCallContext,
    ClientConfig,
    ClientFactory,
)
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
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
)
from a2a.utils.constants import AGENT_CARD_WELL_KNOWN_PATH, VERSION_HEADER
from a2a.utils.errors import JSON_RPC_ERROR_CODE_MAP, A2AError
from google.protobuf.json_format import MessageToDict, ParseError

from sideband.core.errors import InvalidOption, ReminderError, TooManyPending, shown
from sideband.core.parse import parse
from sideband.core.reminder import Draft, PropagateWord, RoleHintWord
from sideband.core.seams import ModeWord
from sideband.core.surfaces import LIFECYCLE, Case, Surface, spelled
from sideband.core.trust import REACHES, ROLE_HINTS
from sideband.logs import LOG
from sideband.ports import Clock
from sideband.protocols.a2a.card import SEED_PATH
from sideband.protocols.a2a.client.capabilities import (
    INJECT,
    JSONRPC,
    CardPlace,
    CardReminders,
    Interface,
    choose_interface,
    fitted,
    read_card,
    read_reminders,
)
from sideband.protocols.a2a.client.events import EventReader, PeerEvent, PeerTask, task_of
from sideband.protocols.a2a.client.failures import PeerNotUnderstood, PeerSilent, PeerUnreachable, TokenRefused
from sideband.protocols.a2a.client.http import (
    LIMIT,
    MAX_REMINDER_BYTES,
    http_client,
    is_local,
    origin_of,
    read_address,
)
from sideband.protocols.a2a.client.refusals import NotSupportedByPeer, PeerRefusal, member, refused_by_peer
from sideband.protocols.a2a.messages import PendingReminder, PendingRemindersResult
from sideband.protocols.a2a.reminders import METHODS, URI
from sideband.protocols.jsonrpc import RpcError
from sideband.runtime.producer import RevokeStatus
from sideband.runtime.system import SystemClock, new_id

# How long a peer may take to answer. A message that a caller waits for has no limit.
ANSWER_SECONDS: Final = 60.0
# How long to wait before a task is looked at again, if the peer has no event stream or the stream broke.
POLL_SECONDS: Final = 1.0
# So many times in a row `wait` connects again after it has lost the connection.
MAX_RECONNECTS: Final = 5
# How many reminders wait for the next message to a task.
MAX_HELD: Final = 64

_LEGACY_EXTENSIONS: Final = f"X-{HTTP_EXTENSION_HEADER}"
_NO_FIELDS: Final[Mapping[str, Any]] = MappingProxyType({})
_SNAKE: Final[Mapping[str, str]] = MappingProxyType({spelled(name, Case.CAMEL): name for name in (*LIFECYCLE, "mode")})

TaskContent: TypeAlias = str | Sequence[Part]


class TaskFallback(StrEnum):
    """What happens to a reminder if the peer does not support reminders.

    It is dropped, or it goes with the next message to its task, as `metadata.harn.reminder`. Peers read that from before
    there was a method; others ignore it.
    """

    SUPPRESS = "suppress"
    NEXT_MESSAGE = "next_message"


class TaskReminderRoute(StrEnum):
    """The way that a reminder went."""

    ACCEPTED = "accepted"
    SUPPRESSED = "suppressed"
    WITH_NEXT_MESSAGE = "with_next_message"


class TaskReminded(NamedTuple):
    """What became of a reminder; only one that the peer accepted has an id and a time.

    `requested` and `effective` hold the fields that were lowered to what the peer allows, before and after.
    """

    route: TaskReminderRoute
    reminder_id: str | None = None
    deduped_count: int = 0
    accepted_at: str | None = None
    requested: Mapping[str, Any] = _NO_FIELDS
    effective: Mapping[str, Any] = _NO_FIELDS


@asynccontextmanager
async def connect(
    url: str,
    *,
    token: str | None = None,
    fallback: TaskFallback | str = TaskFallback.SUPPRESS,
    allowed_origins: Collection[str] = (),
    answer_seconds: float = ANSWER_SECONDS,
    poll_seconds: float = POLL_SECONDS,
    clock: Clock | None = None,
) -> "AsyncIterator[PeerAgent]":
    """Connect to the agent at an address: read its card, and learn what it does with reminders.

    `PeerFailed` if the agent cannot be used.

    Args:
        url: The address below which the card is, such as `https://agents.example.org`.
        token: Sent as a bearer token with each request.
        fallback: What happens to a reminder if the agent does not support reminders.
        allowed_origins: Origins besides that of `url` at which the card may say that the agent is. The token is sent
            there.
        answer_seconds: How long the agent may take to answer a request, other than a message that is waited for.
        poll_seconds: How long to wait before a task is looked at again, if the agent has no event streams.
        clock: The clock by which that is measured; the default is that of the machine.
    """
    address = read_address(url)
    chosen = _read_fallback(fallback)
    for name, seconds in (("answer_seconds", answer_seconds), ("poll_seconds", poll_seconds)):
        if not seconds > 0:
            raise InvalidOption(f"{name} must be more than 0, not {shown(seconds)}", field=name, value=seconds)
    origins = frozenset(filter(None, (origin_of(address), *_read_origins(allowed_origins))))
    async with http_client(origins, token=token, local=is_local(address)) as http:
        limits = _Limits(answer_seconds, poll_seconds, clock or SystemClock())
        document = await _fetched_card(http, address, answer_seconds)
        card = read_card(document, address)
        interface = choose_interface(card, origins)
        peer = PeerAgent(http, address, card, interface, read_reminders(document), fallback=chosen, limits=limits)
        peer.card = document
        if token is not None and card.capabilities.extended_agent_card:
            await peer.read_extended_card()
        yield peer


class _Limits(NamedTuple):
    answer_seconds: float
    poll_seconds: float
    clock: Clock


def _read_fallback(fallback: str) -> TaskFallback:
    if fallback not in tuple(TaskFallback):
        words = ", ".join(repr(word.value) for word in TaskFallback)
        raise InvalidOption(f"fallback must be one of {words}, not {shown(fallback)}", field="fallback", value=fallback)
    return TaskFallback(fallback)


def _read_origins(allowed: object) -> Iterator[str]:
    if isinstance(allowed, str) or not isinstance(allowed, Collection):
        raise InvalidOption(
            f"allowed_origins must be a list of origins, not {shown(allowed)}", field="allowed_origins", value=allowed
        )
    for given in allowed:
        origin = origin_of(given)
        if origin is None:
            raise InvalidOption(
                f"allowed_origins must have origins like https://agents.example.org, not {shown(given)}",
                field="allowed_origins",
                value=given,
            )
        yield origin


async def _fetched_card(http: httpx.AsyncClient, url: str, seconds: float) -> dict[str, Any]:
    """The card at its usual place, or the literal one of the proposal."""
    for path in (AGENT_CARD_WELL_KNOWN_PATH, SEED_PATH):
        place = f"{url}{path}"
        try:
            with _translating("the request for its card", None):
                async with asyncio.timeout(seconds):
                    answer = await http.get(place, headers={"Accept": "application/json"})
        except TimeoutError:
            raise PeerSilent(f"the agent at {url} did not send its card within {seconds:g} s; try again") from None
        except _NoCard:
            continue
        document = _decoded(answer.content)
        if not isinstance(document, dict):
            raise PeerNotUnderstood(f"{place} is not a card of A2A; check the address")
        return document
    raise PeerNotUnderstood(
        f"there is no agent card at {url}{AGENT_CARD_WELL_KNOWN_PATH}; check that the address is that of an A2A agent"
    )


class PeerAgent:
    """A connection to an agent over A2A; made by `connect`.

    `card` is its card as it was read. `reminders` is what it does with reminders; None means that it does not support
    them, or has turned out not to.
    """

    def __init__(
        self,
        http: httpx.AsyncClient,
        url: str,
        card: AgentCard,
        interface: Interface,
        reminders: CardReminders | None,
        *,
        fallback: TaskFallback,
        limits: _Limits,
    ) -> None:
        self.url = url
        self.name = card.name
        self.card: Mapping[str, Any] = {}
        self.reminders = reminders
        self.fallback = fallback
        self.interface = interface
        self._http = http
        self._limits = limits
        self._streams = card.capabilities.streaming
        self._held: dict[str, dict[object, dict[str, Any]]] = {}
        used = AgentCard()
        used.CopyFrom(card)
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
        except (RpcError, ReminderError, NotSupportedByPeer) as error:
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
        """Send a message and wait until its task has ended or needs input; that has no limit of time.

        With `task_id` the message answers a task that needs input; with `context_id` a new task continues an earlier
        conversation. `metadata` is that of the request.
        """
        task = await self._send(content, task_id, context_id, metadata, seconds=None)
        return task if _is_settled(task) else await self._wait(task.id)

    async def start(
        self,
        content: TaskContent,
        *,
        task_id: str | None = None,
        context_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> PeerTask:
        """Send a message and return as soon as the peer has accepted it. The options are those of `send`."""
        return await self._send(content, task_id, context_id, metadata, seconds=self._limits.answer_seconds)

    async def _send(
        self,
        content: TaskContent,
        task_id: str | None,
        context_id: str | None,
        metadata: Mapping[str, Any] | None,
        *,
        seconds: float | None,
    ) -> PeerTask:
        parts = [Part(text=content)] if isinstance(content, str) else list(content)
        request = SendMessageRequest(
            message=Message(
                message_id=new_id(),
                role=Role.ROLE_USER,
                parts=parts,
                task_id=task_id or "",
                context_id=context_id or "",
            ),
            # The end is waited for in another way, which survives a lost connection.
            configuration=SendMessageConfiguration(return_immediately=True),
        )
        given = dict(metadata or {})
        held = self._taken(task_id)
        if held is not None:
            given["harn"] = {**(member(given, "harn") or {}), "reminder": held[1]}
        if given:
            request.metadata.update(given)
        try:
            response = await self._answered(
                anext(aiter(self._unary.send_message(request, context=self._context()))),
                "SendMessage",
                task_id,
                seconds=seconds,
            )
        except BaseException:
            if held is not None and task_id is not None:
                # It was not accepted, so it goes with the next message, unless a newer reminder replaced it meanwhile.
                self._held[task_id] = dict([held]) | self._held.get(task_id, {})
            raise
        return task_of(response.task if response.HasField("task") else response.message)

    async def get(self, task_id: str, *, history_length: int | None = None) -> PeerTask:
        """The task as it is now; `history_length` limits how many messages it has."""
        request = GetTaskRequest(id=task_id, history_length=history_length)
        return task_of(
            await self._answered(self._unary.get_task(request, context=self._context()), "GetTask", task_id)
        )

    async def cancel(self, task_id: str) -> PeerTask:
        """End the task."""
        request = CancelTaskRequest(id=task_id)
        return task_of(
            await self._answered(self._unary.cancel_task(request, context=self._context()), "CancelTask", task_id)
        )

    async def wait(self, task_id: str) -> PeerTask:
        """The task when it has ended or needs input; that has no limit of time."""
        task = await self.get(task_id)
        return task if _is_settled(task) else await self._wait(task_id)

    async def _wait(self, task_id: str) -> PeerTask:
        losses = 0
        while True:
            try:
                if self._streams:
                    await self._read_to_the_end(task_id)
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
            await self._limits.clock.sleep(self._limits.poll_seconds)

    async def _read_to_the_end(self, task_id: str) -> None:
        try:
            async with aclosing(self.follow(task_id)) as events:
                async for _event in events:
                    pass
        except (RpcError, ReminderError, NotSupportedByPeer):
            # The task has ended meanwhile, or the peer has no streams after all. `get` tells which.
            pass

    async def follow(self, task_id: str) -> AsyncGenerator[PeerEvent, None]:
        """The task as it is now, and then what happens to it, until it has ended or needs input.

        Events about reminders are those that this caller may see. `RpcError` if the task has ended already.
        """
        if not self._streams:
            raise NotSupportedByPeer("SubscribeToTask", "it has no event streams; use wait() or get()")
        reader = EventReader()
        request = SubscribeToTaskRequest(id=task_id)
        with _translating("SubscribeToTask", task_id):
            stream = self._streaming.subscribe(request, context=self._context())
            async with aclosing(cast("AsyncGenerator[StreamResponse, None]", stream)) as events:
                async for event in events:
                    for read in reader.read(event):
                        yield read

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
        lowered = _lowered(draft, peer)
        params: dict[str, Any] = {"reminder": _camel(fields | lowered)}
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
            raise _misunderstood(INJECT, result)
        return TaskReminded(
            TaskReminderRoute.ACCEPTED,
            reminder_id,
            count if isinstance(count, int) else 0,
            at if isinstance(at, str) else None,
            {
                **_in_snake_case(member(result, "_meta", "sideband", "requested")),
                **{name: getattr(draft, name) for name in lowered},
            },
            {**lowered, **_in_snake_case(member(result, "_meta", "sideband", "effective"))},
        )

    def _fall_back(self, task_id: str, draft: Draft, fields: Mapping[str, Any]) -> TaskReminded:
        if self.fallback is TaskFallback.SUPPRESS:
            return TaskReminded(TaskReminderRoute.SUPPRESSED)
        held = self._held.setdefault(task_id, {})
        key = object() if draft.dedupe_key is None else draft.dedupe_key
        replaced = held.pop(key, None)
        if sum(map(len, self._held.values())) >= MAX_HELD:
            raise TooManyPending(MAX_HELD, MAX_HELD, scope="connection", remedy="send a message to their tasks first")
        held[key] = _camel(fields)
        return TaskReminded(TaskReminderRoute.WITH_NEXT_MESSAGE, deduped_count=0 if replaced is None else 1)

    def _taken(self, task_id: str | None) -> tuple[object, dict[str, Any]] | None:
        """Take the oldest reminder that waits for a message to this task; a message has room for one."""
        held = self._held.get(task_id or "")
        if not held:
            return None
        key = next(iter(held))
        reminder = held.pop(key)
        if not held:
            del self._held[task_id or ""]
        return key, reminder

    async def pending(self, task_id: str) -> tuple[PendingReminder, ...]:
        """The reminders of a task that wait or are live, as far as this caller may see them."""
        method = self._offered("tasks/pending_reminders")
        result = await self._call(method, task_id, {})
        try:
            return msgspec.convert(result, type=PendingRemindersResult).reminders
        except msgspec.ValidationError:
            raise _misunderstood(method, result) from None

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
            raise _misunderstood(method, result)
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
        answer = _decoded((await self._answered(sending, method, task_id, is_extension=True)).content)
        result = answer.get("result") if isinstance(answer, dict) and interface.binding == JSONRPC else answer
        if not isinstance(result, dict):
            raise _misunderstood(method, answer)
        return result

    async def _answered(
        self,
        asking: Any,  # noqa: ANN401 - an awaitable, of the SDK or of httpx
        method: str,
        task_id: str | None = None,
        *,
        seconds: float | None = 0,
        is_extension: bool = False,
    ) -> Any:  # noqa: ANN401 - whatever it is awaited for
        """What a request is answered with; with `seconds=None` that may take any time, with 0 the usual time."""
        limit = self._limits.answer_seconds if seconds == 0 else seconds
        try:
            with _translating(method, task_id, is_extension=is_extension):
                async with asyncio.timeout(limit):
                    return await asking
        except TimeoutError:
            raise PeerSilent(
                f"the peer did not answer {method} within {limit:g} s; try again, or allow it more time"
            ) from None

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


# Reading what a peer answers.


class _NoCard(Exception):
    """There is no card at this place."""


@contextmanager
def _translating(method: str, task_id: str | None, *, is_extension: bool = False) -> Iterator[None]:
    """Raise the errors of this project instead of those of the SDK and of httpx."""
    try:
        yield
    except PeerRefusal as told:
        raise refused_by_peer(told, method, task_id, is_extension=is_extension) from None
    except (httpx.TimeoutException, A2AClientTimeoutError) as error:
        raise PeerUnreachable(f"the peer cannot be reached: {_cause(error)}; check that it is running") from None
    except httpx.RequestError as error:
        raise PeerUnreachable(f"the connection to the peer failed: {_cause(error)}; check that it is running") from None
    except A2AClientError as error:
        if isinstance(error.__cause__, httpx.RequestError):
            raise PeerUnreachable(
                f"the connection to the peer failed: {_cause(error.__cause__)}; check that it is running"
            ) from None
        raise PeerNotUnderstood(f"the peer answered {method} with something that is not A2A: {error}") from None
    except A2AError as error:
        code = JSON_RPC_ERROR_CODE_MAP.get(type(error))
        if code is None:
            raise PeerNotUnderstood(f"the peer answered {method} with an unknown error: {error}") from None
        # An error inside a stream; one that is an answer by itself was a refusal.
        told = PeerRefusal(HTTPStatus.OK, code, error.message, None)
        raise refused_by_peer(told, method, task_id, is_extension=is_extension) from None
    except (ParseError, KeyError, msgspec.DecodeError) as error:
        raise PeerNotUnderstood(f"the peer answered {method} with something that is not A2A: {error}") from None


def _cause(error: Exception) -> str:
    return str(error) or type(error).__name__


def _decoded(body: bytes) -> Any:  # noqa: ANN401 - any JSON value
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _misunderstood(method: str, result: object) -> PeerNotUnderstood:
    return PeerNotUnderstood(f"the peer answered {method} with {shown(result)}, which is not what the extension says")


# Fields.


def _lowered(draft: Draft, peer: CardReminders) -> dict[str, Any]:
    """The hints of a reminder that are above what the peer advertises, with the values that it gets."""
    fits = {
        "propagate": fitted(draft.propagate, peer.propagate, REACHES),
        "role_hint": fitted(draft.role_hint, peer.role_hints, ROLE_HINTS),
    }
    return {name: word for name, word in fits.items() if word != getattr(draft, name)}


def _camel(fields: Mapping[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins({spelled(name, Case.CAMEL): value for name, value in fields.items()})
    return {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()}


def _in_snake_case(fields: object) -> dict[str, Any]:
    return {_SNAKE.get(name, name): value for name, value in fields.items()} if isinstance(fields, dict) else {}
