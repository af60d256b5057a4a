"""The options of a model, and the environment that it reads its key and its address from."""

from typing import Any

import pytest

from sideband.core.errors import InvalidOption
from sideband.core.live import LiveIndex
from sideband.models.rendered import RenderedModel
from sideband.render.profiles import Placement
from sideband.render.view import RequestView
from tests.loop_builders import AScene
from tests.loopback import a_loopback, over_sockets
from tests.model_kinds import ANTHROPIC, GOOGLE, MODEL_CLASSES, OPENAI, OPENAI_CHAT, ModelKind, a_model_of

VARIABLES = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
    "openai": ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "openai-chat": ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "google": ("GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
}
KEY_HEADERS = ("x-api-key", "authorization", "x-goog-api-key")
EVERY_SERVICE = pytest.mark.parametrize(
    "kind", [ANTHROPIC, OPENAI, OPENAI_CHAT, GOOGLE], ids=lambda kind: kind.transport
)


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_AUTH_TOKEN", "GOOGLE_API_KEY", *(name for pair in VARIABLES.values() for name in pair)):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.requirement("loop:model:environment-is-read-for-each-run")
@pytest.mark.parametrize("again", ["the-same-model", "a-model-of-the-same-name"])
@EVERY_SERVICE
@over_sockets
async def test_a_changed_variable_holds_for_the_next_run(kind: ModelKind, again: str) -> None:
    key, url = VARIABLES[kind.transport]
    name = f"{kind.transport}:{kind.models[0]}"
    with pytest.MonkeyPatch.context() as patch:
        async with a_loopback(kind.says("One.")) as first, a_loopback(kind.says("Two."), kind.says("Three.")) as second:
            patch.setenv(key, "first-key")
            patch.setenv(url, first.url + kind.base)
            model = kind.named()
            scene = AScene()
            assert (await scene.play("One?", model=model)).text == "One."
            for service, value in ((second, "first-key"), (second, "second-key")):
                patch.setenv(key, value)
                patch.setenv(url, service.url + kind.base)
                chosen = model if again == "the-same-model" else name
                await scene.play("And now?", model=chosen)
    keys = [
        [request.headers[header] for header in KEY_HEADERS if header in request.headers] for request in second.requests
    ]
    assert len(first.requests) == 1
    assert ["first-key" in str(keys[0]), "second-key" in str(keys[1])] == [True, True]


@pytest.mark.requirement("loop:model:environment-is-read-for-each-run")
@EVERY_SERVICE
@over_sockets
async def test_a_key_that_was_removed_is_missed_by_the_next_run(kind: ModelKind) -> None:
    key, _ = VARIABLES[kind.transport]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(key, "a-key")
        model = kind.named()
        patch.delenv(key)
        result = await AScene().play("One?", model=model)
    assert result.error is not None
    assert "needs a key: set the environment variable" in result.error


# The placement.

EVERY_CLASS = pytest.mark.parametrize("kind", MODEL_CLASSES)


def placement_of(model: RenderedModel[Any]) -> object:
    """The placement that goes on record with the first request."""
    view = RequestView(turn=1, system="", messages=[{"role": "user", "content": "Hi."}], tools=[], live=LiveIndex())
    head = model.plan(view).head
    assert head is not None
    return head.rendering["placement"]


@pytest.mark.requirement("render:placement:is-an-option-of-a-model")
@EVERY_CLASS
@pytest.mark.parametrize("name", ["seed", "tail", "native"])
def test_a_placement_can_be_chosen_by_its_name(kind: type[RenderedModel[Any]], name: str) -> None:
    assert (
        placement_of(a_model_of(kind, placement=name))
        == placement_of(a_model_of(kind, placement=Placement(name)))
        == name
    )


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
        a_model_of(kind, placement=given)
    assert str(refused.value).endswith(f"placement must be 'seed', 'tail', 'native' or None, {told}")
    assert refused.value.field == "placement"
