"""Every kind of model that has an adapter, with the replies of its service."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from anthropic.types import message_create_params as anthropic_params
from anthropic.types.beta import message_create_params as anthropic_beta_params
from google.genai import types as gemini_types
from openai.types.chat import completion_create_params as chat_params
from openai.types.responses import response_create_params as responses_params
from typing_extensions import TypedDict

from sideband.core.messages import ToolCall
from sideband.models.anthropic import AnthropicModel
from sideband.models.gemini import GeminiModel
from sideband.models.local import LocalModel
from sideband.models.openai import ChatModel, ResponsesModel
from sideband.models.rendered import RenderedModel
from sideband.runtime.profiles import load_profiles
from tests import service_replies
from tests.loopback import Captured, Loopback, Stream
from tests.typed_params import faults


class GeminiBody(TypedDict, total=False):
    """What the service documents; the client has no type for the body as a whole."""

    contents: list[gemini_types.Content]
    systemInstruction: gemini_types.Content
    tools: list[gemini_types.Tool]
    toolConfig: gemini_types.ToolConfig
    generationConfig: gemini_types.GenerationConfig


class ModelKind(NamedTuple):
    """A kind of model: its transport, its adapter, the replies of its service, and the types of its requests."""

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

    def named(self) -> RenderedModel[Any]:
        """The model that a model string makes: its key and its address are those of the environment."""
        return self.make(load_profiles().of(f"{self.transport}:{self.models[0]}"), model=self.models[0])

    def says(self, text: str = "", calls: Sequence[ToolCall] = (), **about: Any) -> Stream:  # noqa: ANN401 - what else the reply has
        """A reply of its service."""
        return self.stream(*self.events(text, calls, **about))

    def faults(self, request: Captured) -> list[str]:
        """Where a request differs from the types of the official client."""
        params = self.params
        if "anthropic-beta" in request.headers:
            params = anthropic_beta_params.MessageCreateParamsStreaming
        return faults(request.json, params)


ANTHROPIC: Final = ModelKind(
    transport="anthropic",
    make=AnthropicModel,
    base="",
    path="/v1/messages",
    events=service_replies.anthropic_events,
    stream=service_replies.anthropic_stream,
    params=anthropic_params.MessageCreateParamsStreaming,
    models=("claude-opus-5-5", "claude-opus-5", "claude-sonnet-4-6", "claude-3-haiku"),
)
OPENAI: Final = ModelKind(
    transport="openai",
    make=ResponsesModel,
    base="/v1",
    path="/v1/responses",
    events=service_replies.responses_events,
    stream=service_replies.responses_stream,
    params=responses_params.ResponseCreateParamsStreaming,
    models=("gpt-6", "gpt-5.1"),
)
OPENAI_CHAT: Final = ModelKind(
    transport="openai-chat",
    make=ChatModel,
    base="/v1",
    path="/v1/chat/completions",
    events=service_replies.chat_events,
    stream=service_replies.chat_stream,
    params=chat_params.CompletionCreateParamsStreaming,
    models=("gpt-6", "gpt-4o"),
)
COMPATIBLE: Final = OPENAI_CHAT._replace(
    transport="openai-compatible", models=("mistral-small", "qwen3.5", "unheard-of")
)
GOOGLE: Final = ModelKind(
    transport="google",
    make=GeminiModel,
    base="",
    path="/v1/models/{model}:streamGenerateContent?alt=sse",
    events=service_replies.gemini_events,
    stream=service_replies.gemini_stream,
    params=GeminiBody,
    models=("gemini-3.8-flash", "gemma-3"),
)

MODEL_KINDS: Final[Mapping[str, ModelKind]] = {
    kind.transport: kind for kind in (ANTHROPIC, OPENAI, OPENAI_CHAT, COMPATIBLE, GOOGLE)
}


MODEL_CLASSES: Final[Mapping[type[RenderedModel[Any]], str]] = {
    AnthropicModel: "anthropic:claude-opus-5",
    ResponsesModel: "openai:gpt-6",
    ChatModel: "openai-chat:gpt-6",
    GeminiModel: "google:gemini-3.8-flash",
    LocalModel: "local:smollm2",
}


def a_model_of(kind: type[RenderedModel[Any]], **options: Any) -> RenderedModel[Any]:  # noqa: ANN401 - those of the class
    """A model of this class, at an address where nothing may be."""
    given = {"api_key": "a-key", "base_url": "http://127.0.0.1:8080/v1"} | options
    return kind(load_profiles().of(MODEL_CLASSES[kind]), model="model-1", **given)


def thoughts(kind: ModelKind) -> dict[str, str]:
    """The reasoning fields of a reply of this service, if it has any."""
    match kind.transport:
        case "anthropic" | "google":
            return {"thinking": "Let me see."}
        case "openai":
            return {"reasoning": "c2VjcmV0"}
        case _:
            return {}
