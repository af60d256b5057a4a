"""The server that the conformance suite of MCP tests: `python mcp_fixture_server.py without|mounted|emitting`.

The suite calls tools, prompts and resources by the names that it prescribes. The argument says whether `Reminders` is
mounted, and whether each call of a tool also sends two reminders: one inside the request, and one from a task that
outlives it. The server takes a free port of the loopback interface, prints its URL and ends when its standard input
does.
"""

import asyncio
import base64
import json
import os
import socket
import struct
import sys
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import uvicorn
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.server.extension import Extension
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.shared.exceptions import MCPError
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    AudioContent,
    CallToolResult,
    ClientCapabilities,
    Completion,
    ContentBlock,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    EmbeddedResource,
    ImageContent,
    InputRequest,
    InputRequiredResult,
    ListRootsRequest,
    ListRootsResult,
    MissingRequiredClientCapabilityErrorData,
    SamplingCapability,
    SamplingMessage,
    TextContent,
    TextResourceContents,
)

from sideband.protocols.mcp.server import Reminders

Json = dict[str, Any]
Answer = CallToolResult | InputRequiredResult

MODERN: Final = "2026-07-28"
PAUSE_SECONDS: Final = 0.05
LEGACY_METHODS: Final = frozenset({"logging/setLevel", "resources/subscribe", "resources/unsubscribe"})


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


# An image of one red pixel, and a sound of one sample.
PIXEL: Final = b"".join(
    (
        b"\x89PNG\r\n\x1a\n",
        _chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)),
        _chunk(b"IDAT", zlib.compress(b"\0\xff\0\0")),
        _chunk(b"IEND", b""),
    )
)
SAMPLE: Final = struct.pack(
    "<4sI4s4sIHHIIHH4sIH", b"RIFF", 38, b"WAVE", b"fmt ", 16, 1, 1, 8000, 16000, 2, 16, b"data", 2, 0
)


def _image() -> ImageContent:
    return ImageContent(data=base64.b64encode(PIXEL).decode(), mime_type="image/png")


def _resource(uri: str, text: str, mime_type: str = "text/plain") -> EmbeddedResource:
    return EmbeddedResource(resource=TextResourceContents(uri=uri, text=text, mime_type=mime_type))


def _said(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)])


def _ask(message: str, **properties: Json) -> ElicitRequest:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def _sample(question: str, max_tokens: int = 100) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=TextContent(text=question))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=max_tokens))


def _need(requests: Mapping[str, InputRequest], state: str | None = None) -> InputRequiredResult:
    return InputRequiredResult(input_requests=dict(requests), request_state=state)


NAME_QUESTION: Final = _ask("What is your name?", name={"type": "string"})


def _answered(ctx: Context, key: str) -> Json | None:
    """What the user filled in; None if the client has not sent a valid answer."""
    match (ctx.input_responses or {}).get(key):
        case ElicitResult(action="accept", content=dict(content)):
            return dict(content)
        case _:
            return None


# Tools that answer at once.


def _returning(*content: ContentBlock) -> Callable[[], CallToolResult]:
    def tool() -> CallToolResult:
        return CallToolResult(content=list(content))

    return tool


def fails() -> str:
    raise ToolError("This tool intentionally returns an error for testing")


async def logs(ctx: Context) -> str:
    for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.log("info", message)
        await asyncio.sleep(PAUSE_SECONDS)
    return "Three messages were logged."


async def reports_progress(ctx: Context) -> str:
    for progress in (0, 50, 100):
        await ctx.report_progress(progress, 100)
        await asyncio.sleep(PAUSE_SECONDS)
    return "It is done."


def needs_sampling(ctx: Context) -> str:
    if ctx.client_capabilities is None or ctx.client_capabilities.sampling is None:
        needed = MissingRequiredClientCapabilityErrorData(
            required_capabilities=ClientCapabilities(sampling=SamplingCapability())
        )
        data = needed.model_dump(by_alias=True, exclude_none=True)
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "Sampling is required", data)
    return "The client can sample."


async def changes_tools(ctx: Context) -> str:
    await ctx.notify_tools_changed()
    return "It is told."


async def changes_prompts(ctx: Context) -> str:
    await ctx.notify_prompts_changed()
    return "It is told."


# Tools that send requests to an older client.


async def samples(prompt: str, ctx: Context) -> str:
    messages = _sample(prompt).params.messages
    answer = await ctx.session.create_message(messages, max_tokens=100, related_request_id=ctx.request_id)
    return f"LLM response: {answer.content}"


async def _ask_now(ctx: Context, message: str, properties: Json, required: list[str]) -> str:
    schema = {"type": "object", "properties": properties, "required": required}
    answer = await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)
    return f"Elicitation completed: action={answer.action}, content={json.dumps(answer.content)}"


async def asks(message: str, ctx: Context) -> str:
    fields = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    return await _ask_now(ctx, message, fields, list(fields))


async def asks_with_defaults(ctx: Context) -> str:
    fields = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return await _ask_now(ctx, "Is this right?", fields, [])


async def asks_for_choices(ctx: Context) -> str:
    plain = ["option1", "option2", "option3"]
    titled = [{"const": f"value{number}", "title": f"Choice {number}"} for number in (1, 2, 3)]
    fields = {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return await _ask_now(ctx, "Choose.", fields, [])


# Tools that end with a question, and are called again with its answer.


async def greets(ctx: Context) -> Answer:
    given = _answered(ctx, "user_name")
    if given is None or not isinstance(given.get("name"), str):
        return _need({"user_name": NAME_QUESTION})
    return _said(f"Hello, {given['name']}!")


async def needs_a_sample(ctx: Context) -> Answer:
    match (ctx.input_responses or {}).get("capital_question"):
        case CreateMessageResult(content=TextContent(text=text)):
            return _said(text)
        case _:
            return _need({"capital_question": _sample("What is the capital of France?")})


async def needs_roots(ctx: Context) -> Answer:
    match (ctx.input_responses or {}).get("client_roots"):
        case ListRootsResult(roots=roots):
            return _said(" ".join(str(root.uri) for root in roots))
        case _:
            return _need({"client_roots": ListRootsRequest()})


async def needs_state(ctx: Context) -> Answer:
    if ctx.request_state != "asked" or _answered(ctx, "confirm") is None:
        return _need({"confirm": _ask("Please confirm", ok={"type": "boolean"})}, "asked")
    return _said("state-ok")


async def needs_three_answers(ctx: Context) -> Answer:
    questions: dict[str, InputRequest] = {
        "user_name": NAME_QUESTION,
        "greeting": _sample("Generate a greeting", 50),
        "client_roots": ListRootsRequest(),
    }
    if ctx.request_state != "asked" or not questions.keys() <= (ctx.input_responses or {}).keys():
        return _need(questions, "asked")
    return _said("All three are answered.")


async def needs_two_rounds(ctx: Context) -> Answer:
    if ctx.request_state == "second" and (colour := _answered(ctx, "step2")) is not None:
        return _said(f"The colour is {colour.get('color')}.")
    if ctx.request_state == "first" and _answered(ctx, "step1") is not None:
        return _need({"step2": _ask("Step 2: What is your favorite color?", color={"type": "string"})}, "second")
    return _need({"step1": _ask("Step 1: What is your name?", name={"type": "string"})}, "first")


async def needs_what_the_client_can(ctx: Context) -> Answer:
    can = ctx.client_capabilities or ClientCapabilities()
    questions: dict[str, InputRequest] = {}
    if can.elicitation is not None:
        questions["user_name"] = NAME_QUESTION
    if can.sampling is not None:
        questions["greeting"] = _sample("Generate a greeting")
    return _need(questions, "asked")


TOOLS: Final[Mapping[str, Callable[..., Any]]] = {
    "test_simple_text": _returning(TextContent(text="This is a simple text response for testing.")),
    "test_image_content": _returning(_image()),
    "test_audio_content": _returning(AudioContent(data=base64.b64encode(SAMPLE).decode(), mime_type="audio/wav")),
    "test_embedded_resource": _returning(
        _resource("test://embedded-resource", "This is an embedded resource content.")
    ),
    "test_multiple_content_types": _returning(
        TextContent(text="Multiple content types test:"),
        _image(),
        _resource("test://mixed-content-resource", '{"test":"data","value":123}', "application/json"),
    ),
    "test_error_handling": fails,
    "test_tool_with_logging": logs,
    "test_logging_tool": logs,
    "test_tool_with_progress": reports_progress,
    "test_missing_capability": needs_sampling,
    "test_trigger_tool_change": changes_tools,
    "test_trigger_prompt_change": changes_prompts,
    "test_sampling": samples,
    "test_elicitation": asks,
    "test_elicitation_sep1034_defaults": asks_with_defaults,
    "test_elicitation_sep1330_enums": asks_for_choices,
    "test_input_required_result_elicitation": greets,
    "test_streaming_elicitation": greets,
    "test_input_required_result_sampling": needs_a_sample,
    "test_input_required_result_list_roots": needs_roots,
    "test_input_required_result_request_state": needs_state,
    "test_input_required_result_tampered_state": needs_state,
    "test_input_required_result_multiple_inputs": needs_three_answers,
    "test_input_required_result_multi_round": needs_two_rounds,
    "test_input_required_result_capabilities": needs_what_the_client_can,
}


# Resources and prompts.


def text() -> str:
    return "This is the content of the static text resource."


def binary() -> bytes:
    return PIXEL


def from_template(id: str) -> str:
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


RESOURCES: Final[Mapping[str, tuple[str, Callable[..., str | bytes]]]] = {
    "test://static-text": ("text/plain", text),
    "test://watched-resource": ("text/plain", text),
    "test://static-binary": ("image/png", binary),
    "test://template/{id}/data": ("application/json", from_template),
}


def simple_prompt() -> str:
    return "This is a simple prompt for testing."


def prompt_with_arguments(arg1: str, arg2: str) -> str:
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


def prompt_with_resource(resourceUri: str) -> list[UserMessage]:  # noqa: N803 - the suite prescribes the name
    resource = _resource(resourceUri, "Embedded resource content for testing.")
    return [UserMessage(resource), UserMessage("Please process the embedded resource above.")]


def prompt_with_image() -> list[UserMessage]:
    return [UserMessage(_image()), UserMessage("Please analyze the image above.")]


def prompt_that_asks(ctx: Context) -> str | InputRequiredResult:
    given = _answered(ctx, "user_context")
    if given is None:
        return _need({"user_context": _ask("What context should the prompt use?", context={"type": "string"})})
    return f"The context is {given.get('context')}."


PROMPTS: Final[Mapping[str, Callable[..., Any]]] = {
    "test_simple_prompt": simple_prompt,
    "test_prompt_with_arguments": prompt_with_arguments,
    "test_prompt_with_embedded_resource": prompt_with_resource,
    "test_prompt_with_image": prompt_with_image,
    "test_input_required_result_prompt": prompt_that_asks,
}


async def complete(*_: object) -> Completion:
    return Completion(values=["paris", "park", "party"], total=3, has_more=False)


# The server.


async def legacy_methods(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Answers the methods of older clients for which `MCPServer` has no handlers."""
    if ctx.protocol_version < MODERN and ctx.method in LEGACY_METHODS:
        return {}
    return await call_next(ctx)


def emitting(reminders: Reminders) -> ServerMiddleware[Any]:
    """Sends two reminders with each call of a tool."""
    later: set[asyncio.Task[object]] = set()

    async def emit(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.method == "tools/call":
            await reminders.emit("A tool was called.", dedupe_key="called", ttl_turns=1)
            task = asyncio.create_task(reminders.emit("A tool was called a moment ago.", ttl_turns=1))
            later.add(task)
            task.add_done_callback(later.discard)
        return await call_next(ctx)

    return emit


def a_server(mode: str) -> MCPServer[Any]:
    """The server `without` reminders, with them `mounted`, or `emitting` them too."""
    extensions: list[Extension] = []
    middleware: list[ServerMiddleware[Any]] = []
    if mode != "without":
        reminders = Reminders()
        extensions = [reminders]
        middleware = [reminders, *([emitting(reminders)] if mode == "emitting" else [])]
    server: MCPServer[Any] = MCPServer(
        "fixture", version="1.0", log_level="ERROR", extensions=extensions, middleware=[*middleware, legacy_methods]
    )
    for name, tool in TOOLS.items():
        server.add_tool(tool, name=name, description="A tool of the conformance suite.")
    for uri, (mime_type, read) in RESOURCES.items():
        server.resource(uri, name=uri, description="It never changes.", mime_type=mime_type)(read)
    for name, prompt in PROMPTS.items():
        server.prompt(name, description="A prompt of the conformance suite.")(prompt)
    completion: Callable[[], Callable[..., object]] = server.completion
    completion()(complete)
    return server


async def serve(mode: str) -> None:
    """Serve until standard input ends."""
    app = a_server(mode).streamable_http_app()
    listener = socket.create_server(("127.0.0.1", 0))
    program = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=0))
    serving = asyncio.create_task(program.serve(sockets=[listener]))
    sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.buffer.read)
    program.should_exit = True
    await serving


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
    # Connections that a client has left open must not delay the end.
    os._exit(0)
