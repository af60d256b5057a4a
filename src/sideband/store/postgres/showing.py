"""What a program sees of the sessions it has at hand: each as it was read, and behind that all that is logged of it."""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias
from weakref import WeakKeyDictionary

from sideband.ports import Logged
from sideband.store.postgres.committing import Round
from sideband.store.postgres.link import Connection
from sideband.store.postgres.reading import load
from sideband.store.replica import Loaded, Replica
from sideband.store.roster import Roster

Run: TypeAlias = Callable[[Callable[[Connection], Awaitable[Loaded]]], Awaitable[Loaded]]


class Show:
    """Belongs to the event loop. What is logged of a session while it is being read is put aside, and shown behind it."""

    def __init__(self, replicas: Roster[Replica], *, place: str) -> None:
        self._replicas = replicas
        self._place = place
        # For each who reads a session.
        self._aside: dict[str, dict[int, list[Logged]]] = {}
        # For one that is read for a commit, and shown with it.
        self._unseen: WeakKeyDictionary[Replica, list[Logged]] = WeakKeyDictionary()

    async def read(self, replica: Replica, run: Run) -> Loaded:
        """Read a session, and show it as it was then and what was logged meanwhile."""
        meanwhile: list[Logged] = []
        readers = self._aside.setdefault(replica.session_id, {})
        readers[id(meanwhile)] = meanwhile
        try:
            loaded = await run(functools.partial(load, session_id=replica.session_id, place=self._place))
            state = await asyncio.to_thread(loaded.restore)
        finally:
            del readers[id(meanwhile)]
            if not readers:
                self._aside.pop(replica.session_id, None)
        replica.show(state, loaded.at)
        replica.show_news(meanwhile)
        return loaded

    def expect(self, replica: Replica) -> None:
        """It will be committed to: where it is not shown yet, it will be read for that."""
        if not replica.is_open:
            self._unseen.setdefault(replica, [])

    def deliver(self, done: Round) -> None:
        """What a round has read and written."""
        for fresh in done.loaded:
            # The answer to a commit may come late, and what others have logged since before it.
            if not fresh.replica.is_open or fresh.replica.seen_at <= fresh.at:
                fresh.replica.show(fresh.state, fresh.at)
        self.tell(done.news)
        self.tell(done.written)
        for fresh in done.loaded:
            meanwhile = self._unseen.pop(fresh.replica, ())
            if fresh.replica.is_open:
                fresh.replica.show_news(meanwhile)

    def tell(self, entries: Iterable[Logged]) -> None:
        """This was logged, by whomever."""
        news: dict[str, list[Logged]] = {}
        for entry in entries:
            news.setdefault(entry.session_id, []).append(entry)
        for session_id, logged in news.items():
            for meanwhile in self._aside.get(session_id, {}).values():
                meanwhile.extend(logged)
            replica = self._replicas.peek(session_id)
            if replica is None:
                continue
            if replica.is_open:
                replica.show_news(logged)
            elif replica in self._unseen:
                self._unseen[replica].extend(logged)
