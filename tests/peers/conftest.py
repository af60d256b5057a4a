"""Official clients and servers of ACP, MCP and A2A against ours. Where they are not installed there are no tests:
`make test-peers` installs them.
"""

from pathlib import Path
from typing import Final

import pytest

from tests.peers.schemas import PACKAGES, SDK
from tests.programs import ROOT

_HERE: Final = Path(__file__).parent
# The conformance suite takes minutes.
_ONLY_IF_NAMED: Final = _HERE / "test_mcp_conformance.py"
_MCP: Final = PACKAGES / "@modelcontextprotocol"

collect_ignore_glob = [] if SDK.is_dir() else ["test_*.py"]
if not _MCP.is_dir():
    collect_ignore_glob += ["test_mcp_*.py"]
if not (ROOT / "build" / "mcp-langchain" / ".installed").exists():
    collect_ignore_glob += ["test_mcp_frameworks.py"]
if not (ROOT / "build" / "a2a-adk" / ".installed").exists():
    collect_ignore_glob += ["test_a2a_*.py"]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Whether to leave a file out: `pytest tests/peers` runs everything, `pytest` and `pytest tests` do not."""
    named = (config.invocation_params.dir / argument.partition("::")[0] for argument in config.args)
    if collection_path == _ONLY_IF_NAMED and not any(path.resolve().is_relative_to(_HERE) for path in named):
        return True
    return None


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """The folder that the agent works in."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home of the user, which is empty."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder
