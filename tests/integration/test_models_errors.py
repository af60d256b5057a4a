"""What the official clients raise, told as one kind of error that says whether to try again."""

import asyncio
import gc
import re
import socket
from collections.abc import Iterator
from types import AsyncGeneratorType
from typing import Any

import pytest

from sideband.core.live import LiveIndex
from sideband.ports import ModelError
from sideband.render.view import RequestView
from tests import service_replies
from tests.loop_builders import others
from tests.loopback import Answer, HangUp, Loopback, Refusal, Silence, Stream, a_loopback, over_sockets, sse
from tests.model_kinds import ANTHROPIC, COMPATIBLE, GOOGLE, MODEL_KINDS, OPENAI, OPENAI_CHAT, ModelKind
from tests.waiting import let_pass

EVERY_MODEL_KIND = pytest.mark.parametrize("kind", MODEL_KINDS.values(), ids=MODEL_KINDS)
# Less than the patience of a test: it is over when it is said to be.
A_WHILE = 20.0
VIEW = RequestView(turn=1, system="", messages=[{"role": "user", "content": "Go."}], tools=[], live=LiveIndex())


async def failing(kind: ModelKind, *answers: Answer) -> list[ModelError]:
    """The error for each of the answers; a client that tries again by itself would use them up."""
    errors: list[ModelError] = []
    async with a_loopback(*answers) as service:
        model = kind.model(service)
        for _ in answers:
            with pytest.raises(ModelError) as failed:
                await model.complete(model.plan(VIEW))
            errors.append(failed.value)
        assert len(service.requests) == len(answers)
        assert len(set(service.bodies)) == 1
    return errors


def a_refusal(status: int) -> Refusal:
    """A failure with all that any of the services says of one."""
    error = {"type": "some_error", "message": "This is why.", "code": status, "status": "SOME_STATUS"}
    return Refusal(status=status, body={"type": "error", "error": error})


@EVERY_MODEL_KIND
@over_sockets
async def test_a_status_tells_whether_to_try_again_and_the_client_itself_never_does(kind: ModelKind) -> None:
    for_good = (400, 401, 403, 404, 413, 422)
    passing = (408, 409, 429, 500, 502, 503, 529)
    errors = await failing(kind, *map(a_refusal, (*for_good, *passing)))
    assert [(error.status, error.retryable) for error in errors] == [
        *((status, False) for status in for_good),
        *((status, True) for status in passing),
    ]
    assert all("This is why." in str(error) for error in errors)


@EVERY_MODEL_KIND
@over_sockets
async def test_how_long_a_service_wants_to_be_left_alone_is_read(kind: ModelKind) -> None:
    said = [
        {"retry-after": "7"},
        {"retry-after": "7", "Retry-After-Ms": "1500"},
        {"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"},
        {"retry-after": "nan"},
        {},
    ]
    refusals = [Refusal(status=429, body={"error": {"message": "Why.", "code": 429}}, headers=each) for each in said]
    errors = await failing(kind, *refusals)
    assert [error.retry_after for error in errors] == [7, 1.5, None, None, None]


@EVERY_MODEL_KIND
@over_sockets
async def test_a_service_that_hangs_up_may_be_back(kind: ModelKind) -> None:
    (error,) = await failing(kind, HangUp())
    assert (error.retryable, error.status) == (True, None)


@EVERY_MODEL_KIND
@over_sockets
async def test_a_service_that_says_nothing_in_time_may_do_so_later(kind: ModelKind) -> None:
    async with a_loopback(Silence()) as service:
        model = kind.model(service, seconds=A_WHILE)
        asked = asyncio.ensure_future(model.complete(model.plan(VIEW)))
        await service.is_silent.wait()
        # It has sent all that it has to send, and listens.
        await others()
        let_pass(A_WHILE)
        with pytest.raises(ModelError) as failed:
            await asked
        assert len(service.requests) == 1
    error = failed.value
    assert error.retryable
    assert "did not answer in time" in str(error)


@EVERY_MODEL_KIND
@over_sockets
async def test_a_service_that_is_not_there_may_come(kind: ModelKind) -> None:
    service = Loopback()
    with socket.socket() as unused:
        # While the port is bound, no other process can listen on it.
        unused.bind(("127.0.0.1", 0))
        service.url = "http://{}:{}".format(*unused.getsockname())
        model = kind.model(service)
        with pytest.raises(ModelError, match="cannot be reached") as failed:
            await model.complete(model.plan(VIEW))
    assert failed.value.retryable


@EVERY_MODEL_KIND
@pytest.mark.parametrize("framed", [True, False], ids=["and-says-so", "as-if-it-were-all"])
@over_sockets
async def test_a_stream_that_breaks_off_anywhere_is_tried_again(kind: ModelKind, *, framed: bool) -> None:
    whole = kind.says("Hello there.", [])
    # In the middle of the last event, and up to nothing at all; an event that is whole may be all that was needed.
    last = max(place for place, event in enumerate(whole.events) if _ends(event))
    behind = sum(map(len, whole.events[last + 1 :]))
    length = sum(map(len, whole.events))
    cuts = [behind + 3, behind + len(whole.events[last]) // 2, length // 2, length - 5, length]
    errors = await failing(kind, *(Stream(events=whole.events, cut=cut, framed=framed) for cut in cuts))
    assert [error.retryable for error in errors] == [True] * len(cuts)


def _ends(event: bytes) -> bool:
    """Whether this is the event without which a reply is not over."""
    words = (b'"message_stop"', b'"finish_reason":"stop"', b'"response.completed"', b'"finishReason":"STOP"')
    return any(word in event for word in words)


@pytest.mark.parametrize(
    ("kind", "event", "status"),
    [
        pytest.param(
            ANTHROPIC, {"type": "error", "error": {"type": "overloaded_error", "message": "Why."}}, 529, id="claude"
        ),
        pytest.param(
            ANTHROPIC,
            {"type": "error", "error": {"type": "invalid_request_error", "message": "Why."}},
            400,
            id="claude-for-good",
        ),
        pytest.param(
            ANTHROPIC, {"type": "error", "error": {"type": "new_error", "message": "Why."}}, None, id="claude-new"
        ),
        pytest.param(OPENAI_CHAT, {"error": {"type": "server_error", "message": "Why."}}, 500, id="chat"),
        pytest.param(COMPATIBLE, {"error": {"code": 503, "message": "Why."}}, 503, id="a-server-with-numbers"),
        pytest.param(COMPATIBLE, {"error": {"code": "bad_prompt", "message": "Why."}}, None, id="a-server-with-words"),
        pytest.param(
            OPENAI,
            {"type": "error", "code": "rate_limit_exceeded", "message": "Why.", "sequence_number": 1},
            429,
            id="responses",
        ),
        pytest.param(
            OPENAI,
            {"type": "response.failed", "response": {"error": {"code": "server_error", "message": "Why."}}},
            500,
            id="responses-failed",
        ),
        pytest.param(
            OPENAI,
            {"type": "response.failed", "response": {"error": {"code": "invalid_prompt", "message": "Why."}}},
            400,
            id="responses-failed-for-good",
        ),
        pytest.param(GOOGLE, {"error": {"code": 503, "message": "Why.", "status": "UNAVAILABLE"}}, 503, id="gemini"),
    ],
)
@over_sockets
async def test_an_error_in_the_middle_of_a_reply_is_read_too(
    kind: ModelKind, event: dict[str, Any], status: int | None
) -> None:
    begun = kind.says("Hello there.").events[:3]
    (failure,) = sse(event, named="type" in event)
    (error,) = await failing(kind, Stream(events=(*begun, failure)))
    assert (error.status, error.retryable) == (status, status in (429, 500, 503, 529))
    assert "Why." in str(error)


@over_sockets
async def test_a_failure_that_says_nothing_is_still_one() -> None:
    (error,) = await failing(OPENAI, service_replies.responses_stream({"type": "response.failed"}))
    assert not error.retryable


@pytest.mark.parametrize(
    ("kind", "event"),
    [
        pytest.param(ANTHROPIC, {"type": "message_start", "message": "hello"}, id="claude"),
        pytest.param(COMPATIBLE, {"choices": "hello"}, id="chat"),
        pytest.param(OPENAI, {"type": "response.completed", "response": []}, id="responses"),
        pytest.param(GOOGLE, {"candidates": [{"content": {"parts": "hello"}}]}, id="gemini"),
        pytest.param(GOOGLE, {"error": "hello"}, id="gemini-in-error"),
        pytest.param(GOOGLE, {"error": {"code": "hello"}}, id="gemini-in-an-error-of-its-shape"),
    ],
)
@over_sockets
async def test_what_is_no_reply_at_all_fails_for_good(kind: ModelKind, event: dict[str, Any]) -> None:
    (error,) = await failing(kind, Stream(events=sse(event, named="type" in event)))
    assert "an invalid reply" in str(error)
    assert not error.retryable


@EVERY_MODEL_KIND
@over_sockets
async def test_a_reply_that_is_nested_too_deeply_is_refused(kind: ModelKind) -> None:
    (error,) = await failing(kind, Stream(events=(b"event: message_start\ndata: " + b"[" * 100_000 + b"\n\n",)))
    assert re.search("an invalid reply|ended before it was complete", str(error))


@EVERY_MODEL_KIND
@over_sockets
async def test_a_page_of_some_proxy_is_quoted_on_one_line(kind: ModelKind) -> None:
    error = {"type": "x", "message": "<html>\n  <h1>Bad\tgateway</h1>\r\n" + "x" * 5_000, "code": 502}
    (told,) = await failing(kind, Refusal(status=502, body={"type": "error", "error": error}))
    assert "<html> <h1>Bad gateway</h1> xxx" in str(told)
    assert len(str(told)) < 600


@pytest.mark.parametrize("kind", [ANTHROPIC, OPENAI, COMPATIBLE, GOOGLE], ids=lambda kind: kind.transport)
@over_sockets
async def test_half_of_a_json_text_is_a_reply_that_was_cut(kind: ModelKind) -> None:
    (error,) = await failing(kind, Stream(events=(b'event: message_stop\ndata: {"type": "mess\n\n',)))
    assert error.retryable


@EVERY_MODEL_KIND
@over_sockets
async def test_nothing_stays_open_after_a_failure(kind: ModelKind) -> None:
    # Warnings are errors here, and collecting an unclosed connection warns.
    whole = kind.says("Hello there.").events
    await failing(kind, Stream(events=whole, cut=40), a_refusal(500), HangUp())
    gc.collect()


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Objects are freed by reference counts only, not by the collector."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@EVERY_MODEL_KIND
@pytest.mark.usefixtures("no_collector")
@over_sockets
async def test_what_a_client_was_reading_is_let_go_with_the_failure(kind: ModelKind) -> None:
    error = {"type": "error", "error": {"type": "server_error", "code": 500, "message": "Why."}}
    (failure,) = sse(error, named=True)
    whole = kind.says("Hello there.").events
    kept = await failing(kind, Stream(events=(*whole[:3], failure, *whole[3:])))
    await others()
    reading = [
        found.__qualname__ for found in gc.get_objects() if isinstance(found, AsyncGeneratorType) and found.ag_frame
    ]
    assert kept
    assert [name for name in reading if "aiter" in name or "stream" in name.lower()] == []
