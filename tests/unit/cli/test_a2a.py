"""`sideband a2a`: how it serves and ends, and what it says about wrong options."""

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from sideband.cli.a2a import a2a
from sideband.cli.listen import listen, url_of
from sideband.inspect.report import CommandError
from tests.programs import ROOT


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without a store, a token and a model."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("SIDEBAND_STORE", raising=False)
    for variable in ("SIDEBAND_MODEL", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_it_is_reached_and_ends_with_0_at_a_signal(home: Path, host: str, stop: signal.Signals) -> None:
    command = [sys.executable, "-m", "sideband.cli", "a2a", "--port", "0", "--host", host, "--model", "scripted:Done."]
    with subprocess.Popen(
        [*command, "--name", "worker"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"A2A agent worker: (http://\S+)", line)
        assert found is not None
        with urllib.request.urlopen(f"{found[1]}/.well-known/agent-card.json", timeout=10) as answer:  # noqa: S310 - ours
            assert b'"worker"' in answer.read()
        process.send_signal(stop)
        _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")
    token = home / "data" / "sideband" / "token"
    assert token.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("options", "says"),
    [
        pytest.param({}, "no model is named", id="no-model"),
        pytest.param({"model": "gpt"}, "name a model in one of these forms", id="bad-model"),
        pytest.param({"model": "anthropic:claude-opus-5", "port": 0}, "ANTHROPIC_API_KEY", id="no-key"),
        pytest.param({"model": "scripted:x", "workspace": "missing"}, "--workspace must be a folder", id="no-folder"),
        pytest.param({"model": "scripted:x", "trust": "full"}, "'ceilings' or 'seed'", id="bad-trust"),
        pytest.param({"model": "scripted:x", "peers": "missing.toml"}, "cannot be read", id="no-file"),
        pytest.param(
            {"model": "scripted:x", "url": "example.org", "port": 0}, "--url must be an address", id="bad-url"
        ),
        pytest.param(
            {"model": "scripted:x", "url": "http://u:p@localhost", "port": 0}, "without a password", id="user"
        ),
        pytest.param({"model": "scripted:x", "url": "https://a.example", "port": 0}, "needs --peers FILE", id="public"),
        pytest.param({"model": "scripted:x", "name": " "}, "--name must not be blank", id="no-name"),
        pytest.param({"model": "scripted:x", "mcp_config": "missing.json"}, "missing.json", id="no-mcp-file"),
    ],
)
@pytest.mark.usefixtures("home")
def test_a_wrong_option_is_refused(options: dict[str, Any], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert a2a(**options) == 2
    assert says in capsys.readouterr().err


@pytest.mark.usefixtures("home")
def test_a_port_in_use_is_refused_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert a2a(model="scripted:x", port=taken.getsockname()[1]) == 2
    assert "is in use; choose another one with --port, or --port 0" in capsys.readouterr().err


def test_an_address_that_cannot_be_used_is_refused() -> None:
    with pytest.raises(CommandError, match="cannot be used"):
        listen("192.0.2.1", 0, remedy="choose another one")


def test_the_address_of_a_socket_can_be_written_into_a_browser() -> None:
    with listen("::1", 0, remedy="") as listening:
        port = listening.getsockname()[1]
        assert url_of(listening, "::1") == f"http://[::1]:{port}"


def test_an_interrupt_before_the_server_is_ready_is_a_normal_end(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert os.environ["XDG_DATA_HOME"].startswith(str(home))

    def interrupted(_main: Any) -> None:  # noqa: ANN401 - a coroutine
        _main.close()
        raise KeyboardInterrupt

    monkeypatch.setattr("asyncio.run", interrupted)
    assert a2a(model="scripted:x", port=0) == 0


@pytest.mark.usefixtures("home")
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "a2a.types", None)
    monkeypatch.delitem(sys.modules, "sideband.protocols.a2a.server", raising=False)
    monkeypatch.delitem(sys.modules, "sideband.protocols.a2a.handler", raising=False)
    monkeypatch.delitem(sys.modules, "sideband.protocols.a2a.tasks", raising=False)
    monkeypatch.delitem(sys.modules, "sideband.protocols.a2a.content", raising=False)
    monkeypatch.delitem(sys.modules, "sideband.protocols.a2a.card", raising=False)
    assert a2a(model="scripted:x", port=0) == 2
    assert "pip install 'sideband[a2a,serve]'" in capsys.readouterr().err
