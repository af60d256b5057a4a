"""The settings of editors for the proxy that the documentation shows: each command starts an agent behind it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.integration.test_editor_settings import FENCE, INITIALIZE, command_of
from tests.programs import ROOT

# Answers the first frame with its own name, and ends with its standard input.
STUB: Final = """#!/bin/sh
read -r frame
echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentInfo":{"name":"'"${0##*/} $*"'"}}}'
while read -r frame; do :; done
"""
SETTINGS: Final = [
    pytest.param(found[1], found[2], id=f"{found[1]}-{place}")
    for place, found in enumerate(FENCE.finditer((ROOT / "docs" / "acp-proxy.md").read_text(encoding="utf-8")))
]


@pytest.mark.parametrize(("language", "block"), SETTINGS)
def test_the_command_in_the_settings_of_an_editor_starts_the_agent_behind_the_proxy(
    language: str, block: str, tmp_path: Path
) -> None:
    name, *arguments = command_of(language, block)
    agent = arguments[arguments.index("--") + 1 :]
    stub = tmp_path / agent[0]
    stub.write_text(STUB, encoding="utf-8")
    stub.chmod(0o755)
    answer = subprocess.run(
        [sys.executable, "-m", "sideband.cli", *arguments],
        input=INITIALIZE,
        capture_output=True,
        check=True,
        timeout=60,
        env={"HOME": str(tmp_path), "PATH": f"{tmp_path}:/usr/bin:/bin"},
    )
    told: dict[str, Any] = json.loads(answer.stdout)
    assert name == "sideband"
    assert told["result"]["agentInfo"]["name"].split() == agent
    assert told["result"]["agentCapabilities"]["reminders"]["inject"] is True


def test_the_page_has_settings_for_each_editor() -> None:
    assert [param.values[0] for param in SETTINGS] == ["json", "json", "json", "lua", "lua"]
