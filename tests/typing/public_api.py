"""Uses of the public functions as a type checker sees them. Each line that ends in `# error` is wrong, and no other is.

This file is never run: `tests/conformance/test_types.py` gives it to mypy and pyright.
"""

from pathlib import Path
from typing import Any, assert_type

import sideband as sb


class Search:
    """A tool that a program has written."""

    name = "search"
    description = "Search."
    parameters: dict[str, Any] = {"type": "object"}
    idempotent = True

    async def call(self, args: Any, context: sb.ToolContext) -> sb.ToolOutput:
        return sb.ToolOutput(text=f"{args} {context.call_id}")


# Tools.


def forecast(city: str, days: int = 3) -> str:
    return f"{city} {days}"


@sb.tool
def add(a: int, b: int) -> int:
    return a + b


@sb.tool(name="look-up", idempotent=True, seconds=5)
async def look_up(number: int, context: sb.ToolContext) -> dict[str, int]:
    return {context.call_id: number}


assert_type(add(1, b=2), int)
add("1", 2)  # error
add(1)  # error
sb.tool(forecast, seconds="5")  # error
sb.tool(forecast, idempotant=True)  # error
sb.tool(5)  # error


def accepts(tool: sb.Tool) -> None: ...


accepts(add)
accepts(look_up)
accepts(Search())
accepts(forecast)  # error


# Sessions.


async def remind(session: sb.Session) -> None:
    accepted = await session.remind(
        "The build is red.",
        tags=["build"],
        dedupe_key="build",
        ttl_turns=2,
        preserve_on_compact=True,
        propagate="all",
        role_hint="developer",
        mode="interrupt_immediate",
    )
    assert_type(accepted, sb.Accepted)
    await session.remind("a", propagate=sb.Propagate.NONE, role_hint=sb.RoleHint.SYSTEM, mode=sb.Mode.AUDIT_ONLY)
    await session.remind()  # error
    await session.remind(5)  # error
    await session.remind("a", ttl_turns="2")  # error
    await session.remind("a", ttl_turn=2)  # error
    await session.remind("a", tags=5)  # error
    await session.remind("a", propagate="children")  # error
    await session.remind("a", role_hint="assistant")  # error
    await session.remind("a", mode="later")  # error
    await session.inject("a", mode="steer")
    await session.inject("a", mode="now")  # error
    assert_type(await session.clear(dedupe_key="build"), int)
    await session.clear(key="build")  # error
    assert_type(await session.prompt([{"type": "text", "text": "a"}]), str)


async def stores() -> None:
    async with sb.open_store("sqlite:///sideband.db", snapshot_events=10, lease_seconds=5) as store:
        assert_type(await store.session("a"), sb.Session)
        assert_type(await store.find("a"), sb.Session | None)
        await store.begin("b", transcript=sb.Transcript(), attributes={"title": "a"})
        await store.begin("b", transcript="a")  # error
        await store.begin("b", title="a")  # error
    sb.open_store("memory:", snapshot_events="10")  # error
    sb.open_store("memory:", snapshot_event=10)  # error


# Runs.


async def runs(session: sb.Session) -> None:
    result = await sb.agent_loop(
        "Fix the login bug",
        session=session,
        model="anthropic:claude-opus-5-5",
        system="You mend builds.",
        tools=[*sb.workspace_tools(Path()), sb.workspace_tools("."), forecast, add, look_up, Search()],
        reminders={"providers": ["-idle_nudge"]},
        placement="tail",
        max_turns=None,
        queue_after_cancel="deliver",
        on_text=print,
        closing={"completed": sb.Closing(ends=True)},
    )
    assert_type(result, sb.LoopResult)
    assert_type(result.text, str)
    assert_type(result.status, sb.LoopStatus)
    await sb.agent_loop(None, model="scripted:Done.", tools=sb.workspace_tools("."))
    await sb.agent_loop("a")  # error
    await sb.agent_loop("a", model=5)  # error
    await sb.agent_loop("a", model="scripted:", max_turn=3)  # error
    await sb.agent_loop("a", model="scripted:", max_turns="3")  # error
    await sb.agent_loop("a", model="scripted:", tools=forecast)  # error
    await sb.agent_loop("a", model="scripted:", tools=[5])  # error
    await sb.agent_loop("a", model="scripted:", placement="head")  # error
    await sb.agent_loop("a", model="scripted:", queue_after_cancel="drop")  # error
    await sb.agent_loop("a", model="scripted:", compactor="sumarize")  # error
    await sb.agent_loop("a", model="scripted:", session="a")  # error
    result.txt  # error
    async with await sb.agent_run("a", model="scripted:", max_turns=3) as run:
        assert_type(await run.finish(), sb.LoopResult)
    await sb.agent_run("a", model="scripted:", max_turn=3)  # error
    assert_type(await sb.llm_call("a", model="scripted:"), sb.Reply)
    await sb.llm_call("a")  # error


async def chats(session: sb.Session) -> None:
    async with session.chat(model="scripted:Done.", max_turns=3) as chat:
        assert_type(chat, sb.Chat)
        assert_type(await chat.send("a"), sb.ChatReply)
        async for reply in chat:
            assert_type(reply.prompt_id, str | None)
            reply.prompt  # error
        await chat.send()  # error
    async for reply in session.chat(model="scripted:Done."):
        assert_type(reply, sb.ChatReply)
    session.chat()  # error
    session.chat(model="scripted:Done.", max_turn=3)  # error


# Transcripts.


def transcripts() -> None:
    injected = sb.inject_reminder(sb.Transcript(), body="a", tags=["b"], ttl_turns=2, role_hint="user_block")
    assert_type(injected.transcript, sb.Transcript)
    assert_type(injected.deduped_count, int)
    sb.inject_reminder(sb.Transcript())  # error
    sb.inject_reminder(sb.Transcript(), body=5)  # error
    sb.inject_reminder(sb.Transcript(), body="a", propagate="child")  # error
    sb.inject_reminder(sb.Transcript(), body="a", mode="finish_step")  # error
    sb.clear_reminders(injected.transcript, tag="b")
    sb.clear_reminders(injected.transcript, tags="b")  # error
    assert_type(sb.Transcript.from_json(injected.transcript.to_json()), sb.Transcript)
    assert_type(sb.Update.from_json(b"{}"), sb.Update)
    sb.Reminder.from_json(5)  # error
    assert_type(sb.render_request(sb.Transcript(), model="anthropic:a", tools=[forecast]), dict[str, Any])
    sb.render_request(sb.Transcript())  # error
    sb.render_request("a", model="anthropic:a")  # error


# Hooks and providers.


def hook(context: Any) -> None: ...


sb.register_session_hook("file_edited", hook)
sb.register_session_hook("file_edit", hook)  # error
sb.register_tool_hook("deploy*", pre=hook)
sb.register_tool_hook("deploy*", before=hook)  # error
sb.register_reminder_provider(id="a", subscribes_to=["session_idle"], evaluate=hook)
sb.register_reminder_provider(id="a", subscribes_to=["idle"], evaluate=hook)  # error
sb.inject_remainder(sb.Transcript(), body="a")  # error
