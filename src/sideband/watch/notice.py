"""What watchers report: facts for an agent, in the form of reminders. Watchers know nothing of MCP or of sessions."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Final, Protocol

import msgspec

# More files than this are reported together, so that many changes stay few notices.
MAX_SEPARATE: Final = 20


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that a watcher has noticed; the fields up to `tags` are those of a reminder.

    `uris` are the resources that have changed. A client that has read one of them should read it again.
    """

    body: str
    dedupe_key: str
    ttl_turns: int
    tags: tuple[str, ...] = ()
    uris: tuple[str, ...] = ()


class NoticeWatcher(Protocol):
    """Watches something and yields a notice for each change; `ready` is set when it notices changes."""

    ready: asyncio.Event

    def notices(self) -> AsyncGenerator[Notice, None]:
        """The notices from now on, until the generator is closed, which ends everything that was started."""
