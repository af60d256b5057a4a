"""Follows the updates of a session, so that a script can wait for what it has caused."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Final

from sideband.core.updates import ReminderUpdate, Update, UpdateKind
from sideband.logs import LOG
from sideband.runtime.session import Session

# Far longer than anything in a rehearsal takes. After it the script goes on: a producer may have failed.
PATIENCE_SECONDS: Final = 30.0


class Observer:
    """Records the updates of a session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._seen: list[Update] = []
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._follow(), name="sideband-rehearsal-updates")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    @property
    def count(self) -> int:
        """How many updates it has seen; `until` takes it, to wait for a later one."""
        return len(self._seen)

    async def until(self, what: str, holds: Callable[[Update], bool], *, since: int = 0) -> bool:
        """Wait for an update for which this holds; return False if there is none for a long time."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    self._news.clear()
                    if any(map(holds, self._seen[since:])):
                        return True
                    await self._news.wait()
        except TimeoutError:
            LOG.warning("the rehearsal goes on without %s, which did not come", what)
            return False

    async def until_queued(self, key: str, *, since: int = 0, containing: str = "") -> bool:
        """Wait until a reminder with this dedupe key is queued."""

        def is_queued(update: Update) -> bool:
            return (
                isinstance(update, ReminderUpdate)
                and update.kind is UpdateKind.REMINDER_QUEUED
                and update.dedupe_key == key
                and update.reminder is not None
                and containing in update.reminder.body
            )

        return await self.until(f"the reminder {key}", is_queued, since=since)

    async def _follow(self) -> None:
        async with aclosing(self._session.updates()) as updates:
            async for update in updates:
                self._seen.append(update)
                self._news.set()
