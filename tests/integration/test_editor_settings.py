"""The settings of editors that the documentation shows: each command starts an agent that answers."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.programs import ROOT

FENCE: Final = re.compile(r"^```(json|lua|elisp)\n(.*?)^```", re.MULTILINE | re.DOTALL)
TEXT: Final = re.compile(r'"([^"]*)"')
INITIALIZE: Final = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'


def command_of(language: str, block: str) -> list[str]:
    """The command that an editor with these settings would start."""
    if language == "json":
        (server,) = json.loads(block)["agent_servers"].values()
        return [server["command"], *server["args"]]
    if language == "elisp":
        command = re.search(r":command (\S+)", block)
        params = re.search(r":command-params '\(([^)]*)\)", block)
        assert command is not None
        assert params is not None
        return [*TEXT.findall(command[1]), *TEXT.findall(params[1])]
    if (default := re.search(r"default = \{([^}]*)\}", block)) is not None:
        return TEXT.findall(default[1])
    found = re.search(r'command = ("[^"]*"), args = \{([^}]*)\}', block)
    assert found is not None
    return [*TEXT.findall(found[1]), *TEXT.findall(found[2])]


SETTINGS: Final = [
    pytest.param(found[1], found[2], id=f"{found[1]}-{place}")
    for place, found in enumerate(FENCE.finditer((ROOT / "docs" / "acp.md").read_text(encoding="utf-8")))
]


@pytest.mark.parametrize(("language", "block"), SETTINGS)
def test_the_command_in_the_settings_of_an_editor_starts_the_agent(language: str, block: str, tmp_path: Path) -> None:
    name, *arguments = command_of(language, block)
    assert name == "sideband", shlex.join([name, *arguments])
    answer = subprocess.run(
        [sys.executable, "-m", "sideband.cli", *arguments],
        input=INITIALIZE,
        capture_output=True,
        check=True,
        timeout=60,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    told: dict[str, Any] = json.loads(answer.stdout)
    assert told["result"]["agentInfo"]["name"] == "sideband"


def test_the_page_has_the_settings_of_each_editor() -> None:
    assert [param.values[0] for param in SETTINGS] == ["json", "lua", "lua", "elisp"]
