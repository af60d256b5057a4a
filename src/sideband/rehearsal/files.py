"""The watcher of the workspace in this process, which tells a session of files that others have changed."""

import asyncio
from contextlib import aclosing
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sideband.rehearsal.sample import SampleWorkspace
from sideband.runtime.session import Session
from sideband.watch.files import FileWatcher
from sideband.watch.notice import Notice


class FileRelay:
    """Relays the notices of a file watcher to a session, but not those of the agent's own changes."""

    def __init__(self, session: Session, workspace: SampleWorkspace) -> None:
        self._session = session
        self._workspace = workspace
        self._watcher = FileWatcher(workspace.root)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Return when changes are noticed."""
        self._task = asyncio.create_task(self._relay(), name="sideband-rehearsal-files")
        ready = asyncio.ensure_future(self._watcher.ready.wait())
        await asyncio.wait((ready, self._task), return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def _relay(self) -> None:
        async with aclosing(self._watcher.notices()) as notices:
            async for notice in notices:
                if not await self._is_own(notice):
                    await self._session.remind(
                        notice.body, dedupe_key=notice.dedupe_key, ttl_turns=notice.ttl_turns, tags=notice.tags
                    )

    async def _is_own(self, notice: Notice) -> bool:
        """Whether the agent has made all changes of a notice itself."""
        root, own = self._workspace.root, self._workspace.own_writes
        for uri in notice.uris:
            path = Path(unquote(urlsplit(uri).path))
            if not await own.is_own(path.relative_to(root).as_posix()):
                return False
        return True
