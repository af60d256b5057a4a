"""The A2A server as an ASGI application: JSON-RPC at its root, HTTP+JSON, the cards, and the methods for reminders."""

import re
from collections.abc import Collection, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import parse_qsl

import msgspec
from a2a.extensions.common import HTTP_EXTENSION_HEADER
from a2a.server.request_handlers.response_helpers import build_error_response
from a2a.server.routes import create_agent_card_routes
from a2a.utils.error_handlers import build_rest_error_payload
from a2a.utils.errors import VersionNotSupportedError
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sideband.core.errors import BodyTooLarge, InvalidOption, InvalidReminder, ReminderError, StoreError, shown
from sideband.core.parse import refuse_repeated_keys
from sideband.core.trust import TrustPolicy
from sideband.logs import LOG
from sideband.ports import Clock, Model
from sideband.protocols.a2a.auth import Callers, KnownPeer
from sideband.protocols.a2a.card import SEED_PATH, AgentProfile, seed_card
from sideband.protocols.a2a.handler import TaskHandler
from sideband.protocols.a2a.push import PUBLIC_ONLY, PushPolicy, PushSender
from sideband.protocols.a2a.reminders import METHODS, RAW_URI, URI, ProducerOf, answer, producer_for
from sideband.protocols.a2a.runs import TaskRuns, ToolsOf
from sideband.protocols.a2a.sdk import (
    LEGACY_HEADER,
    MEDIA_TYPE,
    SCOPE_KEY,
    A2aCall,
    Endpoint,
    NotJson,
    check_json,
    http_error,
    http_routes,
    jsonrpc_endpoint,
    requested_extensions,
    rpc_error,
)
from sideband.protocols.a2a.tasks import Tasks
from sideband.protocols.http import LOOPBACK_HOSTS, ClientGone, HttpRefusal, RequestChecks, read_body, refused_type
from sideband.protocols.jsonrpc import INTERNAL_ERROR, PARSE_ERROR
from sideband.protocols.servers import SessionServers
from sideband.runtime.models import read_model
from sideband.runtime.options import AgentOptions, check_names
from sideband.runtime.producer import Producer
from sideband.runtime.store import Store
from sideband.runtime.system import SystemClock

VERSION_HEADER: Final = "A2A-Version"
_VERSIONS: Final = re.compile(r"1\.\d+(\.\d+)?|0\.3(\.\d+)?|")
_CARD_PATHS: Final = frozenset({"/.well-known/agent-card.json", SEED_PATH})
_JSON: Final = ("application/json", MEDIA_TYPE)
_encode: Final = msgspec.json.Encoder().encode


class A2aServer:
    """Serves the tasks of a store over A2A; `app` is the application, and `async with` runs the tasks.

    `url` is the address under which callers reach the application. `service` is the name under which the store keeps the
    tasks of this agent (None: `name`): servers with the same one run each other's tasks if one of them ends. `peers` are
    the callers that may use the server, by their tokens; without, every caller may, so the server must only be reachable
    from this machine. A caller with `operator_token` is the operator. `trust="seed"` lifts the ceilings of all peers.

    `options` are those of the runs; `tools_of` makes the tools for a task, if tasks must not share them. With `asks`,
    tools that may change something wait for the permission of the task's caller. `push` says where push notifications may
    go (None: they are turned off).
    """

    def __init__(
        self,
        store: Store,
        *,
        model: str | Model,
        url: str,
        name: str = "sideband",
        service: str | None = None,
        description: str = "An agent that takes system reminders while it works.",
        skills: Sequence[str] = ("agent",),
        peers: Sequence[KnownPeer] | None = None,
        operator_token: str | None = None,
        trust: TrustPolicy = TrustPolicy.CEILINGS,
        allowed_hosts: Collection[str] = LOOPBACK_HOSTS,
        allowed_origins: Collection[str] = (),
        tools_of: ToolsOf | None = None,
        servers: SessionServers | None = None,
        options: AgentOptions | None = None,
        asks: bool = False,
        push: PushPolicy | None = PUBLIC_ONLY,
        clock: Clock | None = None,
    ) -> None:
        # Made here, so that all tasks share it, and a missing key is found before the first task.
        shared = read_model(model)
        run_options: AgentOptions = {"name": name, **(options or {}), "model": shared}  # type: ignore[typeddict-item]
        profile = AgentProfile(name=name, description=description, url=url.rstrip("/"), skills=tuple(skills))
        callers = Callers(peers, operator_token=operator_token, policy=TrustPolicy(trust))
        check_names(run_options)
        tasks = Tasks(store, service or name)
        self._push = None if push is None else PushSender(tasks, push)
        self._runs = TaskRuns(
            tasks, run_options, clock=clock or SystemClock(), tools_of=tools_of, servers=servers, asks=asks
        )
        if self._push is not None:
            self._runs.on_host = self._push.start
        self._handler = handler = TaskHandler(
            tasks, self._runs, profile, push=self._push, needs_token=callers.needs_token
        )
        public = A2aCall(caller=callers.ordinary)
        routes = [
            Route("/", _jsonrpc(tasks, handler), methods=["POST"]),
            Route(SEED_PATH, lambda _request: JSONResponse(seed_card(profile, callers.ordinary)), methods=["GET"]),
            *create_agent_card_routes(handler.card(public), cache_control="max-age=60"),
            *_reminder_routes(tasks),
            *http_routes(handler),
        ]
        self.app: ASGIApp = _Door(
            Router(routes, lifespan=self._lifespan),
            callers,
            RequestChecks(allowed_hosts, allowed_origins),
            limit=store.limits.frame_bytes,
        )
        self._is_started = False

    async def __aenter__(self) -> Self:
        if not self._is_started:
            self._is_started = True
            self._runs.start()
        return self

    def stop(self) -> None:
        """End all streams, and answer those who wait for a task with the task as it is; for the end of the web server."""
        self._handler.stop()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop; turns that run are left open, for the next server of the store."""
        if self._is_started:
            self._is_started = False
            await self._runs.close()
            if self._push is not None:
                await self._push.close()

    @asynccontextmanager
    async def _lifespan(self, _app: object) -> Any:  # noqa: ANN401 - an async iterator
        """For a web server that runs the application alone."""
        if self._is_started:
            yield
            return
        async with self:
            yield


# JSON-RPC.


class _Request(msgspec.Struct):
    """What is read of a request before its method is known."""

    method: str
    jsonrpc: str = ""
    id: str | int | msgspec.UnsetType | None = msgspec.UNSET
    params: msgspec.Raw = msgspec.Raw(b"{}")


_decode_request: Final = msgspec.json.Decoder(_Request).decode


def _jsonrpc(tasks: Tasks, handler: TaskHandler) -> Endpoint:
    """Answers the methods for reminders, and passes all other requests to the SDK."""
    standard = jsonrpc_endpoint(handler)

    async def endpoint(request: Request) -> Response:
        call: A2aCall = request.scope[SCOPE_KEY]
        body = await request.body()
        try:
            asked = _decode_request(body)
            if asked.id is not msgspec.UNSET:
                call.request_id = asked.id
        except msgspec.DecodeError:
            # Not JSON, or not a request.
            asked = None
        if asked is not None and asked.method in METHODS and asked.jsonrpc == "2.0":
            return await _answered(asked, body, call, tasks, request.headers.get(VERSION_HEADER, ""))
        try:
            check_json(body or b"{")
        except NotJson:
            return _failed(call, PARSE_ERROR, "Invalid JSON payload")
        except InvalidOption as error:
            return JSONResponse(rpc_error(error, call))
        return await standard(request)

    return endpoint


async def _answered(asked: _Request, body: bytes, call: A2aCall, tasks: Tasks, version: str) -> Response:
    is_notification = asked.id is msgspec.UNSET
    call.id_name = METHODS[asked.method].id_name
    try:
        if _VERSIONS.fullmatch(version.strip()) is None:
            return _unsupported_version(call, version)
        refuse_repeated_keys(body)
        result = await answer(asked.method, msgspec.json.decode(asked.params), _producers(tasks, call))
        answered = _encode({"jsonrpc": "2.0", "id": call.request_id, "result": result})
    except ReminderError as error:
        if is_notification:
            LOG.warning("the notification %s was refused: %s", asked.method, error)
        answered = _encode(rpc_error(error, call))
    except Exception as error:  # noqa: BLE001 - the outermost handler
        LOG.error("the request %s failed", asked.method, exc_info=None if isinstance(error, StoreError) else error)
        return _failed(call, INTERNAL_ERROR, "Internal error")
    if is_notification:
        return Response(status_code=204)
    return Response(answered, media_type="application/json")


def _failed(call: A2aCall, code: int, message: str) -> Response:
    return JSONResponse({"jsonrpc": "2.0", "id": call.request_id, "error": {"code": code, "message": message}})


def _unsupported_version(call: A2aCall, version: str) -> Response:
    error = VersionNotSupportedError(f"A2A version {shown(version)} is not supported; send 1.0 or 0.3")
    return JSONResponse(build_error_response(call.request_id, error))


def _producers(tasks: Tasks, call: A2aCall) -> ProducerOf:
    async def producer_of(task_id: str) -> Producer:
        return producer_for(await tasks.find(task_id, call.caller), call.caller)

    return producer_of


# HTTP+JSON.


def _reminder_routes(tasks: Tasks) -> list[Route]:
    """The methods for reminders on the HTTP+JSON binding: `POST /tasks/{id}:injectReminder` and so on."""

    def route(name: str) -> Route:
        method = METHODS[name]

        async def endpoint(request: Request) -> Response:
            call: A2aCall = request.scope[SCOPE_KEY]
            call.id_name = method.id_name
            version = request.headers.get(VERSION_HEADER, "")
            if _VERSIONS.fullmatch(version.strip()) is None:
                text = f"A2A version {shown(version)} is not supported; send 1.0 or 0.3"
                return JSONResponse(
                    build_rest_error_payload(VersionNotSupportedError(text)), 400, media_type=MEDIA_TYPE
                )
            try:
                params = _params_of(await request.body(), request.path_params["id"])
                result = await answer(name, params, _producers(tasks, call))
            except ReminderError as error:
                return http_error(error, call)
            except Exception as error:  # noqa: BLE001 - the outermost handler
                LOG.error("the request %s failed", name, exc_info=None if isinstance(error, StoreError) else error)
                failed = {"error": {"code": 500, "status": "INTERNAL", "message": "Internal error"}}
                return JSONResponse(failed, 500, media_type=MEDIA_TYPE)
            return Response(_encode(result), media_type=MEDIA_TYPE)

        methods = ["POST"] if method.params else ["GET", "POST"]
        return Route(f"/tasks/{{id}}:{method.verb}", endpoint, methods=methods)

    return [*map(route, METHODS)]


def _params_of(body: bytes, task_id: str) -> dict[str, Any]:
    """The parameters of a request with this body for the task that its path names."""
    try:
        params = msgspec.json.decode(body) if body.strip() else {}
        refuse_repeated_keys(body or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidReminder(f"the body is not JSON: {error}") from None
    if not isinstance(params, dict):
        raise InvalidReminder(f"the body must be an object, not {shown(params)}")
    if params.setdefault("taskId", task_id) != task_id:
        raise InvalidOption(f"taskId must be that of the path, not {shown(params['taskId'])}", field="taskId")
    return params


# The door.


class _Door:
    """Checks each request before it is answered: its host and origin, its sender, its type and its size."""

    def __init__(self, app: ASGIApp, callers: Callers, checks: RequestChecks, *, limit: int) -> None:
        self._app = app
        self._callers = callers
        self._checks = checks
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        caller = self._callers.ordinary if path in _CARD_PATHS else self._callers.caller(headers)
        unknown = HttpRefusal(401, "A valid token is required.", "not_logged_in")
        refused = (
            self._checks.refusal(headers)
            or (None if caller else unknown)
            or refused_type(scope["method"], headers, _JSON)
        )
        if refused is not None or caller is None:
            await _refuse(refused or unknown)(scope, receive, send)
            return
        call = A2aCall(caller=caller, extensions=requested_extensions(headers) & _EXTENSIONS)
        try:
            receive = _replaying(await read_body(headers, receive, limit=self._limit), receive)
        except ClientGone:
            return
        except TimeoutError:
            await _refuse(HttpRefusal(408, "The request did not arrive in time.", "timed_out"))(scope, receive, send)
            return
        except BodyTooLarge as error:
            is_rpc = path in ("", "/")
            response = JSONResponse(rpc_error(error, call), 413) if is_rpc else http_error(error, call)
            await response(scope, receive, send)
            return
        await self._app(
            {**scope, "headers": _with_version(scope, headers), SCOPE_KEY: call}, receive, _echoing(send, call)
        )


_EXTENSIONS: Final = frozenset({URI, RAW_URI})


def _replaying(body: bytes, receive: Receive) -> Receive:
    """Repeats a body that was read once, and then waits for the end of the connection."""
    parts = [body]

    async def replayed() -> Message:
        return {"type": "http.request", "body": parts.pop()} if parts else await receive()

    return replayed


def _refuse(refusal: HttpRefusal) -> Response:
    headers = {"WWW-Authenticate": "Bearer"} if refusal.status == 401 else None  # noqa: PLR2004 - a status
    return PlainTextResponse(f"{refusal.text}\n", refusal.status, headers)


def _with_version(scope: Scope, headers: Headers) -> list[tuple[bytes, bytes]]:
    """The headers of a request, with the version from its query if it has no such header: A2A allows both."""
    given: list[tuple[bytes, bytes]] = list(scope["headers"])
    if VERSION_HEADER not in headers and VERSION_HEADER.lower().encode() in scope["query_string"].lower():
        version = next(
            (
                value
                for name, value in parse_qsl(scope["query_string"].decode("latin-1"))
                if name.lower() == VERSION_HEADER.lower()
            ),
            "",
        )
        given.append((VERSION_HEADER.lower().encode(), version.encode("latin-1", "replace")))
    return given


def _echoing(send: Send, call: A2aCall) -> Send:
    """Name the activated extensions in the answer, under the headers of both versions."""
    if not call.extensions:
        return send

    async def echo(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name in (HTTP_EXTENSION_HEADER, LEGACY_HEADER):
                headers[name] = ", ".join(sorted(call.extensions))
        await send(message)

    return echo
