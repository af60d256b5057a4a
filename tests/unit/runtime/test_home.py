"""The user's store: which address it has, and that it is the user's alone."""

import asyncio
import stat
import sys
from pathlib import Path

import pytest

import sideband as sb
from sideband.core.errors import StoreRefused
from sideband.runtime.home import operator_token, read_operator_token, token_file, user_file, user_store_url


@pytest.fixture(autouse=True)
def no_store_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SIDEBAND_STORE", raising=False)


@pytest.mark.parametrize("named", ["sqlite:///here.db", "postgresql://host/name"])
def test_the_environment_names_another_store(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIDEBAND_STORE", named)
    assert user_store_url() == named


@pytest.mark.parametrize("named", ["", "  ", "user:"])
def test_an_environment_that_names_none_leaves_the_default(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIDEBAND_STORE", named)
    assert user_store_url() == f"sqlite:///{user_file()}"


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        pytest.param("linux", {}, "home/.local/share", id="linux"),
        pytest.param("linux", {"XDG_DATA_HOME": "data"}, "data", id="linux-with-a-data-directory"),
        pytest.param("darwin", {"XDG_DATA_HOME": "data"}, "home/Library/Application Support", id="macos"),
        pytest.param("win32", {"LOCALAPPDATA": "local"}, "local", id="windows"),
        pytest.param("win32", {}, "home/AppData/Local", id="windows-without-its-variable"),
    ],
)
def test_the_default_is_a_file_in_the_data_directory_of_the_platform(
    platform: str, variables: dict[str, str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_DATA_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, str(tmp_path / value))
    assert user_file() == tmp_path / expected / "sideband" / "sideband.db"


def test_a_relative_data_directory_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", "data")
    assert user_file().is_relative_to(tmp_path)


def test_opening_makes_a_directory_and_a_file_that_only_the_user_can_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "new" / "data"))

    async def story() -> None:
        store = sb.open_store("user:")
        assert not (tmp_path / "new").exists()
        async with store:
            await store.begin("s")

    asyncio.run(story())
    assert stat.S_IMODE(user_file().parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(user_file().stat().st_mode) == 0o600


def test_another_file_needs_its_directory(tmp_path: Path) -> None:
    async def story() -> None:
        async with sb.open_store(f"sqlite:///{tmp_path / 'missing' / 'sideband.db'}"):
            pass

    with pytest.raises(StoreRefused, match="there is no directory"):
        asyncio.run(story())


def test_a_user_without_a_home_is_told_what_to_do_and_can_use_other_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def homeless() -> Path:
        raise RuntimeError

    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(StoreRefused, match=r"name a store in \$SIDEBAND_STORE"):
        sb.open_store("user:")

    async def story() -> None:
        async with sb.open_store(f"sqlite:///{tmp_path / 'store.db'}") as store:
            await store.begin("s")

    asyncio.run(story())


# The operator's token.


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.usefixtures("data")
def test_a_token_is_made_once_and_only_its_owner_can_read_it() -> None:
    assert read_operator_token() is None
    token = operator_token()
    assert len(token) >= 32
    assert operator_token() == read_operator_token() == token
    assert stat.S_IMODE(token_file().stat().st_mode) == 0o600
    assert [file.name for file in token_file().parent.iterdir()] == ["token"]


@pytest.mark.usefixtures("data")
def test_an_empty_token_is_none() -> None:
    write_token(b"\n", mode=0o600)
    assert read_operator_token() is None
    with pytest.raises(StoreRefused, match="delete it"):
        operator_token()


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize(
    ("content", "mode", "why"),
    [
        pytest.param(b"a-token", 0o644, "other users can read the token in", id="that-others-can-read"),
        pytest.param(b"a token", 0o600, "holds no token", id="with-a-space"),
        pytest.param(b"\xff\xfe", 0o600, "holds no token", id="that-is-no-text"),
    ],
)
def test_a_token_is_not_used(content: bytes, mode: int, why: str) -> None:
    write_token(content, mode=mode)
    with pytest.raises(StoreRefused, match=why):
        operator_token()


def write_token(content: bytes, *, mode: int) -> None:
    token_file().parent.mkdir(parents=True)
    token_file().write_bytes(content)
    token_file().chmod(mode)
