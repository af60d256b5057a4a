"""Tests on real stock agents. They take minutes and weigh 1.5 GB, so they run only if this folder is named."""

from pathlib import Path
from typing import Final

import pytest

from tests.stock.agents import BIN

_HERE: Final = Path(__file__).parent


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Whether to leave out what is in this folder: `pytest tests/stock` runs it, `pytest` and `pytest tests` do not."""
    named = (Path(argument.partition("::")[0]) for argument in config.args)
    if not any((config.invocation_params.dir / path).resolve().is_relative_to(_HERE) for path in named):
        return True
    if not BIN.exists():
        raise pytest.UsageError("the stock agents are not installed; run `make test-stock`")
    return None
