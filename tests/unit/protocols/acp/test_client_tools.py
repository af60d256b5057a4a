"""How a client tells the end of a command."""

from typing import Any

import pytest

from sideband.protocols.acp.client_tools import _code


@pytest.mark.parametrize(
    ("status", "code"),
    [
        pytest.param({"exitCode": 0}, 0, id="success"),
        pytest.param({"exitCode": 3, "signal": None}, 3, id="failure"),
        pytest.param({"exitCode": None, "signal": "SIGTERM"}, -15, id="signal"),
        pytest.param({"signal": "term"}, -15, id="signal-without-its-prefix"),
        pytest.param({"signal": "9"}, -9, id="number-of-a-signal"),
        pytest.param({"exitCode": 137, "signal": "lightning"}, 137, id="unknown-signal"),
        pytest.param({}, None, id="neither"),
        pytest.param({"exitCode": True}, None, id="no-number"),
    ],
)
def test_an_exit_status_is_read_as_a_code(status: dict[str, Any], code: int | None) -> None:
    assert _code(status) == code
