"""The behaviour of the SDK that `sideband.protocols.a2a.sdk` relies on, which its documentation does not promise."""

import inspect
from importlib.metadata import version

import pytest
from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.server.routes import ServerCallContextBuilder, create_rest_routes
from a2a.server.routes.common import create_event_source_response
from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher
from a2a.utils.errors import A2AError, InternalError
from a2a.utils.task import ListTasksCursor, decode_list_tasks_cursor, encode_list_tasks_cursor
from sse_starlette.sse import AppStatus, EventSourceResponse
from starlette.routing import Route

from sideband.protocols.a2a.handler import TaskHandler
from sideband.protocols.a2a.sdk import CallContextBuilder
from tests.a2a_callers import message, on_sockets, served, shape


def test_this_is_the_version_that_the_contract_was_read_from() -> None:
    """With another version, read what the tests below pin, and what the conformance tests of A2A show."""
    assert version("a2a-sdk").startswith("1.3.")


def test_the_handler_implements_every_method_of_the_interface() -> None:
    assert not getattr(TaskHandler, "__abstractmethods__", None)
    for name in RequestHandler.__abstractmethods__:
        ours, theirs = getattr(TaskHandler, name), getattr(RequestHandler, name)
        assert inspect.isasyncgenfunction(ours) == inspect.isasyncgenfunction(theirs)


def test_a_dispatcher_answers_a_request_of_starlette() -> None:
    parameters = inspect.signature(JsonRpcDispatcher.__init__).parameters
    assert {"request_handler", "context_builder", "enable_v0_3_compat"} <= set(parameters)
    assert [*inspect.signature(JsonRpcDispatcher.handle_requests).parameters] == ["self", "request"]


def test_the_http_binding_is_a_list_of_routes() -> None:
    handler = TaskHandler.__new__(TaskHandler)
    routes = create_rest_routes(handler, context_builder=CallContextBuilder(), enable_v0_3_compat=True)
    plain = [route for route in routes if isinstance(route, Route)]
    assert {route.path for route in plain} >= {"/message:send", "/tasks/{id}:cancel", "/v1/message:send"}
    assert all(callable(route.endpoint) for route in plain)


def test_a_stream_is_an_event_source_whose_frames_can_be_replaced() -> None:
    response = create_event_source_response(iter(()))
    assert isinstance(response, EventSourceResponse)
    assert hasattr(response, "body_iterator")


def test_a_context_builder_makes_the_context_from_a_request() -> None:
    assert [*inspect.signature(ServerCallContextBuilder.build).parameters] == ["self", "request"]


def test_errors_take_a_message() -> None:
    assert issubclass(InternalError, A2AError)
    assert str(InternalError(message="x")) == "x"


def test_a_page_token_can_be_read_again() -> None:
    cursor = ListTasksCursor(7_000_000, "t")
    assert decode_list_tasks_cursor(encode_list_tasks_cursor(cursor)) == cursor
    assert decode_list_tasks_cursor("x") is None


@on_sockets
async def test_streams_work_after_an_earlier_server_of_the_process_was_ended_by_a_signal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(AppStatus, "should_exit", True)
    async with served(["Rebased."]) as tasks, tasks.caller().stream("SendStreamingMessage", message()) as frames:
        shapes = [shape(frame) for frame in await frames.rest()]
    assert shapes == ["submitted", "working", "artifact", "completed"]
