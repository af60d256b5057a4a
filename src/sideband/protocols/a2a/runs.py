"""Runs the tasks of a server: each task has a runner while it has something to do."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from sideband.core.errors import ReminderError, StoreError
from sideband.logs import LOG
from sideband.loop.guard import describe
from sideband.ports import Clock, Tool
from sideband.protocols.a2a.tasks import ABANDONED, CLOSING, Tasks
from sideband.protocols.servers import SessionServers
from sideband.runtime.options import AgentOptions
from sideband.runtime.permission import RecordedPermission
from sideband.runtime.runner import Runner
from sideband.runtime.session import Session
from sideband.tools.function import ToolLike, read_tools, watcher_of
from sideband.tools.live import LiveTools

ToolsOf: TypeAlias = Callable[[], Sequence[ToolLike]]
"""The tools for one task; those of a workspace remember what they have read."""

# How often a server looks for tasks whose process has ended, and how long such a task must have been silent.
SWEEP_SECONDS: Final = 10.0
SILENT_MS: Final = 5_000


async def _do_nothing(_session: Session) -> None:
    pass


class _HostedTask:
    """A task that this process runs, or waits to run: its runner, and the tools of its MCP servers."""

    runner: Runner
    starting: asyncio.Task[None]

    def __init__(self) -> None:
        self.server_tools: Sequence[Tool] = ()

    async def close(self) -> None:
        self.starting.cancel()
        await asyncio.wait((self.starting,))
        await self.runner.aclose(leaves_turn=True)


class TaskRuns:
    """Runs tasks with these options, and resumes those that a process has left behind.

    With `asks`, tools that may change something wait for the permission of the task's caller.
    """

    def __init__(
        self,
        tasks: Tasks,
        options: AgentOptions,
        *,
        clock: Clock,
        tools_of: ToolsOf | None,
        servers: SessionServers | None,
        asks: bool,
    ) -> None:
        self._tasks = tasks
        self._options = options
        self._clock = clock
        self._tools_of = tools_of
        self._servers = servers
        self._asks = asks
        self._hosted: dict[str, _HostedTask] = {}
        self._sweeping: asyncio.Task[None] | None = None
        self._releasing: set[asyncio.Task[None]] = set()
        self._is_closing = False
        # Awaited with each session before it is run here.
        self.on_host: Callable[[Session], Awaitable[None]] = _do_nothing

    def start(self) -> None:
        """Begin to resume tasks that have been left behind."""
        self._sweeping = asyncio.create_task(self._sweep_again_and_again(), name="sideband-a2a-sweep")

    async def close(self) -> None:
        """Stop. Turns that run are left open, and the next server of this store resumes them."""
        self._is_closing = True
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.wait((self._sweeping,))
        closing = (hosted.close() for hosted in self._hosted.values())
        for error in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(error, Exception):
                LOG.error("a task was not left in order", exc_info=error)
        self._hosted.clear()
        if self._releasing:
            await asyncio.wait(self._releasing)
        if self._servers is not None:
            await self._servers.close()

    def host(self, session: Session) -> None:
        """Run what is queued for a task, and resume its turn if one was left open."""
        if session.id in self._hosted or self._is_closing:
            return
        options: AgentOptions = {**self._options, "closing": CLOSING}
        given = options.get("tools", ()) if self._tools_of is None else self._tools_of()
        tools = read_tools(given)
        if "watcher" not in options:
            options["watcher"] = watcher_of(given, tools)
        if self._asks:
            options["permission"] = RecordedPermission(session, refuser="the caller")
        hosted = _HostedTask()
        options["tools"] = LiveTools(lambda: [*tools, *hosted.server_tools])
        hosted.runner = Runner(session, resume=True, on_result=lambda *_: self._forget(session), **options)
        self._hosted[session.id] = hosted
        hosted.starting = asyncio.create_task(self._begin(session, hosted), name="sideband-a2a-host")

    async def _begin(self, session: Session, hosted: "_HostedTask") -> None:
        """Start the runner after the servers are connected, or have had their time for it."""
        if self._servers is not None:
            try:
                hosted.server_tools = await self._servers.attach(session, ())
            except Exception:  # noqa: BLE001 - a task can be done without its servers, too
                LOG.exception("task %s: its MCP servers cannot be used", session.id)
        try:
            await self.on_host(session)
        except (ReminderError, StoreError) as error:
            LOG.warning("push notifications of task %s: %s", session.id, describe(error))
        finally:
            hosted.runner.start()

    def _forget(self, session: Session) -> None:
        """Release a runner whose run has ended; a later message gets another one."""
        releasing = asyncio.create_task(self._release(session))
        self._releasing.add(releasing)
        releasing.add_done_callback(self._releasing.discard)

    async def _release(self, session: Session) -> None:
        hosted = self._hosted.get(session.id)
        if hosted is None or not hosted.starting.done() or hosted.runner.has_work or session.talk.state.running:
            # While another process runs it, this one waits to take it over.
            return
        del self._hosted[session.id]
        await hosted.close()
        if self._servers is not None:
            await self._servers.detach(session, hosted.server_tools)
        # A message may have arrived while the runner was about to end.
        if (await self._tasks.progress(session.id)).waits:
            self.host(session)

    # What other processes have left behind.

    async def _sweep_again_and_again(self) -> None:
        silent_ms = 0
        while True:
            try:
                await self._sweep(silent_ms)
            except StoreError as error:
                LOG.warning("tasks that were left behind cannot be looked for: %s", describe(error))
            except Exception:  # noqa: BLE001 - the next sweep may succeed
                LOG.exception("tasks that were left behind cannot be looked for")
            silent_ms = SILENT_MS
            await self._clock.sleep(SWEEP_SECONDS)

    async def _sweep(self, silent_ms: int) -> None:
        """Take over tasks that are not finished and that no process runs, and release those that ended elsewhere.

        Only tasks that have been silent for a while are taken: another server may be about to run a new one.
        """
        for hosted in tuple(self._hosted.values()):
            await self._release(hosted.runner.session)
        now = self._clock.now_ms()
        left = [entry async for entry in self._tasks.unfinished() if entry.changed_at <= now - silent_ms]
        for entry in left:
            if entry.session_id in self._hosted:
                continue
            try:
                await self._take_over(entry.session_id, is_old=entry.changed_at <= now - SILENT_MS)
            except StoreError:
                raise
            except Exception:  # noqa: BLE001 - one task must not keep the others from being run
                LOG.exception("task %s cannot be continued", entry.session_id)

    async def _take_over(self, task_id: str, *, is_old: bool) -> None:
        session = await self._tasks.store.find(task_id)
        progress = await self._tasks.progress(task_id)
        if session is None or progress.closed or progress.attended:
            return
        if progress.running or progress.waits:
            self.host(session)
        elif is_old:
            # Its turn was ended without a result, and nothing is left that could start another one.
            await session.finish(ABANDONED)
