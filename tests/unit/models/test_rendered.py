"""The options that every model class has."""

import inspect
from pathlib import Path
from typing import Any

import pytest

from sideband.core.errors import InvalidOption
from sideband.models.local import CONTEXT_WINDOW, LocalModel
from sideband.models.openai import ChatModel
from sideband.models.rendered import RenderedModel
from sideband.ports import ModelError
from sideband.render.profiles import Profile
from tests.model_kinds import MODEL_CLASSES, a_model_of

EVERY_CLASS = pytest.mark.parametrize("kind", MODEL_CLASSES)


@EVERY_CLASS
def test_address_key_and_placement_are_keywords(kind: type[RenderedModel[Any]]) -> None:
    parameters = inspect.signature(kind).parameters
    for name in ("api_key", "base_url", "placement", "max_output_tokens", "parameters"):
        assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY


@EVERY_CLASS
@pytest.mark.parametrize(
    "given", ["", "127.0.0.1:8080", "ftp://secret@example", "http://", "http://[", "http://x:0", 3]
)
def test_a_base_url_that_is_no_address_is_refused_and_not_quoted(kind: type[RenderedModel[Any]], given: object) -> None:
    with pytest.raises(InvalidOption, match="base_url must be the address of a server, like 'https://") as refused:
        a_model_of(kind, base_url=given)
    assert refused.value.field == "base_url"
    assert "secret" not in str(refused.value)


@EVERY_CLASS
def test_a_key_that_is_not_text_is_refused(kind: type[RenderedModel[Any]]) -> None:
    with pytest.raises(InvalidOption, match="api_key must be a string or None, not bytes"):
        a_model_of(kind, api_key=b"a-key")


def test_a_local_model_at_an_address_starts_no_server_and_has_the_window_of_its_profile() -> None:
    assert a_model_of(LocalModel).context_window is None
    assert a_model_of(LocalModel, base_url=None, weights=Path("my.gguf")).context_window == CONTEXT_WINDOW
    with pytest.raises(InvalidOption, match="weights and base_url exclude each other"):
        a_model_of(LocalModel, weights=Path("my.gguf"))


def test_a_missing_key_is_reported_when_the_model_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ModelError, match="OpenAI needs a key"):
        ChatModel(Profile(transport="openai-chat"), model="model-1")
