"""Sideband's proxy in front of each stock agent: where a reminder stands in the requests to the model, and when."""

import asyncio
import re
from contextlib import suppress
from typing import Final

from tests.stock.editor import Editor
from tests.stock.model import Gate, Reply, Request
from tests.stock.stage import HeldTool, Stage, on_agents_that_steer, on_every_agent
from tests.stock.wires import Kind, Part

BY_EDITOR: Final = "The build of the editor is red."
BY_COMMAND: Final = "The tests of the command line are green."
# In the order in which they are sent.
BODIES: Final = (BY_COMMAND, BY_EDITOR)
FIRST_PROMPT: Final = "What is the state of things?"
NEXT_PROMPT: Final = "And what is it now?"
LONGER_THAN_CLAUDE_WAITS: Final = 6
LONG: Final = "The state of things is as follows, and it takes a while to say. " * 5


def the_part(request: Request, text: str) -> Part:
    """The only part with this text."""
    (found,) = (part for part in request.parts if text in part.text)
    return found


def result(request: Request) -> Part:
    (found,) = (part for part in request.parts if part.kind is Kind.RESULT)
    return found


def mentions(request: Request, text: str) -> bool:
    return any(text in part.text for part in request.parts)


def assert_marked_block(part: Part, body: str) -> None:
    """The part is the reminder and nothing else, in an element that says what it is."""
    assert part.kind is Kind.TEXT
    assert part.role == "user"
    # Claude ends a text with a line break if another one follows.
    assert re.fullmatch(rf'<([a-z]+-reminder) mark="\w+">\n{re.escape(body)}\n</\1>\n?', part.text)


def assert_in_front(request: Request, bodies: tuple[str, ...], prompt: str) -> None:
    """The reminders are parts of the user's message, in this order, and the prompt follows them unchanged."""
    last = [the_part(request, text) for text in (*bodies, prompt)]
    place = request.parts.index(last[0])
    assert [*request.parts[place : place + len(last)]] == last
    assert {part.message for part in last} == {last[-1].message}
    assert last[-1].text == prompt
    for part, body in zip(last, bodies, strict=False):
        assert_marked_block(part, body)


def assert_after_the_result(request: Request, bodies: tuple[str, ...]) -> None:
    """The reminders stand after the result of the tool, in this order, each in a part of its own."""
    last = [the_part(request, body) for body in bodies]
    assert request.parts.index(result(request)) < request.parts.index(last[0])
    assert last == [part for part in request.parts if part in last]
    for part, body in zip(last, bodies, strict=True):
        assert_marked_block(part, body)


async def remind_twice(stage: Stage, editor: Editor) -> None:
    """A reminder from another process, and one from the editor, through the proxy."""
    await stage.remind(editor, BY_COMMAND)
    await editor.remind(BY_EDITOR)


async def both_emitted(editor: Editor) -> None:
    for body in BODIES:
        await editor.emitted(body)


@on_every_agent
async def test_reminders_for_an_idle_agent_are_marked_blocks_in_front_of_the_next_prompt(stage: Stage) -> None:
    stage.model.will_reply(Reply(text="All is well."), Reply(text="All is still well."))
    async with stage.editor() as editor:
        assert editor.initialized["agentCapabilities"]["_meta"]["sideband"]["reminders"]["inject"] is True
        await editor.open_session()
        assert await editor.prompt(FIRST_PROMPT) == "end_turn"
        await remind_twice(stage, editor)
        assert await editor.prompt(NEXT_PROMPT) == "end_turn"
        await both_emitted(editor)
    first, second = stage.model.requests
    assert the_part(first, FIRST_PROMPT).text == FIRST_PROMPT
    assert_in_front(second, BODIES, NEXT_PROMPT)


@on_every_agent
async def test_reminders_while_a_tool_runs_follow_its_result_if_the_agent_steers(stage: Stage) -> None:
    tool = stage.tool("output-of-the-tool")
    calling = Reply(text="Looking.", call=stage.agent.call(tool.command))
    stage.model.will_reply(calling, Reply(text="All is well."), Reply(text="All is still well."))
    async with stage.editor() as editor:
        await editor.open_session()
        async with asyncio.TaskGroup() as tasks:
            turn = tasks.create_task(editor.prompt(FIRST_PROMPT))
            await tool.started()
            await remind_twice(stage, editor)
            await _end_tool(stage, editor, tool)
        assert turn.result() == "end_turn"
        assert await editor.prompt(NEXT_PROMPT) == "end_turn"
        await both_emitted(editor)
    _assert_after_the_tool_or_in_front(stage)


async def _end_tool(stage: Stage, editor: Editor, tool: HeldTool) -> None:
    """Let a tool end; an agent that steers has been told of the reminders before."""
    if stage.agent.steers:
        await both_emitted(editor)
    tool.end()


def _assert_after_the_tool_or_in_front(stage: Stage) -> None:
    """The reminders follow the result of the tool in the same turn, or stand in front of the next prompt."""
    _, second, third = stage.model.requests
    assert "output-of-the-tool" in result(second).text
    if stage.agent.steers:
        assert_after_the_result(second, BODIES)
        # Nothing is handed over twice.
        assert_after_the_result(third, BODIES)
        assert the_part(third, NEXT_PROMPT).text == NEXT_PROMPT
    else:
        assert not mentions(second, BY_EDITOR)
        assert_in_front(third, BODIES, NEXT_PROMPT)


@on_agents_that_steer
async def test_a_reminder_ends_no_tool(stage: Stage) -> None:
    """Claude goes on without a command that takes longer, and tells the model later that the command has ended."""
    tool = stage.tool("output-of-the-tool")
    stage.model.will_reply(Reply(call=stage.agent.call(tool.command)), Reply(text="All is well."))
    async with stage.editor() as editor:
        await editor.open_session()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(editor.prompt(FIRST_PROMPT))
            await tool.started()
            await editor.remind(BY_EDITOR)
            with suppress(TimeoutError):
                await asyncio.wait_for(stage.model.request(2), LONGER_THAN_CLAUDE_WAITS)
            tool.end()
    assert_after_the_result(stage.model.requests[1], (BY_EDITOR,))


@on_every_agent
async def test_reminders_while_a_last_reply_streams_cut_nothing_and_wait_for_the_next_prompt(stage: Stage) -> None:
    gate = Gate()
    stage.model.will_reply(Reply(text=LONG, gate=gate), Reply(text="All is still well."))
    async with stage.editor() as editor:
        await editor.open_session()
        async with asyncio.TaskGroup() as tasks:
            turn = tasks.create_task(editor.prompt(FIRST_PROMPT))
            await gate.reached.wait()
            await remind_twice(stage, editor)
            gate.opened.set()
        assert turn.result() == "end_turn"
        assert LONG in "".join(editor.texts("agent_message_chunk"))
        assert await editor.prompt(NEXT_PROMPT) == "end_turn"
    first, second = stage.model.requests
    assert first.is_answered
    assert_in_front(second, BODIES, NEXT_PROMPT)


async def _remind_while_a_call_streams(stage: Stage, gate: Gate) -> None:
    tool = stage.tool("output-of-the-tool")
    calling = Reply(text=LONG, call=stage.agent.call(tool.command), gate=gate)
    stage.model.will_reply(calling, Reply(text="All is well."), Reply(text="All is still well."))
    async with stage.editor() as editor:
        await editor.open_session()
        async with asyncio.TaskGroup() as tasks:
            turn = tasks.create_task(editor.prompt(FIRST_PROMPT))
            await gate.reached.wait()
            await remind_twice(stage, editor)
            gate.opened.set()
            await tool.started()
            await _end_tool(stage, editor, tool)
        assert turn.result() == "end_turn"
        assert LONG in "".join(editor.texts("agent_message_chunk"))
        assert await editor.prompt(NEXT_PROMPT) == "end_turn"
    assert stage.model.requests[0].is_answered
    _assert_after_the_tool_or_in_front(stage)


@on_every_agent
async def test_reminders_in_the_text_before_a_call_cut_nothing_and_wait_for_the_tool(stage: Stage) -> None:
    await _remind_while_a_call_streams(stage, Gate())


@on_every_agent
async def test_reminders_in_the_arguments_of_a_call_cut_nothing_and_wait_for_the_tool(stage: Stage) -> None:
    """Claude announces a call before its arguments are complete, and would forget the call if it were steered then."""
    await _remind_while_a_call_streams(stage, Gate(in_call=True))


@on_every_agent
async def test_an_interrupt_reaches_an_agent_that_steers_at_once(stage: Stage) -> None:
    gate = Gate()
    stage.model.will_reply(Reply(text=LONG, gate=gate), Reply(text="All is well."), Reply(text="All is still well."))
    async with stage.editor() as editor:
        await editor.open_session()
        async with asyncio.TaskGroup() as tasks:
            turn = tasks.create_task(editor.prompt(FIRST_PROMPT))
            await gate.reached.wait()
            await editor.remind(BY_EDITOR, mode="interrupt_immediate")
            if stage.agent.steers:
                steered = await stage.model.request(2)
                assert_marked_block(the_part(steered, BY_EDITOR), BY_EDITOR)
            gate.opened.set()
        assert turn.result() == "end_turn"
        assert await editor.prompt(NEXT_PROMPT) == "end_turn"
        await editor.emitted(BY_EDITOR)
    interrupted, *_, last = stage.model.requests
    assert interrupted.is_cut is stage.agent.steers
    if stage.agent.steers:
        assert the_part(last, BY_EDITOR)
    else:
        assert_in_front(last, (BY_EDITOR,), NEXT_PROMPT)


@on_every_agent
async def test_a_reminder_outlasts_the_turn_that_the_user_cancels(stage: Stage) -> None:
    gate = Gate()
    stage.model.will_reply(Reply(text=LONG, gate=gate), Reply(text="All is still well."))
    async with stage.editor() as editor:
        await editor.open_session()
        async with asyncio.TaskGroup() as tasks:
            turn = tasks.create_task(editor.prompt(FIRST_PROMPT))
            await gate.reached.wait()
            await editor.remind(BY_EDITOR)
            editor.cancel()
        assert turn.result() == "cancelled"
        assert await editor.prompt(NEXT_PROMPT) == "end_turn"
        await editor.emitted(BY_EDITOR)
    assert_in_front(stage.model.requests[-1], (BY_EDITOR,), NEXT_PROMPT)


@on_every_agent
async def test_a_loaded_session_replays_what_the_user_wrote_without_the_reminders(stage: Stage) -> None:
    tool = stage.tool("output-of-the-tool")
    calling = Reply(text="Looking.", call=stage.agent.call(tool.command))
    stage.model.will_reply(calling, Reply(text="All is well."), Reply(text="All is still well."))
    async with stage.editor() as editor:
        await editor.open_session()
        await editor.remind(BY_EDITOR)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(editor.prompt(FIRST_PROMPT))
            await tool.started()
            await stage.remind(editor, BY_COMMAND)
            if stage.agent.steers:
                await editor.emitted(BY_COMMAND)
            tool.end()
        await editor.prompt(NEXT_PROMPT)
    assert mentions(stage.model.requests[0], BY_EDITOR)
    assert mentions(stage.model.requests[-1], BY_COMMAND)
    session_id = editor.session_id
    stage.agent.before_load(stage.place.home)
    async with stage.editor() as editor:
        await editor.load_session(session_id)
        # Gemini goes on with the replay after its answer, and replays texts of its own as the user's.
        await editor.update(lambda one: one["sessionUpdate"] == "user_message_chunk" and NEXT_PROMPT in repr(one))
        said = [text for text in editor.texts("user_message_chunk") if FIRST_PROMPT in text or NEXT_PROMPT in text]
        assert said == [FIRST_PROMPT, NEXT_PROMPT]
        replayed = repr(editor.updates)
        assert BY_EDITOR not in replayed
        assert BY_COMMAND not in replayed
        await editor.remind("The disk is full.")
        assert await editor.prompt("What next?") == "end_turn"
    assert_in_front(stage.model.requests[-1], ("The disk is full.",), "What next?")
