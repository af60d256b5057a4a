"""Models by name, and what is reported when one cannot be made."""

import asyncio
import sys
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import pytest

import sideband as sb
from sideband.core.errors import InvalidOption
from sideband.core.messages import Reply
from sideband.models.anthropic import AnthropicModel
from sideband.models.gemini import GeminiModel
from sideband.models.local import LocalModel
from sideband.models.openai import ChatModel, ResponsesModel
from sideband.models.rendered import RenderedModel
from sideband.models.scripted import ScriptedModel
from sideband.ports import ModelError, OnText
from sideband.render.plan import Plan
from sideband.render.profiles import Wire
from sideband.render.view import RequestView
from sideband.runtime.agents import llm_call
from sideband.runtime.models import TRANSPORTS, read_model
from tests.programs import run_python

VARIABLES = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY")
ALL_VARIABLES = (
    *VARIABLES,
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_PROFILE",
    "GEMINI_API_KEY",
    "OPENAI_COMPATIBLE_URL",
    "OPENAI_COMPATIBLE_KEY",
)


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ALL_VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, "a-key")
    monkeypatch.setenv("OPENAI_COMPATIBLE_URL", "http://127.0.0.1:9/v1")


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize(
    ("model", "kind", "wire"),
    [
        pytest.param("anthropic:claude-opus-5", AnthropicModel, Wire.ANTHROPIC, id="anthropic"),
        pytest.param("openai:gpt-6", ResponsesModel, Wire.OPENAI_RESPONSES, id="openai-is-responses"),
        pytest.param("openai-chat:gpt-6", ChatModel, Wire.OPENAI_CHAT, id="openai-chat"),
        pytest.param("google:gemini-3.8-flash", GeminiModel, Wire.GEMINI, id="google"),
        pytest.param("openai-compatible:unheard-of", ChatModel, Wire.GENERIC, id="openai-compatible"),
    ],
)
def test_a_string_names_a_transport_and_a_model(model: str, kind: type[RenderedModel[Any]], wire: Wire) -> None:
    read = read_model(model)
    assert isinstance(read, kind)
    assert read.model == model.partition(":")[2]
    assert read.profile.wire is wire
    assert read.context_window == read.profile.context_window


@pytest.mark.usefixtures("keys")
def test_a_name_may_have_colons() -> None:
    read = read_model("openai-compatible:qwen3:8b")
    assert isinstance(read, ChatModel)
    assert read.model == "qwen3:8b"


def test_scripted_answers_its_text_to_everything() -> None:
    assert isinstance(read_model("scripted:Hello."), ScriptedModel)


def test_a_model_object_is_that_model() -> None:
    model = ScriptedModel()
    assert read_model(model) is model


@pytest.mark.parametrize("model", ["", "claude-opus-5", "antropic:claude-opus-5", ":x"])
def test_an_unknown_transport_is_refused_with_a_list_of_those_there_are(model: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        read_model(model)
    assert all(form in str(refused.value) for form in TRANSPORTS.values())
    assert refused.value.field == "model"


@pytest.mark.parametrize("transport", ["anthropic", "openai", "openai-chat", "google", "openai-compatible"])
def test_a_transport_without_a_model_is_refused(transport: str) -> None:
    with pytest.raises(InvalidOption, match=f"write '{transport}:NAME'"):
        read_model(f"{transport}:")


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (
            "anthropic:claude-opus-5",
            "Anthropic needs a key: set the environment variable ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN or ANTHROPIC_PROFILE, or pass api_key",
        ),
        ("openai:gpt-6", "OpenAI needs a key: set the environment variable OPENAI_API_KEY, or pass api_key"),
        ("openai-chat:gpt-6", "OpenAI needs a key: set the environment variable OPENAI_API_KEY, or pass api_key"),
        (
            "google:gemini-3.8-flash",
            "Google needs a key: set the environment variable GOOGLE_API_KEY or GEMINI_API_KEY, or pass api_key",
        ),
        (
            "openai-compatible:x",
            (
                "the address of the OpenAI-compatible server is not set: pass base_url, or set the environment variable "
                "OPENAI_COMPATIBLE_URL"
            ),
        ),
    ],
)
def test_what_is_missing_in_the_environment_is_one_sentence(model: str, sentence: str) -> None:
    with pytest.raises(ModelError) as refused:
        read_model(model)
    assert str(refused.value) == sentence


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize(
    ("model", "module", "library"),
    [
        ("anthropic:claude-opus-5", "sideband.models.anthropic", "anthropic"),
        ("openai:gpt-6", "sideband.models.openai", "openai"),
        ("google:gemini-3.8-flash", "sideband.models.gemini", "google.genai"),
    ],
)
def test_a_library_that_is_not_installed_is_one_sentence_that_names_the_extra(
    model: str, module: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, library, None)
    if library == "google.genai":
        monkeypatch.delattr("google.genai")
    with pytest.raises(ModelError, match=r"not installed, and this model needs it: pip install 'sideband\[models\]'"):
        read_model(model)


def test_the_local_model_knows_its_window_and_that_its_prefix_is_cached(tmp_path: Path) -> None:
    weights = tmp_path / "Qwen3-0.6B.gguf"
    weights.touch()
    read = read_model(f"local:{weights}")
    assert isinstance(read, LocalModel)
    assert (read.model, read.profile.transport, read.profile.kv_prefix) == ("qwen3-0.6b", "local", True)
    assert read.context_window == 8_192


def test_weights_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidOption, match=r"the file with the weights of the model, '.*nothing\.gguf', does not exist"
    ):
        read_model(f"local:{tmp_path / 'nothing.gguf'}")


@pytest.mark.parametrize("model", [None, 3, object()])
def test_what_is_no_model_is_refused(model: Any) -> None:  # noqa: ANN401 - any value
    with pytest.raises(
        InvalidOption, match=r"model must be a string like 'anthropic:NAME' or have plan\(\) and complete\(\)"
    ):
        read_model(model)


@pytest.mark.parametrize(
    "url", ["localhost:8080/v1", "http://[::1", "ftp://host/v1", "http:///v1", "http://host:port/v1", "nonsense"]
)
def test_what_is_no_address_of_a_server_is_one_sentence(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_COMPATIBLE_URL", url)
    with pytest.raises(ModelError) as refused:
        read_model("openai-compatible:x")
    assert str(refused.value) == (
        "base_url or OPENAI_COMPATIBLE_URL is not the address of a server: set it to one like http://127.0.0.1:8080/v1"
    )


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize(
    ("model", "variable"),
    [
        ("anthropic:claude-opus-5", "ANTHROPIC_API_KEY"),
        ("openai:gpt-6", "OPENAI_API_KEY"),
        ("google:gemini-3.8-flash", "GOOGLE_API_KEY"),
        ("openai-compatible:x", "OPENAI_COMPATIBLE_KEY"),
    ],
)
def test_a_key_that_could_not_be_sent_is_named_by_its_variable_and_never_quoted(
    model: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "secret\n")
    with pytest.raises(ModelError, match=f"set the environment variable {variable} again") as refused:
        read_model(model)
    assert "secret" not in str(refused.value)


def test_a_library_of_another_version_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", ModuleType("openai"))
    for name in ("sideband.models.openai", "sideband.models.local"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(ModelError, match=r"needs another version of its package: pip install -U 'sideband\[models\]'"):
        read_model("openai:gpt-6")


def test_a_local_model_is_the_bundled_one_or_a_file() -> None:
    with pytest.raises(InvalidOption, match=r"there is no local model 'qwen'; write 'local:' or 'local:FILE.gguf'"):
        read_model("local:qwen")


def test_a_password_in_an_address_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_COMPATIBLE_URL", "http://me:secret@127.0.0.1:9/v1")
    model = read_model("openai-compatible:x")
    assert isinstance(model, ChatModel)
    with pytest.raises(ModelError) as failed:
        asyncio.run(llm_call("Hi.", model=model))
    assert str(failed.value).startswith("the server at 127.0.0.1:9 cannot be reached")
    assert "secret" not in str(failed.value)


def test_nothing_of_a_library_is_loaded_before_a_model_is_asked_for() -> None:
    code = """
        import sys
        import sideband
        from sideband.runtime.models import read_model
        read_model("scripted:x")
        print(sorted({"anthropic", "openai", "google.genai", "httpx2", "pydantic"} & set(sys.modules)))
    """
    assert run_python("-c", dedent(code)).stdout.strip() == "[]"


def test_a_model_needs_no_context_window() -> None:
    class Parrot:
        def plan(self, view: RequestView) -> Plan:
            return ScriptedModel().plan(view)

        async def complete(self, plan: Plan, on_text: OnText | None = None) -> Reply:
            assert (plan.request is None, on_text) == (False, None)
            return Reply(text="Hello.")

    parrot: Any = Parrot()
    assert asyncio.run(sb.agent_loop("Hello", model=parrot)).text == "Hello."
