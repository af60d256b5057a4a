"""Push notifications: where they may go, and what they tell."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from sideband.core.errors import InvalidOption
from sideband.models.scripted import Line
from sideband.protocols.a2a.push import PUBLIC_ONLY, PinnedTransport, PushPolicy, is_public
from tests.a2a_callers import COORDINATOR, REVIEWER, Door, in_time, message, on_sockets, served, some_peers
from tests.acp_scenes import calling
from tests.acp_sockets import a_server

ANYWHERE: Final = PushPolicy(schemes=frozenset({"http"}), allows=lambda _address: True)


class Receiver:
    """What was posted to an address of the caller."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/hook"
        self.port = port
        self.posts: asyncio.Queue[tuple[dict[str, Any], dict[str, str]]] = asyncio.Queue()

    async def until(self, state: str) -> list[dict[str, Any]]:
        """What was posted up to this state."""
        found = []
        while True:
            body, _headers = await self.posts.get()
            found.append(body)
            if body.get("statusUpdate", {}).get("status", {}).get("state") == f"TASK_STATE_{state}":
                return found


@asynccontextmanager
async def a_receiver() -> AsyncIterator[Receiver]:
    received: list[Receiver] = []

    async def hook(request: Request) -> Response:
        await received[0].posts.put((await request.json(), dict(request.headers)))
        return Response()

    async def redirect(_request: Request) -> Response:
        return RedirectResponse("/hook")

    app = Starlette(routes=[Route("/hook", hook, methods=["POST"]), Route("/redirect", redirect, methods=["POST"])])
    async with a_server(app) as port:
        received.append(Receiver(port))
        yield received[0]


@pytest.mark.requirement("a2a:push:no-reminders")
@on_sockets
async def test_states_and_artifacts_are_pushed_and_reminders_are_not() -> None:
    door = Door()
    script: list[Line] = [calling("wait_at_the_door"), "Rebased."]
    async with (
        a_receiver() as receiver,
        served(script, options={"tools": [door.wait_at_the_door]}, push=ANYWHERE) as tasks,
    ):
        caller = tasks.caller()
        config = {"url": receiver.url, "token": "t-1", "authentication": {"scheme": "Bearer", "credentials": "c-1"}}
        task = await caller.call(
            "SendMessage",
            message(configuration={"returnImmediately": True, "taskPushNotificationConfig": config}),
        )
        task_id = task["task"]["id"]
        await door.entered.wait()
        await caller.remind(task_id, "Merged.", ttlTurns=1)
        door.open.set()
        first, headers = await in_time(receiver.posts.get())
        rest = await in_time(receiver.until("COMPLETED"))
    bodies = [first, *rest]
    assert [next(iter(body)) for body in bodies] == ["statusUpdate", "artifactUpdate", "statusUpdate"]
    assert (headers["x-a2a-notification-token"], headers["authorization"]) == ("t-1", "Bearer c-1")
    assert "Merged." not in str(bodies)
    assert "reminder" not in str(bodies)


@pytest.mark.requirement("a2a:push:configured")
@on_sockets
async def test_configurations_are_kept_listed_and_removed() -> None:
    door = Door()
    script: list[Line] = [calling("wait_at_the_door"), "Rebased."]
    async with (
        a_receiver() as receiver,
        served(script, options={"tools": [door.wait_at_the_door]}, push=ANYWHERE, peers=some_peers()) as tasks,
    ):
        caller = tasks.caller(COORDINATOR)
        task_id = (await caller.begin())["id"]
        await door.entered.wait()
        create = "CreateTaskPushNotificationConfig"
        await caller.call(create, {"taskId": task_id, "id": "b", "url": f"http://127.0.0.1:{receiver.port}/redirect"})
        created = await caller.call(create, {"taskId": task_id, "id": "a", "url": receiver.url})
        got = await caller.call("GetTaskPushNotificationConfig", {"taskId": task_id, "id": "a"})
        listed = await caller.call("ListTaskPushNotificationConfigs", {"taskId": task_id})
        await caller.call("DeleteTaskPushNotificationConfig", {"taskId": task_id, "id": "a"})
        left = await caller.call("ListTaskPushNotificationConfigs", {"taskId": task_id})
        missing = await caller.refusal("GetTaskPushNotificationConfig", {"taskId": task_id, "id": "a"})
        foreign = await tasks.caller(REVIEWER).refusal("ListTaskPushNotificationConfigs", {"taskId": task_id})
        too_many = [
            await caller.answer(create, {"taskId": task_id, "id": f"n{number}", "url": receiver.url})
            for number in range(17)
        ]
        long_id = await caller.refusal(create, {"taskId": task_id, "id": "x" * 200, "url": receiver.url})
        door.open.set()
        await in_time(receiver.until("COMPLETED"))
    assert created == got
    assert [config["id"] for config in listed["configs"]] == ["a", "b"]
    assert [config["id"] for config in left["configs"]] == ["b"]
    assert (missing["code"], foreign["code"], long_id["code"]) == (-32001, -32001, -32602)
    assert [answer["error"]["code"] for answer in too_many if "error" in answer] == [-32000, -32000]


@pytest.mark.requirement("a2a:push:configured")
@on_sockets
async def test_push_notifications_can_be_turned_off() -> None:
    async with served(push=None) as tasks:
        card = (await tasks.client.get("/.well-known/agent-card.json")).json()
        error = await tasks.caller().refusal(
            "SendMessage", message(configuration={"taskPushNotificationConfig": {"url": "https://example.org"}})
        )
        other = await tasks.caller().refusal("ListTaskPushNotificationConfigs", {"taskId": "t"})
    assert (card["capabilities"].get("pushNotifications", False), error["code"], other["code"]) == (
        False,
        -32003,
        -32003,
    )


@pytest.mark.requirement("a2a:push:screened")
@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1:248:1893:25c8:1946", True),
        ("127.0.0.1", False),
        ("10.0.0.1", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),  # noqa: S104 - not bound to
        ("224.0.0.1", False),
        ("::1", False),
        ("fe80::1%eth0", False),
        ("fc00::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("2002:7f00:1::", False),
        ("2001:0:4136:e378:8000:63bf:3fff:fdd2", False),
        ("fec0::1", False),
        ("192.0.0.8", False),
        ("192.88.99.1", False),
    ],
)
def test_only_public_addresses_may_be_pushed_to(address: str, *, public: bool) -> None:
    assert is_public(address) is public


@pytest.mark.requirement("a2a:push:screened")
@pytest.mark.parametrize(
    "url",
    [
        "http://93.184.216.34/",
        "https://127.0.0.1/",
        "https://localhost/",
        "https://[::1]/",
        "https://[::ffff:169.254.169.254]/",
        "https://0/",
        "file:///etc/passwd",
        "https:///",
        "not an address",
        "https://no-such-host.invalid/",
    ],
)
@on_sockets
async def test_an_address_that_is_not_public_is_refused(url: str) -> None:
    async with served() as tasks:
        caller = tasks.caller()
        error = await caller.refusal("SendMessage", message(configuration={"taskPushNotificationConfig": {"url": url}}))
        listed = await caller.call("ListTasks", {})
    assert error["code"] == -32602
    assert listed["totalSize"] == 0


@pytest.mark.requirement("a2a:push:screened")
@on_sockets
async def test_a_connection_goes_to_the_address_that_was_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that resolves to something else a moment later is not asked again."""
    async with a_receiver() as receiver:
        answers = iter(["127.0.0.1", "192.0.2.1"])
        asked: list[str] = []

        async def resolve(host: str, port: int, **_options: object) -> list[Any]:
            asked.append(host)
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), port))]

        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "getaddrinfo", resolve)
        async with httpx.AsyncClient(transport=PinnedTransport(ANYWHERE)) as client:
            response = await client.post(f"http://rebinding.example:{receiver.port}/hook", json={"a": 1})
        monkeypatch.undo()
        body, headers = await in_time(receiver.posts.get())
    assert (response.status_code, body, asked) == (200, {"a": 1}, ["rebinding.example"])
    assert headers["host"] == f"rebinding.example:{receiver.port}"


@pytest.mark.requirement("a2a:push:screened")
@on_sockets
async def test_of_several_addresses_none_may_be_private(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolve(_host: str, port: int, **_options: object) -> list[Any]:
        found = ("93.184.216.34", "10.0.0.1")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    with pytest.raises(InvalidOption, match="not a public address"):
        await PUBLIC_ONLY.checked(httpx.URL("https://both.example/"))


@pytest.mark.requirement("a2a:push:no-reminders")
@on_sockets
async def test_a_task_that_asked_is_told_of_until_its_end() -> None:
    async def push(branch: str) -> str:
        """Push a branch."""
        return f"pushed {branch}"

    async with (
        a_receiver() as receiver,
        served([calling("push", branch="main"), "Done."], options={"tools": [push]}, asks=True, push=ANYWHERE) as tasks,
    ):
        caller = tasks.caller()
        config = {"taskPushNotificationConfig": {"url": receiver.url}}
        task = (await caller.call("SendMessage", message(configuration=config)))["task"]
        await in_time(receiver.until("INPUT_REQUIRED"))
        await caller.call("SendMessage", message("yes", taskId=task["id"]))
        rest = await in_time(receiver.until("COMPLETED"))
    assert [next(iter(body)) for body in rest] == ["statusUpdate", "artifactUpdate", "statusUpdate"]
