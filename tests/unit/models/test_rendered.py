"""The options that every model class has."""

import inspect
from pathlib import Path
from typing import Any

import pytest

from sideband.core.errors import InvalidOption
from sideband.core.live import LiveIndex
from sideband.models.anthropic import AnthropicModel
from sideband.models.gemini import GeminiModel
from sideband.models.local import CONTEXT_WINDOW, LocalModel
from sideband.models.openai import ChatModel, ResponsesModel
from sideband.models.rendered import RenderedModel
from sideband.ports import ModelError
from sideband.render.profiles import Placement, Profile
from sideband.render.view import RequestView
from sideband.runtime.profiles import load_profiles

CLASSES: dict[type[RenderedModel[Any]], str] = {
    AnthropicModel: "anthropic:claude-opus-5",
    ResponsesModel: "openai:gpt-6",
    ChatModel: "openai-chat:gpt-6",
    GeminiModel: "google:gemini-3.8-flash",
    LocalModel: "local:smollm2",
}
EVERY_CLASS = pytest.mark.parametrize("kind", CLASSES)
URL = "http://127.0.0.1:8080/v1"


def made(kind: type[RenderedModel[Any]], **options: Any) -> RenderedModel[Any]:  # noqa: ANN401 - those of the class
    return kind(load_profiles().of(CLASSES[kind]), model="model-1", **({"api_key": "a-key", "base_url": URL} | options))


def placement_of(model: RenderedModel[Any]) -> object:
    """The placement that goes on record with the first request."""
    view = RequestView(turn=1, system="", messages=[{"role": "user", "content": "Hi."}], tools=[], live=LiveIndex())
    head = model.plan(view).head
    assert head is not None
    return head.rendering["placement"]


@EVERY_CLASS
def test_address_key_and_placement_are_keywords(kind: type[RenderedModel[Any]]) -> None:
    parameters = inspect.signature(kind).parameters
    for name in ("api_key", "base_url", "placement", "max_output_tokens", "parameters"):
        assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY


@pytest.mark.requirement("render:placement:is-an-option-of-a-model")
@EVERY_CLASS
@pytest.mark.parametrize("name", ["seed", "tail", "native"])
def test_a_placement_can_be_chosen_by_its_name(kind: type[RenderedModel[Any]], name: str) -> None:
    assert placement_of(made(kind, placement=name)) == placement_of(made(kind, placement=Placement(name))) == name


@pytest.mark.requirement("render:placement:is-an-option-of-a-model")
@EVERY_CLASS
@pytest.mark.parametrize(
    ("given", "told"),
    [
        pytest.param("tial", "not 'tial'; did you mean 'tail'?", id="misspelt"),
        pytest.param("system", "not 'system'", id="another-word"),
        pytest.param(3, "not 3", id="no-word"),
    ],
)
def test_a_placement_that_does_not_exist_is_refused_with_those_that_do(
    kind: type[RenderedModel[Any]], given: object, told: str
) -> None:
    with pytest.raises(InvalidOption) as refused:
        made(kind, placement=given)
    assert str(refused.value).endswith(f"placement must be 'seed', 'tail', 'native' or None, {told}")
    assert refused.value.field == "placement"


@EVERY_CLASS
@pytest.mark.parametrize(
    "given", ["", "127.0.0.1:8080", "ftp://secret@example", "http://", "http://[", "http://x:0", 3]
)
def test_a_base_url_that_is_no_address_is_refused_and_not_quoted(kind: type[RenderedModel[Any]], given: object) -> None:
    with pytest.raises(InvalidOption, match="base_url must be the address of a server, like 'https://") as refused:
        made(kind, base_url=given)
    assert refused.value.field == "base_url"
    assert "secret" not in str(refused.value)


@EVERY_CLASS
def test_a_key_that_is_not_text_is_refused(kind: type[RenderedModel[Any]]) -> None:
    with pytest.raises(InvalidOption, match="api_key must be a string or None, not bytes"):
        made(kind, api_key=b"a-key")


def test_a_local_model_at_an_address_starts_no_server_and_has_the_window_of_its_profile() -> None:
    assert made(LocalModel).context_window is None
    assert made(LocalModel, base_url=None, weights=Path("my.gguf")).context_window == CONTEXT_WINDOW
    with pytest.raises(InvalidOption, match="weights and base_url exclude each other"):
        made(LocalModel, weights=Path("my.gguf"))


def test_a_missing_key_is_reported_when_the_model_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ModelError, match="OpenAI needs a key"):
        ChatModel(Profile(transport="openai-chat"), model="model-1")
