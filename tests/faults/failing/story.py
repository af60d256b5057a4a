"""A whole small session whose client retries everything that fails."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from functools import partial
from typing import Any, Final, TypeAlias

from sideband.core.errors import OutcomeUnknown, StoreError
from sideband.core.events import Closed
from sideband.ports import Journal, Logged
from sideband.runtime.agents import agent_loop
from sideband.runtime.session import Session
from sideband.runtime.store import Store
from tests.faults.laws import broken, journal_of
from tests.faults.scripted_agent import RehearsedModel, Talker, WatchedCompactor, WorkTool
from tests.faults.witness import Witness

SESSION: Final = "s"
# A failure may cause a second one during clean-up, but hardly more.
TRIES: Final = 6
Open: TypeAlias = Callable[[], Coroutine[Any, Any, Journal]]


class Story:
    """`failures` are the errors the client got; `open` opens the store, any number of times."""

    def __init__(self, open: Open) -> None:  # noqa: A002 - that is what it does
        self._open = open
        self.witness = Witness()
        self.failures: list[BaseException] = []
        self.problems: list[str] = []
        self.followed: list[Logged] = []
        """The events of a subscriber that followed the session from its beginning."""

    async def play(self) -> None:
        """Play the whole session, check the store, then open it again and check it once more."""
        for do in (self._tell, self._look):
            store: Journal = await self._tried(self._open)
            try:
                await do(store)
            finally:
                await store.close()

    async def _tell(self, store: Journal) -> None:
        following = asyncio.ensure_future(self._tried(lambda: self._follow(store)))
        try:
            await self._say_all(store)
            await following
        finally:
            following.cancel()
        await self._look(store)

    async def _follow(self, store: Journal) -> None:
        """To the end, from where it was when it had to begin again."""
        after = self.followed[-1].sequence if self.followed else 0
        async with aclosing(store.subscribe(session_id=SESSION, after=after)) as news:
            async for logged in news:
                self.followed.append(logged)
                if isinstance(logged.event, Closed):
                    return

    async def _say_all(self, store: Journal) -> None:
        session: Session = await self._tried(lambda: Store(store).session(SESSION))
        talker = Talker(session, self.witness.hear, seed=1)
        for number in (1, 2, 3):
            await self._tried(partial(talker.remind, number))
        await self._tried(lambda: self._prompt(session))
        await self._tried(lambda: self._run(session))
        await self._tried(lambda: talker.remind(4))
        await self._tried(lambda: talker.revoke(4))
        await self._tried(lambda: talker.clear(1))
        await self._tried(session.close)
        self.witness.hear("closed")

    async def _tried(self, step: Callable[[], Coroutine[Any, Any, Any]]) -> Any:  # noqa: ANN401 - whatever it gives
        for _ in range(TRIES):
            # In a task of its own, which may be cancelled.
            task = asyncio.ensure_future(step())
            await asyncio.wait([task])
            failure = asyncio.CancelledError() if task.cancelled() else task.exception()
            if not isinstance(failure, StoreError | asyncio.CancelledError):
                return task.result()
            self.failures.append(failure)
        raise AssertionError(f"it never worked: {self.failures}")

    async def _prompt(self, session: Session) -> None:
        text = "Begin."
        self.witness.hear("accepted", await session.prompt(text), text)

    async def _run(self, session: Session) -> None:
        say = self.witness.hear
        result = await agent_loop(
            None,
            session=session,
            model=RehearsedModel(session, say, turns=2),
            tools=[WorkTool(session, say)],
            compactor=WatchedCompactor(),
            reminders=False,
        )
        self.problems += [problem.message for problem in result.problems]
        assert result.error is None, result.error

    async def _look(self, store: Journal) -> None:
        events = await self._tried(lambda: journal_of(store, SESSION))
        assert broken(events, self.witness) == []
        assert [logged.event for logged in self.followed] == events
        if not any(isinstance(failure, asyncio.CancelledError | OutcomeUnknown) for failure in self.failures):
            # A client that was told that nothing happened may send it again.
            said = [event for event in events if type(event).__name__ in ("Queued", "InjectAccepted")]
            assert len(said) == len(self.witness.accepted)
