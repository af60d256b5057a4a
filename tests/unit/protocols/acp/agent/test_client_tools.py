"""How a tool waits for a client, and how a client tells the end of a command."""

import asyncio
from typing import Any

import pytest

from sideband.protocols.acp.agent.client_tools import ClientEditor, _code
from sideband.tools.tool import Halt, Halted
from tests.acp_editor import on_pipes
from tests.waiting import until


@on_pipes
async def test_a_halted_thread_stops_waiting_and_takes_its_question_back() -> None:
    taken_back = asyncio.Event()

    async def ask() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            taken_back.set()

    halt = Halt()
    waiting = asyncio.ensure_future(asyncio.to_thread(ClientEditor([], "s", "/")._wait, ask(), halt))
    await until(lambda: halt._stops)
    halt.set()
    with pytest.raises(Halted):
        await waiting
    await taken_back.wait()


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
