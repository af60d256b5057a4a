"""Sideband's proxy in front of an agent that compacts its conversation."""

import asyncio
from typing import Final

from tests.stock.model import Gate, Reply
from tests.stock.stage import Stage, on_agents_that_steer

COMPACT: Final = "/compact"
LONG: Final = "The conversation was about the state of things, and this is its summary. " * 5


@on_agents_that_steer
async def test_a_preserved_reminder_is_handed_over_again_after_a_compaction(stage: Stage) -> None:
    stage.model.will_reply(Reply(text="All is well."), Reply(text="All is still well."))
    async with stage.editor(knows_compaction=True) as editor:
        await editor.open_session()
        await editor.remind("Never push to main.", preserveOnCompact=True)
        await editor.remind("The build is red.")
        await editor.prompt("How are things?")
        await editor.prompt(COMPACT)
        await editor.update(lambda one: one["sessionUpdate"] == "compaction_update" and one["status"] == "completed")
        await editor.prompt("How are they now?")
    request = stage.model.requests[-1]
    prompt = next(part for part in request.parts if part.text == "How are they now?")
    # Codex also keeps what the user has said before.
    beside = [part.text for part in request.parts if part.message == prompt.message]
    assert any("Never push to main." in text for text in beside)
    assert not any("The build is red." in text for text in beside)


@on_agents_that_steer
async def test_a_reminder_ends_no_compaction(stage: Stage) -> None:
    """A reminder waits during a compaction, which an agent shows to most editors as the call of a tool."""
    gate = Gate()
    stage.model.summary = Reply(text=LONG, gate=gate)
    stage.model.will_reply(Reply(text="All is well."), Reply(text="All is still well."))
    async with stage.editor() as editor:
        await editor.open_session()
        await editor.prompt("How are things?")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(editor.prompt(COMPACT))
            await gate.reached.wait()
            await stage.remind(editor, "The build is red.")
            gate.opened.set()
        assert "failed" not in [one.get("status") for one in editor.updates]
        await editor.prompt("How are they now?")
    _, last = stage.model.requests
    assert any("The build is red." in part.text for part in last.parts)
