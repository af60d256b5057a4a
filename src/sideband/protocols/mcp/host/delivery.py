"""The way of one server's reminders into one session: each is offered at once, and held while there is no room."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

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
from sideband.protocols.logs import LOG
from sideband.protocols.mcp.config import ServerConfig
from sideband.protocols.mcp.host.hold import MAX_KEYS, Arrival, Hold
from sideband.protocols.mcp.host.reports import Admission, OnReport, ReminderReport
from sideband.protocols.wire import Via
from sideband.runtime.producer import Accepted, Producer, drop_reason
from sideband.runtime.session import Session

# A commit of the session tells that there may be room again. This is how long to wait at most if it was missed, and
# after a failure of the store.
RETRY_SECONDS: Final = 5.0

LEFT_OUT_KEY: Final = "sideband:left_out"

# With so many reminders that were not offered yet, the host reads no further, but not longer than this: a slow store must
# not keep the answers of tools from being read.
BUSY_COUNT: Final = MAX_KEYS // 2
BUSY_SECONDS: Final = 0.25


class SessionDelivery:
    """Offers the reminders of a server to a session, in a task of its own. `put` never waits."""

    def __init__(self, session: Session, server: ServerConfig, on_report: OnReport) -> None:
        self.session = session
        self._server = server
        self._on_report = on_report
        self._clock = session.intake.clock
        self.limits = session.talk.limits
        provenance = Provenance(trust=LEVELS[Channel.CONFIGURED_SERVER], principal=server.name, via=Via.MCP)
        self._producer = Producer(
            session,
            provenance,
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

    async def settle(self) -> None:
        """Wait, for a short time, while many reminders have not been offered yet."""
        if self._hold.new_count >= BUSY_COUNT:
            with suppress(TimeoutError):
                async with asyncio.timeout(BUSY_SECONDS):
                    while self._hold.new_count >= BUSY_COUNT:
                        self._offered.clear()
                        await self._offered.wait()

    def drop(self, reason: DropReason) -> None:
        """Record that something of the server was refused before it could be offered."""
        self._producer.count_refusal(reason)

    async def close(self) -> list[Arrival]:
        """Stop, and return what is held."""
        self._task.cancel()
        await asyncio.wait((self._task,))
        return self._hold.take_all()

    # Offering.

    async def _offer_all(self) -> None:
        try:
            while True:
                if (arrival := self._hold.first_new()) is not None:
                    await self._offer(arrival, again=False)
                elif self._may_have_room and (arrival := self._hold.first_refused()) is not None:
                    await self._offer(arrival, again=True)
                elif self._may_have_room and self._hold.left_out:
                    await self._offer_count()
                else:
                    await self._until_something_happens()
        except (UnknownSession, TaskFinished, StoreClosed):
            # The session is over, or the program ends.
            self._hold.take_all()

    async def _offer(self, arrival: Arrival, *, again: bool) -> None:
        try:
            accepted = await self._accept(arrival.draft, arrival.meta)
        except asyncio.CancelledError:
            # If it was accepted all the same, a second offer is a repeat.
            self._hold.refused(arrival, again=True)
            raise
        except (UnknownSession, TaskFinished, StoreClosed):
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
            if not accepted.is_free:
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
        with suppress(RateLimited, TooManyPending, StoreError):
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
        if self._no_room is None and not self._hold.has_refused and not self._hold.left_out:
            await self._arrived.wait()
            self._arrived.clear()
            return
        waiting = [
            asyncio.ensure_future(self._arrived.wait()),
            asyncio.ensure_future(self._wake.wait()),
            asyncio.ensure_future(self._clock.sleep(max(0.0, self._retry_at - self._clock.monotonic()))),
        ]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            self._may_have_room = waiting[1].done() or waiting[2].done()
            if self._may_have_room:
                self._no_room = None
        finally:
            for task in waiting:
                task.cancel()
        self._arrived.clear()

    # Reports.

    def _drop(self, arrival: Arrival, reason: DropReason, detail: str | None = None) -> None:
        self.drop(reason)
        self._report(Admission.DROPPED, arrival, reason=reason, detail=detail)

    def _report(self, admission: Admission, arrival: Arrival, **more: Any) -> None:  # noqa: ANN401 - the fields of the report
        self._on_report(report_of(self._server.name, admission, arrival.draft, session_id=self.session.id, **more))


def report_of(server: str, admission: Admission, draft: Draft, **more: Any) -> ReminderReport:  # noqa: ANN401 - see above
    """The report of a reminder that could be read."""
    return ReminderReport(
        server=server, admission=admission, id=draft.caller_id, body=draft.body, dedupe_key=draft.dedupe_key, **more
    )


def sent_meta(meta: object) -> Mapping[str, Any]:
    """The `_meta` object of a notification without the members of MCP itself."""
    if not isinstance(meta, Mapping):
        return {}
    return {name: value for name, value in meta.items() if not str(name).startswith("io.modelcontextprotocol/")}
