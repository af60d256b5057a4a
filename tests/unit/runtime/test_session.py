"""`Session`: the methods that a program calls."""

import asyncio
from typing import Any

import pytest

from sideband.core.errors import (
    AlreadyDelivered,
    AlreadyRevoked,
    BodyTooLarge,
    InvalidOption,
    NoRunningTurn,
    ReminderError,
    SessionBusy,
    TaskFinished,
    TooManyPending,
    UnknownMessage,
    UnknownOption,
    UnknownReminder,
    UnknownSession,
    UnsupportedMode,
)
from sideband.core.events import Deduped, Dropped, Expired, InjectRevoked, QueuedMessage
from sideband.core.limits import Limits
from sideband.core.reminder import Source
from sideband.core.seams import InjectModeWord, Mode
from sideband.core.state import PendingState
from sideband.core.surfaces import Surface
from sideband.core.transcript import Visibility
from sideband.core.trust import IN_PROCESS
from sideband.loop.guard import Problem
from sideband.render.view import RequestView
from sideband.runtime.agents import agent_loop
from sideband.runtime.producer import Producer
from sideband.runtime.registries import HOOKS
from sideband.testing import ScriptedModel
from tests.loop_builders import AScene, a_reply, a_session, hang, others

# Telling it things.


def test_a_reminder_waits_in_the_inbox_until_a_seam_takes_it() -> None:
    scene = AScene()

    async def main() -> None:
        accepted = await scene.session.remind("the build is red", tags=["ci"], ttl_turns=2)
        assert (accepted.reminder_id, accepted.deduped_count) == ("main-1", 0)
        (waiting,) = await scene.session.pending()
        assert (waiting.state, waiting.reminder.body) == (PendingState.QUEUED, "the build is red")
        assert (waiting.reminder.source, waiting.provenance.principal) == (Source.IN_PIPELINE, None)
        await scene.play()
        (live,) = await scene.session.pending()
        assert (live.state, live.reminder.id, live.reminder.ttl_turns) == (PendingState.LIVE, "main-1", 1)

    asyncio.run(main())


def test_the_inbox_lists_reminders_and_messages_in_the_order_of_their_acceptance() -> None:
    session = a_session()

    async def main() -> None:
        await session.remind("red")
        message_id = await session.prompt("look at the build")
        rows = await session.waiting()
        assert [(row.position, row.kind) for row in rows] == [(0, "reminder"), (1, "user")]
        assert rows[1].item.id == message_id

    asyncio.run(main())


def test_a_newer_reminder_of_the_same_key_displaces_the_one_that_waits() -> None:
    scene = AScene()

    async def main() -> None:
        first = await scene.session.remind("red", dedupe_key="build")
        second = await scene.session.remind("green", dedupe_key="build")
        assert (first.deduped_count, second.deduped_count) == (0, 1)

    asyncio.run(main())
    assert [event.replaced_id for event in scene.events(Deduped)] == ["main-1"]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        pytest.param({"body": " "}, InvalidOption, id="a-blank-body"),
        pytest.param({"body": "x", "typo": 1}, UnknownOption, id="an-unknown-option"),
        pytest.param({"body": "x", "id": "mine"}, UnknownOption, id="an-id-of-ones-own"),
        pytest.param({"body": "x", "mode": "wait_for_completion"}, UnsupportedMode, id="another-mode"),
        pytest.param({"body": "x" * 9_000}, BodyTooLarge, id="too-long-a-body"),
    ],
)
def test_what_is_refused_changes_nothing(options: dict[str, Any], error: type[ReminderError]) -> None:
    scene = AScene()

    async def main() -> None:
        with pytest.raises(error):
            await scene.session.remind(**options)

    asyncio.run(main())
    assert scene.journal == []


def test_a_full_inbox_refuses_and_evicts_nothing() -> None:
    session = a_session(limits=Limits(pending_per_session=2))

    async def main() -> None:
        await session.remind("one")
        await session.remind("two")
        with pytest.raises(TooManyPending):
            await session.remind("three")
        await session.prompt("one")
        await session.prompt("two")
        with pytest.raises(TooManyPending):
            await session.prompt("three")
        assert [entry.reminder.body for entry in await session.pending()] == ["one", "two"]
        assert len(await session.waiting()) == 4

    asyncio.run(main())


@pytest.mark.parametrize("mode", Mode)
def test_a_session_full_of_reminders_still_does_what_its_user_says(mode: Mode) -> None:
    session = a_session(limits=Limits(pending_per_session=3))
    model = ScriptedModel(["On it."])

    async def main() -> None:
        for number in range(3):
            await session.remind(f"fact {number}", mode=mode)
        assert (await agent_loop("Mend it.", session=session, model=model)).text == "On it."

    asyncio.run(main())
    assert "Mend it." in model.requests[0].text


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        pytest.param(5, "content must be a string or a list of blocks, not 5", id="a-number"),
        pytest.param(None, "content must be a string or a list of blocks, not None", id="nothing"),
        pytest.param(b"Go.", "content must be a string or a list of blocks, not b'Go.'", id="bytes"),
        pytest.param({"type": "text", "text": "Go."}, "content must be a string or a list of blocks", id="one-block"),
        pytest.param(["Go."], "a block of content must be an object, .* not 'Go.'", id="texts"),
        pytest.param("", "content is blank", id="an-empty-text"),
        pytest.param(" \n", "content is blank", id="a-blank-text"),
        pytest.param([], "content is blank", id="no-blocks"),
        pytest.param([{"type": "text", "text": ""}], "content is blank", id="a-block-without-a-text"),
        pytest.param([{"text": "x", "at": [float("nan")]}], "which has no nan", id="no-number"),
        pytest.param([{"text": "x", "at": {"y": float("-inf")}}], "which has no -inf", id="an-endless-number"),
        pytest.param(
            [{"text": "Look."}, {"type": "image", "url": "cat.png"}],
            r"content\[1\].url must be an address that starts with https://",
            id="an-image-that-is-none",
        ),
    ],
)
def test_blank_or_unstorable_content_is_refused(content: Any, hint: str) -> None:  # noqa: ANN401 - anything
    session = a_session()

    async def main() -> None:
        message_id = await session.prompt("the first")
        for refused in (session.prompt(content), session.replace_message(message_id, content)):
            with pytest.raises(InvalidOption, match=hint) as error:
                await refused
            assert error.value.field == "content"
        assert len(await session.waiting()) == 1

    asyncio.run(main())


def test_a_block_may_have_more_than_is_read_of_it_and_hold_a_null() -> None:
    session = a_session()

    async def main() -> None:
        await session.prompt([{"type": "text", "text": "Go.", "annotations": None, "at": (1.5, None)}])
        (waiting,) = await session.waiting()
        assert isinstance(waiting.item, QueuedMessage)
        assert waiting.item.content == ({"type": "text", "text": "Go.", "annotations": None, "at": [1.5, None]},)

    asyncio.run(main())


def test_a_message_is_text_or_blocks() -> None:
    scene = AScene()
    blocks = [{"type": "text", "text": "look"}, {"type": "image", "media_type": "image/png", "data": "aGk="}]

    async def main() -> None:
        await scene.session.prompt(blocks)
        await scene.session.prompt("and this")
        await scene.play(None)

    asyncio.run(main())
    sent = [message["content"] for message in scene.state.messages if message["role"] == "user"]
    assert sent == [blocks, [{"type": "text", "text": "and this"}]]


@pytest.mark.parametrize("mode", ["steer", "finish_step", "interrupt_immediate"])
def test_an_idle_session_cannot_be_steered(mode: InjectModeWord) -> None:
    session = a_session()

    async def main() -> None:
        with pytest.raises(NoRunningTurn):
            await session.inject("faster", mode=mode)

    asyncio.run(main())


def test_an_unheard_of_way_of_injecting_is_refused() -> None:
    session = a_session()

    async def main() -> None:
        with pytest.raises(UnsupportedMode):
            await session.inject("x", mode="soon")  # type: ignore[arg-type]

    asyncio.run(main())


# Taking things back.


def test_what_waits_can_be_revoked_once() -> None:
    session = a_session()

    async def main() -> None:
        reminder = (await session.remind("never mind")).reminder_id
        message = await session.prompt("never mind")
        for item_id in (reminder, message):
            assert [await session.revoke(item_id), await session.revoke(item_id)] == ["revoked", "already_revoked"]
        with pytest.raises(UnknownReminder):
            await session.revoke("unheard of")

    asyncio.run(main())


def test_what_was_delivered_cannot_be_revoked() -> None:
    scene = AScene()

    async def main() -> None:
        reminder = (await scene.session.remind("shown")).reminder_id
        message = await scene.session.prompt("said")
        await scene.play(None)
        for item_id in (reminder, message):
            with pytest.raises(AlreadyDelivered):
                await scene.session.revoke(item_id)

    asyncio.run(main())


def test_a_message_that_waits_can_be_exchanged() -> None:
    scene = AScene()

    async def main() -> None:
        first = await scene.session.prompt("first draft")
        await scene.session.prompt("second")
        await scene.session.replace_message(first, "final version")
        await scene.play(None)
        with pytest.raises(AlreadyDelivered):
            await scene.session.replace_message(first, "too late")
        with pytest.raises(UnknownMessage):
            await scene.session.replace_message("unheard of", "x")
        gone = await scene.session.prompt("gone")
        await scene.session.revoke(gone)
        with pytest.raises(AlreadyRevoked):
            await scene.session.replace_message(gone, "x")

    asyncio.run(main())
    assert (scene.requests_with("first draft"), scene.requests_with("final version")) == ([], [1, 2])


def test_live_and_queued_reminders_can_be_cleared() -> None:
    scene = AScene()

    async def main() -> None:
        await scene.session.remind("one", tags=["t"], dedupe_key="k")
        await scene.session.remind("two", tags=["t"])
        await scene.play()
        await scene.session.remind("three", tags=["t"])
        assert await scene.session.clear(tag="t", dedupe_key="k") == 1
        assert await scene.session.clear(tag="t") == 2
        assert await scene.session.clear(tag="t") == 0
        assert await scene.session.pending() == ()
        with pytest.raises(InvalidOption):
            await scene.session.clear()

    asyncio.run(main())
    assert [event.reason for event in scene.events(Expired)] == ["cleared", "cleared", "cleared"]


# Looking at it.


def test_the_transcript_has_the_messages_and_the_reminders_as_they_stand() -> None:
    scene = AScene()

    async def main() -> None:
        await scene.session.remind("still here", ttl_turns=3)
        await scene.session.remind("for the file", mode="audit_only")
        await scene.play("Go.")
        transcript = await scene.session.transcript()
        assert [message["role"] for message in transcript.messages] == ["user", "assistant"]
        assert [(event.text, event.visibility) for event in transcript.events] == [
            ("still here", Visibility.PUBLIC),
            ("for the file", Visibility.INTERNAL),
        ]
        assert len({event.id for event in transcript.events} | {"main-1", "main-2"}) == 4
        (live,) = transcript.reminders
        assert live.ttl_turns == 2

    asyncio.run(main())


def test_events_are_those_of_this_session_from_a_cursor_on() -> None:
    scene = AScene()
    other = a_session("other", store=scene.store)

    async def main() -> None:
        await other.remind("elsewhere")
        await scene.session.remind("one")
        events = scene.session.events(kind_prefix="transcript.reminder.", after=1)
        first = await anext(events)
        assert (first.seq, first.kind) == (2, "transcript.reminder.queued")
        waiting = asyncio.ensure_future(anext(events))
        await others()
        await other.remind("elsewhere")
        await scene.session.prompt("no reminder")
        await scene.session.remind("two")
        assert (await waiting).seq == 5
        await events.aclose()
        assert scene.store.subscribers == 0

    asyncio.run(main())


# Ending it.


def test_closing_ends_all_that_the_session_has_in_exactly_one_way() -> None:
    scene = AScene()

    async def main() -> None:
        await scene.session.remind("live")
        await scene.play()
        await scene.session.remind("waiting")
        await scene.session.prompt("queued")
        assert await scene.session.close() == ()
        assert await scene.session.pending() == ()
        before = len(scene.journal)
        await scene.session.close()
        assert len(scene.journal) == before
        for refused in (scene.session.remind("x"), scene.session.prompt("x"), scene.play(None), scene.play("x")):
            with pytest.raises(UnknownSession):
                await refused

    asyncio.run(main())
    assert [type(event) for event in scene.journal[-4:-1]] == [Dropped, InjectRevoked, Expired]
    assert not scene.session.busy


def test_a_session_in_use_is_not_closed() -> None:
    scene = AScene()

    async def line(_view: RequestView) -> str:
        with pytest.raises(SessionBusy):
            await scene.session.close()
        return "Done."

    scene.says(line)

    async def main() -> None:
        await scene.play()
        await scene.session.close()

    asyncio.run(main())
    assert scene.kinds[-1] == "Closed"


@pytest.mark.parametrize("steps", [0, 1])
def test_cancelling_a_run_that_is_not_being_driven_ends_it(steps: int) -> None:
    scene = AScene()
    scene.says(a_reply("work"))

    async def main() -> None:
        run = await scene.begin()
        for _ in range(steps):
            await run.step()
        assert await scene.session.cancel()
        assert (scene.session.busy, scene.state.running, scene.state.open_calls) == (False, False, {})
        assert run.result is not None
        assert run.result.status == "cancelled"
        assert await run.step() is None
        assert not await scene.session.cancel()
        await scene.session.close()

    asyncio.run(main())
    assert scene.results() == [("c1", "cancelled")] * steps


@pytest.mark.parametrize("text", [5, None, ["a"]], ids=repr)
def test_a_block_whose_text_is_not_a_string_is_refused_before_it_is_accepted(text: object) -> None:
    session = a_session()
    with pytest.raises(InvalidOption, match=r"content\[0\].text must be a string, not"):
        asyncio.run(session.prompt([{"type": "text", "text": text}]))
    assert list(session.talk.state.inbox.items()) == []


def test_the_end_of_a_session_is_told_to_the_hooks_of_its_last_run() -> None:
    scene = AScene()
    told: list[str] = []

    async def hook(context: dict[str, str]) -> dict[str, str]:
        told.append(context["event"])
        return {"body": "goodbye"}

    async def fails(_context: object) -> None:
        raise LookupError("lost")

    scene.hooks.register_session_hook("session_end", hook)
    scene.hooks.register_session_hook("session_end", fails)

    async def main() -> tuple[Problem, ...]:
        await scene.play()
        return await scene.session.close()

    ((where, message, _),) = asyncio.run(main())
    assert told == ["session_end"]
    assert where.endswith("fails on session_end")
    assert message.endswith("LookupError: lost")
    assert scene.kinds[-3:] == ["Injected", "Expired", "Closed"]


def test_the_end_of_a_session_that_never_ran_is_told_to_the_hooks_of_the_process() -> None:
    told: list[str] = []

    async def hook(context: dict[str, str]) -> None:
        told.append(context["session_id"])

    HOOKS.register_session_hook("session_end", hook)
    try:
        asyncio.run(a_session("unused").close())
    finally:
        HOOKS.clear()
    assert told == ["unused"]


def test_cancelling_one_session_leaves_another_alone() -> None:
    mine, other = AScene(name="mine"), AScene(name="other")
    mine.says(lambda _view: hang())
    other.says(lambda _view: hang())

    async def main() -> None:
        driving = [asyncio.create_task(scene.play()) for scene in (mine, other)]
        await others()
        assert await mine.session.cancel()
        await others()
        assert [task.done() for task in driving] == [True, False]
        await other.session.cancel()
        await asyncio.gather(*driving)

    asyncio.run(main())


# Records that are set once, and the end of a session from any process.


def test_a_record_that_must_be_new_is_set_once() -> None:
    async def main() -> None:
        session = a_session()
        await session.record({"answer": "yes"}, only_new=True)
        with pytest.raises(SessionBusy, match="'answer' is set already"):
            await session.record({"answer": "no", "other": 1}, only_new=True)
        assert await session.records() == {"answer": "yes"}
        await session.record({"answer": None})
        await session.record({"answer": "no"}, only_new=True)

    asyncio.run(main())


def test_a_finished_session_drops_what_waits_and_takes_nothing_more() -> None:
    async def main() -> None:
        session = a_session()
        assert not await session.finish({"state": "never begun"})
        await session.remind("waits")
        assert await session.finish({"state": "over"})
        assert not await session.finish({"state": "again"})
        assert await session.records() == {"state": "over"}
        with pytest.raises(TaskFinished):
            await session.remind("too late")

    asyncio.run(main())


def test_a_prompt_for_an_idle_session_is_refused_while_another_one_waits() -> None:
    async def main() -> None:
        session = a_session()
        producer = Producer(session, IN_PROCESS, surface=Surface.SESSION)
        await producer.prompt("First.", records={"state": "open"})
        with pytest.raises(SessionBusy, match="busy with an earlier message"):
            await producer.prompt("Second.", records={"state": "never"})
        assert await session.records() == {"state": "open"}
        assert len(await session.waiting()) == 1

    asyncio.run(main())
