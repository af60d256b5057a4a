"""Tasks: how they begin, wait, end, continue and are listed, on every store."""

import asyncio
import base64
from typing import Any, Final

import pytest
from a2a.types import Message, Part, Role

from sideband.core.events import Dropped, DropReason, Expired
from sideband.core.messages import Reply, ToolCall
from sideband.models.scripted import Line
from sideband.ports import ModelError
from sideband.protocols.a2a import tasks as a2a_tasks
from sideband.protocols.a2a.auth import Callers
from sideband.runtime.session import Session
from sideband.runtime.store import Store
from sideband.testing import ScriptedModel
from tests.a2a_callers import (
    COORDINATOR,
    REVIEWER,
    A2aCaller,
    Door,
    ServedTasks,
    in_time,
    message,
    on_sockets,
    served,
    shape,
    some_peers,
    state_in,
)
from tests.acp_scenes import Held, calling
from tests.unit.store.twins import Twin
from tests.waiting import until

WAITING: Final = "wait_at_the_door"
MESSAGE: Final = Message(message_id="m", role=Role.ROLE_USER, parts=[Part(text="Rebase.")])
LOCAL: Final = Callers().ordinary


async def look() -> str:
    """Look."""
    return "seen"


async def session_of(tasks: ServedTasks, task_id: str) -> Session:
    session = await tasks.store.find(task_id)
    assert session is not None
    return session


async def events_of(store: Store, task_id: str) -> list[Any]:
    return [row.event async for row in store.journal.history(session_id=task_id)]


async def until_state(caller: A2aCaller, task_id: str, state: str) -> dict[str, Any]:
    """The task as soon as it is in this state, which it may have been in before a stream could tell of it."""
    while (task := await caller.task(task_id))["status"]["state"] != f"TASK_STATE_{state}":  # noqa: ASYNC110 - see above
        await asyncio.sleep(0.005)
    return task


# Beginning.


@pytest.mark.requirement("a2a:task:one-session-each")
@on_sockets
async def test_a_task_is_a_session_that_is_begun_with_its_message(twin: Twin) -> None:
    async with twin.open() as journal, served(["One.", "Two."], journal=journal) as tasks:
        caller = tasks.caller()
        first = (await caller.call("SendMessage", message("First.")))["task"]
        second = (await caller.call("SendMessage", message("Second.")))["task"]
        begun, *_ = await events_of(tasks.store, first["id"])
        entries = (await tasks.store.sessions()).sessions
    assert [entry.session_id for entry in entries] == [second["id"], first["id"]]
    assert first["contextId"] != second["contextId"]
    assert begun.attributes["task_state"] == "TASK_STATE_SUBMITTED"
    assert (first["status"]["state"], first["artifacts"][0]["parts"]) == ("TASK_STATE_COMPLETED", [{"text": "One."}])


PARTS: Final[list[dict[str, Any]]] = [
    {"text": "Look at this.", "metadata": {"lang": "en"}},
    {"data": {"branch": "main", "n": 3.0}, "mediaType": "application/json"},
    {"raw": base64.b64encode(b"\x89PNG").decode(), "mediaType": "image/png", "filename": "shot.png"},
    {"raw": base64.b64encode(b"a,b\n").decode(), "mediaType": "text/csv", "filename": "table.csv"},
    {"raw": base64.b64encode(b"\x00\xff").decode(), "filename": "blob"},
    {"url": "https://example.org/a.pdf", "mediaType": "application/pdf"},
    {"url": "file:///etc/hosts", "filename": "hosts"},
]


@pytest.mark.requirement("a2a:task:message-is-returned")
@on_sockets
async def test_the_history_has_messages_as_they_were_sent() -> None:
    said: dict[str, Any] = {"parts": PARTS, "metadata": {"trace": "t-1"}}
    said |= {"extensions": ["urn:x"], "referenceTaskIds": ["t-0"]}
    async with served(["Seen."]) as tasks:
        params = message(**said)
        task = (await tasks.caller().call("SendMessage", params))["task"]
        short = await tasks.caller().call("GetTask", {"id": task["id"], "historyLength": 1})
        none = await tasks.caller().call("GetTask", {"id": task["id"], "historyLength": 0})
        content = tasks.requests[0].messages[0]["content"]
    sent = {**params["message"], "taskId": task["id"], "contextId": task["contextId"]}
    assert task["history"][0] == sent
    assert [entry["role"] for entry in short["history"]] == ["ROLE_AGENT"]
    assert "history" not in none
    assert [block["type"] for block in content] == [
        "text",
        "text",
        "image",
        "resource",
        "resource",
        "document",
        "resource_link",
    ]


@pytest.mark.requirement("a2a:send:invalid-message")
@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"parts": []}, "parts"),
        ({"parts": [{"text": "  "}]}, "blank"),
        ({"parts": [{}]}, "text, raw, url and data"),
        ({"role": "ROLE_AGENT"}, "ROLE_USER"),
        ({"contextId": "c" * 300}, "contextId"),
        ({"metadata": {"a": "x" * 70_000}}, "metadata"),
    ],
)
@on_sockets
async def test_a_message_that_cannot_be_kept_is_refused(fields: dict[str, Any], field: str) -> None:
    async with served() as tasks:
        error = await tasks.caller().refusal("SendMessage", message(**fields))
        listed = await tasks.caller().call("ListTasks", {})
    assert error["code"] == -32602
    assert field in str(error)
    assert listed["totalSize"] == 0


# Ends.


@pytest.mark.requirement("a2a:task:states")
@pytest.mark.parametrize(
    ("script", "options", "state", "note"),
    [
        pytest.param(["Done."], {}, "COMPLETED", None, id="completed"),
        pytest.param(
            [calling("look"), calling("look", "c-2")], {"max_turns": 1}, "FAILED", "turns", id="turns-used-up"
        ),
        pytest.param([calling("look")], {"max_tokens": 1}, "FAILED", "tokens", id="tokens-used-up"),
        pytest.param([ModelError("secret cause", retryable=False)], {}, "FAILED", "model", id="model-failed"),
    ],
)
@on_sockets
async def test_the_state_says_how_the_run_ended(
    script: list[Line], options: dict[str, Any], state: str, note: str | None
) -> None:
    async with served(script, options={"tools": [look], **options}) as tasks:
        task = (await tasks.caller().call("SendMessage", message()))["task"]
        late = await tasks.caller().refusal("tasks/inject_reminder", {"taskId": task["id"], "reminder": {"body": "x"}})
    assert task["status"]["state"] == f"TASK_STATE_{state}"
    said = task["status"].get("message", {}).get("parts", [{}])[0].get("text")
    assert (said is None) if note is None else note in said
    assert "secret" not in str(task)
    assert late["code"] == -32004


@pytest.mark.requirement("a2a:task:states", "a2a:task:interrupted-keeps-everything")
@on_sockets
async def test_a_suspended_task_waits_for_input_and_keeps_its_reminders(twin: Twin) -> None:
    async with twin.open() as journal:

        async def pause() -> str:
            """Ask the caller."""
            (entry,) = (await tasks.store.sessions()).sessions
            run = (await session_of(tasks, entry.session_id)).run
            assert run is not None
            run.suspend()
            return "paused"

        script: list[Line] = [calling("pause"), "Continued."]
        async with served(script, journal=journal, options={"tools": [pause]}) as tasks:
            caller = tasks.caller()
            task = (await caller.call("SendMessage", message("Begin.")))["task"]
            reminder = await caller.remind(task["id"], "Merged meanwhile.")
            other = await caller.refusal("SendMessage", message(taskId=task["id"], contextId="another"))
            pending = await caller.call("tasks/pending_reminders", {"taskId": task["id"]})
            done = (await caller.call("SendMessage", message("Go on.", taskId=task["id"])))["task"]
            requests = tasks.requests
    assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert other["code"] == -32602
    assert [row["id"] for row in pending["reminders"]] == [reminder["reminderId"]]
    assert (done["status"]["state"], done["id"]) == ("TASK_STATE_COMPLETED", task["id"])
    assert "Merged meanwhile." in requests[-1].text
    assert [entry["parts"][0]["text"] for entry in done["history"]] == ["Begin.", "Go on.", "Continued."]


@pytest.mark.requirement("a2a:task:states", "a2a:task:permission-is-answered")
@pytest.mark.parametrize(("answer", "ran"), [("Yes.", True), ("no, not on main", False)])
@on_sockets
async def test_a_question_waits_for_the_caller(answer: str, *, ran: bool) -> None:
    pushed: list[str] = []

    async def push(branch: str) -> str:
        """Push a branch."""
        pushed.append(branch)
        return "pushed"

    async with served([calling("push", branch="main"), "Done."], options={"tools": [push]}, asks=True) as tasks:
        caller = tasks.caller()
        async with caller.stream("SendStreamingMessage", message()) as frames:
            *_, asked = await frames.rest()
        task_id = asked["result"]["statusUpdate"]["taskId"]
        open_task = await caller.task(task_id)
        listed = await caller.call("ListTasks", {"status": "TASK_STATE_INPUT_REQUIRED"})
        working = await caller.call("ListTasks", {"status": "TASK_STATE_WORKING"})
        await caller.remind(task_id, "Main is frozen.")
        done = (await caller.call("SendMessage", message(answer, taskId=task_id)))["task"]
        text = tasks.requests[-1].text
    question = asked["result"]["statusUpdate"]["status"]["message"]["parts"][0]["text"]
    assert state_in(asked) == open_task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert "push" in question
    assert '"main"' in question
    assert open_task["status"]["message"]["parts"][0]["text"] == question
    assert ([task["id"] for task in listed["tasks"]], working["totalSize"]) == ([task_id], 0)
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    assert pushed == (["main"] if ran else [])
    assert ("the caller refused it: no, not on main" in text) is not ran
    assert "Main is frozen." in text


@pytest.mark.requirement("a2a:task:leftovers-end-before-the-final-status", "a2a:task:end-is-one-commit")
@on_sockets
async def test_what_is_left_ends_with_the_task_before_its_last_status(twin: Twin) -> None:
    door = Door()
    script: list[Line] = [calling(WAITING), "Rebased."]
    async with (
        twin.open() as journal,
        served(script, journal=journal, options={"tools": [door.wait_at_the_door]}) as tasks,
    ):
        caller = tasks.caller()
        async with caller.stream("SendStreamingMessage", message()) as frames:
            task_id = (await frames.until(lambda frame: "task" in frame["result"]))["result"]["task"]["id"]
            await door.entered.wait()
            await caller.remind(task_id, "Live until the end.", ttlTurns=3, id="live")
            await caller.remind(task_id, "On record.", mode="audit_only", id="audit")
            door.open.set()
            rest = await frames.rest()
        events = await events_of(tasks.store, task_id)
    assert [shape(frame) for frame in rest][-3:] == ["artifact", "reminderExpired cleared", "completed"]
    kinds = [type(event).__name__ for event in events]
    closing = kinds.index("AuditRecorded")
    assert kinds[closing:] == ["AuditRecorded", "Expired", "Recorded", "Idled", "Closed"]
    ended = [event for event in events if isinstance(event, Expired | Dropped)]
    assert [(event.reminder_id, str(event.reason)) for event in ended] == [("live", "cleared")]


@pytest.mark.requirement("a2a:task:leftovers-end-before-the-final-status", "a2a:task:cancel-from-anywhere")
@on_sockets
async def test_what_waits_when_a_task_is_cancelled_is_dropped(twin: Twin) -> None:
    door = Door()
    async with (
        twin.open() as journal,
        served([calling(WAITING)], journal=journal, options={"tools": [door.wait_at_the_door]}) as tasks,
    ):
        caller = tasks.caller()
        task = await caller.begin()
        await door.entered.wait()
        await caller.remind(task["id"], id="waiting")
        cancelled = await caller.call("CancelTask", {"id": task["id"]})
        again = await caller.refusal("CancelTask", {"id": task["id"]})
        ended = [event for event in await events_of(tasks.store, task["id"]) if isinstance(event, Dropped)]
        requests = len(tasks.requests)
    assert cancelled["status"]["state"] == "TASK_STATE_CANCELED"
    assert again["code"] == -32002
    assert [(event.reminder_id, event.reason) for event in ended] == [("waiting", DropReason.TASK_FINISHED)]
    assert requests == 1


# Messages to a task.


@pytest.mark.requirement("a2a:task:running-takes-no-message")
@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
@on_sockets
async def test_a_running_task_takes_no_message(method: str) -> None:
    door = Door()
    async with served([calling(WAITING), "Rebased."], options={"tools": [door.wait_at_the_door]}) as tasks:
        caller = tasks.caller()
        task = await caller.begin()
        await door.entered.wait()
        params = message("Faster!", taskId=task["id"], metadata={"harn": {"reminder": {"body": "Hurry."}}})
        error = await caller.refusal(method, params)
        pending = await caller.call("tasks/pending_reminders", {"taskId": task["id"]})
        door.open.set()
        done = await caller.until_ended(task["id"])
    assert error["code"] == -32004
    assert "tasks/inject_reminder" in error["message"]
    assert pending["pendingCount"] == 0
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    assert len(done["history"]) == 2


@pytest.mark.requirement("a2a:task:running-takes-no-message")
@on_sockets
async def test_of_two_messages_to_a_waiting_task_one_is_taken(twin: Twin) -> None:
    held = Held("Continued.")
    async with twin.open() as journal, served([held.line], journal=journal) as tasks:
        caller = tasks.caller()
        task = await caller.begin()
        await held.begun.wait()
        session = await session_of(tasks, task["id"])
        await session.finish({"task_state": "TASK_STATE_COMPLETED"})
        waiting = await tasks.store.begin(
            "waiting",
            attributes={
                "kind": "a2a",
                "service": "sideband",
                "task_id": "waiting",
                "context_id": "c",
                "owner": "local",
                "task_state": "TASK_STATE_INPUT_REQUIRED",
            },
        )
        answers = await asyncio.gather(
            *(caller.answer("SendMessage", message(f"Answer {n}", taskId=waiting.id)) for n in range(4))
        )
    taken = [answer for answer in answers if "result" in answer]
    refused = [answer["error"]["code"] for answer in answers if "error" in answer]
    assert (len(taken), refused) == (1, [-32004] * 3)


@pytest.mark.requirement("a2a:task:ended-stays-ended")
@on_sockets
async def test_nothing_changes_a_task_that_has_ended(twin: Twin) -> None:
    async with twin.open() as journal, served(["Rebased."], journal=journal) as tasks:
        caller = tasks.caller()
        task = (await caller.call("SendMessage", message()))["task"]
        codes = [
            (await caller.refusal("SendMessage", message(taskId=task["id"])))["code"],
            (await caller.refusal("SendStreamingMessage", message(taskId=task["id"])))["code"],
            (await caller.refusal("CancelTask", {"id": task["id"]}))["code"],
            (await caller.refusal("SubscribeToTask", {"id": task["id"]}))["code"],
        ]
        after = await caller.task(task["id"])
        requests = len(tasks.requests)
    assert codes == [-32004, -32004, -32002, -32004]
    assert (after, requests) == (task, 1)


# Contexts.


@pytest.mark.requirement("a2a:task:known-context-starts-from-a-copy")
@on_sockets
async def test_a_task_in_a_known_context_continues_its_conversation(twin: Twin) -> None:
    door = Door()
    script: list[Line] = [calling(WAITING), "The branch is main.", "Second.", "Third."]
    peers = some_peers()
    async with (
        twin.open() as journal,
        served(script, journal=journal, peers=peers, options={"tools": [door.wait_at_the_door]}) as tasks,
    ):
        caller = tasks.caller(COORDINATOR)
        first = await caller.begin("Which branch?")
        await door.entered.wait()
        await caller.remind(first["id"], "Only for the first task.", ttlTurns=3)
        door.open.set()
        await caller.until_ended(first["id"])
        second = (await caller.call("SendMessage", message("Rebase it.", contextId=first["contextId"])))["task"]
        stranger = (await tasks.caller(REVIEWER).call("SendMessage", message("Hello.", contextId=first["contextId"])))[
            "task"
        ]
        again = tasks.requests[2].text
        alone = tasks.requests[3].text
        listed = await caller.call("ListTasks", {"contextId": first["contextId"]})
    assert "Which branch?" in again
    assert "The branch is main." in again
    assert "Only for the first task." not in again
    assert [entry["parts"][0]["text"] for entry in second["history"]] == ["Rebase it.", "Second."]
    assert [artifact["parts"][0]["text"] for artifact in second["artifacts"]] == ["Second."]
    assert "Which branch?" not in alone
    assert stranger["contextId"] == first["contextId"]
    assert {task["id"] for task in listed["tasks"]} == {first["id"], second["id"]}


# Listing.


@pytest.mark.requirement("a2a:task:listed")
@on_sockets
async def test_tasks_are_listed_in_pages_and_by_what_they_are(twin: Twin) -> None:
    door = Door()
    script: list[Line] = ["One.", "Two.", "Three.", calling(WAITING)]
    async with (
        twin.open() as journal,
        served(script, journal=journal, options={"tools": [door.wait_at_the_door]}) as tasks,
    ):
        caller = tasks.caller()
        ended = [(await caller.call("SendMessage", message(f"{n}")))["task"] for n in range(3)]
        running = await caller.begin("Wait.")
        await door.entered.wait()
        pages, token = [], ""
        while True:
            page = await caller.call("ListTasks", {"pageSize": 3, **({"pageToken": token} if token else {})})
            pages.append([task["id"] for task in page["tasks"]])
            token = page["nextPageToken"]
            if not token:
                break
        working = await caller.call("ListTasks", {"status": "TASK_STATE_WORKING"})
        completed = await caller.call(
            "ListTasks", {"status": "TASK_STATE_COMPLETED", "includeArtifacts": True, "historyLength": 0}
        )
        recent = await caller.call("ListTasks", {"statusTimestampAfter": "2100-01-01T00:00:00Z"})
        wrong = [
            (await caller.refusal("ListTasks", {"pageToken": "x"}))["code"],
            (await caller.refusal("ListTasks", {"pageSize": 0}))["code"],
            (await caller.refusal("ListTasks", {"pageSize": 101}))["code"],
        ]
        http = await caller.raw("", "/tasks?pageSize=2", "GET")
    assert [len(ids) for ids in pages] == [3, 1]
    assert sorted(task_id for ids in pages for task_id in ids) == sorted(
        [running["id"], *(task["id"] for task in ended)]
    )
    assert page["totalSize"] == 4
    assert [task["id"] for task in working["tasks"]] == [running["id"]]
    assert {task["id"] for task in completed["tasks"]} == {task["id"] for task in ended}
    assert all(task["artifacts"] and not task["history"] for task in completed["tasks"])
    assert (recent["totalSize"], wrong, len(http.json()["tasks"])) == (0, [-32602] * 3, 2)


@pytest.mark.requirement("a2a:task:limit")
@on_sockets
async def test_a_peer_cannot_have_too_many_open_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(a2a_tasks, "MAX_OPEN_TASKS", 2)
    door = Door()
    script: list[Line] = [calling(WAITING), calling(WAITING), "Done.", "Done.", "Done."]
    async with served(script, options={"tools": [door.wait_at_the_door]}) as tasks:
        caller = tasks.caller()
        first, _second = await caller.begin(), await caller.begin()
        error = await caller.refusal("SendMessage", message())
        await caller.call("CancelTask", {"id": first["id"]})
        third = await caller.begin()
    assert error["code"] == -32000
    assert "too_many_pending".upper() in str(error["data"])
    assert third["status"]["state"] == "TASK_STATE_SUBMITTED"


# Other processes.


@pytest.mark.requirement("a2a:task:cancel-from-anywhere")
@on_sockets
async def test_a_task_is_cancelled_through_another_process(durable: Twin) -> None:
    door = Door()
    async with (
        durable.open() as journal,
        durable.open() as other,
        served([calling(WAITING), "Rebased."], journal=journal, options={"tools": [door.wait_at_the_door]}) as tasks,
        served([], journal=other) as others,
    ):
        caller = tasks.caller()
        task = await caller.begin()
        await door.entered.wait()
        async with caller.stream("SubscribeToTask", {"id": task["id"]}) as frames:
            await frames.next()
            cancelled = await others.caller().call("CancelTask", {"id": task["id"]})
            *_, last = await frames.rest()
        after = await caller.task(task["id"])
        requests = len(tasks.requests)
    assert cancelled["status"]["state"] == after["status"]["state"] == state_in(last) == "TASK_STATE_CANCELED"
    assert requests == 1


@pytest.mark.requirement("a2a:task:resumed-at-start")
@on_sockets
async def test_a_task_that_runs_when_its_server_ends_is_continued_by_the_next(durable: Twin) -> None:
    held = Held("Never told.")
    script: list[Line] = [calling("look"), held.line]
    async with durable.open() as journal, served(script, journal=journal, options={"tools": [look]}) as tasks:
        task = await tasks.caller().begin("Rebase.")
        await held.begun.wait()
        await tasks.caller().remind(task["id"], "Accepted before the end.")
    async with durable.open() as journal, served(["Rebased."], journal=journal, options={"tools": [look]}) as tasks:
        done = await in_time(until_state(tasks.caller(), task["id"], "COMPLETED"))
        (request,) = tasks.requests
    assert [entry["parts"][0]["text"] for entry in done["history"]] == ["Rebase.", "Rebased."]
    assert "seen" in request.text
    assert "Accepted before the end." in request.text


@pytest.mark.requirement("a2a:task:resumed-at-start", "a2a:stream:no-task-left-waiting")
@on_sockets
async def test_a_task_that_was_accepted_and_never_begun_is_run(durable: Twin) -> None:
    async with durable.open() as journal, Store(journal) as store:
        tasks = a2a_tasks.Tasks(store, "sideband")
        session = await tasks.begin(MESSAGE, LOCAL)
        task_id = session.id
    async with durable.open() as journal, served(["Rebased."], journal=journal) as running:
        done = await in_time(until_state(running.caller(), task_id, "COMPLETED"))
    assert done["artifacts"][0]["parts"] == [{"text": "Rebased."}]


@pytest.mark.requirement("a2a:stream:no-task-left-waiting")
@on_sockets
async def test_a_subscriber_of_a_task_that_no_process_runs_sees_it_continued(durable: Twin) -> None:
    async with durable.open() as journal, served(["Rebased."], journal=journal) as running:
        # After the server has looked for such tasks.
        await running.caller().call("ListTasks", {})
        async with durable.open() as other, Store(other) as store:
            session = await a2a_tasks.Tasks(store, "sideband").begin(MESSAGE, LOCAL)
        async with running.caller().stream("SubscribeToTask", {"id": session.id}) as frames:
            shapes = [shape(frame) for frame in await in_time(frames.rest())]
    assert shapes == ["submitted", "working", "artifact", "completed"]


@pytest.mark.requirement("a2a:task:states")
@on_sockets
async def test_a_session_that_is_closed_by_its_operator_is_a_cancelled_task() -> None:
    async with served(ScriptedModel(["Rebased."])) as tasks:
        session = await tasks.store.begin(
            "t",
            attributes={
                "kind": "a2a",
                "service": "sideband",
                "task_id": "t",
                "context_id": "c",
                "owner": "local",
                "task_state": "TASK_STATE_INPUT_REQUIRED",
            },
        )
        async with tasks.caller().stream("SubscribeToTask", {"id": "t"}) as frames:
            await frames.next()
            await session.close()
            (last,) = await frames.rest()
        task = await tasks.caller().task("t")
    assert state_in(last) == task["status"]["state"] == "TASK_STATE_CANCELED"


# Several questions, and questions that outlive a process.


def a_push_tool() -> tuple[list[str], Any]:
    pushed: list[str] = []

    async def push(branch: str) -> str:
        """Push a branch."""
        pushed.append(branch)
        return f"pushed {branch}"

    return pushed, push


TWO_PUSHES: Final = Reply(
    tool_calls=tuple(ToolCall(id=f"c-{name}", name="push", args={"branch": name}) for name in ("docs", "main"))
)


@pytest.mark.requirement("a2a:task:permission-is-answered")
@on_sockets
async def test_an_answer_is_for_the_question_that_was_shown(twin: Twin) -> None:
    pushed, push = a_push_tool()
    async with (
        twin.open() as journal,
        served([TWO_PUSHES, "Done."], journal=journal, options={"tools": [push]}, asks=True) as tasks,
    ):
        caller = tasks.caller()
        first = (await caller.call("SendMessage", message()))["task"]
        second = (await caller.call("SendMessage", message("yes", taskId=first["id"])))["task"]
        await in_time(until(lambda: pushed))
        done = (await caller.call("SendMessage", message("no", taskId=first["id"])))["task"]
    questions = [task["status"]["message"]["parts"][0]["text"] for task in (first, second)]
    assert ['"docs"' in question for question in questions] == [True, False]
    assert '"main"' in questions[1]
    assert pushed == ["docs"]
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.requirement("a2a:task:permission-is-answered")
@on_sockets
async def test_of_several_answers_to_a_question_one_is_taken(durable: Twin) -> None:
    pushed, push = a_push_tool()
    script: list[Line] = [calling("push", branch="one"), "Done."]
    async with (
        durable.open() as journal,
        served(script, journal=journal, options={"tools": [push]}, asks=True) as tasks,
    ):
        caller = tasks.caller()
        task = (await caller.call("SendMessage", message()))["task"]
        immediately: dict[str, Any] = {"configuration": {"returnImmediately": True}}
        answers = await asyncio.gather(
            *(caller.answer("SendMessage", message("no", taskId=task["id"], **immediately)) for _ in range(4))
        )
        await in_time(until_state(caller, task["id"], "COMPLETED"))
    assert sum("result" in answer for answer in answers) == 1
    assert {answer["error"]["code"] for answer in answers if "error" in answer} == {-32004}
    assert pushed == []


@pytest.mark.requirement("a2a:task:interrupted-keeps-everything", "a2a:task:resumed-at-start")
@on_sockets
async def test_a_question_outlives_the_server_that_asked_it(durable: Twin) -> None:
    pushed, push = a_push_tool()
    options: dict[str, Any] = {"options": {"tools": [push]}, "asks": True}
    async with durable.open() as journal, served([calling("push", branch="main")], journal=journal, **options) as tasks:
        task = (await tasks.caller().call("SendMessage", message()))["task"]
    async with durable.open() as journal, served(["Done."], journal=journal, **options) as tasks:
        caller = tasks.caller()
        open_task = await caller.task(task["id"])
        done = (await caller.call("SendMessage", message("yes", taskId=task["id"])))["task"]
        (request,) = tasks.requests
    assert open_task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert '"main"' in open_task["status"]["message"]["parts"][0]["text"]
    assert (done["status"]["state"], pushed) == ("TASK_STATE_COMPLETED", ["main"])
    assert "pushed main" in request.text


# Agents that share a store.


@pytest.mark.requirement("a2a:task:own-agent")
@on_sockets
async def test_an_agent_neither_knows_nor_runs_the_tasks_of_another(durable: Twin) -> None:
    async with durable.open() as journal, Store(journal) as store:
        session = await a2a_tasks.Tasks(store, "reviewer").begin(MESSAGE, LOCAL)
    async with durable.open() as journal, served(["Never."], journal=journal) as tasks:
        caller = tasks.caller()
        error = await caller.refusal("GetTask", {"id": session.id})
        await caller.call("SendMessage", message())
        listed = await caller.call("ListTasks", {})
        requests = len(tasks.requests)
    assert (error["code"], listed["totalSize"], requests) == (-32001, 1, 1)


# Compaction.


@pytest.mark.requirement("a2a:task:compacted")
@on_sockets
async def test_a_compaction_costs_a_task_neither_its_answer_nor_its_border() -> None:
    async def read_much() -> str:
        """Read a long text."""
        return "much to read " * 60

    def shorten(messages: Any, _survivors: object) -> Any:  # noqa: ANN401 - messages
        return messages[-2:]

    calls = [calling("read_much", f"c-{number}") for number in range(3)]
    model = ScriptedModel(["An earlier answer.", *calls, "The answer."], context_window=300)
    options = {"tools": [read_much], "compactor": shorten}
    async with served(model, options=options) as tasks:
        caller = tasks.caller()
        earlier = (await caller.call("SendMessage", message("Earlier.")))["task"]
        task = (await caller.call("SendMessage", message("Read.", contextId=earlier["contextId"])))["task"]
        events = [type(event).__name__ for event in await events_of(tasks.store, task["id"])]
    assert "Compacted" in events
    assert [artifact["parts"][0]["text"] for artifact in task["artifacts"]] == ["The answer."]
    assert "arlier" not in str(task)


# Refused messages.


@pytest.mark.requirement("a2a:send:refused-changes-nothing")
@on_sockets
async def test_a_refused_message_changes_nothing(twin: Twin) -> None:
    door = Door()
    script: list[Line] = [calling(WAITING), "Rebased."]
    async with (
        twin.open() as journal,
        served(script, journal=journal, options={"tools": [door.wait_at_the_door]}) as tasks,
    ):
        caller = tasks.caller()
        task = await caller.begin()
        await door.entered.wait()
        before = await events_of(tasks.store, task["id"])
        good: dict[str, Any] = {"harn": {"reminder": {"body": "Hurry."}}}
        bad_push: dict[str, Any] = {"configuration": {"taskPushNotificationConfig": {"url": "http://127.0.0.1/"}}}
        codes = [
            (await caller.refusal("SendMessage", message(taskId=task["id"], metadata=good)))["code"],
            (await caller.refusal("SendMessage", message(taskId=task["id"], **bad_push)))["code"],
            (await caller.refusal("SendMessage", message(metadata=good, **bad_push)))["code"],
        ]
        after = await events_of(tasks.store, task["id"])
        listed = await caller.call("ListTasks", {})
        door.open.set()
        await caller.until_ended(task["id"])
        requests = tasks.requests
    assert codes == [-32004, -32602, -32602]
    assert (before, listed["totalSize"]) == (after, 1)
    assert not any("Hurry." in request.text for request in requests)


@pytest.mark.requirement("a2a:task:limit")
@on_sockets
async def test_the_limit_of_open_tasks_holds_for_messages_at_the_same_time(
    durable: Twin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(a2a_tasks, "MAX_OPEN_TASKS", 3)
    door = Door()
    async with (
        durable.open() as journal,
        served([calling(WAITING)] * 9, journal=journal, options={"tools": [door.wait_at_the_door]}) as tasks,
    ):
        caller = tasks.caller()
        params = [message(configuration={"returnImmediately": True}) for _ in range(8)]
        answers = await asyncio.gather(*(caller.answer("SendMessage", one) for one in params))
        accepted = [answer["result"]["task"]["id"] for answer in answers if "result" in answer]
        for task_id in accepted:
            session = await session_of(tasks, task_id)
            await session.finish({})
        again = await caller.begin()
        canceled = await caller.call("ListTasks", {"status": "TASK_STATE_CANCELED"})
    assert len(accepted) == 3
    assert again["status"]["state"] == "TASK_STATE_SUBMITTED"
    assert canceled["totalSize"] == 3


@pytest.mark.requirement("a2a:task:resumed-at-start")
@on_sockets
async def test_who_waits_for_a_task_when_the_server_stops_gets_the_task_as_it_is() -> None:
    door = Door()
    async with served([calling(WAITING)], options={"tools": [door.wait_at_the_door]}) as tasks:
        caller = tasks.caller()
        waiting = asyncio.ensure_future(caller.call("SendMessage", message()))
        await door.entered.wait()
        (entry,) = (await tasks.store.sessions()).sessions
        async with caller.stream("SubscribeToTask", {"id": entry.session_id}) as frames:
            await frames.next()
            tasks.server.stop()
            task = (await in_time(waiting))["task"]
            rest = await in_time(frames.rest())
    assert (task["status"]["state"], rest) == ("TASK_STATE_WORKING", [])
