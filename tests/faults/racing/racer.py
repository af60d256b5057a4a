"""A process that races others for sessions: it reads one round per line, plays it, and writes its calls and replies."""

import asyncio
import random
import sys
import time
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec

from sideband.core import accept, drain
from sideband.core.errors import LeaseLost, ReminderError
from sideband.core.limits import DEFAULT_LIMITS
from sideband.core.reminder import Draft
from sideband.core.seams import Seam
from sideband.core.state import Decided, Decision, SessionState
from sideband.core.trust import IN_PROCESS
from sideband.ports import Journal, Lease
from tests.decisions import saying
from tests.faults.journals import ForwardingJournal
from tests.faults.racing.history import Call
from tests.faults.shared_stores import opened

_Value = TypeVar("_Value")

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


class AnswersFromWhatItSaw(ForwardingJournal):
    """Writes what is right, and answers what it would have been before others did what they did."""

    async def commit(
        self, session_id: str, decide: Decision[_Value], *, lease: Lease | None = None, receipts: Sequence[str] = ()
    ) -> _Value:
        def twice(state: SessionState) -> Decided[_Value]:
            return Decided(decide(state).events, decide(self.inner.state(session_id)).value)

        return await super().commit(session_id, twice, lease=lease, receipts=receipts)


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
                # Its own item or one of another process, which may not have been sent yet.
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
                    await self._store.commit(session_id, saying(), lease=lease)
                    return "committed"
        except (ReminderError, LeaseLost) as refusal:
            return refusal.reason

    async def _send(self, about: str, session_id: str) -> int:
        draft = Draft(body="x", dedupe_key=about.partition(".")[2])

        def decide(state: SessionState) -> Decided[int]:
            events, accepted = accept.accept(state, draft, IN_PROCESS, new_id=about, limits=DEFAULT_LIMITS)
            return Decided(events, accepted.deduped_count)

        return await self._store.commit(session_id, decide)

    async def _revoke(self, about: str, session_id: str) -> str:
        status = await self._store.commit(session_id, lambda state: accept.revoke_reminder(state, about, IN_PROCESS))
        return status.value

    async def _drain(self, session_id: str) -> list[str]:
        taken = await self._store.commit(session_id, lambda state: drain.drain(state, Seam.ITERATION_START))
        return list(taken)


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
