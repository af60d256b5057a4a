"""A chat: prompts and replies, one after another, whoever sends the prompts and whichever process answers them."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from sideband.core.errors import InvalidOption, StoreClosed, UnknownSession
from sideband.core.events import Usage
from sideband.models.scripted import Line
from sideband.ports import ModelError
from sideband.render.view import RequestView
from sideband.runtime.chat import Chat, ChatReply
from sideband.runtime.runner import TurnStatus
from sideband.runtime.session import Session
from sideband.store.memory import MemoryStore
from tests.agents import awaited
from tests.loop_builders import AScene, a_reply, a_session, hang, others
from tests.waiting import until


def a_chat(scene: AScene, session: Session | None = None, **options: Any) -> Chat:  # noqa: ANN401 - those of a chat
    defaults: dict[str, Any] = {
        "model": scene.model,
        "tools": scene.tools,
        "hooks": scene.hooks,
        "providers": scene.providers,
        "reminders": False,
    }
    return (session or scene.session).chat(**(defaults | options))


def a_scene(*script: Line, store: MemoryStore | None = None) -> AScene:
    scene = AScene(store=store)
    scene.says(*script)
    return scene


async def taken(replies: AsyncIterator[ChatReply], count: int) -> list[ChatReply]:
    return [await anext(replies) for _ in range(count)]


class Pause:
    """A model call that tells when it has begun, and answers when it is released."""

    def __init__(self, text: str = "Done.") -> None:
        self.begun, self.released = asyncio.Event(), asyncio.Event()
        self._text = text

    async def __call__(self, _view: RequestView) -> str:
        self.begun.set()
        await self.released.wait()
        return self._text


# Replies.


@pytest.mark.requirement("library:chat:send")
@awaited
async def test_a_prompt_gets_its_reply() -> None:
    scene = a_scene(a_reply("work", tokens=10), a_reply(text="Fixed.", tokens=20), "And tested.")
    async with a_chat(scene) as chat:
        first = await chat.send("Fix the login bug")
        second = await chat.send([{"type": "text", "text": "Test it"}])
    prompt, _, _, answer, *_ = scene.state.messages
    assert first == ChatReply(
        text="Fixed.",
        id=answer["id"],
        prompt_id=prompt["id"],
        status=TurnStatus.COMPLETED,
        turns=2,
        usage=Usage(prompt_tokens=30, output_tokens=2),
    )
    assert (second.text, second.turns, second.prompt_id) == ("And tested.", 1, scene.state.messages[4]["id"])


@pytest.mark.requirement("library:chat:others-in-order")
@awaited
async def test_replies_to_the_prompts_of_others_are_yielded_in_order() -> None:
    scene = a_scene("One.", "Two.", "Three.", "Four.")
    elsewhere = a_session("main", store=scene.store)
    async with a_chat(scene) as chat:
        first = await scene.session.prompt("one")
        sending = asyncio.ensure_future(chat.send("two"))
        await others()
        third = await elsewhere.prompt("three")
        assert (await sending).text == "Two."
        replies = aiter(chat)
        assert [(reply.prompt_id, reply.text) for reply in await taken(replies, 2)] == [
            (first, "One."),
            (third, "Three."),
        ]
        assert (await chat.send("four")).text == "Four."
        await replies.aclose()  # type: ignore[attr-defined]


@pytest.mark.requirement("library:chat:others-in-order")
@awaited
async def test_a_second_loop_goes_on_where_the_first_was_left() -> None:
    scene = a_scene("One.", "Two.")
    async with a_chat(scene) as chat:
        for text in ("one", "two"):
            await scene.session.prompt(text)
        async for reply in chat:
            assert reply.text == "One."
            break
        async for reply in chat:
            assert reply.text == "Two."
            break


@pytest.mark.requirement("library:chat:others-in-order")
@awaited
async def test_a_turn_that_an_interrupt_starts_is_a_reply_without_a_prompt() -> None:
    scene = a_scene("Stopped.")
    async with a_chat(scene, daemon=True) as chat:
        await scene.session.remind("The disk is full.", mode="interrupt_immediate")
        (reply,) = await taken(aiter(chat), 1)
    assert (reply.prompt_id, reply.text) == (None, "Stopped.")


@pytest.mark.requirement("library:chat:any-process")
@awaited
async def test_a_prompt_that_another_process_answers_has_a_reply_here() -> None:
    store = MemoryStore()
    here = a_scene("Never asked.", store=store)
    there = a_scene("Answered there.", store=store)
    busy = await there.begin(None, daemon=True)
    working = asyncio.ensure_future(busy.finish())
    await others()
    async with a_chat(here) as chat:
        reply = await chat.send("Who are you?")
    assert (reply.text, reply.status, reply.turns) == ("Answered there.", "completed", 1)
    assert here.model.requests == []
    busy.stop()
    await working


@pytest.mark.requirement("library:chat:budget-per-prompt")
@awaited
async def test_every_prompt_has_its_own_budget() -> None:
    scene = a_scene(a_reply("work"), "One.", a_reply("work"), a_reply("work"))
    async with a_chat(scene, max_turns=2) as chat:
        assert [(reply.status, reply.turns) for reply in [await chat.send("one"), await chat.send("two")]] == [
            ("completed", 2),
            ("max_turns", 2),
        ]


@pytest.mark.requirement("library:chat:reminders-meanwhile")
@awaited
async def test_a_reminder_that_arrives_meanwhile_is_in_the_next_request() -> None:
    scene = a_scene("One.", "Two.")
    async with a_chat(scene) as chat:
        await chat.send("one")
        await scene.session.remind("The build is red.", ttl_turns=1)
        await chat.send("two")
    assert scene.requests_with("The build is red.") == [2]


@pytest.mark.requirement("library:chat:streams")
@awaited
async def test_text_is_streamed() -> None:
    heard: list[str] = []
    scene = a_scene("One.", "Two.")
    async with a_chat(scene, on_text=heard.append) as chat:
        await chat.send("one")
        await chat.send("two")
    assert heard == ["One.", "Two."]


# Failures.


@pytest.mark.requirement("library:chat:failure-is-a-reply")
@awaited
async def test_a_failing_model_is_a_reply_and_the_chat_goes_on() -> None:
    scene = a_scene(a_reply("work", text="Let me see."), ModelError("overloaded", status=400), "Better now.")
    async with a_chat(scene) as chat:
        failed, better = await chat.send("one"), await chat.send("two")
    assert (failed.status, failed.error, failed.turns, failed.text) == ("failed", "overloaded", 1, "Let me see.")
    assert (better.status, better.error, better.text) == ("completed", None, "Better now.")


@pytest.mark.requirement("library:chat:problems")
@awaited
async def test_problems_of_hooks_are_in_the_reply() -> None:
    scene = a_scene("Done.", "Done.")

    def fail(_context: object) -> None:
        raise ValueError("broken")

    scene.hooks.register_session_hook("post_finish", fail)
    async with a_chat(scene) as chat:
        reply = await chat.send("one")
        await scene.session.prompt("two")
        (other,) = await taken(aiter(chat), 1)
    for problems in (reply.problems, other.problems):
        assert ["broken" in problem.message for problem in problems] == [True]


# Ends.


@pytest.mark.requirement("library:chat:cancel")
@pytest.mark.parametrize("how", ["turn", "prompt", "task", "session"])
@awaited
async def test_a_cancelled_turn_ends_neither_the_chat_nor_the_prompts_that_wait(how: str) -> None:
    pause = Pause()
    scene = a_scene(pause, "Here I am.", "I still am.")
    async with a_chat(scene) as chat:
        sending = asyncio.ensure_future(chat.send("Take your time"))
        await pause.begun.wait()
        waiting = asyncio.ensure_future(chat.send("Are you there?"))
        await until(lambda: len(scene.state.inbox) == 1)
        if how == "task":
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
        else:
            cancels = scene.session if how == "session" else chat
            assert await cancels.cancel(scene.state.prompt if how == "prompt" else None)
            assert (await sending).status == "cancelled"
        assert (await waiting).text == "Here I am."
        assert (await chat.send("And now?")).text == "I still am."


@pytest.mark.requirement("library:chat:cancel")
@awaited
async def test_a_chat_that_holds_its_queue_does_so_only_after_a_cancelled_turn() -> None:
    pause = Pause()
    scene = a_scene(pause, "One.", "Two.", "Three.")
    async with a_chat(scene, queue_after_cancel="hold") as chat:
        sending = asyncio.ensure_future(chat.send("zero"))
        await pause.begun.wait()
        waiting = [asyncio.ensure_future(chat.send(text)) for text in ("one", "two")]
        await until(lambda: len(scene.state.inbox) == 2)
        await chat.cancel()
        await sending
        assert len(await scene.session.waiting()) == 2
        assert (await chat.send("three")).text == "Three."
        assert [(await reply).text for reply in waiting] == ["One.", "Two."]


@pytest.mark.requirement("library:chat:cancel")
@pytest.mark.parametrize("steps", range(12))
@awaited
async def test_a_task_that_is_cancelled_at_any_step_leaves_no_turn_behind(steps: int) -> None:
    async def answer(view: RequestView) -> str:
        if "one" in str(view.messages[-1]):
            await hang()
        return "Two."

    scene = a_scene(answer, answer)
    async with a_chat(scene) as chat:
        sending = asyncio.ensure_future(chat.send("one"))
        for _ in range(steps):
            await asyncio.sleep(0)
        assert sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert not scene.state.running
        assert not await scene.session.waiting()
        assert (await chat.send("two")).text == "Two."


@pytest.mark.requirement("library:chat:withdrawn")
@awaited
async def test_a_prompt_that_is_withdrawn_is_cancelled() -> None:
    pause = Pause("One.")
    scene = a_scene(pause, "Four.")
    async with a_chat(scene) as chat:
        await scene.session.prompt("one")
        await pause.begun.wait()
        sending = asyncio.ensure_future(chat.send("two"))
        await until(lambda: len(scene.state.inbox) == 1)
        await scene.session.prompt("three")
        for waiting in await scene.session.waiting():
            await scene.session.revoke(waiting.item.id)
        await scene.session.prompt("four")
        reply = await sending
        pause.released.set()
        replies = await taken(aiter(chat), 2)
    assert (reply.status, reply.text, reply.id, reply.turns) == ("cancelled", "", None, 0)
    assert [entry.text for entry in replies] == ["One.", "Four."]


@pytest.mark.requirement("library:chat:close")
@awaited
async def test_closing_cancels_the_turn_and_leaves_the_rest_queued() -> None:
    pause = Pause()
    scene = a_scene(pause)
    async with a_chat(scene) as chat:
        foreign = await scene.session.prompt("zero")
        await pause.begun.wait()
        sending = asyncio.ensure_future(chat.send("one"))
        yielded = asyncio.ensure_future(_all(chat))
        await until(lambda: len(scene.state.inbox) == 1)
        await others()
    assert [(reply.prompt_id, reply.status) for reply in await yielded] == [(foreign, "cancelled")]
    with pytest.raises(RuntimeError, match=r"the chat was closed before prompt .* was answered; it is still queued"):
        await sending
    assert [waiting.kind for waiting in await scene.session.waiting()] == ["user"]


@pytest.mark.requirement("library:chat:close")
@awaited
async def test_the_running_prompt_of_a_closed_chat_is_cancelled() -> None:
    pause = Pause()
    scene = a_scene(pause)
    async with a_chat(scene) as chat:
        sending = asyncio.ensure_future(chat.send("one"))
        await pause.begun.wait()
    assert (await sending).status == "cancelled"
    with pytest.raises(RuntimeError, match="the chat is closed; write 'async with session"):
        await chat.send("two")


async def _all(chat: Chat) -> list[ChatReply]:
    return [reply async for reply in chat]


@pytest.mark.requirement("library:chat:ends-with-the-session")
@awaited
async def test_a_chat_ends_with_its_session() -> None:
    scene = a_scene("One.")
    async with a_chat(scene) as chat:
        yielded = asyncio.ensure_future(_all(chat))
        await scene.session.prompt("one")
        await until(lambda: bool(scene.model.requests) and not scene.session.busy)
        await scene.session.close()
        assert [reply.text for reply in await yielded] == ["One."]


@pytest.mark.requirement("library:chat:ends-with-the-session")
@awaited
async def test_a_prompt_of_a_session_that_is_closed_elsewhere_has_a_reply() -> None:
    scene = a_scene()
    other = a_session("main", store=scene.store)
    lease = await other.attend()
    async with a_chat(scene) as chat:
        sending = asyncio.ensure_future(chat.send("one"))
        await until(lambda: len(scene.state.inbox) == 1)
        await lease.release()
        await other.close()
        assert (await sending).status == "closed"


@pytest.mark.requirement("library:chat:ends-with-the-session")
@awaited
async def test_a_chat_ends_with_its_store() -> None:
    scene = a_scene(Pause())
    async with a_chat(scene) as chat:
        yielded = asyncio.ensure_future(_all(chat))
        sending = asyncio.ensure_future(chat.send("one"))
        await until(lambda: bool(scene.model.requests))
        scene.store._feed.end()
        assert await yielded == []
        with pytest.raises(StoreClosed):
            await sending


@pytest.mark.requirement("library:chat:iterated-directly")
@awaited
async def test_a_chat_is_iterated_without_a_block() -> None:
    scene = a_scene("One.", "Two.")
    texts = []
    prompted = asyncio.Event()

    async def prompt() -> None:
        await prompted.wait()
        for text in ("one", "two"):
            await scene.session.prompt(text)

    prompting = asyncio.ensure_future(prompt())
    asyncio.get_running_loop().call_soon(prompted.set)
    async for reply in a_chat(scene):
        texts.append(reply.text)
        if len(texts) == 2:
            break
    assert texts == ["One.", "Two."]
    await prompting


# Misuse.


@pytest.mark.requirement("library:chat:misuse")
@awaited
async def test_a_chat_that_is_misused_says_what_to_do() -> None:
    scene = a_scene("One.")
    chat = a_chat(scene)
    with pytest.raises(RuntimeError, match="the chat is not open yet; write 'async with session"):
        await chat.send("one")
    async with chat:
        with pytest.raises(RuntimeError, match="a chat can be entered once; make another one"):
            await chat.__aenter__()
    with pytest.raises(TypeError, match="max_turn"):
        a_chat(scene, max_turn=1)
    with pytest.raises(InvalidOption, match="max_turns must be"):
        a_chat(scene, max_turns="1")
    await scene.session.close()
    with pytest.raises(UnknownSession, match="session 'main' is closed"):
        async with a_chat(scene):
            pytest.fail("entered")
