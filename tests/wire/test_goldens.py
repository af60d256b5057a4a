"""The requests on record are the requests of today, and providers would take them."""

import json
from typing import Any, Final

import pytest
from anthropic.types import message_create_params as anthropic_params
from anthropic.types.beta import message_create_params as anthropic_beta_params
from google.genai import types as gemini_types
from openai.types.chat import completion_create_params as chat_params
from openai.types.responses import response_create_params as responses_params
from typing_extensions import TypedDict

from sideband.render.profiles import Wire
from sideband.testing.oracle import violations
from tests.typed_params import faults
from tests.wire.goldens import FOLDER, NAMES, lines, path_of, route_of


class GeminiBody(TypedDict, total=False):
    """The fields we use of what the service documents: its library has no type for a whole body."""

    contents: list[gemini_types.Content]
    systemInstruction: gemini_types.Content
    tools: list[gemini_types.Tool]
    generationConfig: gemini_types.GenerationConfig


TYPES: Final[dict[Wire, Any]] = {
    Wire.ANTHROPIC: anthropic_params.MessageCreateParamsStreaming,
    Wire.OPENAI_CHAT: chat_params.CompletionCreateParamsStreaming,
    Wire.OPENAI_RESPONSES: responses_params.ResponseCreateParamsStreaming,
    Wire.GEMINI: GeminiBody,
    Wire.GENERIC: chat_params.CompletionCreateParamsStreaming,
}


def recorded(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path_of(name).read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("name", NAMES)
def test_the_requests_on_record_are_those_of_today(name: str) -> None:
    assert [json.loads(line) for line in lines(name)] == recorded(name)


@pytest.mark.parametrize("name", NAMES)
def test_the_types_of_the_client_library_fit(name: str) -> None:
    wire = route_of(name).profile.wire
    for entry in recorded(name):
        kind = anthropic_beta_params.MessageCreateParamsStreaming if entry["betas"] else TYPES[wire]
        assert faults(entry["body"], kind) == []


@pytest.mark.parametrize("name", NAMES)
def test_no_rule_of_the_provider_is_broken(name: str) -> None:
    for entry in recorded(name):
        assert violations(route_of(name).profile, entry["body"], entry["betas"]) == []


def test_every_file_on_record_is_compared() -> None:
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(path_of(name).name for name in NAMES)
