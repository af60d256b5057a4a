"""A2A servers of others, which know nothing of reminders."""

from pathlib import Path

import pytest

from tests.peers.a2a_peers import BODY, REMINDERS, WORDS, Refused, a_client, a_foreign_server, in_time, inject, state


@pytest.mark.parametrize(
    ("server", "binding", "answer"),
    [
        pytest.param("adk-server", "JSONRPC", "The ADK has answered.", id="adk"),
        pytest.param("javascript-server", "JSONRPC", f"You said: {WORDS}", id="javascript"),
        pytest.param("javascript-server", "HTTP+JSON", f"You said: {WORDS}", id="javascript-http"),
    ],
)
@in_time
async def test_it_refuses_a_reminder_as_an_unknown_method_and_serves_the_task(
    server: str, binding: str, answer: str, tmp_path: Path
) -> None:
    async with (
        a_foreign_server(server, home=tmp_path) as url,
        a_client("python", url, binding, home=tmp_path) as client,
    ):
        stream = client.stream(WORDS, REMINDERS)
        task_id = await stream.task_id()
        await stream.end()
        assert stream.states()[-1] == "completed"
        assert stream.said() == answer
        card = await client.do(card=True)
        assert REMINDERS not in [one["uri"] for one in card["capabilities"].get("extensions", [])]
        with pytest.raises(Refused) as refused:
            await inject(url, task_id, body=BODY)
        assert refused.value.code == -32601
        assert state(await client.do(get=task_id)) == "completed"


@in_time
async def test_a_running_task_of_the_javascript_server_is_not_disturbed_by_a_refused_reminder(tmp_path: Path) -> None:
    async with (
        a_foreign_server("javascript-server", home=tmp_path) as url,
        a_client("python", url, "JSONRPC", home=tmp_path) as client,
    ):
        stream = client.stream("wait")
        task_id = await stream.task_id()
        await stream.until(lambda: stream.states()[-1] == "working")
        with pytest.raises(Refused) as refused:
            await inject(url, task_id, body=BODY)
        assert refused.value.code == -32601
        assert state(await client.do(cancel=task_id)) == "canceled"
        await stream.end()
        assert stream.states()[-1] == "canceled"
