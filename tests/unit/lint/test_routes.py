"""Routes: which models keep a role hint that names a shape."""

import pytest

from sideband.core.reminder import RoleHint
from sideband.lint.routes import KEEPS_SHAPES, SHAPED_HINTS, is_route, loses_hint
from sideband.runtime.profiles import load_profiles


def test_only_anthropic_has_the_shapes() -> None:
    keeping = [transport for transport, keeps in KEEPS_SHAPES.items() if keeps]
    assert keeping == [transport for transport in KEEPS_SHAPES if transport.startswith("anthropic")]


def test_every_transport_with_a_profile_is_a_route() -> None:
    assert set(load_profiles().transports) <= set(KEEPS_SHAPES)


@pytest.mark.parametrize("model", [*(f"{transport}:some-model" for transport in KEEPS_SHAPES), "local:", "scripted:"])
def test_a_transport_and_a_model_are_a_route(model: str) -> None:
    assert is_route(model)


@pytest.mark.parametrize("model", ["", "gpt-5.6", "openai", "openai:", ":gpt", "bedrock:claude", "OPENAI:gpt"])
def test_anything_else_is_none(model: str) -> None:
    assert not is_route(model)


@pytest.mark.parametrize(
    ("models", "lost"),
    [
        pytest.param((), None, id="no-model"),
        pytest.param(("gpt-5.6",), None, id="no-route"),
        pytest.param(("anthropic:claude-opus-5",), None, id="kept"),
        pytest.param(("openai:gpt-5.6",), "openai:gpt-5.6", id="lost"),
        pytest.param(("google:gemini", "local:llama"), "google:gemini", id="lost-on-both"),
        pytest.param(("openai:gpt-5.6", "anthropic:claude-opus-5"), None, id="kept-on-one"),
        pytest.param(("unknown", "openai:gpt-5.6"), "openai:gpt-5.6", id="the-unknown-one-does-not-count"),
    ],
)
def test_a_hint_is_lost_where_no_route_keeps_it(models: tuple[str, ...], lost: str | None) -> None:
    assert {loses_hint(hint, models) for hint in SHAPED_HINTS} == {lost}
    assert {loses_hint(hint, models) for hint in (RoleHint.SYSTEM, RoleHint.DEVELOPER, 3, None)} == {None}
