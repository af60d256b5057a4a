"""A parent agent, its worker, and the worker events that the parent's hooks get."""

from typing import Any

from sideband.core.hookevents import WorkerEvent
from sideband.core.messages import Reply
from sideband.loop.run import LoopStatus
from sideband.models.scripted import Line
from sideband.render.view import RequestView
from sideband.runtime.store import Store
from sideband.runtime.workers import Worker, spawn
from sideband.testing import CountingIds, ScriptedModel
from tests.loop_builders import AScene, a_reply


class AFamily:
    """A parent with a session, and a worker of it with a model of its own."""

    def __init__(self, *script: Line) -> None:
        self.parent = AScene(name="parent")
        self.store = Store(self.parent.store, new_id=CountingIds("child"))
        self.model = ScriptedModel(script)
        self.heard: list[tuple[str, dict[str, Any]]] = []
        for event in WorkerEvent:
            self.parent.hooks.register_session_hook(event, self._hear)

    async def _hear(self, context: dict[str, Any]) -> None:
        self.heard.append((context["event"], dict(context)))

    @property
    def events(self) -> list[str]:
        return [event for event, _ in self.heard]

    async def spawn(self, task: str = "Read the logs.", **options: Any) -> Worker:  # noqa: ANN401 - those of agent_run
        defaults: dict[str, Any] = {
            "model": self.model,
            "tools": self.parent.tools,
            "hooks": self.parent.hooks,
            "providers": self.parent.providers,
            "clock": self.parent.clock,
        }
        return await spawn(self.parent.session, self.store, task, **(defaults | options))

    def requests_with(self, text: str) -> list[int]:
        return [number for number, request in enumerate(self.model.requests, start=1) if text in request.text]


async def a_suspended_worker(
    family: AFamily,
    *script: Line,
    reason: str | None = "waiting for the nightly build",
    **options: Any,  # noqa: ANN401 - those of agent_run
) -> Worker:
    """A worker that was suspended in its first turn; the script is what its model says afterwards."""
    workers: list[Worker] = []

    async def first(_view: RequestView) -> Reply:
        workers[0].suspend(reason)
        return a_reply("work", text="I begin.")

    family.model = ScriptedModel([first, *script])
    workers.append(await family.spawn(**options))
    assert (await workers[0].work()).status is LoopStatus.SUSPENDED
    return workers[0]
