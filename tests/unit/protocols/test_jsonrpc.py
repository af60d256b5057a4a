"""A JSON-RPC peer over real pipes: what it answers to right and wrong frames, in which order, and how it ends."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sideband.protocols import jsonrpc
from sideband.protocols.frames import MAX_FRAME_BYTES, ConnectionLost
from sideband.protocols.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    MAX_WAITING_CALLS,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REQUEST_CANCELLED,
    Call,
    Later,
    Peer,
    RpcError,
)
from tests.loopback import over_sockets
from tests.piped import FarEnd, piped
from tests.waiting import until


async def echo(call: Call) -> Any:  # noqa: ANN401 - any JSON value
    """`echo` returns its parameters; any other method is unknown."""
    if call.method != "echo":
        raise RpcError(METHOD_NOT_FOUND, "Method not found", {"method": call.method})
    return call.params


@asynccontextmanager
async def serving(
    handle: Callable[[Call], Awaitable[Any]] = echo,
    *,
    limit: int = MAX_FRAME_BYTES,
    **options: Any,  # noqa: ANN401 - those of a peer
) -> AsyncIterator[tuple[Peer, FarEnd]]:
    """A peer that serves one end of a connection, and its far end; on leaving, the stream ends and the peer with it."""
    before = asyncio.all_tasks()
    async with piped(limit=limit) as (transport, far):
        peer = Peer(transport, handle, **options)
        serve = asyncio.ensure_future(peer.serve())
        try:
            yield peer, far
            await far.hang_up()
            await serve
        finally:
            serve.cancel()
            await asyncio.wait([serve])
            await transport.close()
        assert asyncio.all_tasks() == before


def a_request(request_id: object, method: str = "echo", **params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def a_result(request_id: object, result: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def an_error(request_id: object, code: int, message: str, /, **data: object) -> dict[str, object]:
    told: dict[str, object] = {"code": code, "message": message}
    return {"jsonrpc": "2.0", "id": request_id, "error": told | ({"data": data} if data else {})}


PING = a_request("ping")
PONG = a_result("ping", {})


# Frames.


@pytest.mark.parametrize(
    ("frame", "answer"),
    [
        pytest.param(
            b'{"jsonrpc":"2.0","id":1,"method":"echo","params":{"a":[1,null]}}',
            a_result(1, {"a": [1, None]}),
            id="request",
        ),
        pytest.param(b'{"jsonrpc":"2.0","id":1,"method":"echo"}', a_result(1, {}), id="without-params"),
        pytest.param(b'{"jsonrpc":"2.0","id":1,"method":"echo","params":null}', a_result(1, {}), id="null-params"),
        pytest.param(b'{"jsonrpc":"2.0","id":"\\u00e9","method":"echo"}', a_result("é", {}), id="string-id"),
        pytest.param(b'{"jsonrpc":"2.0","id":-1.5,"method":"echo"}', a_result(-1.5, {}), id="number-id"),
        pytest.param(b'{"jsonrpc":"2.0","id":null,"method":"echo"}', a_result(None, {}), id="null-id"),
        pytest.param(
            b'{"jsonrpc":"2.0","id":1,"method":"other"}',
            an_error(1, METHOD_NOT_FOUND, "Method not found", method="other"),
            id="refused-by-the-handler",
        ),
        pytest.param(
            b'{"jsonrpc":"2.0","id":1,"method":"echo","params":[1]}',
            an_error(1, INVALID_PARAMS, "Invalid params: they must be an object"),
            id="params-as-an-array",
        ),
        pytest.param(
            b'{"jsonrpc":"2.0","id":1,"method":7}',
            an_error(1, INVALID_REQUEST, "Invalid request: the method must be a string"),
            id="method-as-a-number",
        ),
        pytest.param(
            b'{"jsonrpc":"2.0","id":1}',
            an_error(None, INVALID_REQUEST, "Invalid request: it has no method"),
            id="no-method",
        ),
        pytest.param(
            b'{"id":1,"method":"echo"}',
            an_error(None, INVALID_REQUEST, 'Invalid request: "jsonrpc" must be "2.0"'),
            id="no-version",
        ),
        *(
            pytest.param(
                b'{"jsonrpc":"2.0","id":%s,"method":"echo"}' % bad_id,
                an_error(None, INVALID_REQUEST, "Invalid request: the id must be a string, a number or null"),
                id=f"id-{bad_id.decode()}",
            )
            for bad_id in (b"true", b"[]", b"{}")
        ),
        *(
            pytest.param(
                frame, an_error(None, INVALID_REQUEST, "Invalid request: it must be an object"), id=frame.decode()
            )
            for frame in (b"42", b"null", b'"x"', b"true")
        ),
        pytest.param(
            b"[]", an_error(None, INVALID_REQUEST, "Invalid request: the batch is empty"), id="an-empty-batch"
        ),
        *(
            pytest.param(frame, an_error(None, PARSE_ERROR, "Parse error"), id=name)
            for name, frame in {
                "half-an-object": b'{"jsonrpc":"2.0",',
                "half-a-batch": b'[{"jsonrpc":"2.0"},',
                "words": b"hello",
                "two-values": b"{} {}",
                "a-byte-order-mark": b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"echo"}',
                "an-id-not-in-utf-8": b'{"jsonrpc":"2.0","id":"\xff","method":"echo"}',
                "an-id-with-half-a-surrogate-pair": b'{"jsonrpc":"2.0","id":"\\ud800","method":"echo"}',
                "a-method-not-in-utf-8": b'{"jsonrpc":"2.0","id":1,"method":"\xff"}',
                "a-batch-not-in-utf-8": b"[\xff]",
                "an-object-too-deep": b'{"jsonrpc":"2.0","id":1,"method":"echo","params":' + b"[" * 1_000_000,
                "a-batch-too-deep": b"[" * 1_000_000 + b"]" * 1_000_000,
                "an-id-too-deep": b'{"jsonrpc":"2.0","method":"echo","id":' + b"[" * 500_000 + b"]" * 500_000 + b"}",
            }.items()
        ),
        *(
            pytest.param(
                b'{"jsonrpc":"2.0","id":1,"method":"echo","params":%s}' % params,
                an_error(1, PARSE_ERROR, "Parse error"),
                id=name,
            )
            for name, params in {
                "params-not-in-utf-8": b'{"a":"\xff"}',
                "params-that-no-number-can-hold": b'{"a":1e999}',
            }.items()
        ),
        pytest.param(
            b'{"jsonrpc":"2.0","id":1,"method":"echo","params":{"a":1,"a":2}}',
            an_error(
                1,
                INVALID_REQUEST,
                "Invalid request: key 'a' occurs twice in one object",
                reason="repeated_key",
                field="a",
            ),
            id="a-repeated-key",
        ),
    ],
)
@over_sockets
async def test_every_frame_gets_its_answer_and_the_connection_stays_open(frame: bytes, answer: dict[str, Any]) -> None:
    async with serving() as (_, far):
        far.write(frame)
        assert await far.receive() == answer
        far.send(PING)
        assert await far.receive() == PONG


@over_sockets
async def test_a_frame_over_the_limit_is_refused_with_the_limit() -> None:
    async with serving(limit=100) as (_, far):
        far.write(b"x" * 101)
        far.send(PING)
        assert await far.receive() == an_error(
            None, INVALID_REQUEST, "A frame may have at most 100 bytes", reason="frame_too_large", limit=100
        )
        assert await far.receive() == PONG


@over_sockets
async def test_a_notification_gets_no_answer_whatever_it_is(caplog: pytest.LogCaptureFixture) -> None:
    async def handle(call: Call) -> Any:  # noqa: ANN401 - any JSON value
        if call.method == "broken":
            raise ZeroDivisionError
        if call.method == "later":
            return Later(echo(call._replace(method="other")))
        return await echo(call)

    async with serving(handle) as (_, far):
        for method in ("echo", "other", "later", "broken", "$/cancel_request"):
            far.call(method, {"requestId": {}})
        far.call("echo", [])
        far.send(PING)
        assert await far.receive() == PONG
    told = [record.getMessage().splitlines()[0] for record in caplog.records if record.levelno >= logging.WARNING]
    assert told == [
        "notification 'other' was refused: Method not found",
        "'broken' failed",
        "notification 'later' was refused: Method not found",
    ]


# Batches.


@over_sockets
async def test_a_batch_is_answered_by_one_batch_when_all_its_answers_are_there() -> None:
    release = asyncio.Event()

    async def handle(call: Call) -> Any:  # noqa: ANN401 - any JSON value
        if call.method == "later":

            async def answer() -> str:
                await release.wait()
                return "at last"

            return Later(answer())
        return await echo(call)

    async with serving(handle) as (_, far):
        notification = {"jsonrpc": "2.0", "method": "echo"}
        answer_to_nothing = {"jsonrpc": "2.0", "id": 99, "result": 1}
        far.send([a_request(1, "later"), a_request(2), notification, 3, [4], answer_to_nothing, a_request(5, "other")])
        far.send(PING)
        assert await far.receive() == PONG
        release.set()
        not_an_object = an_error(None, INVALID_REQUEST, "Invalid request: it must be an object")
        answers = await far.receive()
        assert sorted(answers, key=str) == sorted(
            [
                a_result(1, "at last"),
                a_result(2, {}),
                not_an_object,
                not_an_object,
                an_error(5, METHOD_NOT_FOUND, "Method not found", method="other"),
            ],
            key=str,
        )


@over_sockets
async def test_a_batch_of_notifications_gets_no_answer() -> None:
    async with serving() as (_, far):
        far.send([{"jsonrpc": "2.0", "method": "echo"}] * 2, PING)
        assert await far.receive() == PONG


@over_sockets
async def test_a_batch_of_too_many_members_gets_one_error() -> None:
    async with serving() as (_, far):
        far.send([1] * (MAX_WAITING_CALLS + 1))
        assert await far.receive() == an_error(
            None, INVALID_REQUEST, "Invalid request: a batch may have at most 1,024 members, not 1,025"
        )


# Order.


class Stage:
    """A handler whose calls wait until they are released; it records what happens."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.released: set[str] = set()

    async def __call__(self, call: Call) -> Any:  # noqa: ANN401 - any JSON value
        name = str(call.params.get("name", call.method))
        self.seen.append(f"{name} starts")
        if call.method == "later":
            return Later(self.finish(name))
        return await self.finish(name)

    async def finish(self, name: str) -> str:
        try:
            await until(lambda: name in self.released)
        except asyncio.CancelledError:
            self.seen.append(f"{name} is cancelled")
            raise
        self.seen.append(f"{name} ends")
        return name


def by_lane(call: Call) -> str:
    return str(call.params.get("lane", ""))


@over_sockets
async def test_calls_of_one_lane_are_handled_one_after_the_other_and_lanes_do_not_wait_for_each_other() -> None:
    stage = Stage()
    async with serving(stage, lane=by_lane) as (_, far):
        far.send(*(a_request(name, "now", name=name, lane=name[0]) for name in ("a1", "a2", "b1")))
        stage.released |= {"a2", "b1"}
        assert await far.receive() == a_result("b1", "b1")
        assert stage.seen == ["a1 starts", "b1 starts", "b1 ends"]
        stage.released.add("a1")
        assert await far.receive() == a_result("a1", "a1")
        assert await far.receive() == a_result("a2", "a2")
        assert stage.seen[3:] == ["a1 ends", "a2 starts", "a2 ends"]


@over_sockets
async def test_a_call_whose_answer_comes_later_does_not_hold_up_its_lane() -> None:
    stage = Stage()
    async with serving(stage) as (_, far):
        far.send(a_request(1, "later", name="a"), a_request(2, "later", name="b"), a_request(3, "now", name="c"))
        stage.released.add("c")
        assert await far.receive() == a_result(3, "c")
        stage.released.add("b")
        assert await far.receive() == a_result(2, "b")
        stage.released.add("a")
        assert await far.receive() == a_result(1, "a")
        assert stage.seen == ["a starts", "b starts", "c starts", "c ends", "b ends", "a ends"]


# Cancellation by the peer.


def a_cancel(request_id: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": request_id}}


@over_sockets
async def test_a_call_that_waits_for_its_turn_can_be_cancelled() -> None:
    stage = Stage()
    async with serving(stage) as (_, far):
        far.send(a_request(1, "now", name="a"), a_request(2, "now", name="c"), a_request("2", "now", name="b"))
        far.send(a_cancel("2"))
        assert await far.receive() == an_error("2", REQUEST_CANCELLED, "Request cancelled")
        stage.released |= {"a", "c"}
        assert await far.receive() == a_result(1, "a")
        assert await far.receive() == a_result(2, "c")
        assert not {"b starts", "b ends"} & set(stage.seen)


@over_sockets
async def test_an_answer_that_is_still_to_come_can_be_cancelled() -> None:
    stage = Stage()
    async with serving(stage) as (_, far):
        far.send(a_request(1, "later", name="a"))
        await until(lambda: stage.seen)
        far.send(a_cancel(1))
        assert await far.receive() == an_error(1, REQUEST_CANCELLED, "Request cancelled")
        await until(lambda: "a is cancelled" in stage.seen)


@over_sockets
async def test_a_cancellation_that_comes_right_after_its_request_cancels_it() -> None:
    stage = Stage()
    async with serving(stage) as (_, far):
        for number in range(50):
            far.send(a_request(number, "later", name="a"), a_cancel(number))
            assert await far.receive() == an_error(number, REQUEST_CANCELLED, "Request cancelled")
            # In the next round of the event loop, before or after the answer has begun.
            far.send(a_request("again", "later", name="a"))
            await until(lambda: stage.seen[-1:] == ["a starts"])
            far.send(a_cancel("again"))
            assert await far.receive() == an_error("again", REQUEST_CANCELLED, "Request cancelled")


@over_sockets
async def test_a_call_that_is_being_handled_is_not_cancelled() -> None:
    stage = Stage()
    async with serving(stage) as (_, far):
        far.send(a_request(1, "now", name="a"))
        await until(lambda: stage.seen)
        far.send(a_cancel(1), {**a_cancel(1), "id": "c"})
        assert await far.receive() == a_result("c", {})
        stage.released.add("a")
        assert await far.receive() == a_result(1, "a")


@over_sockets
async def test_equal_ids_are_cancelled_however_they_are_written() -> None:
    stage = Stage()
    async with serving(stage) as (_, far):
        far.write(b'{"jsonrpc":"2.0","id":"a\\/\\u00e9","method":"later"}')
        far.write(b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"a/\xc3\xa9"}}')
        assert await far.receive() == an_error("a/é", REQUEST_CANCELLED, "Request cancelled")


@pytest.mark.parametrize("request_id", [2, "1", None, True, [1], {"a": 1}])
@over_sockets
async def test_cancelling_what_is_not_there_does_nothing(request_id: object) -> None:
    stage = Stage()
    async with serving(stage) as (_, far):
        far.send({"jsonrpc": "2.0", "method": "later", "params": {"name": "notification"}})
        far.send(a_request(1, "later", name="a"))
        await until(lambda: len(stage.seen) == 2)
        far.send(a_cancel(request_id), a_request(9, "now", name="b"))
        stage.released |= {"a", "b"}
        assert sorted([(await far.receive())["result"], (await far.receive())["result"]]) == ["a", "b"]


@over_sockets
async def test_a_handler_that_awaits_something_cancelled_does_not_stop_its_lane() -> None:
    async def handle(call: Call) -> Any:  # noqa: ANN401 - any JSON value
        if call.method == "cancelled":
            other = asyncio.get_running_loop().create_future()
            other.cancel()
            await other
        return await echo(call)

    async with serving(handle) as (_, far):
        far.send(a_request(1, "cancelled"), PING)
        assert await far.receive() == an_error(1, REQUEST_CANCELLED, "Request cancelled")
        assert await far.receive() == PONG


# Back-pressure.


@over_sockets
async def test_no_frames_are_read_while_too_many_calls_wait() -> None:
    stage = Stage()
    stage.released = {str(number) for number in range(1, 20_000)}
    async with serving(stage, lane=by_lane) as (peer, far):
        far.send(a_request("first", "now", name="first"))
        await until(lambda: stage.seen)
        total = 20_000
        writing = asyncio.ensure_future(_write_all(far, total))
        # The pipe is full, so the writer waits; one read of the transport has a few thousand of these calls.
        await until(lambda: not peer._has_room.is_set())
        held = peer._waiting
        for _ in range(100):
            await asyncio.sleep(0)
        assert peer._waiting == held < total / 2
        assert not writing.done()
        stage.released.add("first")
        for expected in ["first", *map(str, range(1, total))]:
            assert await far.receive() == a_result(expected, expected)
            assert peer._waiting <= held + MAX_WAITING_CALLS
        await writing
        await until(lambda: peer._waiting == 0)


async def _write_all(far: FarEnd, total: int) -> None:
    for number in range(1, total):
        far.send(a_request(str(number), "now", name=str(number)))
        await far.writer.drain()


@over_sockets
async def test_reading_goes_on_when_waiting_calls_are_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonrpc, "MAX_WAITING_CALLS", 2)
    stage = Stage()
    async with serving(stage) as (_, far):
        far.send(a_request(1, "now", name="a"), a_request(2, "now", name="b"), a_cancel(2))
        assert await far.receive() == an_error(2, REQUEST_CANCELLED, "Request cancelled")
        far.send({**a_cancel(3), "id": "c"})
        assert await far.receive() == a_result("c", {})
        stage.released.add("a")
        assert await far.receive() == a_result(1, "a")


@over_sockets
async def test_a_peer_that_reads_no_answers_is_not_read_from() -> None:
    answer = "x" * 100_000
    handled: list[object] = []

    async def handle(call: Call) -> str:
        handled.append(call.request_id)
        return answer

    async with serving(handle) as (peer, far):
        far.reader._transport.pause_reading()  # type: ignore[attr-defined]  # the only way to read nothing
        for number in range(40):
            far.send(a_request(number))
            await until(lambda: peer.transport.is_congested or len(handled) > number)  # noqa: B023 - awaited here
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(handled) < 20
        far.reader._transport.resume_reading()  # type: ignore[attr-defined]
        for number in range(40):
            assert await far.receive() == a_result(number, answer)


@over_sockets
async def test_waiting_for_a_peer_that_goes_away_ends_with_the_stream() -> None:
    async def handle(_call: Call) -> str:
        return "x" * 2_000_000

    async with serving(handle) as (peer, far):
        far.reader._transport.pause_reading()  # type: ignore[attr-defined]  # the only way to read nothing
        far.send(a_request(1))
        await until(lambda: peer.transport.is_congested)
        far.send(a_request(2))
        await asyncio.sleep(0.01)
        far.reader._transport.close()  # type: ignore[attr-defined]  # the far end of this pipe


# The end.


@over_sockets
async def test_calls_that_have_arrived_are_handled_at_the_end_and_answers_to_come_are_cancelled() -> None:
    stage = Stage()
    async with piped() as (transport, far):
        peer = Peer(transport, stage)
        serve = asyncio.ensure_future(peer.serve())
        far.send(a_request(1, "later", name="a"), a_request(2, "now", name="b"), a_request(3, "now", name="c"))
        await far.hang_up()
        await until(lambda: "b starts" in stage.seen)
        stage.released |= {"b", "c"}
        await serve
        assert await far.receive() == a_result(2, "b")
        assert await far.receive() == a_result(3, "c")
        assert await far.receive() == an_error(1, REQUEST_CANCELLED, "Request cancelled")
        assert stage.seen[-1] == "a is cancelled"


@over_sockets
async def test_stopping_to_serve_cancels_what_is_being_handled() -> None:
    stage = Stage()
    async with piped() as (transport, far):
        serve = asyncio.ensure_future(Peer(transport, stage).serve())
        far.send(a_request(1, "later", name="a"), a_request(2, "now", name="b"), a_request(3, "now", name="c"))
        await until(lambda: "b starts" in stage.seen)
        serve.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serve
        assert sorted(stage.seen) == ["a is cancelled", "a starts", "b is cancelled", "b starts"]


@over_sockets
async def test_an_answer_that_is_the_last_frame_of_the_stream_counts() -> None:
    async with serving() as (peer, far):
        asked = asyncio.ensure_future(peer.request("ask", {}))
        other = asyncio.ensure_future(peer.request("ask", {}))
        assert [(await far.receive())["id"] for _ in range(2)] == [1, 2]
        far.send(a_result(1, "yes"))
        await far.hang_up()
        assert await asked == "yes"
        with pytest.raises(ConnectionLost):
            await other


@over_sockets
async def test_the_end_of_the_stream_ends_open_requests_even_those_of_a_handler() -> None:
    outcomes: list[object] = []

    async def handle(_call: Call) -> None:
        for _ in range(2):
            try:
                await peer.request("ask", {})
            except ConnectionLost as error:
                outcomes.append(str(error))

    async with piped() as (transport, far):
        peer = Peer(transport, handle)
        serve = asyncio.ensure_future(peer.serve())
        far.call("anything")
        assert (await far.receive())["method"] == "ask"
        await far.hang_up()
        await serve
        assert outcomes == ["the connection was closed before the answer arrived"] * 2
        with pytest.raises(ConnectionLost):
            await peer.request("ask", {})


# Exceptions.


@pytest.mark.parametrize("method", ["now", "later", "at-once", "unreadable", "unreadable-later"])
@over_sockets
async def test_an_unexpected_exception_is_logged_and_its_text_is_told_to_nobody(
    method: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail() -> None:
        raise ValueError("the secret")

    async def unreadable() -> object:
        return object()

    def handle(call: Call) -> Awaitable[Any]:
        if call.method == "echo":
            return echo(call)
        if call.method == "at-once":
            raise ValueError("the secret")

        async def answer() -> Any:  # noqa: ANN401 - any JSON value
            match call.method:
                case "later":
                    return Later(fail())
                case "unreadable":
                    return object()
                case "unreadable-later":
                    return Later(unreadable())
            return await fail()

        return answer()

    async with serving(handle) as (_, far):
        far.send(a_request(1, method), PING)
        assert sorted([await far.receive(), await far.receive()], key=str) == sorted(
            [an_error(1, INTERNAL_ERROR, "Internal error"), PONG], key=str
        )
    [record] = [record for record in caplog.records if record.levelno >= logging.ERROR]
    first, second, *_ = record.getMessage().splitlines()
    assert (first, second) == (f"{method!r} failed", "Traceback (most recent call last):")


# Requests of ours.


@over_sockets
async def test_requests_overlap_and_get_their_own_answers() -> None:
    async with serving(id_prefix="p-") as (peer, far):
        asked = [asyncio.ensure_future(peer.request("ask", {"n": number})) for number in range(3)]
        frames = [await far.receive() for _ in asked]
        assert [frame["id"] for frame in frames] == ["p-1", "p-2", "p-3"]
        far.send(*(a_result(frame["id"], frame["params"]) for frame in reversed(frames)))
        assert [await answer for answer in asked] == [{"n": 0}, {"n": 1}, {"n": 2}]


@over_sockets
async def test_notifications_and_requests_leave_in_the_order_in_which_they_were_made() -> None:
    async with serving() as (peer, far):
        peer.notify("first", {})
        asked = asyncio.ensure_future(peer.request("second", {}))
        await asyncio.sleep(0)
        peer.notify("third", {"a": 1})
        assert await far.receive() == {"jsonrpc": "2.0", "method": "first", "params": {}}
        assert await far.receive() == {"jsonrpc": "2.0", "id": 1, "method": "second", "params": {}}
        assert await far.receive() == {"jsonrpc": "2.0", "method": "third", "params": {"a": 1}}
        far.send(a_result(1, None))
        assert await asked is None


@pytest.mark.parametrize(
    ("answer", "code", "message", "data"),
    [
        pytest.param(b'"error":{"code":-32001,"message":"No","data":[1]}', -32001, "No", [1], id="as-it-should-be"),
        pytest.param(b'"result":1,"error":{"code":5,"message":"No"}', 5, "No", None, id="beside-a-result"),
        pytest.param(
            b'"error":"No"', INTERNAL_ERROR, "the peer answered with an unreadable error", None, id="as-a-string"
        ),
        pytest.param(
            b'"error":{"code":"x","message":1,"data":2}',
            INTERNAL_ERROR,
            "the peer answered with an unreadable error",
            2,
            id="with-wrong-types",
        ),
        pytest.param(b'"error":null', INTERNAL_ERROR, "the peer answered without a result", None, id="null"),
        pytest.param(
            b'"result":"\xff"', INTERNAL_ERROR, "the peer answered with an unreadable result", None, id="not-in-utf-8"
        ),
    ],
)
@over_sockets
async def test_an_error_of_the_peer_is_raised(answer: bytes, code: int, message: str, data: object) -> None:
    async with serving() as (peer, far):
        asked = asyncio.ensure_future(peer.request("ask", {}))
        await far.receive()
        far.write(b'{"jsonrpc":"2.0","id":1,' + answer + b"}")
        with pytest.raises(RpcError) as raised:
            await asked
        assert (raised.value.code, raised.value.message, raised.value.data) == (code, message, data)


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(b'{"jsonrpc":"2.0","id":99,"result":1}', id="unknown-id"),
        pytest.param(b'{"jsonrpc":"2.0","id":"1","result":1}', id="the-same-id-of-another-type"),
        pytest.param(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}', id="null-id"),
        pytest.param(b'{"jsonrpc":"2.0","result":1}', id="no-id"),
    ],
)
@over_sockets
async def test_an_answer_to_nothing_is_ignored(frame: bytes) -> None:
    async with serving() as (peer, far):
        asked = asyncio.ensure_future(peer.request("ask", {}))
        await far.receive()
        far.write(frame)
        far.send(PING)
        assert await far.receive() == PONG
        assert not asked.done()
        far.send(a_result(1, "yes"), a_result(1, "no"), PING)
        assert await asked == "yes"
        assert await far.receive() == PONG


@over_sockets
async def test_a_cancelled_request_is_cancelled_at_the_peer_too() -> None:
    async with serving() as (peer, far):
        asked = asyncio.ensure_future(peer.request("ask", {}))
        assert (await far.receive())["id"] == 1
        asked.cancel()
        assert await far.receive() == {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}}
        far.send(an_error(1, REQUEST_CANCELLED, "Request cancelled"), PING)
        assert await far.receive() == PONG
        with pytest.raises(asyncio.CancelledError):
            await asked


@over_sockets
async def test_a_request_that_cannot_be_written_leaves_nothing_behind() -> None:
    async with serving() as (peer, far):
        with pytest.raises(TypeError):
            await peer.request("ask", object())
        assert not peer._requests
        asked = asyncio.ensure_future(peer.request("ask", {}))
        assert (await far.receive())["id"] == 2
        far.send(a_result(2, 1))
        assert await asked == 1
