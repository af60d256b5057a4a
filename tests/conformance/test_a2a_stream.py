"""The event stream of a task: what subscribers are told of it and of its reminders, and in which order."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
import pytest

from sideband.core.limits import DEFAULT_LIMITS
from sideband.models.scripted import Line
from sideband.protocols.a2a import handler
from sideband.protocols.a2a.reminders import RAW_URI, URI
from sideband.testing import ScriptedModel
from tests.a2a_callers import (
    COORDINATOR,
    DASHBOARD,
    A2aCaller,
    Door,
    Frames,
    ServedTasks,
    message,
    notified,
    on_sockets,
    served,
    shape,
    some_peers,
)
from tests.acp_scenes import calling
from tests.unit.protocols.schemas import validator
from tests.unit.store.twins import Twin

GENEROUS: Final = msgspec.structs.replace(DEFAULT_LIMITS, accept_rate={})
WAITING: Final = "wait_at_the_door"


class Scene:
    """A task whose tool waits, and the stream of the request that began it."""

    def __init__(self, tasks: ServedTasks, door: Door, caller: A2aCaller, frames: Frames, task_id: str) -> None:
        self.tasks, self.door, self.caller, self.frames, self.task_id = tasks, door, caller, frames, task_id


@asynccontextmanager
async def a_streamed_task(
    script: Sequence[Line] = (calling(WAITING), "Rebased."),
    *,
    extensions: Sequence[str] = (URI,),
    token: str | None = None,
    **options: Any,  # noqa: ANN401 - of the server
) -> AsyncIterator[Scene]:
    door = Door()
    run_options = {"tools": [door.wait_at_the_door], **options.pop("options", {})}
    async with served(script, limits=GENEROUS, options=run_options, **options) as tasks:
        caller = tasks.caller(token)
        async with caller.stream("SendStreamingMessage", message(), extensions=extensions) as frames:
            first = await frames.next()
            assert first is not None
            await door.entered.wait()
            yield Scene(tasks, door, caller, frames, first["result"]["task"]["id"])


def told(frames: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The notifications in these frames, which all fit their schema."""
    found = [notification for frame in frames if (notification := notified(frame)) is not None]
    for notification in found:
        validator("a2a/status_metadata").validate(notification)
    return found


@pytest.mark.requirement("a2a:stream:begins-with-the-task")
@on_sockets
async def test_a_stream_begins_with_the_task_and_ends_with_it() -> None:
    script: list[Line] = [msgspec.structs.replace(calling(WAITING), text="I look first."), "Rebased."]
    async with a_streamed_task(script) as scene:
        scene.door.open.set()
        await scene.frames.rest()
        frames = scene.frames.seen
    assert [shape(frame) for frame in frames] == ["submitted", "working", "working", "artifact", "completed"]
    said = frames[2]["result"]["statusUpdate"]["status"]["message"]
    assert (said["role"], said["parts"]) == ("ROLE_AGENT", [{"text": "I look first."}])
    assert frames[3]["result"]["artifactUpdate"]["lastChunk"] is True
    assert all(frame["id"] == "s" for frame in frames)


@pytest.mark.requirement(
    "a2a:stream:emitted",
    "a2a:stream:expired",
    "a2a:stream:status-update-metadata",
    "a2a:stream:source-label-is-a-claim",
    "a2a:stream:own-metadata",
)
@on_sockets
async def test_a_shown_reminder_is_told_of_in_the_metadata_of_a_status() -> None:
    async with a_streamed_task() as scene:
        reminder = {"body": "Merged.", "id": "pr-7", "tags": ["ci"], "dedupeKey": "pr", "ttlTurns": 1, "source": "bot"}
        params = {"taskId": scene.task_id, "reminder": reminder, "metadata": {"harn.reminder.origin": "train"}}
        await scene.caller.call("tasks/inject_reminder", params)
        scene.door.open.set()
        frames = await scene.frames.rest()
    emitted, expired = told(frames)
    assert emitted == {
        "method": "tasks/reminderEmitted",
        "taskId": scene.task_id,
        "reminder": {
            "id": "pr-7",
            "body": "Merged.",
            "tags": ["ci"],
            "dedupeKey": "pr",
            "source": "bot",
            "firedAtTurn": 2,
        },
        "metadata": {
            "harn.reminder.origin": "train",
            "sideband": {
                "turn": 2,
                "renderedRole": "user",
                "requested": {"propagate": "session", "roleHint": "system"},
            },
        },
    }
    assert expired == {
        "method": "tasks/reminderExpired",
        "taskId": scene.task_id,
        "reminder": {"id": "pr-7", "dedupeKey": "pr"},
        "phase": "ttl_expired",
        "expiredAtTurn": 2,
        "metadata": {"harn.reminder.origin": "train"},
    }
    (carrier,) = [frame for frame in frames if notified(frame) == emitted]
    status = carrier["result"]["statusUpdate"]["status"]
    assert (status["state"], "message" in status) == ("TASK_STATE_WORKING", False)


@pytest.mark.requirement("a2a:stream:deduped", "a2a:stream:revoked", "a2a:stream:expired")
@on_sockets
async def test_replaced_revoked_and_cleared_reminders_are_told_of() -> None:
    async with a_streamed_task() as scene:
        await scene.caller.remind(scene.task_id, "One.", id="a", dedupeKey="build")
        await scene.caller.remind(scene.task_id, "Two.", id="b", dedupeKey="build")
        await scene.caller.call("tasks/revoke_reminder", {"taskId": scene.task_id, "reminderId": "b"})
        await scene.caller.remind(scene.task_id, "Three.", id="c")
        await scene.caller.call("tasks/clear_reminders", {"taskId": scene.task_id, "id": "c"})
        found = [await scene.frames.told() for _ in range(3)]
    deduped, revoked, cleared = found
    assert (deduped["reminder"], deduped["droppedReminderIds"]) == ({"id": "b", "dedupeKey": "build"}, ["a"])
    assert (revoked["method"], revoked["phase"], revoked["metadata"]) == (
        "tasks/reminderExpired",
        "cleared",
        {"sideband": {"event": "revoked"}},
    )
    assert (cleared["reminder"], cleared["phase"]) == ({"id": "c"}, "cleared")


@pytest.mark.requirement("a2a:stream:expired")
@on_sockets
async def test_a_reminder_that_a_compaction_ends_is_compacted_out() -> None:
    async def look() -> str:
        """Look at a long text."""
        return "much to read " * 40

    door = Door()
    looks = [calling("look", f"c-{number}") for number in (3, 4)]
    model = ScriptedModel([calling("look"), calling(WAITING, "c-2"), *looks, "Rebased."], context_window=350)
    options = {"compactor": lambda messages, _survivors: messages[-2:], "tools": [door.wait_at_the_door, look]}
    # With the ceiling of a peer, the compaction would use up its TTL.
    async with served(model, limits=GENEROUS, options=options, trust="seed") as tasks:
        caller = tasks.caller()
        async with caller.stream("SendStreamingMessage", message("Much to say. " * 20)) as frames:
            task_id = (await frames.until(lambda frame: "task" in frame["result"]))["result"]["task"]["id"]
            await door.entered.wait()
            await caller.remind(task_id, "Merged.", ttlTurns=9)
            door.open.set()
            found = told(await frames.rest())
    assert [entry.get("phase", "shown") for entry in found] == ["shown", "shown", "compacted_out"]


@pytest.mark.requirement("a2a:stream:only-activated")
@on_sockets
async def test_a_caller_without_the_extension_is_told_of_no_reminder() -> None:
    async with a_streamed_task(extensions=()) as scene:
        await scene.caller.remind(scene.task_id, "Merged.")
        scene.door.open.set()
        frames = await scene.frames.rest()
    assert [shape(frame) for frame in frames] == ["working", "artifact", "completed"]
    assert "a2a-extensions" not in scene.frames.headers


@pytest.mark.requirement("a2a:stream:raw-frames-on-demand")
@on_sockets
async def test_raw_frames_are_sent_to_callers_that_asked_for_them() -> None:
    async with a_streamed_task(extensions=(URI, RAW_URI)) as scene:
        params = {"taskId": scene.task_id, "reminder": {"body": "Merged."}, "metadata": {"build": 7}}
        await scene.caller.call("tasks/inject_reminder", params)
        async with scene.caller.stream("SubscribeToTask", {"id": scene.task_id}) as others:
            scene.door.open.set()
            frames, ordinary = await asyncio.gather(scene.frames.rest(), others.rest())
    raw = [frame for frame in frames if "method" in frame]
    for frame in raw:
        validator("a2a/notifications").validate(frame)
    assert [shape(frame) for frame in frames] == [
        "working",
        "reminderEmitted",
        "raw reminderEmitted",
        "artifact",
        "reminderExpired cleared",
        "raw reminderExpired",
        "completed",
    ]
    emitted = raw[0]["params"]
    assert (emitted["reminder"]["firedAtTurn"], emitted["metadata"]["build"]) == (2, 7)
    assert isinstance(emitted["reminder"]["firedAtTurn"], int)
    assert not [frame for frame in ordinary if "method" in frame]


@pytest.mark.requirement("a2a:stream:own-reminders", "a2a:stream:own-metadata")
@pytest.mark.parametrize(("emit", "sees"), [("own", ["Mine."]), ("all", ["Mine.", "The operator's.", "A program's."])])
@on_sockets
async def test_a_peer_sees_its_own_reminders_unless_it_may_see_all(emit: str, sees: list[str]) -> None:
    async with a_streamed_task(token=COORDINATOR, peers=some_peers(emit=emit)) as scene:
        await scene.caller.remind(scene.task_id, "Mine.", source="me")
        session = await scene.tasks.store.find(scene.task_id)
        assert session is not None
        await session.remind("The operator's.", ttl_turns=1)
        dashboard = scene.tasks.caller(DASHBOARD)
        params = {"taskId": scene.task_id, "reminder": {"body": "A program's.", "ttlTurns": 1, "source": "board"}}
        await dashboard.call("tasks/inject_reminder", {**params, "metadata": {"secret": "of the program"}})
        async with dashboard.stream("SubscribeToTask", {"id": scene.task_id}) as everything:
            await everything.next()
            scene.door.open.set()
            frames, seen = await asyncio.gather(scene.frames.rest(), everything.rest())
    emitted = [entry for entry in told(frames) if entry["method"] == "tasks/reminderEmitted"]
    assert [entry["reminder"]["body"] for entry in emitted] == sees
    assert "of the program" not in str(emitted)
    assert "board" not in str(emitted)
    assert [entry["reminder"]["body"] for entry in told(seen) if "body" in entry["reminder"]] == [
        "Mine.",
        "The operator's.",
        "A program's.",
    ]


@pytest.mark.requirement("a2a:stream:same-order")
@on_sockets
async def test_all_subscribers_get_the_same_events_in_the_same_order(twin: Twin) -> None:
    async with twin.open() as journal, a_streamed_task(journal=journal) as scene:
        streams = [scene.caller.stream("SubscribeToTask", {"id": scene.task_id}) for _ in range(3)]
        frames = [await stream.__aenter__() for stream in streams]
        for each in frames:
            await each.next()
        for number in range(6):
            await scene.caller.remind(scene.task_id, f"Number {number}.", dedupeKey=f"k{number % 2}")
        scene.door.open.set()
        first = (await scene.frames.rest())[1:]
        others = [await each.rest() for each in frames]
        for stream in streams:
            await stream.__aexit__(None, None, None)
    assert [shape(frame) for frame in first].count("reminderDeduped") == 4
    assert all([frame["result"] for frame in other] == [frame["result"] for frame in first] for other in others)


@pytest.mark.requirement("a2a:stream:same-order")
@on_sockets
async def test_a_subscriber_at_another_server_gets_the_same_events(durable: Twin) -> None:
    async with (
        durable.open() as journal,
        durable.open() as other,
        a_streamed_task(journal=journal) as scene,
        served([], journal=other) as others,
        others.caller().stream("SubscribeToTask", {"id": scene.task_id}) as there,
    ):
        await there.next()
        await others.caller().remind(scene.task_id, "Told through the other server.")
        scene.door.open.set()
        here = (await scene.frames.rest())[1:]
        elsewhere = await there.rest()
    assert [frame["result"] for frame in here] == [frame["result"] for frame in elsewhere]
    assert "Told through the other server." in scene.tasks.requests[1].text


@pytest.mark.requirement("a2a:stream:both-bindings")
@on_sockets
async def test_the_http_binding_streams_the_same_events() -> None:
    async with a_streamed_task() as scene:
        headers = {**scene.caller.headers, "A2A-Extensions": f"{URI},{RAW_URI}"}
        async with scene.tasks.client.stream("GET", f"/tasks/{scene.task_id}:subscribe", headers=headers) as response:
            http = Frames(response)
            await http.next()
            await scene.caller.remind(scene.task_id, "Merged.")
            scene.door.open.set()
            rest = await http.rest()
    kinds = [next(iter(frame)) if "method" not in frame else frame["method"] for frame in rest]
    assert kinds == [
        "statusUpdate",
        "tasks/reminderEmitted",
        "artifactUpdate",
        "statusUpdate",
        "tasks/reminderExpired",
        "statusUpdate",
    ]


@pytest.mark.requirement("a2a:version:compatibility", "a2a:stream:status-update-metadata")
@on_sockets
async def test_a_peer_of_0_3_streams_and_sees_reminders() -> None:
    door = Door()
    async with served([calling(WAITING), "Rebased."], options={"tools": [door.wait_at_the_door]}) as tasks:
        caller = tasks.caller()
        caller.headers.pop("A2A-Version")
        said = {"kind": "message", "messageId": "m-1", "role": "user", "parts": [{"kind": "text", "text": "Rebase."}]}
        extensions = {"X-A2A-Extensions": URI}
        async with caller.stream("message/stream", {"message": said}, extensions=(), **extensions) as frames:
            first = await frames.next()
            assert first is not None
            await door.entered.wait()
            await caller.remind(first["result"]["id"], "Merged.")
            door.open.set()
            rest = [frame["result"] for frame in await frames.rest()]
    (emitted, *_) = [frame["metadata"][URI] for frame in rest if frame.get("metadata")]
    assert emitted["reminder"]["body"] == "Merged."
    assert [frame["kind"] for frame in rest] == [
        "status-update",
        "status-update",
        "artifact-update",
        "status-update",
        "status-update",
    ]
    assert rest[-1]["final"] is True


@pytest.mark.requirement("a2a:stream:limit")
@on_sockets
async def test_a_server_has_a_limit_of_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler, "MAX_STREAMS", 1)
    async with a_streamed_task() as scene:
        error = await scene.caller.refusal("SubscribeToTask", {"id": scene.task_id})
        scene.door.open.set()
        await scene.frames.rest()
        again = await scene.caller.refusal("SubscribeToTask", {"id": scene.task_id})
    assert (error["code"], again["code"]) == (-32000, -32004)


@pytest.mark.requirement("a2a:version:compatibility")
@on_sockets
async def test_a_stream_of_0_3_that_is_refused_has_the_same_error() -> None:
    async with served() as tasks:
        caller = tasks.caller()
        caller.headers.pop("A2A-Version")
        rpc = await caller.refusal("tasks/resubscribe", {"id": "gone"})
        http = await caller.raw("", "/v1/tasks/gone:subscribe", "GET")
    assert (rpc["code"], http.status_code) == (-32001, 404)
