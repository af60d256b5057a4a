"""`sideband mcp`: how it ends, and what it says about wrong options."""

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sideband.cli import mcp
from tests.programs import ROOT


@pytest.fixture
def end_of_input() -> None:
    """Standard input at its end, as pytest sets it up."""
    assert os.path.samestat(os.fstat(0), os.stat(os.devnull))  # noqa: PTH116 - of descriptors


@pytest.mark.usefixtures("end_of_input")
@pytest.mark.parametrize(
    "start",
    [
        pytest.param(mcp.watch_files, id="files"),
        pytest.param(lambda folder: mcp.watch_command("true", watch=folder, name="build"), id="command"),
        pytest.param(lambda folder: mcp.watch_tests("pytest", watch=folder), id="tests"),
        pytest.param(lambda _folder: mcp.watch_git(ROOT), id="git"),
    ],
)
def test_a_server_ends_with_0_at_the_end_of_its_input(
    start: Callable[[Path], int], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert start(tmp_path) == 0
    assert capfd.readouterr() == ("", "")


def test_a_server_over_http_says_where_it_listens_and_ends_at_a_signal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    told: list[str] = []

    def interrupt() -> None:
        pause = threading.Event()
        while "listening on" not in (text := capfd.readouterr().err):
            pause.wait(0.01)
        told.append(text)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=interrupt, daemon=True)
    thread.start()
    assert mcp.watch_files(tmp_path, http="[::1]:0") == 0
    thread.join()
    assert told[0].startswith("listening on http://[::1]:")


@pytest.mark.parametrize(
    ("start", "message"),
    [
        pytest.param(
            lambda: mcp.watch_files(Path("/nope")),
            "PATH must be a directory or a file that exists, not '/nope'",
            id="no-such-folder",
        ),
        pytest.param(lambda: mcp.watch_git(Path("/nope")), "PATH must be a directory", id="no-such-repository"),
        pytest.param(mcp.watch_command, "no command is given; write it after --", id="no-command"),
        pytest.param(mcp.watch_tests, "no command is given; write it after --", id="no-tests"),
        pytest.param(lambda: mcp.watch_tests("true"), "--junit must name the file", id="tests-without-results"),
        pytest.param(lambda: mcp.watch_command("true", name="a b"), "--name must have 1 to 64", id="name-with-a-blank"),
        pytest.param(
            lambda: mcp.watch_command("true", watch=Path("/nope")), "--watch must be a directory", id="watch-nothing"
        ),
        pytest.param(lambda: mcp.watch_files(http="8931"), "--http must be HOST:PORT", id="port-alone"),
        pytest.param(lambda: mcp.watch_files(http="127.0.0.1:x"), "--http must be HOST:PORT", id="port-in-letters"),
        pytest.param(lambda: mcp.watch_files(http="127.0.0.1:99999"), "--http must be HOST:PORT", id="port-too-large"),
        pytest.param(lambda: mcp.watch_files(http="0.0.0.0:0"), "--http serves without", id="open-to-other-machines"),
    ],
)
def test_a_wrong_option_is_named_as_it_is_written(
    start: Callable[[], int], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert start() == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"error: {message}")
    assert said.err.count("\n") == 1
