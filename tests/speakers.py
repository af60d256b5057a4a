"""Every model there is an adapter for, with the canned replies of its service."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from anthropic.types import message_create_params as anthropic_params
from anthropic.types.beta import message_create_params as anthropic_beta_params
from google.genai import types as gemini_types
from openai.types.chat import completion_create_params as chat_params
from openai.types.responses import response_create_params as responses_params
from typing_extensions import TypedDict

from sideband.models.anthropic import AnthropicModel
from sideband.models.gemini import GeminiModel
from sideband.models.openai import ChatModel, ResponsesModel
from sideband.models.rendered import RenderedModel
from sideband.ports import ToolCall
from sideband.runtime.profiles import load_profiles
from tests import canned
from tests.loopback import Captured, Loopback, Stream
from tests.typed_params import faults


class GeminiBody(TypedDict, total=False):
    """What the service documents; the client has no type for the body as a whole."""

    contents: list[gemini_types.Content]
    systemInstruction: gemini_types.Content
    tools: list[gemini_types.Tool]
    toolConfig: gemini_types.ToolConfig
    generationConfig: gemini_types.GenerationConfig


class Speaker(NamedTuple):
    """A kind of model: what reaches it, what its service answers, and what the types of its requests are."""

    transport: str
    make: Callable[..., RenderedModel[Any]]
    base: str
    path: str
    events: Callable[..., list[dict[str, Any]]]
    stream: Callable[..., Stream]
    params: Any
    models: Sequence[str]

    def model(self, service: Loopback, name: str | None = None, **options: Any) -> RenderedModel[Any]:  # noqa: ANN401 - those of the model
        """A model at this service."""
        chosen = name or self.models[0]
        profile = load_profiles().of(f"{self.transport}:{chosen}")
        url = service.url + self.base
        return self.make(profile, model=chosen, api_key="a-key", base_url=url, **options)

    def says(self, text: str = "", calls: Sequence[ToolCall] = (), **about: Any) -> Stream:  # noqa: ANN401 - what else the reply has
        """A reply of its service."""
        return self.stream(*self.events(text, calls, **about))

    def faults(self, request: Captured) -> list[str]:
        """What the client's own types have against a request."""
        params = self.params
        if "anthropic-beta" in request.headers:
            params = anthropic_beta_params.MessageCreateParamsStreaming
        return faults(request.json, params)


ANTHROPIC: Final = Speaker(
    transport="anthropic",
    make=AnthropicModel,
    base="",
    path="/v1/messages",
    events=canned.anthropic_events,
    stream=canned.anthropic_stream,
    params=anthropic_params.MessageCreateParamsStreaming,
    models=("claude-opus-5-5", "claude-opus-5", "claude-sonnet-4-6", "claude-3-haiku"),
)
OPENAI: Final = Speaker(
    transport="openai",
    make=ResponsesModel,
    base="/v1",
    path="/v1/responses",
    events=canned.responses_events,
    stream=canned.responses_stream,
    params=responses_params.ResponseCreateParamsStreaming,
    models=("gpt-6", "gpt-5.1"),
)
OPENAI_CHAT: Final = Speaker(
    transport="openai-chat",
    make=ChatModel,
    base="/v1",
    path="/v1/chat/completions",
    events=canned.chat_events,
    stream=canned.chat_stream,
    params=chat_params.CompletionCreateParamsStreaming,
    models=("gpt-6", "gpt-4o"),
)
COMPATIBLE: Final = OPENAI_CHAT._replace(
    transport="openai-compatible", models=("mistral-small", "qwen3.5", "unheard-of")
)
GOOGLE: Final = Speaker(
    transport="google",
    make=GeminiModel,
    base="",
    path="/v1/models/{model}:streamGenerateContent?alt=sse",
    events=canned.gemini_events,
    stream=canned.gemini_stream,
    params=GeminiBody,
    models=("gemini-3.8-flash", "gemma-3"),
)

SPEAKERS: Final[Mapping[str, Speaker]] = {
    speaker.transport: speaker for speaker in (ANTHROPIC, OPENAI, OPENAI_CHAT, COMPATIBLE, GOOGLE)
}


def thoughts(speaker: Speaker) -> dict[str, str]:
    """What a reply of this service says of what its model thought; nothing, where it says nothing."""
    match speaker.transport:
        case "anthropic" | "google":
            return {"thinking": "Let me see."}
        case "openai":
            return {"reasoning": "c2VjcmV0"}
        case _:
            return {}
