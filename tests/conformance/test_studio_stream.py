"""The event streams of the studio, and the sessions that it runs."""

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest

from sideband.core.messages import Reply, ToolCall
from sideband.models.scripted import ScriptedModel
from sideband.ports import OnText
from sideband.render.plan import Plan
from sideband.runtime.store import open_store
from sideband.studio import stream
from tests.a2a_callers import Door, in_time
from tests.studios import StreamedEvents, a_studio, on_sockets
from tests.unit.store.twins import Twin

BODY: Final = "The build is red."


async def _reminders(events: StreamedEvents, last: str) -> list[str]:
    """The bodies of the queued reminders up to this one, as they arrive."""
    found = []
    while last not in found:
        update = await in_time(events.update("reminder.queued"))
        found.append(update["reminder"]["body"])
    return found


@pytest.mark.requirement("studio:stream:no-gap")
@on_sockets
async def test_watchers_get_the_past_and_the_future_once_and_in_order(twin: Twin) -> None:
    async with twin.open() as journal, a_studio(journal=journal) as studio:
        session = await studio.begin()
        bodies = [f"{BODY} {number}" for number in range(60)]
        for body in bodies[:20]:
            await session.remind(body)
        middle = (await session.view()).cursor

        async def watch(after: int) -> tuple[list[str], list[int]]:
            async with studio.visitor.stream(session.id, after=after) as events:
                return await _reminders(events, bodies[-1]), events.cursors

        async def speak() -> None:
            for body in bodies[20:]:
                await session.remind(body)
                await asyncio.sleep(0)

        watching = [asyncio.create_task(watch(after)) for after in (0, 0, middle)]
        await speak()
        first, second, late = [await in_time(task) for task in watching]
        assert first[0] == bodies
        assert first == second
        assert late[0] == bodies[20:]
        assert first[1] == sorted(set(first[1]))


@pytest.mark.requirement("studio:stream:last-event-id")
@on_sockets
async def test_a_watcher_that_reconnects_continues() -> None:
    async with a_studio() as studio:
        session = await studio.begin()
        for number in range(3):
            await session.remind(f"{BODY} {number}")
        async with studio.visitor.stream(session.id) as events:
            await _reminders(events, f"{BODY} 1")
            last = events.seen[-1]["id"]
        # The header is newer than the address, which a browser repeats.
        async with studio.visitor.stream(session.id, after=0, headers={"Last-Event-ID": last}) as events:
            assert await _reminders(events, f"{BODY} 2") == [f"{BODY} 2"]
        async with studio.visitor.stream(session.id, headers={"Last-Event-ID": "9" * 5_000}) as events:
            assert await _reminders(events, f"{BODY} 2") == [f"{BODY} {number}" for number in range(3)]


@pytest.mark.requirement("studio:stream:slow-watcher")
@on_sockets
async def test_a_watcher_that_falls_behind_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "RING_FRAMES", 4)
    async with a_studio() as studio:
        session = await studio.begin()
        bodies = [f"{number} {'x' * 4_000}" for number in range(400)]
        async with studio.visitor.stream(session.id) as events:
            await in_time(events.until(lambda event: event["event"] == "update"))
            # More than the buffers of the connection hold, and nobody reads it.
            for body in bodies:
                await session.remind(body, dedupe_key="x")
                await session.clear(dedupe_key="x")
            assert await _reminders(events, bodies[-1]) == bodies
            assert events.cursors == sorted(set(events.cursors))


@pytest.mark.requirement("studio:stream:expired")
@on_sockets
async def test_an_expired_cursor_is_told(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/store.db", snapshot_events=1, kept_events=0)
    async with a_studio(store=store) as studio:
        session = await studio.begin()
        for number in range(5):
            await session.remind(f"{BODY} {number}")
        await studio.store.journal.prune(session.id)
        async with studio.visitor.stream(session.id, after=1) as events:
            told = await in_time(events.until(lambda event: event["event"] == "expired"))
            assert told["data"]["oldest"] > 1
            assert await in_time(events.next()) is None
        timeline = await studio.visitor.get(f"/api/sessions/{session.id}/timeline")
        assert len(timeline["reminders"]) == 5
        async with studio.visitor.stream(session.id, after=timeline["cursor"]) as events:
            await session.remind("New.")
            assert await _reminders(events, "New.") == ["New."]


@pytest.mark.requirement("studio:stream:sessions")
@on_sockets
async def test_the_list_of_sessions_is_kept_up_to_date(twin: Twin) -> None:
    async with twin.open() as journal, a_studio(journal=journal) as studio:
        old = await studio.begin(title="Old")
        async with studio.visitor.stream() as events:
            listed = await in_time(events.until(lambda event: event["event"] == "session"))
            assert (listed["data"]["id"], listed["data"]["title"]) == (old.id, "Old")
            new = await studio.begin(title="New")
            await in_time(events.until(lambda event: event["data"].get("id") == new.id))
            await old.remind(BODY)
            changed = await in_time(
                events.until(lambda event: event["data"].get("id") == old.id and event["data"]["queued"])
            )
            assert changed["data"]["queued"] == 1
            await old.close()
            await in_time(events.until(lambda event: event["data"].get("state") == "closed"))
            async with studio.visitor.stream(old.id) as watching:
                await in_time(watching.update("session.closed"))
                assert await studio.store.delete(old.id)
                await in_time(events.until(lambda event: event["data"].get("state") == "deleted"))
                await in_time(watching.update("session.deleted"))
                while await in_time(watching.next()) is not None:
                    pass


class _SlowWriter(ScriptedModel):
    """Writes its reply in two pieces, the second one when it may go on."""

    def __init__(self) -> None:
        super().__init__(["Half done."])
        self.may_go_on = asyncio.Event()

    async def complete(self, plan: Plan, on_text: OnText | None = None) -> Reply:
        assert on_text is not None
        for piece in ("Half ", "done."):
            told: Any = on_text(piece)
            if told is not None:
                await told
            if piece == "Half ":
                await self.may_go_on.wait()
        return await super().complete(plan)


@pytest.mark.requirement("studio:stream:text")
@on_sockets
async def test_a_reply_is_passed_on_while_it_is_written() -> None:
    model = _SlowWriter()
    async with a_studio(model) as studio:
        begun = await studio.visitor.post("/api/sessions", {"prompt": "Go."})

        async def text(events: StreamedEvents) -> dict[str, Any]:
            data: dict[str, Any] = (await in_time(events.until(lambda event: event["event"] == "text")))["data"]
            return data

        async with studio.visitor.stream(begun["id"]) as early:
            first = await text(early)
            assert (first["text"], first["attempt"]) == ("Half ", 1)
            async with studio.visitor.stream(begun["id"]) as late:
                assert await text(late) == first
                model.may_go_on.set()
                for events in (early, late):
                    committed = await in_time(events.update("turn.committed"))
                    assert (committed["text"], committed["replyId"]) == ("Half done.", first["replyId"])


@pytest.mark.requirement("studio:stream:ends-with-server")
@on_sockets
async def test_streams_end_with_the_server() -> None:
    async with a_studio() as studio:
        session = await studio.begin()
        async with (
            studio.visitor.stream(session.id) as updates,
            studio.visitor.stream() as listed,
            studio.visitor.stream(path="/api/events", headers={"Accept": "text/event-stream"}) as topic,
        ):
            await in_time(updates.until(lambda event: event["event"] == "update"))
            studio.stopping.set()
            for events in (updates, listed, topic):
                while await in_time(events.next()) is not None:
                    pass


@pytest.mark.requirement("studio:stream:topic")
@on_sockets
async def test_the_topic_can_be_followed(twin: Twin) -> None:
    async with twin.open() as journal, a_studio(journal=journal) as studio:
        session = await studio.begin()
        await session.remind(BODY, dedupe_key="a")
        path, accept = f"/api/sessions/{session.id}/events", {"Accept": "text/event-stream"}
        async with studio.visitor.stream(path=path, headers=accept) as events:
            first = await in_time(events.next())
            assert first is not None
            assert (first["data"]["kind"], first["id"]) == ("transcript.reminder.queued", str(first["data"]["seq"]))
            await session.remind("Green.", dedupe_key="b")
            second = await in_time(events.next())
            assert second is not None
            assert second["data"]["payload"]["dedupe_key"] == "b"
        async with studio.visitor.stream(path=path, headers={**accept, "Last-Event-ID": first["id"]}) as events:
            assert await in_time(events.next()) == second


@pytest.mark.requirement("studio:stream:other-processes", "studio:runs:servers-share")
@on_sockets
async def test_servers_of_one_store_show_and_run_the_same_sessions(durable: Twin) -> None:
    async with (
        durable.open() as one,
        durable.open() as two,
        a_studio(["From the first."], journal=one) as first,
        a_studio(["From the second."], journal=two) as second,
    ):
        begun = await first.visitor.post("/api/sessions", {"title": "Shared"})
        path = f"/api/sessions/{begun['id']}"
        assert [card["title"] for card in (await second.visitor.get("/api/sessions"))["sessions"]] == ["Shared"]
        async with first.visitor.stream(begun["id"]) as here, second.visitor.stream(begun["id"]) as there:
            for studio, said in ((first, "From the first."), (second, "From the second.")):
                await studio.visitor.post(f"{path}/prompt", {"content": "Who are you?"})
                for events in (here, there):
                    assert (await in_time(events.update("turn.committed")))["text"] == said
                    await in_time(events.update("run.idled"))
            assert here.cursors == there.cursors


# Runs.


@pytest.mark.requirement("studio:runs:left-turn")
@on_sockets
async def test_the_next_server_resumes_a_turn(durable: Twin) -> None:
    door = Door()
    call = Reply(text="Wait.", tool_calls=(ToolCall(id="c1", name="wait_at_the_door", args={}),))
    options = {"tools": [door.wait_at_the_door], "permission": None}
    async with durable.open() as journal, a_studio([call], journal=journal, options=options) as studio:
        begun = await studio.visitor.post("/api/sessions", {"prompt": "Go."})
        await in_time(door.entered.wait())
    async with (
        durable.open() as journal,
        a_studio(["Resumed."], journal=journal, options=options) as studio,
        studio.visitor.stream(begun["id"]) as events,
    ):
        while (await in_time(events.update("turn.committed")))["text"] != "Resumed.":
            pass
        assert (await in_time(events.update("run.idled")))["status"] == "completed"


@pytest.mark.requirement("studio:runs:queued-elsewhere")
@on_sockets
async def test_messages_of_other_programs_are_run(durable: Twin) -> None:
    async with (
        durable.open() as one,
        durable.open() as two,
        a_studio(["One.", "Two."], journal=one) as studio,
        a_studio(None, journal=two) as other,
    ):
        begun = await studio.visitor.post("/api/sessions", {"prompt": "Go."})
        async with studio.visitor.stream(begun["id"]) as events:
            await in_time(events.update("run.idled"))
            session = await other.store.find(begun["id"])
            assert session is not None
            await session.inject("Go on.", mode="queue")
            assert (await in_time(events.update("turn.committed")))["text"] == "Two."
