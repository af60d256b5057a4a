"""A process that races others for sessions: it reads a round a line, plays it, and tells what it did and was answered."""

import asyncio
import random
import sys
import time
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from sideband.core import drain, inbox
from sideband.core.draft import Draft
from sideband.core.errors import ReminderError
from sideband.core.events import Event
from sideband.core.failures import LeaseLost
from sideband.core.seams import Seam
from sideband.core.state import SessionState
from sideband.core.trust import IN_PROCESS
from sideband.ports import Committed, Decision, Journal, Lease
from tests.faults.journals import PassingOn
from tests.faults.places import opened
from tests.faults.racing.history import Call

VERBS: Final = ("send", "send", "send", "revoke", "revoke", "drain", "acquire", "run", "release")
KEYS: Final = ("a", "b")
# Nothing lapses while it is raced for.
LEASE_SECONDS: Final = 600.0


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """What is played: `others` are the names of those who play along."""

    session_id: str
    seed: int
    calls: int
    others: tuple[str, ...]


class AnswersFromWhatItSaw(PassingOn):
    """Writes what is right, and answers what it would have been before others did what they did."""

    async def commit(self, session_id: str, decide: Decision, *, lease: Lease | None = None) -> Committed:
        def twice(state: SessionState) -> Iterable[Event]:
            events = tuple(decide(state))
            # Whoever asks keeps the last answer.
            decide(self.behind.state(session_id))
            return events

        return await super().commit(session_id, twice, lease=lease)


class Racer:
    """One who plays; `mine` is what it has sent in this round, with the token of the lease it has."""

    def __init__(self, store: Journal, name: str) -> None:
        self._store = store
        self._name = name

    async def play(self, given: Round) -> list[Call]:
        rng = random.Random(f"{given.seed}/{self._name}")  # noqa: S311 - a choice, no secret
        await self._store.open(given.session_id)
        self._lease: Lease | None = None
        self._sent = 0
        played: list[Call] = []
        for _ in range(given.calls):
            verb = rng.choice(VERBS)
            about = self._about(verb, rng, given)
            began = time.monotonic_ns()
            answer = await self._do(verb, about, given.session_id)
            played.append(Call(began, time.monotonic_ns(), self._name, verb, about, answer))
        return played

    def _about(self, verb: str, rng: random.Random, given: Round) -> str:
        """What a call is about: an item by its name and key, or a lease by its token."""
        match verb:
            case "send":
                self._sent += 1
                return f"{self._name}{self._sent}.{rng.choice(KEYS)}"
            case "revoke":
                # Its own or that of somebody else, which may not have been sent yet.
                return f"{rng.choice(given.others)}{rng.randint(1, 3)}.{rng.choice(KEYS)}"
            case "run" | "release":
                return str(0 if self._lease is None else self._lease.token)
        return ""

    async def _do(self, verb: str, about: str, session_id: str) -> Any:  # noqa: ANN401 - the answer
        try:
            match verb:
                case "send":
                    return await self._send(about, session_id)
                case "revoke":
                    return await self._revoke(about, session_id)
                case "drain":
                    return await self._drain(session_id)
                case "acquire":
                    self._lease = await self._store.acquire(session_id, self._name)
                    return self._lease.token
                case "release":
                    if self._lease is not None:
                        await self._store.release(self._lease)
                    return "released"
                case _:
                    lease = self._lease or Lease(
                        session_id=session_id, holder=self._name, token=0, seconds=0, expires_at=0
                    )
                    await self._store.commit(session_id, lambda _: (), lease=lease)
                    return "committed"
        except (ReminderError, LeaseLost) as refusal:
            return refusal.reason

    async def _send(self, about: str, session_id: str) -> int:
        answers: list[int] = []
        draft = Draft(body="x", dedupe_key=about.partition(".")[2])

        def decide(state: SessionState) -> Iterable[Event]:
            accepted = inbox.accept(state.inbox, draft, IN_PROCESS, new_id=about)
            answers.append(accepted.deduped_count)
            return accepted.events

        await self._store.commit(session_id, decide)
        return answers[-1]

    async def _revoke(self, about: str, session_id: str) -> str:
        answers: list[str] = []

        def decide(state: SessionState) -> Iterable[Event]:
            revocation = inbox.revoke_reminder(state.inbox, about, IN_PROCESS)
            answers.append(revocation.status.value)
            return revocation.events

        await self._store.commit(session_id, decide)
        return answers[-1]

    async def _drain(self, session_id: str) -> list[str]:
        answers: list[list[str]] = []

        def decide(state: SessionState) -> Iterable[Event]:
            drained = drain.drain(state.inbox, state.live, Seam.ITERATION_START, next_turn=1)
            answers.append([item.id for item in drained.taken])
            return drained.events

        await self._store.commit(session_id, decide)
        return answers[-1]


async def main(address: str, name: str, is_planted: str) -> None:
    async with opened(address, lease_seconds=LEASE_SECONDS) as store:
        racer = Racer(AnswersFromWhatItSaw(store) if is_planted == "planted" else store, name)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while line := await asyncio.to_thread(sys.stdin.readline):
            played = await racer.play(msgspec.json.decode(line, type=Round))
            sys.stdout.write(msgspec.json.encode(played).decode() + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
