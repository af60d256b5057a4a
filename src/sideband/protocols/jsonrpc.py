"""JSON-RPC 2.0: a peer that answers the calls of the other end and makes calls of its own.

Every frame gets the answer that JSON-RPC defines: an unreadable frame, a value that is not a request, a batch and a
frame over the limit each have an answer, and the connection stays open. An unexpected exception is logged here and
reported as an internal error without its text.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from sideband.core.errors import InvalidReminder, shown
from sideband.core.parse import refuse_repeated_keys
from sideband.logs import LOG
from sideband.protocols.frames import CLOSE_SECONDS, ConnectionLost, Frame, Oversized, Transport

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
REQUEST_CANCELLED: Final = -32800

CANCEL_REQUEST: Final = "$/cancel_request"

# The largest number of calls that wait for their turn; then no frames are read until some are done. A batch has at most so many members.
MAX_WAITING_CALLS: Final = 1_024


class RpcError(Exception):
    """An error that a peer is told, or that a peer has told us."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:  # noqa: ANN401 - any JSON value
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


# Messages.


class _Envelope(msgspec.Struct, gc=False):
    """The members of a request, notification or response; what is inside them is decoded later."""

    jsonrpc: Any = None
    id: Raw | UnsetType = UNSET
    method: Any = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Any = UNSET


_decode_envelope: Final = msgspec.json.Decoder(_Envelope).decode
_decode_batch: Final = msgspec.json.Decoder(list[Raw]).decode
_decode: Final = msgspec.json.Decoder().decode
encode: Final = msgspec.json.Encoder().encode

_NULL: Final = Raw(b"null")


def _is_id(value: object) -> bool:
    return value is None or (isinstance(value, str | int | float) and not isinstance(value, bool))


def request_frame(request_id: object, method: str, params: object) -> bytes:
    return encode({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})


def notification_frame(method: str, params: object) -> bytes:
    return encode({"jsonrpc": "2.0", "method": method, "params": params})


def result_frame(request_id: Raw, result: object) -> bytes:
    return encode({"jsonrpc": "2.0", "id": request_id, "result": result})


def error_frame(request_id: Raw, error: RpcError) -> bytes:
    told: dict[str, object] = {"code": error.code, "message": error.message}
    if error.data is not None:
        told["data"] = error.data
    return encode({"jsonrpc": "2.0", "id": request_id, "error": told})


class Call(NamedTuple):
    """A request or a notification of the peer.

    `request_id` is the JSON text of the id (None: a notification, which gets no answer). `reply` sends the frame of the
    answer; an empty one means that there is none.
    """

    method: str
    params: dict[str, Any]
    request_id: Raw | None
    reply: Callable[[bytes], None]


class Later(NamedTuple):
    """The result of a call that has taken effect, and whose answer follows when `answer` is done.

    The next call of the same lane is handled meanwhile. `$/cancel_request` cancels `answer`, which must not be shared with
    another call.
    """

    answer: Awaitable[Any]


Handler: TypeAlias = Callable[[Call], Awaitable[Any]]
LaneOf: TypeAlias = Callable[[Call], str]


class Peer:
    """One end of a JSON-RPC connection.

    `handle` is called with each call of the other end and returns the result, or a `Later`. An `RpcError` is the error of
    the call. Calls for which `lane` returns the same word are handled in the order of arrival, one after the other.
    """

    def __init__(
        self, transport: Transport, handle: Handler, *, lane: LaneOf = lambda _call: "", id_prefix: str = ""
    ) -> None:
        self.transport = transport
        self._handle = handle
        self._lane = lane
        self._id_prefix = id_prefix
        self._requests: dict[object, asyncio.Future[Any]] = {}
        self._next_id = 0
        self._lanes: dict[str, deque[Call]] = {}
        # The call that each lane is handling, and those of them that the peer has cancelled.
        self._handled: dict[str, Call] = {}
        self._cancelled: list[Call] = []
        self._workers: set[asyncio.Task[None]] = set()
        # The answers that are still to come, and the calls that they belong to.
        self._answers: dict[asyncio.Future[Any], Call] = {}
        self._waiting = 0
        self._has_room = asyncio.Event()
        self._has_room.set()
        self.is_over = False

    # Calls of ours.

    def notify(self, method: str, params: object) -> None:
        """Send a notification."""
        self.transport.send(notification_frame(method, params))

    async def request(self, method: str, params: object) -> Any:  # noqa: ANN401 - any JSON value
        """Send a request and return the result; `RpcError` is the peer's refusal. A cancelled caller cancels the request."""
        return await self.begin(method, params)

    def begin(self, method: str, params: object) -> asyncio.Future[Any]:
        """Send a request before anything that is sent later; the future has the result, and cancels the request."""
        if self.is_over:
            raise ConnectionLost
        self._next_id += 1
        request_id: object = f"{self._id_prefix}{self._next_id}" if self._id_prefix else self._next_id
        frame = request_frame(request_id, method, params)
        self._requests[request_id] = answer = asyncio.get_running_loop().create_future()
        answer.add_done_callback(lambda done: self._close_request(request_id, done))
        self.transport.send(frame)
        return answer

    def _close_request(self, request_id: object, answer: asyncio.Future[Any]) -> None:
        del self._requests[request_id]
        if answer.cancelled():
            self.notify(CANCEL_REQUEST, {"requestId": request_id})

    # Frames of the peer.

    async def serve(self) -> None:
        """Handle what arrives until the end of the stream.

        Calls that have arrived before are handled, if that takes no longer than `CLOSE_SECONDS`. Answers that are still
        to come are cancelled.
        """
        try:
            while frames := await self.transport.receive():
                if self.transport.is_congested:
                    # A peer that does not read its answers gets no more of them.
                    with suppress(ConnectionLost):
                        await self.transport.drain()
                for frame in frames:
                    self._receive(frame)
                await self._has_room.wait()
            # Before the calls that have arrived are handled: one of them may be waiting for an answer of the peer.
            self._lose_requests()
            if self._workers:
                # A call may wait for a peer that has stopped reading.
                await asyncio.wait(self._workers, timeout=CLOSE_SECONDS)
        finally:
            self._lose_requests()
            await self._end()

    def _lose_requests(self) -> None:
        self.is_over = True
        for answer in self._requests.values():
            if not answer.done():
                answer.set_exception(ConnectionLost())

    async def _end(self) -> None:
        left = [*self._workers, *self._answers]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)

    def _receive(self, frame: Frame) -> None:
        if isinstance(frame, Oversized):
            data = {"reason": "frame_too_large", "limit": frame.limit}
            self._refuse(RpcError(INVALID_REQUEST, f"A frame may have at most {frame.limit:,} bytes", data))
            return
        if frame[:1] == b"[":
            self._receive_batch(frame)
        else:
            self._receive_one(frame, self._reply)

    def _reply(self, frame: bytes) -> None:
        if frame:
            self.transport.send(frame)

    def _refuse(self, error: RpcError) -> None:
        self.transport.send(error_frame(_NULL, error))

    def _receive_batch(self, frame: bytes) -> None:
        try:
            members = _decode_batch(frame)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._refuse(RpcError(PARSE_ERROR, "Parse error"))
            return
        if not members:
            self._refuse(RpcError(INVALID_REQUEST, "Invalid request: the batch is empty"))
            return
        if len(members) > MAX_WAITING_CALLS:
            limit = f"a batch may have at most {MAX_WAITING_CALLS:,} members"
            self._refuse(RpcError(INVALID_REQUEST, f"Invalid request: {limit}, not {len(members):,}"))
            return
        batch = _Batch(self.transport.send)
        for member in members:
            self._receive_one(bytes(member), batch.expect())
        batch.complete()

    def _receive_one(self, frame: bytes, reply: Callable[[bytes], None]) -> None:
        try:
            message = _read(frame)
        except RpcError as error:
            reply(error_frame(_NULL, error))
            return
        if message.method is UNSET:
            self._receive_answer(message)
            reply(b"")
            return
        request_id = None if message.id is UNSET else message.id
        try:
            call = _read_call(frame, message, request_id, reply)
        except RpcError as error:
            reply(b"" if request_id is None else error_frame(request_id, error))
            return
        if call.method == CANCEL_REQUEST:
            self._cancel(call)
            reply(b"" if request_id is None else result_frame(request_id, {}))
            return
        self._enqueue(call)

    def _receive_answer(self, message: _Envelope) -> None:
        answer = None if message.id is UNSET else self._requests.get(_decode(message.id))
        if answer is None or answer.done():
            LOG.info("the peer answered a request that is not open")
        elif message.error not in (UNSET, None):
            answer.set_exception(_told_error(message.error))
        elif message.result is UNSET:
            answer.set_exception(RpcError(INTERNAL_ERROR, "the peer answered without a result"))
        else:
            try:
                answer.set_result(_decode(message.result))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                answer.set_exception(RpcError(INTERNAL_ERROR, "the peer answered with an unreadable result"))

    # Lanes.

    def _enqueue(self, call: Call) -> None:
        self._waiting += 1
        if self._waiting >= MAX_WAITING_CALLS:
            self._has_room.clear()
        lane = self._lane(call)
        waiting = self._lanes.get(lane)
        if waiting is not None:
            waiting.append(call)
            return
        self._lanes[lane] = deque((call,))
        worker = asyncio.ensure_future(self._work(lane))
        self._workers.add(worker)
        worker.add_done_callback(self._workers.discard)

    async def _work(self, lane: str) -> None:
        waiting = self._lanes[lane]
        try:
            while waiting:
                self._handled[lane] = call = waiting.popleft()
                try:
                    await self._perform(call)
                finally:
                    if call in self._cancelled:
                        self._cancelled.remove(call)
                    self._leave()
        finally:
            del self._lanes[lane], self._handled[lane]

    def _leave(self) -> None:
        """One call fewer waits for its turn."""
        self._waiting -= 1
        if self._waiting < MAX_WAITING_CALLS:
            self._has_room.set()

    async def _perform(self, call: Call) -> None:
        try:
            result = await self._handle(call)
            if isinstance(result, Later):
                answer = asyncio.ensure_future(result.answer)
                self._answers[answer] = call
                answer.add_done_callback(self._answer)
                if call in self._cancelled:
                    answer.cancel()
                return
            frame = _result(call, result)
        except asyncio.CancelledError:
            worker = asyncio.current_task()
            if worker is None or worker.cancelling():
                raise
            # Something that the handler awaited was cancelled, not this lane: the next calls have to be handled.
            frame = _failure(call, _CANCELLED)
        except Exception as error:  # noqa: BLE001 - the outermost handler of a call
            frame = _failure(call, error)
        call.reply(frame)

    def _answer(self, done: asyncio.Future[Any]) -> None:
        call = self._answers.pop(done)
        try:
            frame = _result(call, done.result())
        except asyncio.CancelledError:
            # By `$/cancel_request`, or because the connection has ended.
            frame = _failure(call, _CANCELLED)
        except Exception as error:  # noqa: BLE001 - the outermost handler of a call
            frame = _failure(call, error)
        call.reply(frame)

    def _cancel(self, cancel: Call) -> None:
        wanted = cancel.params.get("requestId")
        if not _is_id(wanted):
            return
        for answer, call in self._answers.items():
            if _has_id(call, wanted):
                answer.cancel()
                return
        for waiting in self._lanes.values():
            for call in waiting:
                if _has_id(call, wanted):
                    waiting.remove(call)
                    self._leave()
                    call.reply(_failure(call, _CANCELLED))
                    return
        # What has begun to take effect cannot be stopped, but an answer that would come later can.
        self._cancelled.extend(call for call in self._handled.values() if _has_id(call, wanted))


_CANCELLED: Final = RpcError(REQUEST_CANCELLED, "Request cancelled")


class _Batch:
    """The answers to a batch, which are sent together when all are there."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self._answers: list[Raw] = []
        # One for the batch itself, so that nothing is sent before all its members are known.
        self._open = 1

    def expect(self) -> Callable[[bytes], None]:
        self._open += 1
        return self._reply

    def complete(self) -> None:
        self._reply(b"")

    def _reply(self, frame: bytes) -> None:
        if frame:
            self._answers.append(Raw(frame))
        self._open -= 1
        if not self._open and self._answers:
            self._send(encode(self._answers))


def _read(frame: bytes) -> _Envelope:
    try:
        message = _decode_envelope(frame)
        request_id = None if message.id is UNSET else _decode(message.id)
    except msgspec.ValidationError:
        raise RpcError(INVALID_REQUEST, "Invalid request: it must be an object") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise RpcError(PARSE_ERROR, "Parse error") from None
    if message.jsonrpc != "2.0":
        raise RpcError(INVALID_REQUEST, 'Invalid request: "jsonrpc" must be "2.0"')
    if not _is_id(request_id):
        raise RpcError(INVALID_REQUEST, "Invalid request: the id must be a string, a number or null")
    if message.method is UNSET and message.result is UNSET and message.error is UNSET:
        raise RpcError(INVALID_REQUEST, "Invalid request: it has no method")
    return message


def _read_call(frame: bytes, message: _Envelope, request_id: Raw | None, reply: Callable[[bytes], None]) -> Call:
    if not isinstance(message.method, str):
        raise RpcError(INVALID_REQUEST, "Invalid request: the method must be a string")
    try:
        # Of two equal keys one would be ignored, and two programs could read the frame differently.
        refuse_repeated_keys(frame)
        params = {} if message.params is UNSET else _decode(message.params)
    except InvalidReminder as error:
        text = str(error).removeprefix(f"{error.code}: ")
        raise RpcError(
            INVALID_REQUEST, f"Invalid request: {text}", {"reason": "repeated_key", "field": error.field}
        ) from None
    except (ValueError, RecursionError, msgspec.DecodeError):
        raise RpcError(PARSE_ERROR, "Parse error") from None
    if params is None:
        params = {}
    if not isinstance(params, dict):
        raise RpcError(INVALID_PARAMS, "Invalid params: they must be an object")
    return Call(message.method, params, request_id, reply)


def _told_error(error: object) -> RpcError:
    told: Mapping[str, Any] = error if isinstance(error, dict) else {}
    code, message = told.get("code"), told.get("message")
    return RpcError(
        code if isinstance(code, int) else INTERNAL_ERROR,
        message if isinstance(message, str) else "the peer answered with an unreadable error",
        told.get("data"),
    )


def _has_id(call: Call, wanted: object) -> bool:
    # Equal ids may be written differently, for example with and without escapes.
    return call.request_id is not None and bool(_decode(call.request_id) == wanted)


def _result(call: Call, result: object) -> bytes:
    return b"" if call.request_id is None else result_frame(call.request_id, result)


def _failure(call: Call, error: Exception) -> bytes:
    told = error if isinstance(error, RpcError) else RpcError(INTERNAL_ERROR, "Internal error")
    if told is not error:
        LOG.error("%s failed", shown(call.method), exc_info=error)
    elif call.request_id is None:
        detail = told.data.get("detail", told.message) if isinstance(told.data, dict) else told.message
        LOG.warning("notification %s was refused: %s", shown(call.method), detail)
    return b"" if call.request_id is None else error_frame(call.request_id, told)
