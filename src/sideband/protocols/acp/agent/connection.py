"""One connection of the ACP agent: its methods, and the sessions that its client is attached to.

Frames of one session take effect in the order of arrival. A prompt takes effect when it is accepted; its answer follows
when its turn is over. The reminder and inject methods are in `methods`.
"""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from sideband import __version__
from sideband.core.errors import InvalidOption, NotPermitted, ReminderError, shown
from sideband.core.masking import mask_text
from sideband.core.reminder import Source
from sideband.core.seams import InjectMode
from sideband.core.surfaces import Surface
from sideband.core.trust import LEVELS, Channel, Provenance
from sideband.core.updates import Viewer
from sideband.logs import LOG
from sideband.loop.turn import DESCRIBES_EXCEPTION
from sideband.ports import ModelError
from sideband.protocols.acp import capabilities, methods
from sideband.protocols.acp.agent import modes
from sideband.protocols.acp.agent.attachment import Attachment
from sideband.protocols.acp.agent.hosted import HostedProducer, HostedSession
from sideband.protocols.acp.agent.session_updates import STOP_REASONS, Abilities
from sideband.protocols.acp.methods import member, meta_param, text_param
from sideband.protocols.frames import Transport
from sideband.protocols.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    REQUEST_CANCELLED,
    Call,
    Later,
    Peer,
    RpcError,
)
from sideband.protocols.wire import Via
from sideband.runtime.producer import Producer
from sideband.runtime.runner import TurnStatus
from sideband.runtime.session import Session
from sideband.runtime.system import moment

if TYPE_CHECKING:
    from sideband.protocols.acp.agent.agent import AcpAgent

VERSIONS: Final = (1, 2)
UNSUPPORTED_VERSION: Final = -32022

# The named record by which the sessions of this protocol are listed.
KIND: Final = "kind"
ACP: Final = "acp"
PAGE: Final = 50

NO_MODEL: Final = (
    "No model is configured: start the agent with `sideband acp --model anthropic:NAME` (or openai:NAME, google:NAME, "
    "openai-compatible:NAME, local:), or set SIDEBAND_MODEL to such a name."
)
_TITLE_CHARACTERS: Final = 80
_CURSOR: Final = re.compile(r"[1-9][0-9]{0,17}")


class _Method(NamedTuple):
    """A handler, and the protocol versions that have the method."""

    handler: Callable[["AgentConnection", Call], Awaitable[Any]]
    versions: tuple[int, ...] = VERSIONS


_Attach: TypeAlias = Mapping[str, Any]


class AgentConnection:
    """One client."""

    def __init__(self, agent: "AcpAgent", transport: Transport) -> None:
        self._agent = agent
        self.peer = Peer(transport, self._handle, lane=self._lane)
        self._abilities: Abilities | None = None
        self._attached: dict[str, Attachment] = {}
        provenance = Provenance(trust=LEVELS[Channel.SESSION_CLIENT], principal=agent.principal, via=Via.ACP)
        self._provenance = provenance
        self._viewer = Viewer(provenance=provenance)

    async def serve(self) -> None:
        """Answer the client until it closes the connection."""
        try:
            await self.peer.serve()
        finally:
            for attachment in tuple(self._attached.values()):
                try:
                    await self._detach(attachment)
                except Exception:  # noqa: BLE001 - the others must be detached all the same
                    LOG.exception("session %s: a client was not detached", attachment.hosted.session.id)

    async def _handle(self, call: Call) -> Any:  # noqa: ANN401 - the result of any method
        if self._abilities is None and call.method != "initialize":
            raise RpcError(INVALID_REQUEST, "Invalid request: the first request must be initialize")
        if call.method in methods.METHODS:
            return await methods.answer(self._producer_of, call)
        method = _TABLE.get(call.method)
        if method is None or (self._abilities is not None and self._abilities.version not in method.versions):
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {call.method[:100]}")
        try:
            return await method.handler(self, call)
        except ReminderError as error:
            raise methods.rpc_error(error, content_name="prompt") from None

    # The connection.

    async def initialize(self, call: Call) -> dict[str, Any]:
        if self._abilities is not None:
            raise RpcError(INVALID_REQUEST, "Invalid request: this connection is initialised already")
        asked = call.params.get("protocolVersion")
        if not isinstance(asked, int) or isinstance(asked, bool):
            raise InvalidOption(
                f"protocolVersion must be a number, not {shown(asked)}", field="protocolVersion", value=asked
            )
        if asked < min(VERSIONS):
            data = {"requested": asked, "supported": list(VERSIONS)}
            raise RpcError(UNSUPPORTED_VERSION, f"Unsupported protocol version {asked}", data)
        version = min(asked, max(VERSIONS))
        self._abilities = _read_abilities(call.params, version)
        return _initialized(version, connects_servers=self._agent.servers is not None)

    async def authenticate(self, _call: Call) -> dict[str, Any]:
        """No authentication is needed: the client has started this process."""
        return {}

    # Sessions.

    async def new_session(self, call: Call) -> dict[str, Any]:
        if call.request_id is None:
            raise RpcError(INVALID_REQUEST, "Invalid request: session/new must be a request")
        cwd = _read_cwd(call.params)
        servers = self._read_servers(call.params, cwd)
        if _reads_only(call.params):
            raise InvalidOption(
                "a new session needs a controller; leave the role 'observer' out", field="_meta.sideband.role"
            )
        attributes = {KIND: ACP, "cwd": cwd, "title": _unnamed(cwd), "mode": modes.ASK}
        session = await self._agent.store.begin(attributes=attributes)
        await self._attach(session, call.params, replay=False, is_new=True, servers=servers)
        return {"sessionId": session.id, **self._mode_fields(modes.ASK)}

    async def load_session(self, call: Call) -> dict[str, Any]:
        return await self._open(call, replay=True)

    async def resume_session(self, call: Call) -> dict[str, Any]:
        return await self._open(call, replay=member(call.params, "replayFrom", "type") == "start")

    async def _open(self, call: Call, *, replay: bool) -> dict[str, Any]:
        session = await self._agent.find(text_param(call.params, "sessionId"))
        servers = self._read_servers(call.params, call.params.get("cwd"))
        attachment = await self._attach(session, call.params, replay=replay, servers=servers)
        return self._mode_fields(await attachment.hosted.permission.mode())

    def _read_servers(self, params: Mapping[str, Any], cwd: object) -> Sequence[Any]:
        """The MCP servers that the client gives with a session."""
        given = params.get("mcpServers")
        if not given:
            return ()
        if self._agent.servers is None:
            raise InvalidOption(
                "this agent cannot connect MCP servers, because the packages for it are missing: install "
                "'sideband[mcp]', or begin the session without mcpServers",
                field="mcpServers",
            )
        folder = self._agent.workspace or (cwd if isinstance(cwd, str) else None)
        return self._agent.servers.read(given, cwd=folder or str(Path.cwd()))

    async def _attach(
        self,
        session: Session,
        params: _Attach,
        *,
        replay: bool,
        is_new: bool = False,
        servers: Sequence[Any] = (),
    ) -> Attachment:
        """Attach this client to a session, again if it is attached already; `servers` are the MCP servers that it gives."""
        is_observer = _reads_only(params)
        hosted = await self._agent.host(session)
        earlier = self._attached.get(session.id)
        attachment = Attachment(self.peer, hosted, self._viewer, self._told_abilities, is_observer=is_observer)
        hosted.attach(attachment)
        self._attached[session.id] = attachment
        try:
            if earlier is not None:
                earlier.hosted.detach(earlier)
                await earlier.detach(successor=attachment)
            await attachment.attach(replay=replay, is_new=is_new)
        except BaseException:
            await self._detach(attachment)
            raise
        if not is_observer:
            hosted.use_servers(servers)
            _start(hosted)
        return attachment

    async def _detach(self, attachment: Attachment) -> None:
        if self._attached.get(attachment.hosted.session.id) is attachment:
            del self._attached[attachment.hosted.session.id]
        attachment.hosted.detach(attachment)
        await attachment.detach()
        await self._agent.release(attachment.hosted)

    async def list_sessions(self, call: Call) -> dict[str, Any]:
        records = {KIND: ACP}
        if call.params.get("cwd") is not None:
            records["cwd"] = text_param(call.params, "cwd")
        page = await self._agent.store.sessions(records=records, before=_read_cursor(call.params), limit=PAGE)
        listed = [
            {
                "sessionId": entry.session_id,
                "cwd": entry.records.get("cwd", ""),
                "title": entry.records.get("title"),
                "updatedAt": moment(entry.changed_at),
            }
            for entry in page.sessions
        ]
        told: dict[str, Any] = {"sessions": listed}
        if page.next_before is not None:
            told["nextCursor"] = str(page.next_before)
        return told

    async def close_session(self, call: Call) -> dict[str, Any]:
        session = await self._agent.find(text_param(call.params, "sessionId"))
        if (attachment := self._attached.get(session.id)) is not None:
            await self._detach(attachment)
        return {}

    async def set_mode(self, call: Call) -> dict[str, Any]:
        await self._set_mode(text_param(call.params, "sessionId"), text_param(call.params, "modeId"), "modeId")
        return {}

    async def set_config_option(self, call: Call) -> dict[str, Any]:
        if (option := text_param(call.params, "configId")) != "mode":
            raise InvalidOption(f"the only option is 'mode', not {shown(option)}", field="configId", value=option)
        mode = text_param(call.params, "value")
        await self._set_mode(text_param(call.params, "sessionId"), mode, "value")
        return {"configOptions": modes.config_options(mode)}

    async def _set_mode(self, session_id: str, mode: str, field: str) -> None:
        if mode not in modes.MODES:
            raise InvalidOption(
                f"{field} must be one of {', '.join(map(repr, modes.MODES))}, not {shown(mode)}",
                field=field,
                value=mode,
            )
        await (await self._writable(session_id)).record({"mode": mode})

    # Prompts.

    async def prompt(self, call: Call) -> Later:
        """Queue the prompt. Its answer follows when its turn is over, on version 2 when it was delivered."""
        session = await self._writable(text_param(call.params, "sessionId"))
        attachment = self._attached.get(session.id) or await self._attach(session, {}, replay=False)
        _start(attachment.hosted, must=True)
        await attachment.hosted.until_connected()
        content: Any = call.params.get("prompt")
        producer = HostedProducer(attachment.hosted, self._provenance, surface=Surface.ACP)
        prompting = producer.inject(content, mode=InjectMode.QUEUE, meta=meta_param(call.params))
        message_id, ended = await attachment.accept(prompting)
        await _name(attachment.hosted, content)
        answer = self._answer if self._told_abilities.version == 1 else self._insertion
        return Later(answer(attachment.hosted, message_id, ended))

    async def _answer(
        self, hosted: HostedSession, message_id: str, ended: asyncio.Future[TurnStatus]
    ) -> dict[str, Any]:
        status = await self._until(hosted, message_id, ended)
        if status in STOP_REASONS:
            return {"stopReason": STOP_REASONS[status], "_meta": {"sideband": {"messageId": message_id}}}
        if status is TurnStatus.LEASE_LOST:
            raise RpcError(
                INTERNAL_ERROR,
                "The process that ran this turn has ended before its end. Send the prompt again.",
                {"reason": "turn_lost"},
            )
        raise await _model_failed(hosted, message_id)

    async def _insertion(
        self, hosted: HostedSession, message_id: str, delivered: asyncio.Future[TurnStatus]
    ) -> dict[str, Any]:
        status = await self._until(hosted, message_id, delivered)
        if status is not TurnStatus.COMPLETED:
            raise RpcError(REQUEST_CANCELLED, "The prompt was withdrawn before it was delivered")
        return {"messageId": message_id}

    async def _until(self, hosted: HostedSession, message_id: str, ended: asyncio.Future[TurnStatus]) -> TurnStatus:
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            if not self.peer.is_over and not ended.cancelled():
                # `$/cancel_request`; a client that only disconnects leaves its turn running.
                await hosted.session.cancel(message_id)
            raise

    async def cancel(self, call: Call) -> dict[str, Any]:
        """End the turn, or the one that is about to begin; the inbox stays."""
        session = await self._writable(text_param(call.params, "sessionId"))
        await session.cancel(or_next=True)
        return {}

    # Producers.

    def _lane(self, call: Call) -> str:
        """Calls about one session are handled in their order, also if one of them does not name it."""
        session_id = call.params.get("sessionId")
        if session_id is None and call.method in methods.WITHOUT_SESSION and len(self._attached) == 1:
            return next(iter(self._attached))
        return session_id if isinstance(session_id, str) else ""

    async def _producer_of(
        self, session_id: str | None, *, surface: Surface, writes: bool = True, starts: bool = False
    ) -> Producer:
        if session_id is None:
            if len(self._attached) != 1:
                raise InvalidOption(
                    f"sessionId is required: this connection has {len(self._attached)} sessions, not one",
                    field="sessionId",
                )
            session_id = next(iter(self._attached))
        session = await self._writable(session_id) if writes else await self._session(session_id)
        if starts:
            hosted = await self._agent.host(session)
            _start(hosted, must=True)
            return HostedProducer(hosted, self._provenance, surface=surface)
        return Producer(session, self._provenance, surface=surface, source=Source.BRIDGE)

    async def _writable(self, session_id: str) -> Session:
        attachment = self._attached.get(session_id)
        if attachment is not None and attachment.is_observer:
            raise NotPermitted(
                "this client observes the session and may not change it; load it without the role 'observer'",
                field="sessionId",
                value=session_id,
            )
        return await self._session(session_id)

    async def _session(self, session_id: str) -> Session:
        attachment = self._attached.get(session_id)
        if attachment is not None and attachment.hosted.session.talk.state.exists:
            # Without a look into the store's list.
            return attachment.hosted.session
        return await self._agent.find(session_id)

    # Answers.

    @property
    def _told_abilities(self) -> Abilities:
        return self._abilities or Abilities()

    def _mode_fields(self, mode: str) -> dict[str, Any]:
        if self._told_abilities.version == 1:
            return {"modes": modes.mode_state(mode)}
        return {"configOptions": modes.config_options(mode)}


_TABLE: Final[Mapping[str, _Method]] = MappingProxyType(
    {
        "initialize": _Method(AgentConnection.initialize),
        "authenticate": _Method(AgentConnection.authenticate, (1,)),
        "auth/login": _Method(AgentConnection.authenticate, (2,)),
        "auth/logout": _Method(AgentConnection.authenticate, (2,)),
        "session/new": _Method(AgentConnection.new_session),
        "session/load": _Method(AgentConnection.load_session, (1,)),
        "session/resume": _Method(AgentConnection.resume_session),
        "session/list": _Method(AgentConnection.list_sessions),
        "session/close": _Method(AgentConnection.close_session),
        "session/set_mode": _Method(AgentConnection.set_mode, (1,)),
        "session/set_config_option": _Method(AgentConnection.set_config_option, (2,)),
        "session/prompt": _Method(AgentConnection.prompt),
        "session/cancel": _Method(AgentConnection.cancel),
    }
)


def _start(hosted: HostedSession, *, must: bool = False) -> None:
    """Run what is queued. If this `must` be possible, the request is refused when there is no model or no folder."""
    try:
        hosted.start()
    except OSError as error:
        text = f"The folder of this session, {hosted.cwd}, cannot be used: {error.strerror or error}"
        if must:
            raise RpcError(INTERNAL_ERROR, text, {"reason": "no_folder"}) from None
        LOG.warning("%s", text)
    except (ModelError, InvalidOption) as error:
        if must:
            # The rest of that sentence is for programs.
            text = str(error).removesuffix(", or pass api_key")
            raise RpcError(INTERNAL_ERROR, f"The model cannot be used: {text}", {"reason": "no_model"}) from None
        LOG.warning("the model cannot be used: %s", error)
        return
    if must and hosted.runner is None:
        raise RpcError(INTERNAL_ERROR, NO_MODEL, {"reason": "no_model"})


async def _model_failed(hosted: HostedSession, message_id: str) -> RpcError:
    result = None if hosted.runner is None else await hosted.runner.result(message_id)
    data = {"reason": "model_failed", "code": ModelError.code}
    if result is None or result.error is None:
        return RpcError(INTERNAL_ERROR, "The model failed", data)
    LOG.warning("session %s: %s", hosted.session.id, result.error)
    if result.error.startswith(DESCRIBES_EXCEPTION):
        return RpcError(INTERNAL_ERROR, "The model failed; the log of the agent says why", data)
    return RpcError(INTERNAL_ERROR, f"The model failed: {mask_text(result.error)}", data)


async def _name(hosted: HostedSession, content: object) -> None:
    """Name a new session after its first prompt."""
    if hosted.is_named:
        return
    hosted.is_named = True
    records = await hosted.session.records()
    if records.get("title") != _unnamed(str(records.get("cwd"))):
        return
    texts = [block.get("text") for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    line = next((" ".join(text.split()) for text in texts if isinstance(text, str) and text.strip()), "")
    if line:
        short = line if len(line) <= _TITLE_CHARACTERS else f"{line[: _TITLE_CHARACTERS - 3]}..."
        await hosted.session.record({"title": short})


def _unnamed(cwd: str) -> str:
    """The title of a session before its first prompt."""
    return f"New session in {Path(cwd).name or cwd}"


def _reads_only(params: Mapping[str, Any]) -> bool:
    """Whether a client wants to be an observer."""
    role = member(params.get("_meta"), "sideband", "role")
    if role not in (None, "controller", "observer"):
        raise InvalidOption(
            f"_meta.sideband.role must be 'controller' or 'observer', not {shown(role)}",
            field="_meta.sideband.role",
            value=role,
        )
    return role == "observer"


def _read_cwd(params: Mapping[str, Any]) -> str:
    cwd = text_param(params, "cwd")
    if not os.path.isabs(cwd) or not os.path.isdir(cwd):  # noqa: PTH112, PTH117 - pathlib raises for odd names
        raise InvalidOption(
            f"cwd must be the absolute path of a folder that exists, not {shown(cwd)}", field="cwd", value=cwd
        )
    return cwd


def _read_cursor(params: Mapping[str, Any]) -> int | None:
    cursor = params.get("cursor")
    if cursor is None:
        return None
    if not isinstance(cursor, str) or _CURSOR.fullmatch(cursor) is None:
        raise InvalidOption(
            f"cursor must be a nextCursor of session/list, not {shown(cursor)}", field="cursor", value=cursor
        )
    return int(cursor)


def _read_abilities(params: Mapping[str, Any], version: int) -> Abilities:
    told = params.get("clientCapabilities" if version == 1 else "capabilities")
    emit = member(told, "_meta", "sideband", "reminders", "emit")
    return Abilities(
        version=version,
        reads_reminders=version > 1 or (emit is not None and emit is not False),
        reads_compaction=version > 1 or member(told, "session", "compaction") is not None,
        # Version 2 has no methods for files and terminals.
        reads_files=version == 1 and member(told, "fs", "readTextFile") is True,
        writes_files=version == 1 and member(told, "fs", "writeTextFile") is True,
        has_terminals=version == 1 and member(told, "terminal") is True,
    )


def _initialized(version: int, *, connects_servers: bool) -> dict[str, Any]:
    info = {"name": "sideband", "title": "Sideband", "version": __version__}
    if version == 1:
        ours = capabilities.agent_capabilities()
        if connects_servers:
            ours = {"mcpCapabilities": {"http": True, "sse": False}, **ours}
        return {
            "protocolVersion": 1,
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
                "sessionCapabilities": {"list": {}, "resume": {}, "close": {}},
                **ours,
            },
            "agentInfo": info,
            "authMethods": [],
            "_meta": capabilities.initialize_meta(),
        }
    session: dict[str, Any] = {"prompt": {"image": {}, "audio": {}, "embeddedContext": {}}}
    if connects_servers:
        session["mcp"] = {"stdio": {}, "http": {}}
    return {
        "protocolVersion": 2,
        "info": info,
        "capabilities": {
            "session": session,
            "_meta": {"sideband": capabilities.sideband_capabilities()},
        },
        "authMethods": [],
        "_meta": capabilities.initialize_meta(),
    }
