"""Without the proxy: each stock agent runs a turn on the model of the test."""

import asyncio

from tests.stock.model import Reply
from tests.stock.stage import Stage, on_every_agent
from tests.stock.wires import Kind


@on_every_agent
async def test_a_turn_runs_a_tool_and_ends_with_the_reply_after_its_result(stage: Stage) -> None:
    tool = stage.tool("tool-output")
    stage.model.will_reply(Reply(text="Calling.", call=stage.agent.call(tool.command)), Reply(text="All is done."))
    async with stage.editor(proxied=False) as editor:
        await editor.open_session()
        async with asyncio.TaskGroup() as tasks:
            turn = tasks.create_task(editor.prompt("Run the tool."))
            await tool.started()
            tool.end()
        assert turn.result() == "end_turn"
        first, second = stage.model.requests
        assert any("Run the tool." in part.text for part in first.parts)
        assert any("tool-output" in part.text for part in second.parts if part.kind is Kind.RESULT)
        assert "All is done." in "".join(editor.texts("agent_message_chunk"))
