"""The ACP proxy: any editor in front, any agent behind it, and reminders between them.

Every frame goes to the other side as it came, byte for byte, except:

- the agent's reply to `initialize` gets the capabilities of the proxy;
- a prompt gets marked blocks in front, if there is anything to hand over;
- what an agent replays of these blocks is taken out;
- the reminder and inject methods of the editor are answered here;
- the answers to the proxy's own requests, which have ids with a nonce, end here.

A frame that the proxy has no interest in is recognised by a search for a few words and is not decoded. The frames of each
side are handled one after the other, so that nothing overtakes a prompt that waits for its commit.
"""

import asyncio
import secrets
from collections.abc import Collection, Iterator, Mapping
from contextlib import aclosing, suppress
from typing import Any, Final, NamedTuple

from msgspec import UNSET, Raw

from sideband.core.errors import (
    CursorExpired,
    InvalidOption,
    InvalidReminder,
    NoRunningTurn,
    ReminderError,
    SessionBusy,
    StoreError,
    UnknownSession,
    UnsupportedMode,
    shown,
)
from sideband.core.parse import refuse_repeated_keys
from sideband.core.seams import InjectMode
from sideband.core.surfaces import Surface
from sideband.core.trust import Provenance, Trust
from sideband.core.updates import MessageUpdate, ReminderUpdate, Update, UpdateKind, Viewer
from sideband.logs import LOG
from sideband.protocols.acp.agent.session_updates import NO_META, Abilities, Translator
from sideband.protocols.acp.capabilities import MODES, inject_capability, reminder_capability
from sideband.protocols.acp.messages import SteeringOutcome
from sideband.protocols.acp.methods import METHODS, PREFIX, answer, member, rpc_error
from sideband.protocols.acp.proxy.blocks import (
    EVERY_KIND,
    prompt_blocks,
    steering_blocks,
    takes_blocks,
    with_blocks,
    without_blocks,
)
from sideband.protocols.acp.proxy.frames import (
    ProxyMessage,
    decode,
    decode_object,
    is_from_agent,
    is_from_editor,
    key_of,
    object_in,
    read_message,
    readable,
    repaired,
)
from sideband.protocols.acp.proxy.session import ProxiedSession
from sideband.protocols.acp.reminder_updates import repeated_meta
from sideband.protocols.frames import ConnectionLost, Frame, Oversized, Transport
from sideband.protocols.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    Call,
    RpcError,
    encode,
    error_frame,
    notification_frame,
    request_frame,
    result_frame,
)
from sideband.runtime.handover import Given
from sideband.runtime.producer import Producer
from sideband.runtime.session import Session
from sideband.runtime.store import Store

# A longer frame is discarded. One that is longer than what Sideband reads is forwarded without being looked at.
MAX_FORWARDED_BYTES: Final = 64 * 1024 * 1024

# How long the requests of an editor wait that does not read the answers.
REPLY_SECONDS: Final = 5.0
# The same for an agent that has not read for that time.
STALLED_SECONDS: Final = 0.05

NONCE_RECORD: Final = "proxy_nonce"
# The nonces of the sessions that a session was forked from: their blocks are in its history.
INHERITED_RECORD: Final = "proxy_inherited_nonces"
_STEERING: Final = "_session/steering"
_PROMPT: Final = "session/prompt"
_UPDATE: Final = "session/update"
_PERMISSION: Final = "session/request_permission"
_CANCEL_REQUEST: Final = "$/cancel_request"
_CALLS_OF_AGENT: Final = frozenset({_UPDATE, _PERMISSION, _CANCEL_REQUEST})
_OF_USER: Final = frozenset({"user_message", "user_message_chunk"})
_FORK: Final = "session/fork"
_NOTHING: Final = Raw(b"null")

# The modes that need an agent that can be steered.
_STEERED_MODES: Final = frozenset({InjectMode.STEER, InjectMode.FINISH_STEP, InjectMode.INTERRUPT_IMMEDIATE})
_INJECT: Final = frozenset({"session/inject", f"{PREFIX}session/inject"})

# Requests of the editor that make a session known, and those after which the agent may replay it.
_OPENING: Final = frozenset({"session/new", "session/load", "session/resume", _FORK})
_REPLAYING: Final = frozenset({"session/load", "session/resume"})


class _Awaited(NamedTuple):
    """A request of the editor whose answer the proxy waits for; `params` are those of the request."""

    method: str
    params: Mapping[str, Any]
    session: ProxiedSession | None = None


class _Permission(NamedTuple):
    """A permission that the agent waits for, and the ids of the options that refuse it."""

    session: ProxiedSession
    rejections: Collection[object]


class Proxy:
    """Forwards frames between an editor and an agent, and hands over what the sessions in `store` are told.

    `agent_name` is part of the names of the sessions: `proxy:<agent_name>:<id>`. `principal` is the name of the editor.
    """

    def __init__(
        self, editor: Transport, agent: Transport, store: Store, *, agent_name: str, principal: str = "editor"
    ) -> None:
        self._editor = editor
        self._agent = agent
        self._store = store
        self._agent_name = agent_name
        self._provenance = Provenance(trust=Trust.CONTROLLER, principal=principal, via="acp")
        self._sessions: dict[str, ProxiedSession] = {}
        # The marks in the history of each session, its own first.
        self._nonces: dict[str, tuple[str, ...]] = {}
        # Sessions that are being loaded: their updates are of the past.
        self._replaying: set[str] = set()
        # Sessions that another program has closed; the log says so once.
        self._closed: set[str] = set()
        self._awaited: dict[object, _Awaited] = {}
        self._permissions: dict[object, _Permission] = {}
        self._id_prefix = f"sideband-{secrets.token_hex(8)}-"
        self._next_id = 0
        self._steered: dict[str, asyncio.Future[bool]] = {}
        self._steers = False
        self._kinds: frozenset[str] = EVERY_KIND
        self._translator = Translator(Abilities(), cwd="")
        self._client: Mapping[str, Any] = {}
        self._agent_stalls = False

    # The two directions.

    async def forward_editor(self) -> None:
        """Forward the frames of the editor until it closes its end."""
        while frames := await self._editor.receive():
            for frame in frames:
                if isinstance(frame, bytes) and not self._permissions and not is_from_editor(frame):
                    self._agent.send(frame)
                else:
                    await self._from_editor(frame)
            await self._drain_agent()

    async def _drain_agent(self) -> None:
        """Wait until the agent has made room.

        An agent that reads nothing must not hide the end of the editor, so that the wait is bounded. It is short until
        the agent reads again.
        """
        # If the agent is gone, its own stream ends as well.
        with suppress(ConnectionLost):
            try:
                async with asyncio.timeout(STALLED_SECONDS if self._agent_stalls else REPLY_SECONDS):
                    await self._agent.drain()
                self._agent_stalls = False
            except TimeoutError:
                self._agent_stalls = True

    async def forward_agent(self) -> None:
        """Forward the frames of the agent until it closes its end."""
        while frames := await self._agent.receive():
            is_awaiting = self._awaits_activity()
            for frame in frames:
                if isinstance(frame, bytes) and not is_awaiting and not is_from_agent(frame):
                    self._editor.send(frame)
                else:
                    await self._from_agent(frame)
                    is_awaiting = self._awaits_activity()
            with suppress(ConnectionLost):
                await self._editor.drain()

    async def aclose(self) -> None:
        """End the sessions of this connection: turns that the agent has not answered are void."""
        for session in self._sessions.values():
            await session.aclose()

    async def _from_editor(self, frame: Frame) -> None:
        if isinstance(frame, Oversized):
            data = {"reason": "frame_too_large", "limit": frame.limit}
            error = RpcError(INVALID_REQUEST, f"A frame may have at most {frame.limit:,} bytes", data)
            self._editor.send(error_frame(_NOTHING, error))
            return
        message = read_message(frame)
        try:
            if message is None or await self._handle_editor(frame, message):
                self._agent.send(frame)
        except Exception:  # noqa: BLE001 - a fault of ours must not stop the editor's conversation
            LOG.exception("a frame of the editor was forwarded as it was")
            self._agent.send(frame)

    async def _from_agent(self, frame: Frame) -> None:
        if isinstance(frame, Oversized):
            LOG.warning("a frame of the agent had more than %d bytes and was discarded", frame.limit)
            return
        message = read_message(frame) or read_message(repaired(frame))
        try:
            forwarded = frame if message is None else await self._handle_agent(frame, message)
        except Exception:  # noqa: BLE001 - a fault of ours must not stop the agent's conversation
            LOG.exception("a frame of the agent was forwarded as it was")
            forwarded = frame
        if forwarded is not None:
            self._editor.send(forwarded)

    def _awaits_activity(self) -> bool:
        return any(session.awaits_activity for session in self._sessions.values())

    # Frames of the editor.

    async def _handle_editor(self, frame: bytes, message: ProxyMessage) -> bool:
        """Handle a message of the editor; whether its frame is to be forwarded."""
        method = message.method
        if method is UNSET:
            self._answered_permission(message)
            return True
        if method in METHODS and not (method == _STEERING and not self._steers):
            await self._answer(frame, message, method)
            return False
        key = key_of(message)
        if key is None:
            return True
        if method == _PROMPT:
            await self._prompt(frame, message, key)
            return False
        if method == "initialize" or method in _OPENING or method == "session/close":
            params = object_in(message.params)
            self._awaited[key] = _Awaited(method, params)
            if method == "initialize":
                self._client = params
            elif method in _REPLAYING:
                self._replaying.add(str(params.get("sessionId")))
                await self._find_nonces(str(params.get("sessionId")))
            elif method == _FORK:
                await self._find_nonces(str(params.get("sessionId")))
        return True

    def _answered_permission(self, message: ProxyMessage) -> None:
        key = key_of(message)
        asked = self._permissions.pop(key, None)
        if asked is not None:
            outcome = member(object_in(message.result), "outcome")
            is_selected = member(outcome, "outcome") == "selected"
            asked.session.answered(key, is_allowed=is_selected and member(outcome, "optionId") not in asked.rejections)

    async def _prompt(self, frame: bytes, message: ProxyMessage, key: object) -> None:
        params = object_in(message.params)
        session = self._sessions.get(str(params.get("sessionId")))
        blocks: list[dict[str, Any]] = []
        if session is not None:
            try:
                opened = await session.begin(key, in_front=takes_blocks(params.get("prompt")))
            except SessionBusy:
                LOG.warning("another process runs session %s; this prompt hands nothing over", session.session.id)
            except (StoreError, ReminderError) as error:
                LOG.warning("this prompt of session %s hands nothing over: %s", session.session.id, error)
            else:
                # Some agents queue a prompt while another one runs, others join the two: it must not wait for a turn.
                self._awaited[key] = _Awaited(_PROMPT, {}, session)
                if opened is not None:
                    blocks = prompt_blocks(opened.given, session.nonce, kinds=self._kinds)
                elif key not in session.queued and session.wire_id not in self._closed:
                    self._closed.add(session.wire_id)
                    LOG.warning("session %s is closed: its prompts hand nothing over", session.session.id)
        self._agent.send(with_blocks(frame, blocks) if blocks else frame)

    async def _find_nonces(self, wire_id: str) -> None:
        """Find the nonces of a session before the agent replays it or forks it."""
        if wire_id not in self._nonces:
            session = await self._store.find(self._name(wire_id))
            view = None if session is None else (await session.view()).view.session
            if view is not None:
                self._nonces[wire_id] = _nonces(view.records)

    # Frames of the agent.

    async def _handle_agent(self, frame: bytes, message: ProxyMessage) -> bytes | None:
        """Handle a message of the agent; the frame to forward, None if there is none."""
        if message.method is UNSET:
            return await self._handle_answer(frame, message)
        if message.method not in _CALLS_OF_AGENT:
            return frame
        params = object_in(message.params)
        if message.method == _CANCEL_REQUEST:
            self._withdraw_permission(params.get("requestId"))
            return frame
        wire_id = str(params.get("sessionId"))
        session = self._sessions.get(wire_id)
        if message.method == _UPDATE:
            update = params.get("update")
            if not isinstance(update, dict):
                return frame
            if update.get("sessionUpdate") in _OF_USER:
                # A fork may be replayed before the editor knows its id.
                forked = (str(each.params.get("sessionId")) for each in self._awaited.values() if each.method == _FORK)
                known = (wire_id,) if wire_id in self._nonces else forked
                return without_blocks(frame, [nonce for each in known for nonce in self._nonces.get(each, ())])
            if session is not None and wire_id not in self._replaying:
                await self._observe(session, update)
        elif message.method == _PERMISSION and session is not None:
            key = key_of(message)
            options = params.get("options")
            rejections = [
                member(option, "optionId")
                for option in (options if isinstance(options, list) else ())
                if str(member(option, "kind")).startswith("reject")
            ]
            self._permissions[key] = _Permission(session, rejections)
            session.ask(key, member(params, "toolCall", "toolCallId"))
        return frame

    def _withdraw_permission(self, key: object) -> None:
        """The agent no longer waits for the answer to this request, if it was one for a permission."""
        asked = self._permissions.pop(key, None) if isinstance(key, str | int | float) else None
        if asked is not None:
            asked.session.answered(key, is_allowed=False)

    async def _observe(self, session: ProxiedSession, update: Mapping[str, Any]) -> None:
        kind = update.get("sessionUpdate")
        try:
            await session.observe(update)
            if kind == "session_info_update" and isinstance(update.get("title"), str):
                await session.session.record({"title": update["title"]})
        except (StoreError, ReminderError) as error:
            LOG.warning("%s of session %s was not recorded: %s", kind, session.session.id, error)

    async def _handle_answer(self, frame: bytes, message: ProxyMessage) -> bytes | None:
        key = key_of(message)
        if isinstance(key, str) and key.startswith(self._id_prefix):
            self._settle_steer(key, message)
            return None
        awaited = self._awaited.pop(key, None)
        if awaited is None:
            return frame
        if awaited.method in _REPLAYING:
            self._replaying.discard(str(awaited.params.get("sessionId")))
        # An unreadable result is a result nevertheless.
        result = None if message.result is UNSET else readable(message.result) or {}
        if awaited.session is not None:
            await self._end_turn(awaited.session, key, result)
        elif awaited.method == "initialize" and isinstance(result, dict):
            return self._initialized(frame, result)
        elif awaited.method == "session/close" and message.result is not UNSET:
            await self._forget(awaited.params.get("sessionId"))
        elif awaited.method in _OPENING and message.result is not UNSET:
            wire_id = member(result, "sessionId") or awaited.params.get("sessionId")
            await self._attach(wire_id, awaited, frame)
            return None
        return frame

    async def _end_turn(self, session: ProxiedSession, key: object, result: object) -> None:
        self._permissions = {
            request: asked for request, asked in self._permissions.items() if asked.session is not session
        }
        try:
            await session.end(key, result)
        except (StoreError, ReminderError) as error:
            LOG.warning("the end of a turn of session %s was not recorded: %s", session.session.id, error)

    def _initialized(self, frame: bytes, result: dict[str, Any]) -> bytes:
        self._steers = member(result, "_meta", "steering", "supported") is True
        is_v1 = result.get("protocolVersion") in (None, 1)
        able = member(result, "agentCapabilities", "promptCapabilities")
        if is_v1:
            self._kinds = frozenset(kind for kind in EVERY_KIND if member(able, kind) is True)
        wants = member(self._client, "clientCapabilities", "_meta", "sideband", "reminders", "emit")
        abilities = Abilities(version=1 if is_v1 else 2, reads_reminders=not is_v1 or wants not in (None, False))
        self._translator = Translator(abilities, cwd="")
        place = "agentCapabilities" if is_v1 else "capabilities"
        members = decode_object(repaired(frame))
        members["result"] = Raw(
            encode(
                decode_object(members["result"])
                | {place: Raw(encode(_with_capabilities(result.get(place), is_v1=is_v1, steers=self._steers)))}
            )
        )
        return encode(members)

    # Sessions.

    def _name(self, wire_id: str) -> str:
        return f"proxy:{self._agent_name}:{wire_id}"

    async def _attach(self, wire_id: object, awaited: _Awaited, frame: bytes) -> None:
        """Make a session durable before its editor is told of it, then tell the editor what happens in it."""
        cursor = None
        session = self._sessions.get(wire_id) if isinstance(wire_id, str) else None
        if isinstance(wire_id, str) and session is None:
            try:
                session, cursor = await self._open(wire_id, awaited)
            except (StoreError, ReminderError) as error:
                LOG.warning("session %s of the agent gets no reminders: %s", shown(wire_id), error)
        self._editor.send(frame)
        if session is not None and cursor is not None:
            session.telling = asyncio.create_task(self._tell(session, cursor), name="sideband-proxy-updates")

    async def _open(self, wire_id: str, awaited: _Awaited) -> tuple[ProxiedSession, int]:
        name = self._name(wire_id)
        session = await self._store.find(name)
        if session is None:
            records = {
                "agent": self._agent_name,
                "cwd": awaited.params.get("cwd"),
                NONCE_RECORD: secrets.token_hex(6),
            }
            if awaited.method == _FORK:
                records[INHERITED_RECORD] = [*self._nonces.get(str(awaited.params.get("sessionId")), ())]
            session = await self._store.begin(name, attributes=records)
        view, cursor = await session.view()
        nonces = () if view.session is None else _nonces(view.session.records)
        if not nonces:
            nonces = (secrets.token_hex(6),)
            await session.record({NONCE_RECORD: nonces[0]})
        self._nonces[wire_id] = nonces
        nonce = nonces[0]
        steer = self._steer if self._steers else None
        self._sessions[wire_id] = proxied = ProxiedSession(wire_id, session, nonce, steer=steer, cancel=self._cancel)
        return proxied, cursor

    async def _forget(self, wire_id: object) -> None:
        session = self._sessions.pop(wire_id, None) if isinstance(wire_id, str) else None
        if session is not None:
            await session.aclose()

    # Requests of the proxy.

    def _steer(self, session: ProxiedSession, given: Given) -> asyncio.Future[bool]:
        """Hand an item over by a steer; the future says whether the agent has taken it into the running turn."""
        params = {
            "sessionId": session.wire_id,
            "prompt": steering_blocks(given, session.nonce, kinds=self._kinds),
            "_meta": {"steering": {"idleBehavior": "promptRequired"}},
        }
        self._next_id += 1
        request_id = f"{self._id_prefix}{self._next_id}"
        self._steered[request_id] = outcome = asyncio.get_running_loop().create_future()
        self._agent.send(request_frame(request_id, _STEERING, params))
        return outcome

    def _settle_steer(self, request_id: str, message: ProxyMessage) -> None:
        outcome = self._steered.pop(request_id, None)
        if outcome is not None and not outcome.done():
            result = object_in(message.result)
            outcome.set_result(member(result, "outcome") == "injected")

    def _cancel(self, wire_id: str) -> None:
        """Pass on the cancellation of a turn by another program."""
        self._agent.send(notification_frame("session/cancel", {"sessionId": wire_id}))

    # Methods that are answered here.

    async def _answer(self, frame: bytes, message: ProxyMessage, method: str) -> None:
        request_id = None if message.id is UNSET else message.id
        try:
            result = await self._call(frame, message, method, request_id)
        except RpcError as error:
            refused = error
            if isinstance(error.data, dict) and error.data.get("reason") == UnknownSession.reason:
                # The error of a closed session does not name it.
                error.data["sessionId"] = error.data.get("sessionId") or object_in(message.params).get("sessionId")
        except Exception:  # noqa: BLE001 - the outermost handler of a call
            LOG.exception("%s failed", method)
            refused = RpcError(INTERNAL_ERROR, "Internal error")
        else:
            if request_id is not None:
                await self._reply(result_frame(request_id, result))
            return
        if request_id is not None:
            await self._reply(error_frame(request_id, refused))
        else:
            LOG.warning("notification %s was refused: %s", method, refused.message)

    async def _reply(self, frame: bytes) -> None:
        """Send an answer to the editor, and read its next request once it has made room, so that answers do not pile up."""
        self._editor.send(frame)
        # An editor that reads nothing for so long must be able to cancel nevertheless.
        with suppress(ConnectionLost, TimeoutError):
            async with asyncio.timeout(REPLY_SECONDS):
                await self._editor.drain()

    async def _call(self, frame: bytes, message: ProxyMessage, method: str, request_id: Raw | None) -> dict[str, Any]:
        try:
            # Of two equal keys one would be ignored.
            refuse_repeated_keys(frame)
            params = {} if message.params is UNSET else decode(message.params)
        except InvalidReminder as error:
            raise rpc_error(error) from None
        if not isinstance(params, dict):
            raise RpcError(INVALID_PARAMS, "Invalid params: they must be an object")
        call = Call(method, params, request_id, lambda _frame: None)
        if method == _STEERING:
            return await self._steered_by_editor(call)
        mode = params.get("mode")
        if method in _INJECT and mode in _STEERED_MODES:
            self._refuse_steer(mode, params.get("sessionId"))
        result = await answer(self._producer_of, call)
        if method in _INJECT and mode == InjectMode.QUEUE:
            result["_meta"] = {"sideband": {"waitsFor": "prompt"}}
        return result

    async def _steered_by_editor(self, call: Call) -> dict[str, Any]:
        """Hand a steer of the editor over at once, as the agent would take it, but through the inbox."""
        params = call.params
        session = self._sessions.get(str(params.get("sessionId")))
        if session is not None and session.prompt is None:
            # The proxy starts no turn, so every caller gets the answer of one that asked for none.
            return {"outcome": SteeringOutcome.PROMPT_REQUIRED, "reason": "noRunningTurn"}
        inject = {name: value for name, value in params.items() if name in ("sessionId", "_meta")}
        inject |= {"content": params.get("prompt"), "mode": InjectMode.INTERRUPT_IMMEDIATE}
        await answer(self._producer_of, call._replace(method="session/inject", params=inject))
        return {"outcome": SteeringOutcome.INJECTED}

    def _refuse_steer(self, mode: object, wire_id: object) -> None:
        if not self._steers:
            raise rpc_error(_not_steerable(mode))
        session = self._sessions.get(wire_id) if isinstance(wire_id, str) else None
        if session is not None and session.prompt is None:
            # A queued message starts no turn here, so there is none to come either.
            raise rpc_error(NoRunningTurn(str(mode)))

    async def _producer_of(
        self, session_id: str | None, *, surface: Surface, writes: bool = True, starts: bool = False
    ) -> Producer:
        del writes, starts  # The only client of this connection is the controller, and the proxy starts no turn.
        if session_id is None:
            if len(self._sessions) != 1:
                raise InvalidOption(
                    f"sessionId is required: this connection has {len(self._sessions)} sessions", field="sessionId"
                )
            return self._producer(next(iter(self._sessions.values())).session, surface)
        session = self._sessions.get(session_id)
        if session is None:
            raise UnknownSession(
                f"this connection has no session {shown(session_id)}", field="sessionId", value=session_id
            )
        return self._producer(session.session, surface)

    def _producer(self, session: Session, surface: Surface) -> Producer:
        return Producer(session, self._provenance, surface=surface)

    # What the editor is told.

    async def _tell(self, session: ProxiedSession, cursor: int) -> None:
        viewer = Viewer(provenance=self._provenance)
        while True:
            try:
                async with aclosing(session.session.updates(viewer, after=cursor)) as updates:
                    async for update in updates:
                        cursor = update.cursor
                        for told in self._told(update):
                            params = {"sessionId": session.wire_id, "update": told}
                            self._editor.send(notification_frame(_UPDATE, params))
                        await self._editor.drain()
            except CursorExpired as expired:
                cursor = expired.oldest
            except ConnectionLost:
                return
            except StoreError as error:
                LOG.warning("the editor is told nothing more of session %s: %s", session.session.id, error)
                return

    def _told(self, update: Update) -> Iterator[dict[str, Any]]:
        if isinstance(update, ReminderUpdate):
            yield from self._translator.reminder(update)
        elif (
            isinstance(update, MessageUpdate) and update.kind is UpdateKind.MESSAGE_DELIVERED and not update.audit_only
        ):
            meta = NO_META if update.provenance is None else repeated_meta(update.provenance)
            yield from self._translator.user_message(update.message_id, update.content or (), meta)


def _nonces(records: Mapping[str, Any]) -> tuple[str, ...]:
    """The nonce of a session and those that it has inherited; none if it has none of its own."""
    nonce, inherited = records.get(NONCE_RECORD), records.get(INHERITED_RECORD)
    if not isinstance(nonce, str):
        return ()
    return (
        nonce,
        *(each for each in (inherited if isinstance(inherited, list | tuple) else ()) if isinstance(each, str)),
    )


def _with_capabilities(agents: object, *, is_v1: bool, steers: bool) -> dict[str, Any]:
    """The capabilities of the agent with what the proxy can do; everything else in them stays as it was."""
    inject = _inject_capability(MODES if steers else (InjectMode.QUEUE,))
    every = tuple(InjectMode) if steers else (InjectMode.QUEUE, InjectMode.AUDIT_ONLY)
    able = _copy(agents)
    meta = _copy(able.get("_meta"))
    ours = {"reminders": reminder_capability(), "inject": _inject_capability(every)}
    able["_meta"] = {**meta, "sideband": {**_copy(meta.get("sideband")), **ours}}
    if is_v1:
        able["reminders"] = reminder_capability()
        able["session"] = {**_copy(able.get("session")), "inject": inject}
    return able


def _inject_capability(modes: tuple[InjectMode, ...]) -> dict[str, Any]:
    capability = inject_capability(modes)
    if InjectMode.STEER not in modes:
        del capability["steerInStream"], capability["steer_in_stream"]
    return capability


def _copy(value: object) -> dict[str, Any]:
    return dict(value) if isinstance(value, dict) else {}


def _not_steerable(mode: object) -> UnsupportedMode:
    return UnsupportedMode(
        f"mode must be 'queue' or 'audit_only', not {shown(mode)}: the agent cannot be steered while a turn runs",
        field="mode",
        value=mode,
    )
