"""The methods for reminders of tasks, on both bindings: results, errors, repeats and owners."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
import pytest

from sideband.core.limits import DEFAULT_LIMITS, Limits
from sideband.models.scripted import Line
from sideband.protocols.a2a.reminders import METHODS, URI
from sideband.runtime.store import open_store
from tests.a2a_callers import (
    COORDINATOR,
    REVIEWER,
    A2aCaller,
    Door,
    ServedTasks,
    message,
    on_sockets,
    served,
    some_peers,
)
from tests.acp_scenes import calling
from tests.unit.protocols.schemas import validator

MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
# Peers may send four reminders at once; these tests send more.
GENEROUS: Final = msgspec.structs.replace(DEFAULT_LIMITS, accept_rate={})


class Scene:
    """A task that is running, and what the tests need of its server."""

    def __init__(self, tasks: ServedTasks, door: Door, caller: A2aCaller, task_id: str) -> None:
        self.tasks, self.door, self.caller, self.task_id = tasks, door, caller, task_id

    async def end(self) -> dict[str, Any]:
        """Let the task end."""
        self.door.open.set()
        return await self.caller.until_ended(self.task_id)


@asynccontextmanager
async def a_running_task(*, limits: Limits = GENEROUS, **options: Any) -> AsyncIterator[Scene]:  # noqa: ANN401 - of the server
    door = Door()
    script: list[Line] = [calling("wait_at_the_door"), "Rebased."]
    async with served(
        script, limits=limits, peers=some_peers(), options={"tools": [door.wait_at_the_door]}, **options
    ) as tasks:
        caller = tasks.caller(COORDINATOR)
        task = await caller.begin()
        await door.entered.wait()
        yield Scene(tasks, door, caller, task["id"])


def infos(error: dict[str, Any]) -> dict[str, str]:
    """The reasons in the details of an error, by their domain."""
    details = error.get("data") or error.get("details") or []
    for detail in details:
        validator("a2a/error").validate(detail)
    return {detail["domain"]: detail["reason"] for detail in details}


@pytest.mark.requirement("a2a:inject_reminder:result", "a2a:inject_reminder:accepted-at")
@on_sockets
async def test_an_accepted_reminder_is_answered_with_its_id_and_time() -> None:
    async with a_running_task() as scene:
        first = await scene.caller.remind(scene.task_id, "Dependency 1 merged.", dedupeKey="upstream")
        second = await scene.caller.remind(scene.task_id, "Dependency 2 merged.", dedupeKey="upstream")
    validator("a2a/inject_reminder", "InjectReminderResult").validate(second)
    assert (first["dedupedCount"], second["dedupedCount"]) == (0, 1)
    assert first["reminderId"] != second["reminderId"]
    assert MOMENT.fullmatch(second["acceptedAt"])


@pytest.mark.requirement("trust:clamp:reply-has-both-values", "wire:meta:namespace")
@on_sockets
async def test_the_answer_to_a_clamped_reminder_has_both_values() -> None:
    async with a_running_task() as scene:
        clamped = await scene.caller.remind(scene.task_id, roleHint="system", ttlTurns=9, mode="interrupt_immediate")
        modest = await scene.caller.remind(scene.task_id, roleHint="user_block", ttlTurns=2, propagate="none")
    assert clamped["_meta"] == {
        "sideband": {
            "requested": {"roleHint": "system", "ttlTurns": 9, "mode": "interrupt_immediate", "propagate": "session"},
            "effective": {"roleHint": "user_block", "ttlTurns": 3, "mode": "finish_step", "propagate": "none"},
        }
    }
    assert "_meta" not in modest


@pytest.mark.requirement("a2a:inject_reminder:not-in-the-transcript", "a2a:task:durable-task-holds-no-reminder")
@on_sockets
async def test_the_next_request_contains_the_reminder_and_the_task_does_not() -> None:
    async with a_running_task() as scene:
        await scene.caller.remind(scene.task_id, "The dependency merged.", source="coordinator")
        task = await scene.end()
        requests = scene.tasks.requests
    assert "The dependency merged." not in requests[0].text
    assert '<peer-notice from="coordinator">\nThe dependency merged.' in requests[1].text
    assert "The dependency merged." not in str(task)
    assert [entry["role"] for entry in task["history"]] == ["ROLE_USER", "ROLE_AGENT"]


@pytest.mark.requirement("a2a:inject_reminder:idempotent", "a2a:inject_reminder:accepted-at")
@on_sockets
async def test_a_repeat_gets_the_same_answer_even_after_the_end() -> None:
    async with a_running_task() as scene:
        first = await scene.caller.remind(scene.task_id, "Merged.", id="pr-7")
        repeated = await scene.caller.remind(scene.task_id, "Merged.", id="pr-7")
        conflict = await scene.caller.refusal(
            "tasks/inject_reminder", {"taskId": scene.task_id, "reminder": {"body": "Other.", "id": "pr-7"}}
        )
        await scene.end()
        late = await scene.caller.remind(scene.task_id, "Merged.", id="pr-7")
    assert first["reminderId"] == "pr-7"
    assert first == repeated == late
    assert (conflict["code"], infos(conflict)["sideband"]) == (-32602, "IDEMPOTENCY_CONFLICT")


@pytest.mark.requirement("a2a:pending_reminders:lists")
@on_sockets
async def test_pending_reminders_are_those_that_the_caller_may_see() -> None:
    async with a_running_task() as scene:
        await scene.caller.remind(scene.task_id, "Merged.", source="release-bot", dedupeKey="upstream", tags=["ci"])
        session = await scene.tasks.store.find(scene.task_id)
        assert session is not None
        await session.remind("Budget is short.")
        own = await scene.caller.call("tasks/pending_reminders", {"taskId": scene.task_id})
        everything = await scene.tasks.caller("dashboard-token-333").call(
            "tasks/pending_reminders", {"taskId": scene.task_id}
        )
    validator("a2a/pending_reminders", "PendingRemindersResult").validate(everything)
    assert own["pendingCount"] == 1
    (row,) = own["reminders"]
    assert (row["body"], row["state"], row["position"], row["source"]) == ("Merged.", "queued", 0, "release-bot")
    assert (row["dedupeKey"], row["tags"], row["mode"], row["ttlTurns"]) == ("upstream", ["ci"], "finish_step", 3)
    assert [row["body"] for row in everything["reminders"]] == ["Merged.", "Budget is short."]


@pytest.mark.requirement("a2a:revoke_reminder:status")
@on_sockets
async def test_a_reminder_is_revoked_once_and_only_while_it_waits() -> None:
    async with a_running_task() as scene:
        first = (await scene.caller.remind(scene.task_id))["reminderId"]
        second = (await scene.caller.remind(scene.task_id))["reminderId"]
        revoke = "tasks/revoke_reminder"
        answers = [await scene.caller.call(revoke, {"taskId": scene.task_id, "reminderId": first}) for _ in range(2)]
        unknown = await scene.caller.refusal(revoke, {"taskId": scene.task_id, "reminderId": "gone"})
        await scene.end()
        late = await scene.caller.refusal(revoke, {"taskId": scene.task_id, "reminderId": second})
    assert [answer["status"] for answer in answers] == ["revoked", "already_revoked"]
    assert (unknown["code"], infos(unknown)["sideband"]) == (-32001, "UNKNOWN_REMINDER_ID")
    assert (late["code"], infos(late)["sideband"]) == (-32004, "ALREADY_DELIVERED")


@pytest.mark.requirement("a2a:clear_reminders:removed-count")
@pytest.mark.parametrize("selector", [{"id": "a"}, {"tag": "ci"}, {"dedupeKey": "build"}])
@on_sockets
async def test_reminders_are_cleared_by_id_tag_or_key(selector: dict[str, str]) -> None:
    async with a_running_task() as scene:
        await scene.caller.remind(scene.task_id, id="a", tags=["ci"], dedupeKey="build")
        await scene.caller.remind(scene.task_id, id="b", tags=["other"])
        clear = "tasks/clear_reminders"
        cleared = await scene.caller.call(clear, {"taskId": scene.task_id, **selector})
        again = await scene.caller.call(clear, {"taskId": scene.task_id, **selector})
        nothing = await scene.caller.refusal(clear, {"taskId": scene.task_id})
    assert (cleared, again) == ({"removedCount": 1}, {"removedCount": 0})
    assert (nothing["code"], infos(nothing)["sideband"]) == (-32602, "INVALID_OPTION")


MALFORMED: Final = [
    pytest.param({"reminder": {"body": " "}}, "INVALID_REMINDER", id="blank-body"),
    pytest.param({"reminder": {}}, "INVALID_REMINDER", id="no-body"),
    pytest.param({}, "INVALID_OPTION", id="no-reminder"),
    pytest.param({"reminder": "text"}, "INVALID_OPTION", id="reminder-is-a-text"),
    pytest.param({"reminder": {"body": "x", "ttlTurns": 0}}, "INVALID_REMINDER", id="ttl-0"),
    pytest.param({"reminder": {"body": "x", "ttlTurns": 2.0}}, "INVALID_REMINDER", id="ttl-is-a-float"),
    pytest.param({"reminder": {"body": "x", "propagate": "peers"}}, "UNKNOWN_PROPAGATE", id="propagate"),
    pytest.param({"reminder": {"body": "x", "mode": "later"}}, "UNSUPPORTED_MODE", id="mode"),
    pytest.param({"reminder": {"body": "x", "content": "y"}}, "INVALID_REMINDER", id="content"),
    pytest.param({"reminder": {"body": "x", "color": "red"}}, "UNKNOWN_OPTION", id="unknown-field"),
    pytest.param({"reminder": {"body": "x"}, "color": "red"}, "UNKNOWN_OPTION", id="unknown-parameter"),
    pytest.param({"reminder": {"body": "x"}, "metadata": []}, "INVALID_OPTION", id="metadata-is-a-list"),
    pytest.param({"reminder": {"body": "x" * 1_025}}, "BODY_TOO_LARGE", id="body-over-1-KiB"),
    pytest.param({"taskId": 7, "reminder": {"body": "x"}}, "INVALID_OPTION", id="task-is-a-number"),
]


@pytest.mark.requirement("a2a:inject_reminder:unknown-parameter")
@on_sockets
async def test_a_repeated_key_is_refused() -> None:
    async with a_running_task() as scene:
        reminder = '{"body":"one","body":"two"}'
        params = f'{{"taskId":"{scene.task_id}","reminder":{reminder}}}'
        body = f'{{"jsonrpc":"2.0","id":1,"method":"tasks/inject_reminder","params":{params}}}'
        error = (await scene.caller.raw(body)).json()["error"]
        pending = await scene.caller.call("tasks/pending_reminders", {"taskId": scene.task_id})
    assert (error["code"], infos(error)["sideband"]) == (-32602, "INVALID_REMINDER")
    assert pending["pendingCount"] == 0


@pytest.mark.requirement("a2a:inject_reminder:unknown-parameter")
@pytest.mark.parametrize(("params", "reason"), MALFORMED)
@on_sockets
async def test_a_malformed_reminder_is_refused_and_changes_nothing(params: dict[str, Any], reason: str) -> None:
    async with a_running_task() as scene:
        error = await scene.caller.refusal("tasks/inject_reminder", {"taskId": scene.task_id, **params})
        pending = await scene.caller.call("tasks/pending_reminders", {"taskId": scene.task_id})
    assert error["code"] == (-32000 if reason == "BODY_TOO_LARGE" else -32602)
    assert infos(error)["sideband"] == reason
    assert pending["pendingCount"] == 0


@pytest.mark.requirement("wire:error:overflow", "wire:error:retry-after")
@on_sockets
async def test_a_peer_that_sends_too_much_is_told_to_wait() -> None:
    async with a_running_task(limits=DEFAULT_LIMITS) as scene:
        for _ in range(4):
            await scene.caller.remind(scene.task_id)
        error = await scene.caller.refusal(
            "tasks/inject_reminder", {"taskId": scene.task_id, "reminder": {"body": "x"}}
        )
        response = await scene.caller.raw('{"reminder":{"body":"x"}}', f"/tasks/{scene.task_id}:injectReminder")
    assert (error["code"], infos(error)["sideband"]) == (-32000, "RATE_LIMITED")
    (detail,) = [detail for detail in error["data"] if detail["domain"] == "sideband"]
    assert int(detail["metadata"]["retryAfterMs"]) > 0
    assert (response.status_code, int(response.headers["retry-after"]) > 0) == (429, True)


@pytest.mark.requirement("a2a:callers:own-tasks", "wire:error:foreign-session-is-not-found")
@pytest.mark.parametrize("method", [*METHODS, "GetTask", "CancelTask", "SubscribeToTask"])
@on_sockets
async def test_a_task_of_another_caller_is_unknown(method: str) -> None:
    async with a_running_task() as scene:
        reviewer = scene.tasks.caller(REVIEWER)

        def params(task_id: str) -> dict[str, Any]:
            given = {"reminder": {"body": "x"}, "reminderId": "r", "tag": "t"}
            named = METHODS[method].params if method in METHODS else ()
            name = "taskId" if method in METHODS else "id"
            return {name: task_id, **{key: given[key] for key in named if key in given}}

        foreign = await reviewer.refusal(method, params(scene.task_id))
        missing = await reviewer.refusal(method, params("0" * len(scene.task_id)))
        task = await scene.caller.task(scene.task_id)
    assert foreign["code"] == -32001
    assert infos(foreign)["a2a-protocol.org"] == "TASK_NOT_FOUND"
    masked = [
        str(error).replace(scene.task_id, "*").replace("0" * len(scene.task_id), "*") for error in (foreign, missing)
    ]
    assert masked[0] == masked[1]
    assert task["status"]["state"] == "TASK_STATE_WORKING"


@pytest.mark.requirement("a2a:callers:own-tasks")
@on_sockets
async def test_a_session_that_is_no_task_is_unknown() -> None:
    async with a_running_task() as scene:
        await (await scene.tasks.store.session("private")).remind("Not for peers.")
        error = await scene.caller.refusal("tasks/pending_reminders", {"taskId": "private"})
        other = await scene.tasks.caller("dashboard-token-333").refusal("GetTask", {"id": "private"})
    assert (error["code"], other["code"]) == (-32001, -32001)


@pytest.mark.requirement("a2a:inject_reminder:http-twin")
@on_sockets
async def test_every_method_has_a_twin_over_http() -> None:
    async with a_running_task() as scene:
        task, raw = f"/tasks/{scene.task_id}", scene.caller.raw
        accepted = await raw('{"reminder":{"body":"Merged.","id":"pr-7"},"metadata":{"a":1}}', f"{task}:injectReminder")
        pending = await raw("", f"{task}:pendingReminders", "GET")
        posted = await raw("{}", f"{task}:pendingReminders")
        revoked = await raw('{"reminderId":"pr-7"}', f"{task}:revokeReminder")
        cleared = await raw('{"tag":"ci"}', f"{task}:clearReminders")
        unknown = await raw('{"reminder":{"body":"x"}}', "/tasks/gone:injectReminder")
        wrong = await raw('{"reminder":{"body":""}}', f"{task}:injectReminder")
        other = await raw('{"taskId":"gone","tag":"x"}', f"{task}:clearReminders")
        await scene.end()
        late = await raw('{"reminder":{"body":"x"}}', f"{task}:injectReminder")
    assert accepted.json()["reminderId"] == "pr-7"
    assert accepted.headers["content-type"] == "application/a2a+json"
    assert pending.json() == posted.json()
    assert pending.json()["reminders"][0]["id"] == "pr-7"
    assert (revoked.json(), cleared.json()) == ({"status": "revoked"}, {"removedCount": 0})
    assert [unknown.status_code, wrong.status_code, other.status_code, late.status_code] == [404, 400, 400, 409]
    assert unknown.json()["error"]["status"] == "NOT_FOUND"
    assert infos(late.json()["error"])["sideband"] == "TASK_FINISHED"


@pytest.mark.requirement("a2a:inject_reminder:notification")
@on_sockets
async def test_a_notification_gets_no_answer_and_an_invalid_one_changes_nothing() -> None:
    async with a_running_task() as scene:
        sent = '{"jsonrpc":"2.0","method":"tasks/inject_reminder","params":{"taskId":"%s","reminder":{"body":"%s"}}}'
        accepted = await scene.caller.raw(sent % (scene.task_id, "Merged."))
        refused = await scene.caller.raw(sent % (scene.task_id, ""))
        pending = await scene.caller.call("tasks/pending_reminders", {"taskId": scene.task_id})
    assert [(answer.status_code, answer.content) for answer in (accepted, refused)] == [(204, b""), (204, b"")]
    assert pending["pendingCount"] == 1


@pytest.mark.requirement("a2a:version:compatibility")
@pytest.mark.parametrize("version", ["1.0", "0.3", "0.3.0", ""])
@on_sockets
async def test_the_methods_are_there_for_every_version(version: str) -> None:
    async with a_running_task() as scene:
        scene.caller.headers["A2A-Version"] = version
        assert (await scene.caller.remind(scene.task_id))["dedupedCount"] == 0


@pytest.mark.requirement("a2a:version:unsupported")
@pytest.mark.parametrize("method", ["GetTask", "tasks/inject_reminder"])
@on_sockets
async def test_another_version_is_refused(method: str) -> None:
    async with a_running_task() as scene:
        params = {"id": scene.task_id} if method == "GetTask" else {"taskId": scene.task_id, "reminder": {"body": "x"}}
        error = await scene.caller.refusal(method, params, A2A_Version="2.0")
    assert (error["code"], infos(error)["a2a-protocol.org"]) == (-32009, "VERSION_NOT_SUPPORTED")


@pytest.mark.requirement("a2a:version:unsupported")
@on_sockets
async def test_the_version_may_be_in_the_query() -> None:
    async with a_running_task() as scene:
        del scene.caller.headers["A2A-Version"]
        without = await scene.caller.raw("", f"/tasks/{scene.task_id}", "GET")
        queried = await scene.caller.raw("", f"/tasks/{scene.task_id}?A2A-Version=1.0", "GET")
    assert (without.status_code, queried.status_code) == (400, 200)


@pytest.mark.requirement("a2a:methods:names-of-today", "a2a:version:compatibility")
@on_sockets
async def test_a_peer_of_0_3_uses_its_own_methods() -> None:
    async with served(["Rebased."]) as tasks:
        caller = tasks.caller()
        del caller.headers["A2A-Version"]
        said = {"kind": "message", "messageId": "m-1", "role": "user", "parts": [{"kind": "text", "text": "Rebase."}]}
        task = await caller.call("message/send", {"message": said})
        again = await caller.call("tasks/get", {"id": task["id"]})
        old = await caller.refusal("tasks/send", {"message": said})
        over_http = await caller.raw('{"request":{}}', f"/v1/tasks/{task['id']}", "GET")
    assert (task["status"]["state"], again["kind"]) == ("completed", "task")
    assert task["artifacts"][0]["parts"][0]["text"] == "Rebased."
    assert old["code"] == -32601
    assert over_http.status_code == 200


# Reminders on messages.


@pytest.mark.requirement("a2a:send:harn-metadata-is-read", "a2a:task:durable-task-holds-no-reminder")
@pytest.mark.parametrize("place", ["params", "message"])
@pytest.mark.parametrize("key", ["harn", URI])
@on_sockets
async def test_a_reminder_in_the_metadata_of_a_message_is_read(place: str, key: str) -> None:
    metadata = {key: {"reminder": {"body": "Four fifths of the budget are spent.", "ttlTurns": 2.0}}, "trace": "t-1"}
    async with served(["Rebased."]) as tasks:
        caller = tasks.caller()
        params = message("Rebase.", **({"metadata": metadata} if place == "params" else {}))
        if place == "message":
            params["message"]["metadata"] = metadata
        task = (await caller.call("SendMessage", params))["task"]
    assert "Four fifths of the budget are spent." in tasks.requests[0].text
    assert "Four fifths" not in str(task)
    if place == "message":
        assert task["history"][0]["metadata"] == {"trace": "t-1"}


@pytest.mark.requirement("a2a:send:harn-metadata-is-read")
@on_sockets
async def test_an_invalid_reminder_in_the_metadata_refuses_the_message() -> None:
    async with served(["Rebased."]) as tasks:
        caller = tasks.caller()
        wrong = {"harn": {"reminder": {"body": "x", "ttlTurns": 0.5}}}
        error = await caller.refusal("SendMessage", message("Rebase.", metadata=wrong))
        listed = await caller.call("ListTasks", {})
    assert (error["code"], infos(error)["sideband"]) == (-32602, "INVALID_REMINDER")
    assert listed["totalSize"] == 0
    assert not tasks.requests


@pytest.mark.requirement("a2a:error:no-internals")
@on_sockets
async def test_a_failing_store_is_an_internal_error_without_its_cause() -> None:
    async with a_running_task() as scene:
        broken = open_store("memory:")
        journal, scene.tasks.store._journal = scene.tasks.store._journal, broken._journal
        scene.tasks.store._journal = None
        inject = {"taskId": scene.task_id, "reminder": {"body": "x"}}
        errors = [
            await scene.caller.refusal("tasks/inject_reminder", inject),
            await scene.caller.refusal("GetTask", {"id": scene.task_id}),
        ]
        over_http = await scene.caller.raw('{"reminder":{"body":"x"}}', f"/tasks/{scene.task_id}:injectReminder")
        scene.tasks.store._journal = journal
    assert [error["code"] for error in errors] == [-32603, -32603]
    assert over_http.status_code == 500
    assert "closed" not in f"{errors} {over_http.text}"
