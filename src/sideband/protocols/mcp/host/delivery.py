"""Delivers the reminders of one server to one session: each is offered at once, and held while there is no room."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from sideband.core.errors import (
    RateLimited,
    ReminderError,
    StoreClosed,
    StoreError,
    TaskFinished,
    TooManyPending,
    UnknownSession,
)
from sideband.core.events import DropReason
from sideband.core.reminder import Draft, in_name_of
from sideband.core.surfaces import Surface
from sideband.core.trust import LEVELS, Channel, Provenance
from sideband.logs import LOG
from sideband.protocols.mcp.config import ServerConfig
from sideband.protocols.mcp.host.hold import MAX_KEYS, Arrival, Hold, ReminderKey
from sideband.protocols.mcp.host.reports import Admission, OnReport, ReminderReport
from sideband.protocols.wire import Via
from sideband.runtime.producer import Accepted, Producer, drop_reason
from sideband.runtime.session import Session

# A commit of the session tells that there may be room again. This is how long to wait at most if it was missed, and
# after a failure of the store.
RETRY_SECONDS: Final = 5.0
# A newer version of a reminder that waits costs no token. It is accepted at most so often, so that a server cannot fill
# the journal; the newest version is always accepted in the end.
VERSION_SECONDS: Final = 0.2

LEFT_OUT_KEY: Final = "sideband:left_out"

# With so many reminders that were not offered yet, the host reads no further, but not longer than this: a slow store must
# not keep the answers of tools from being read.
BUSY_COUNT: Final = MAX_KEYS // 2
BUSY_SECONDS: Final = 0.25

_OVER: Final = (UnknownSession, TaskFinished, StoreClosed)


class Held(NamedTuple):
    """What a delivery had not delivered at its end; `left_out` is the number of reminders for which it had no place."""

    arrivals: list[Arrival]
    left_out: int


class SessionDelivery:
    """Offers the reminders of a server to a session, in a task of its own. `put` never waits.

    `on_end` is called if the session is over; then nothing more may be put.
    """

    def __init__(
        self, session: Session, server: ServerConfig, on_report: OnReport, *, on_end: Callable[[], None]
    ) -> None:
        self.session = session
        self.limits = session.talk.limits
        self._server = server
        self._on_report = on_report
        self._on_end = on_end
        self._clock = session.intake.clock
        self._producer = Producer(
            session,
            Provenance(trust=LEVELS[Channel.CONFIGURED_SERVER], principal=server.name, via=Via.MCP),
            surface=Surface.MCP,
            policy=server.reminders.trust,
            grants=server.reminders.grants,
        )
        self._hold = Hold()
        # Kept, because the journal forgets an event to which nothing refers.
        self._wake = session.talk.journal.wake(session.id)
        self._arrived = asyncio.Event()
        # Whether what is held may be offered again now, and at which time it may be at the latest.
        self._may_have_room = False
        self._retry_at = 0.0
        # Why the last offer found no room; None if it found some, or if that may have changed.
        self._no_room: DropReason | None = None
        # When a newer version of each key was accepted last.
        self._replaced_at: dict[ReminderKey, float] = {}
        self._offered = asyncio.Event()
        self._task = asyncio.create_task(self._offer_all(), name=f"sideband-mcp-{server.name}")

    def put(self, arrival: Arrival) -> None:
        """Offer a reminder, or hold it; it may replace an older one of its key."""
        if arrival.is_keyless and self._no_room is not None and not self._hold.is_recent(arrival):
            self._drop(arrival, self._no_room)
        elif self._hold.add(arrival):
            self._arrived.set()
        else:
            self._drop(arrival, DropReason.RATE_LIMITED)

    def resume(self, held: Held) -> None:
        """Continue with what an earlier delivery, or the host, has held."""
        for arrival in held.arrivals:
            self.put(arrival)
        self._hold.left_out += held.left_out
        self._may_have_room = True
        self._arrived.set()

    async def settle(self) -> None:
        """Wait, for a short time, while many reminders have not been offered yet."""
        if self._hold.new_count >= BUSY_COUNT:
            with suppress(TimeoutError):
                async with asyncio.timeout(BUSY_SECONDS):
                    while self._hold.new_count >= BUSY_COUNT and not self._task.done():
                        self._offered.clear()
                        await self._offered.wait()

    def drop(self, reason: DropReason) -> None:
        """Record that something of the server was refused before it could be offered."""
        self._producer.count_refusal(reason)

    async def close(self) -> Held:
        """Stop, and return what is held."""
        self._task.cancel()
        await asyncio.wait((self._task,))
        return Held(self._hold.take_all(), self._hold.left_out)

    # Offering.

    async def _offer_all(self) -> None:
        try:
            while True:
                if (arrival := self._hold.first_new(self._postponed())) is not None:
                    await self._offer(arrival, again=False)
                elif self._may_have_room and (arrival := self._hold.first_refused()) is not None:
                    await self._offer(arrival, again=True)
                elif self._may_have_room and self._hold.left_out:
                    await self._offer_count()
                else:
                    await self._until_something_happens()
        except _OVER:
            self._hold.take_all()
            self._on_end()
        except Exception:  # noqa: BLE001 - the outermost handler of this task
            LOG.exception("session %s: reminders of %s are no longer delivered", self.session.id, self._server.name)
            self._on_end()

    def _postponed(self) -> Mapping[ReminderKey, float]:
        """The keys of which a newer version was accepted a moment ago."""
        due = self._clock.monotonic() - VERSION_SECONDS
        self._replaced_at = {key: at for key, at in self._replaced_at.items() if at > due}
        return self._replaced_at

    async def _offer(self, arrival: Arrival, *, again: bool) -> None:
        try:
            accepted = await self._accept(arrival.draft, arrival.meta)
        except asyncio.CancelledError:
            # If it was accepted all the same, a second offer is a repeat.
            self._hold.refused(arrival, again=True)
            raise
        except _OVER:
            raise
        except (RateLimited, TooManyPending) as error:
            if arrival.is_keyless:
                self._drop(arrival, drop_reason(error), str(error))
                return
            self._hold.refused(arrival, again=again)
            if not again:
                self._report(Admission.HELD, arrival, reason=drop_reason(error), detail=str(error))
        except ReminderError as error:
            self._drop(arrival, drop_reason(error), str(error))
        except StoreError as error:
            LOG.warning("session %s: a reminder of %s waits: %s", self.session.id, self._server.name, error)
            self._hold.refused(arrival, again=again)
        else:
            self._hold.accepted(arrival)
            if accepted.is_free:
                self._replaced_at[arrival.key] = self._clock.monotonic()
            else:
                self._no_room = None
            self._report(Admission.ACCEPTED, arrival, deduped_count=accepted.deduped_count)

    async def _offer_count(self) -> None:
        """Tell the session how many reminders had no place in the hold."""
        count = self._hold.left_out
        draft = Draft(
            body=f"{count:,} further notices of this server were left out: it sent more than {MAX_KEYS} at once.",
            caller_id=f"left_out.{self.session.talk.new_id()}",
            dedupe_key=LEFT_OUT_KEY,
            ttl_turns=1,
        )
        with suppress(RateLimited, TooManyPending):
            await self._accept(in_name_of(draft, self._server.name), {})
            self._hold.left_out -= count

    async def _accept(self, draft: Draft, meta: Mapping[str, Any]) -> Accepted:
        # Cleared before the offer, so that a commit during it is noticed.
        self._wake.clear()
        try:
            return await self._producer.offer(draft, meta=meta or None)
        except (RateLimited, TooManyPending, StoreError) as error:
            seconds = error.retry_after_ms / 1000 if isinstance(error, RateLimited) else RETRY_SECONDS
            self._may_have_room = False
            self._retry_at = self._clock.monotonic() + seconds
            self._no_room = None if isinstance(error, StoreError) else drop_reason(error)
            raise
        finally:
            self._offered.set()

    async def _until_something_happens(self) -> None:
        """Wait for a reminder; while there is no room, also for a commit of the session, which may have made some."""
        events: list[Coroutine[Any, Any, object]] = [self._arrived.wait()]
        lacks_room = self._no_room is not None or self._hold.has_refused or self._hold.left_out > 0
        if lacks_room:
            events += [self._wake.wait(), self._clock.sleep(max(0.0, self._retry_at - self._clock.monotonic()))]
        if self._hold.new_count:
            # Everything that is new is postponed.
            events.append(self._clock.sleep(VERSION_SECONDS))
        waiting = [asyncio.ensure_future(event) for event in events]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if lacks_room and (waiting[1].done() or waiting[2].done()):
                self._may_have_room, self._no_room = True, None
        finally:
            for task in waiting:
                task.cancel()
        self._arrived.clear()

    # Reports.

    def _drop(self, arrival: Arrival, reason: DropReason, detail: str | None = None) -> None:
        self.drop(reason)
        self._report(Admission.DROPPED, arrival, reason=reason, detail=detail)

    def _report(
        self,
        admission: Admission,
        arrival: Arrival,
        *,
        reason: DropReason | None = None,
        detail: str | None = None,
        deduped_count: int = 0,
    ) -> None:
        self._on_report(
            ReminderReport(
                server=self._server.name,
                admission=admission,
                session_id=self.session.id,
                id=arrival.draft.caller_id,
                body=arrival.draft.body,
                dedupe_key=arrival.draft.dedupe_key,
                reason=reason,
                detail=detail,
                deduped_count=deduped_count,
            )
        )
