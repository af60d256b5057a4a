"""A chat whose reader is slow, and one that goes on for long."""

import asyncio

import pytest

from sideband.runtime import chat as module
from sideband.runtime.chat import ChatReply
from sideband.store.memory import MemoryStore
from tests.agents import awaited
from tests.loop_builders import AScene
from tests.waiting import until


async def finished(scene: AScene, *prompts: str) -> None:
    """Queue prompts and wait until the last one is answered."""
    for prompt in prompts:
        await scene.session.prompt(prompt)
    await until(lambda: scene.requests_with(prompts[-1]) and not scene.state.running)


@awaited
async def test_a_reader_that_is_too_slow_for_its_subscription_misses_nothing() -> None:
    scene = AScene(store=MemoryStore(subscriber_events=3))
    scene.says("One.", "Two.", "Three.")
    async with scene.session.chat(model=scene.model, reminders=False) as chat:
        replies = aiter(chat)
        first = asyncio.ensure_future(anext(replies))
        await until(lambda: scene.store._feed.subscribers)
        await finished(scene, "one")
        assert (await first).text == "One."
        await finished(scene, "two", "three")
        assert [(await anext(replies)).text for _ in range(2)] == ["Two.", "Three."]


@awaited
async def test_a_reader_goes_on_after_events_that_were_pruned() -> None:
    scene = AScene()
    scene.says("One.", "Two.", "Three.")
    seen: list[ChatReply] = []
    async with scene.session.chat(model=scene.model, reminders=False) as chat:
        await finished(scene, "one")
        await scene.store.prune(scene.session.id)
        await finished(scene, "two")
        async for reply in chat:
            seen.append(reply)
            break
    assert [reply.text for reply in seen] == ["Two."]


@awaited
async def test_so_many_prompts_of_send_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SENT", 1)
    scene = AScene()
    scene.says("One.", "Two.")
    async with scene.session.chat(model=scene.model, reminders=False) as chat:
        await chat.send("one")
        await chat.send("two")
        async for reply in chat:
            assert reply.text == "One."
            break
