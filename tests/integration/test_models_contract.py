"""What we rely on in the official clients, beyond what every user of theirs does; a new version has to pass this first."""

import inspect
import tomllib
from importlib.metadata import version
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from anthropic import AsyncStream as AnthropicStream
from anthropic.types import RawMessageStreamEvent
from anthropic.types import message_create_params as anthropic_params
from google.genai import types as gemini_types
from openai import AsyncOpenAI
from openai import AsyncStream as OpenAIStream
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseStreamEvent
from packaging.requirements import Requirement
from pydantic import TypeAdapter

from sideband.core.live import LiveIndex
from sideband.core.messages import ToolCall
from sideband.render.view import RequestView
from tests import service_replies
from tests.loopback import a_loopback, over_sockets
from tests.model_kinds import GOOGLE, GeminiBody
from tests.programs import ROOT
from tests.typed_params import faults

CALLS = (ToolCall(id="c1", name="read", args={"path": "a"}),)


@pytest.mark.parametrize("library", ["anthropic", "openai", "google-genai"])
def test_the_installed_version_is_one_that_the_extra_allows(library: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    allowed = {each.name: each.specifier for each in map(Requirement, project["optional-dependencies"]["models"])}
    assert allowed[library].contains(version(library))


@pytest.mark.parametrize("client", [AsyncAnthropic, AsyncOpenAI])
def test_post_takes_finished_bytes_and_the_class_of_the_stream(client: type[AsyncAnthropic | AsyncOpenAI]) -> None:
    parameters = inspect.signature(client.post).parameters
    assert {"path", "cast_to", "content", "options", "stream", "stream_cls"} <= parameters.keys()


@over_sockets
async def test_a_stream_of_objects_from_anthropic_is_json_as_it_came() -> None:
    events = service_replies.anthropic_events("Hi.")
    kind = AnthropicStream[object]
    async with (
        a_loopback(service_replies.anthropic_stream(*events)) as service,
        AsyncAnthropic(api_key="a-key", base_url=service.url, max_retries=0) as client,
        await client.post("/v1/messages", content=b"{}", cast_to=object, stream=True, stream_cls=kind) as stream,
    ):
        assert [event async for event in stream] == [event for event in events if event["type"] != "ping"]


@over_sockets
async def test_a_stream_of_objects_from_openai_is_json_as_it_came() -> None:
    events = service_replies.chat_events("Hi.")
    kind = OpenAIStream[object]
    async with (
        a_loopback(service_replies.chat_stream(*events)) as service,
        AsyncOpenAI(api_key="a-key", base_url=service.url, max_retries=0) as client,
        await client.post("/chat/completions", content=b"{}", cast_to=object, stream=True, stream_cls=kind) as stream,
    ):
        assert [event async for event in stream] == events


def test_gemini_takes_an_http_client_and_can_be_kept_from_asking_twice() -> None:
    assert "httpx_async_client" in gemini_types.HttpOptions.model_fields
    assert {
        "automatic_continuation",
        "automatic_function_calling",
    } <= gemini_types.GenerateContentConfig.model_fields.keys()


@over_sockets
async def test_gemini_sends_one_request_however_its_reply_ends() -> None:
    # Left to itself the client would follow a token like this one, with a body that is not ours.
    events = service_replies.gemini_events("As far as", finish_reason="CONTINUATION")
    events[-1]["candidates"][0]["continuationToken"] = service_replies.SIGNATURE
    async with a_loopback(service_replies.gemini_stream(*events), GOOGLE.says("never asked for")) as service:
        model = GOOGLE.model(service)
        view = RequestView(turn=1, system="", messages=[{"role": "user", "content": "Go."}], tools=[], live=LiveIndex())
        assert (await model.complete(model.plan(view))).text == "As far as"
    assert len(service.requests) == 1


# The canned replies are such as the clients' own types describe.


@pytest.mark.parametrize(
    ("events", "kind"),
    [
        pytest.param(
            service_replies.anthropic_events("Hi.", CALLS, thinking="Hm."),
            TypeAdapter[Any](RawMessageStreamEvent),
            id="anthropic",
        ),
        pytest.param(
            service_replies.chat_events("Hi.", CALLS), TypeAdapter[Any](ChatCompletionChunk), id="openai-chat"
        ),
        pytest.param(
            service_replies.responses_events("Hi.", CALLS, reasoning="x"),
            TypeAdapter[Any](ResponseStreamEvent),
            id="openai",
        ),
        pytest.param(
            service_replies.gemini_events("Hi.", CALLS, thinking="Hm."),
            TypeAdapter[Any](gemini_types.GenerateContentResponse),
            id="google",
        ),
    ],
)
def test_canned_replies_are_what_the_services_send(events: list[dict[str, Any]], kind: TypeAdapter[Any]) -> None:
    for event in events:
        if event.get("type") != "ping":
            kind.validate_python(event)


# What the check of the requests finds.

BODY: dict[str, Any] = {
    "model": "claude",
    "max_tokens": 1,
    "stream": True,
    "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi."}]}],
}


@pytest.mark.parametrize(
    ("change", "found"),
    [
        pytest.param({}, "", id="nothing-where-nothing-is-wrong"),
        pytest.param({"messages": [{"role": "nobody", "content": "Hi."}]}, "nobody", id="a-wrong-word-deep-inside"),
        pytest.param(
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi.", "clear_at": "x"}]}]},
            "clear_at",
            id="an-unknown-key-deep-inside",
        ),
        pytest.param({"messages": [{"content": "Hi."}]}, "role", id="a-missing-key"),
        pytest.param({"max_tokens": "1"}, "max_tokens", id="a-wrong-type"),
        pytest.param({"max_tokens": True}, "max_tokens", id="a-truth-value-that-is-no-number"),
        pytest.param({"stream": False}, "stream", id="a-wrong-literal"),
        pytest.param({"surprise": 1}, "surprise", id="an-unknown-key"),
        pytest.param({"messages": {"role": "user"}}, "messages", id="something-that-is-no-list"),
    ],
)
def test_a_request_is_looked_through_to_the_last_key(change: dict[str, Any], found: str) -> None:
    told = faults(BODY | change, anthropic_params.MessageCreateParamsStreaming)
    assert bool(told) is bool(found)
    assert found in "".join(told)


def test_a_request_to_gemini_is_looked_through_too() -> None:
    assert faults({"contents": [{"role": "user", "parts": [{"text": "Hi."}]}]}, GeminiBody) == []
    assert faults({"contents": [{"role": "user", "parts": [{"txt": "Hi."}]}]}, GeminiBody)
