"""The official clients of ACP against our agent. Where they are not installed there are no tests: `make test-peers`
installs them.
"""

from pathlib import Path

import pytest

from tests.peers.schemas import SDK

collect_ignore_glob = [] if SDK.is_dir() else ["test_*.py"]


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
