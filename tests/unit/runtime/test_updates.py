"""Updates of a stored session: clients that come, read, fall behind and synchronise again, while it is pruned."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from functools import partial
from itertools import count
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sideband.core.errors import CursorExpired
from sideband.core.events import Dropped, DropReason
from sideband.core.limits import DEFAULT_LIMITS
from sideband.core.updates import Viewer, view
from sideband.runtime.session import Session
from sideband.testing import MemoryStore
from tests.decisions import deciding, saying
from tests.loop_builders import others
from tests.naive_viewer import NaiveViewer
from tests.unit.core.test_updates import without_ttl
from tests.unit.store.twins import a_start, played, written_at
from tests.viewed_histories import VIEWERS, Happening, committed, histories


class Client:
    """One viewer of a session, which keeps what it was told and the cursor of the last update."""

    def __init__(self, session: Session, viewer: Viewer) -> None:
        self.session, self.viewer = session, viewer
        self.known, self.cursor = NaiveViewer(viewer), 0
        self._listening: asyncio.Task[None] | None = None

    async def synchronise(self) -> None:
        found = await self.session.view(self.viewer)
        self.known, self.cursor = NaiveViewer(self.viewer, found.view), found.cursor

    async def listen(self) -> None:
        """Follow the session from its cursor on, in the background."""
        if self._listening is None:
            self._listening = asyncio.create_task(self._follow())

    async def hang_up(self) -> None:
        """Stop listening, to resume at its cursor later."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening])
        self._listening = None

    async def _follow(self) -> None:
        while True:
            try:
                async with aclosing(self.session.updates(self.viewer, after=self.cursor)) as updates:
                    async for update in updates:
                        assert update.cursor > self.cursor
                        self.known.take(update)
                        self.cursor = update.cursor
            except CursorExpired:
                await self.synchronise()

    async def catch_up(self, store: MemoryStore, mark: str) -> None:
        """Listen until it was told all that has happened, and compare that with what it may see."""
        refused = Dropped(
            reminder_id=mark, reason=DropReason.RATE_LIMITED, at_the_door=True, provenance=self.viewer.provenance
        )
        last = await written_at(store, self.session.id, saying(refused))
        await self.listen()
        assert self._listening is not None
        while self.cursor < last and not self._listening.done():
            await others()
        if self._listening.done():
            self._listening.result()
        assert self.known.view() == without_ttl(view(store.state(self.session.id), self.viewer))


Step = Callable[["Scenery"], Coroutine[Any, Any, None]]


class Scenery:
    """A session with clients of all kinds. Its store disconnects a subscriber that has three unread events."""

    def __init__(self) -> None:
        self.store = MemoryStore(subscriber_events=3)
        self.ids = count(1)
        self.session = Session(self.store, "s", new_id=lambda: f"id{next(self.ids)}", limits=DEFAULT_LIMITS)
        self.clients = [Client(self.session, viewer) for viewer in VIEWERS.values()]

    async def happen(self, happens: Happening) -> None:
        new_id = f"id{next(self.ids)}"
        await self.store.commit("s", deciding(lambda state: committed(state, happens, new_id)))
        # Another session has events in between, which no client is told of.
        await self.store.commit("other", a_start)

    async def prune(self, *, keep: int) -> None:
        await self.store.prune("s", keep_events=keep)

    async def client(self, *, place: int, does: str) -> None:
        client = self.clients[place % len(self.clients)]
        if does == "catch up":
            await client.catch_up(self.store, f"mark{next(self.ids)}")
        elif does == "hang up":
            await client.hang_up()
        elif does == "listen":
            await client.listen()
            await others()
        else:
            await client.hang_up()
            await client.synchronise()


steps: st.SearchStrategy[Step] = st.one_of(
    st.builds(lambda keep: partial(Scenery.prune, keep=keep), st.integers(0, 5)),
    st.builds(
        lambda place, does: partial(Scenery.client, place=place, does=does),
        st.integers(0, 5),
        st.sampled_from(["catch up", "listen", "listen", "hang up", "synchronise"]),
    ),
)


@given(histories, st.lists(steps, min_size=5, max_size=20), st.randoms(use_true_random=False))
def test_clients_know_what_they_may_see_however_late_they_read(
    history: list[Happening], asides: list[Step], shuffler: Random
) -> None:
    happening: list[Step] = [partial(Scenery.happen, happens=happens) for happens in history]
    for step in asides:
        happening.insert(shuffler.randint(0, len(happening)), step)

    async def story() -> None:
        scenery = Scenery()
        for step in happening:
            await step(scenery)
        for client in scenery.clients:
            await client.catch_up(scenery.store, f"mark{next(scenery.ids)}")
            await client.hang_up()
        assert scenery.store.subscribers == 0

    played(story)
