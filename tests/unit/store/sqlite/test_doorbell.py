"""Waking other processes: by a socket beside the file, which also shows whether its process is alive."""

import os
import socket
from pathlib import Path

import pytest

from sideband.store.sqlite import SqliteSettings, doorbell
from sideband.store.sqlite.doorbell import LONGEST_PATH, Doorbell, directory_for
from tests.unit.store.twins import SqliteTwin, a_start, played


def a_bell(store: Path) -> Doorbell:
    bell = Doorbell.beside(store)
    assert bell is not None
    return bell


def is_rung(bell: Doorbell) -> bool:
    try:
        bell._bell.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    return True


def a_dead_bell(directory: Path, name: str) -> None:
    """The socket file that a killed process leaves."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as gone:
        gone.bind(str(directory / name))


def test_every_other_process_is_woken_once_for_one_read(tmp_path: Path) -> None:
    bells = [a_bell(tmp_path / "store.db") for _ in range(3)]
    for _ in range(1_000):
        assert bells[0].ring_others() == [], "not even a full queue is a death"
    assert [is_rung(bell) for bell in bells] == [False, True, True]
    bells[1].answer()
    assert not is_rung(bells[1])
    for bell in bells:
        bell.close()
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_comes_later_is_rung_too(tmp_path: Path) -> None:
    first = a_bell(tmp_path / "store.db")
    first.ring_others()
    second = a_bell(tmp_path / "store.db")
    first.ring_others()
    assert is_rung(second)
    second.close()
    assert first.ring_others() == []
    first.close()


def test_only_a_process_that_surely_died_is_dead(tmp_path: Path) -> None:
    mine, other = a_bell(tmp_path / "store.db"), a_bell(tmp_path / "store.db")
    a_dead_bell(tmp_path / "store.db-wake", "killed")
    assert [mine.is_dead(name) for name in (other.address, "killed", "never-there", "")] == [False, True, False, False]
    assert mine.ring_others() == ["killed"]
    mine.remove("killed")
    assert mine.ring_others() == []
    other.close()
    mine.close()


def test_a_path_that_is_too_long_for_a_socket_has_one_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    deep = tmp_path / ("d" * LONGEST_PATH)
    deep.mkdir()
    elsewhere = directory_for(deep / "store.db")
    assert elsewhere.parent == tmp_path
    assert elsewhere != directory_for(deep / "other.db")
    if len(os.fsencode(elsewhere)) < LONGEST_PATH - doorbell.NAME_LETTERS:
        bell = a_bell(deep / "store.db")
        assert [path.name for path in elsewhere.iterdir()] == [bell.address]
        bell.close()


def test_where_no_socket_can_be_news_is_found_by_looking(sqlite: SqliteTwin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doorbell, "directory_for", lambda store: store / "not-a-directory")
    assert Doorbell.beside(sqlite.path) is None

    async def story() -> None:
        quick = SqliteSettings(poll_seconds=0.01)
        async with sqlite.open(quick) as here, sqlite.open(quick) as there:
            await here.open("s")
            wake = here.wake("s")
            await there.commit("s", a_start)
            await wake.wait()
            assert here.state("s").running

    played(story)


def test_a_directory_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "store.db-wake").mkdir()
    monkeypatch.setattr(os, "getuid", lambda: 12_345_678)
    assert Doorbell.beside(tmp_path / "store.db") is None


def test_a_directory_that_others_could_enter_is_made_private(tmp_path: Path) -> None:
    (tmp_path / "store.db-wake").mkdir(mode=0o755)
    bell = a_bell(tmp_path / "store.db")
    assert (tmp_path / "store.db-wake").stat().st_mode & 0o777 == 0o700
    bell.close()
