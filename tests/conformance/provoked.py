"""Runs of an agent, each of which gives one of the canonical providers a reason to speak."""

from collections.abc import Mapping
from typing import Any, Final

import sideband as sb
from sideband.core.events import Injected
from sideband.core.messages import Message, Reply
from sideband.core.reminder import Reminder
from sideband.providers.context import MountMode
from sideband.render.view import RequestView
from tests.agents import AnAgent
from tests.loop_builders import ATool, a_reply

FAILURE: Final = "FAILED test_cart.py::test_total - assert 4 == 3"


def reminders_of(agent: AnAgent, provider_id: str) -> list[Reminder]:
    """What a provider has told this agent and its sub-agents."""
    events = (logged.event for logged in agent.recorded.journal)
    injected = (event for event in events if isinstance(event, Injected))
    return [event.reminder for event in injected if event.provenance.provider_id == provider_id]


def configured(provider_id: str, config: Mapping[str, Any]) -> dict[str, Any]:
    return {"config": {provider_id: config}}


async def under_pressure(*prompt_tokens: int, window: int | None = 100, **config: object) -> list[Reminder]:
    """An agent whose prompts were so long, one after the other."""
    agent = AnAgent(*(a_reply("work", tokens=tokens) for tokens in prompt_tokens), context_window=window)
    await agent.play(reminders=configured("token_pressure", config))
    return reminders_of(agent, "token_pressure")


async def idle_for(seconds: float, /, **config: object) -> list[Reminder]:
    """A daemon that looked around after so long, and then was stopped."""

    def stops(_context: object) -> None:
        assert agent.session.run is not None
        agent.session.run.stop()

    agent = AnAgent("Done.", "Nothing has changed.")
    agent.hooks.register_session_hook("session_idle", stops)
    await agent.play(daemon=True, wake_seconds=seconds, reminders=configured("idle_nudge", config))
    return reminders_of(agent, "idle_nudge")


async def with_output(output: sb.ToolOutput, provider_id: str, tool: str = "run", **config: object) -> list[Reminder]:
    """An agent whose tool gave this."""
    agent = AnAgent(a_reply(tool), tools=[ATool(tool, lambda *_: output)])
    await agent.play(reminders=configured(provider_id, config))
    return reminders_of(agent, provider_id)


async def compacted(*kept: Message, **config: object) -> list[Reminder]:
    """An agent whose conversation went on with these messages and the last two."""
    agent = AnAgent(a_reply("work", tokens=95), context_window=100)
    await agent.play(
        compactor=lambda messages, _: [*kept, *messages[-2:]], reminders=configured("post_compact_recap", config)
    )
    return reminders_of(agent, "post_compact_recap")


async def resumed(**resumption: Any) -> list[Reminder]:  # noqa: ANN401 - fields of a resumption
    """A worker that was suspended for a review and went on."""

    def suspended(_view: RequestView) -> Reply:
        worker.suspend("waiting for review")
        return a_reply("work", text="I have read the code.")

    agent = AnAgent(suspended)
    worker = await sb.spawn(agent.session, agent.children(), "Read the code.", model=agent.model, tools=agent.tools)
    await worker.work()
    await worker.resume(sb.Resumption(**resumption))
    return reminders_of(agent, "resume_continuity")


async def with_facts(book: sb.FactBook, *, tokens: int = 0, task: str = "", **config: object) -> list[Reminder]:
    """An agent that was given a book of facts."""
    agent = AnAgent(a_reply(text="Done.", tokens=tokens), context_window=100)
    await agent.play(task or "Mend the build.", facts=book, reminders=configured("project_facts", config))
    return reminders_of(agent, "project_facts")


async def anchored(anchor: sb.WorkspaceAnchor | None) -> list[Reminder]:
    agent = AnAgent()
    await agent.play(anchor=anchor, reminders=True)
    return reminders_of(agent, "workspace_anchor")


def a_book(*facts: Mapping[str, Any], namespace: str = "project/facts") -> sb.FactBook:
    """A book with these facts, each a little newer than the one before."""
    book = sb.FactBook()
    for moment, fact in enumerate(facts):
        book = sb.store_fact(book, namespace=namespace, asserted_at=moment, **fact).book
    return book


def a_fact(claim: str = "Ship on Fridays.", **changes: object) -> dict[str, Any]:
    return {"kind": "decision", "claim": claim, "confidence": 0.9, **changes}


ANCHOR: Final = sb.WorkspaceAnchor(primary="/repo", roots=(sb.MountedRoot(path="/lib", mode=MountMode.READ_ONLY),))
