"""An MCP server that serves watchers: a reminder for each notice, and the resources that it is about."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from textwrap import shorten
from typing import Any, Final, Protocol, runtime_checkable

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp.server.mcpserver.resources import FunctionResource

import sideband
from sideband.core.errors import ReminderError
from sideband.logs import LOG
from sideband.protocols.mcp.server.reminders import Reminders
from sideband.protocols.mcp.server.resource_subscriptions import ResourceSubscriptions
from sideband.tools.root import Root
from sideband.tools.tool import Refused
from sideband.watch.notice import NoticeWatcher

MAX_TEXT_BYTES: Final = 1024 * 1024
# How long the first answer may wait for the watchers; a host gives up after some seconds.
READY_SECONDS: Final = 2.0
# Characters of an error that a reminder repeats.
MAX_REASON: Final = 200


@runtime_checkable
class WatchedResource(Protocol):
    """A watcher whose latest result can be read."""

    uri: str
    title: str

    @property
    def latest(self) -> str:
        """The text of the latest result; empty before the first."""


class WatchServer:
    """A server with its watchers, which run as long as the server does.

    `files` is a text file, or a folder with text files, that can be read as resources. `hook_tool` adds the tool
    `pending_reminders`.
    """

    def __init__(
        self,
        name: str,
        watchers: Sequence[NoticeWatcher],
        *,
        instructions: str,
        files: Path | None = None,
        only_declared: bool = False,
        hook_tool: bool = False,
    ) -> None:
        # A command that fails at once has failed before the first client listens.
        self.reminders = Reminders(
            only_declared=only_declared, hook_tool=name if hook_tool else None, keep_unheard=True
        )
        self._name = name
        self._watchers = watchers
        self._subscriptions = ResourceSubscriptions()
        self.server: MCPServer[Any] = MCPServer(
            name,
            version=sideband.__version__,
            instructions=instructions,
            extensions=[self.reminders],
            middleware=[self._subscriptions, self.reminders],
            subscriptions=self._subscriptions.bus,
            lifespan=self._lifespan,
            log_level="WARNING",
        )
        for watcher in watchers:
            if isinstance(watcher, WatchedResource):
                self.server.add_resource(_latest(watcher))
        if files is not None:
            _add_files(self.server, files)

    @asynccontextmanager
    async def _lifespan(self, _server: object) -> AsyncIterator[dict[str, Any]]:
        tasks = [asyncio.create_task(self._watch(watcher)) for watcher in self._watchers]
        try:
            await self._ready(tasks)
            yield {}
        finally:
            for task in tasks:
                task.cancel()
            # Wait for them, because a watcher ends the processes that it has started.
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _ready(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """Wait until the watchers notice changes: what a client changes after its first answer must not be missed."""
        waiting = [asyncio.create_task(watcher.ready.wait()) for watcher in self._watchers]
        try:
            async with asyncio.timeout(READY_SECONDS):
                for ready, task in zip(waiting, tasks, strict=True):
                    await asyncio.wait((ready, task), return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            LOG.warning("%s answers before it notices changes, because that takes long", self._name)
        finally:
            for ready in waiting:
                ready.cancel()

    async def _watch(self, watcher: NoticeWatcher) -> None:
        why = "what it watched no longer exists"
        try:
            async with aclosing(watcher.notices()) as notices:
                async for notice in notices:
                    await self.reminders.emit(
                        notice.body, dedupe_key=notice.dedupe_key, ttl_turns=notice.ttl_turns, tags=notice.tags
                    )
                    await self._subscriptions.updated(notice.uris)
        except ReminderError as error:
            LOG.error("%s has stopped: %s", self._name, error)
            why = f"of an error: {shorten(str(error), MAX_REASON, placeholder=' ...')}"
        except Exception as error:  # noqa: BLE001 - the outermost handler of this task
            LOG.exception("%s has stopped", self._name)
            why = f"of an error ({type(error).__name__})"
        # Without a word, an agent would take the silence for "nothing has changed".
        await self.reminders.emit(
            f"{self._name} has stopped and reports no more changes, because {why}.",
            dedupe_key=f"{self._name}:stopped",
        )


def _latest(watcher: WatchedResource) -> FunctionResource:
    def read() -> str:
        return watcher.latest

    return FunctionResource(
        uri=watcher.uri, name=watcher.uri, title=watcher.title or None, mime_type="text/plain", fn=read
    )


def _add_files(server: MCPServer[Any], files: Path) -> None:
    """Serve a text file, or the text files below a folder; the path of a resource is absolute."""
    place = files.resolve(strict=True)
    root = Root(place if place.is_dir() else place.parent)
    only = None if place.is_dir() else place
    what = f"text files below {place}, outside .git," if only is None else f"the text file {place}"
    limits = f"only {what} of at most {MAX_TEXT_BYTES:,} bytes can be read"

    @server.resource(
        "file:///{+path}",
        name="file",
        title="A watched file",
        description=f"A text file in UTF-8, by its absolute path; {limits}.",
        mime_type="text/plain",
    )
    def file(path: str) -> str:
        try:
            wanted = root.resolve(f"/{path}")
            if wanted.in_git or (only is not None and root.full_path(wanted) != only):
                raise Refused("not served")  # noqa: TRY301 - answered like all other refusals
            return root.read(wanted, limit=MAX_TEXT_BYTES).data.decode()
        except (Refused, UnicodeDecodeError) as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise ResourceNotFoundError(f"there is no file /{path}") from None
            # One answer for all, so that it tells nothing about files that are not served.
            raise ResourceError(f"/{path} cannot be read: {limits}") from None
