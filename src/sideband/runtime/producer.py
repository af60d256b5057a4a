"""The one door of a session: everything that tells it anything, in process or over a protocol, is a `Producer`.

All doors check in one order: parse, ownership, repeat, end of the session, rate, ceiling with grants, capacity. What the
throttle says is passed to the decision as data, because only the decision knows whether a request needs a token. A
refusal is a value of the decision and is raised after the commit.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context, copy_context
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from sideband.core import accept
from sideband.core.accept import Accepted, RevokeStatus, Selector, check_body_size, refuse_stranger
from sideband.core.errors import (
    BodyTooLarge,
    IdempotencyConflict,
    InvalidOption,
    NotInjectable,
    NotPermitted,
    RateLimited,
    ReminderError,
    StoreError,
    TooManyPending,
    UnknownSession,
    shown,
)
from sideband.core.events import Dropped, DropReason
from sideband.core.limits import Limits, Throttle
from sideband.core.messages import as_blocks, read_content
from sideband.core.parse import parse, parse_json, read_body, read_inject_mode, read_item_id, read_meta
from sideband.core.reminder import Draft, Source, in_name_of
from sideband.core.seams import InjectMode
from sideband.core.state import Decided, Decision, Pending, SessionState, ValueT, Waiting, pending, waiting
from sideband.core.surfaces import RULES, Surface
from sideband.core.trust import Grant, Provenance, TrustPolicy
from sideband.core.turn import recorded
from sideband.ports import Clock
from sideband.runtime.records import read_records

if TYPE_CHECKING:
    from sideband.loop.conversation import Conversation
    from sideband.runtime.session import Session

# Protocols import the replies from here, because they may not import the decisions.
__all__ = ["RECORD_SECONDS", "Accepted", "Intake", "Producer", "RevokeStatus", "drop_reason"]

# The refusals of one sender in one session are recorded at most once in this time, as one event with their count.
RECORD_SECONDS: Final = 1.0

# Why a refused reminder was dropped; every other refusal is `invalid`.
_REASONS: Final[Mapping[type[ReminderError], DropReason]] = MappingProxyType(
    {
        BodyTooLarge: DropReason.TOO_LARGE,
        RateLimited: DropReason.RATE_LIMITED,
        TooManyPending: DropReason.TOO_MANY_PENDING,
        IdempotencyConflict: DropReason.IDEMPOTENCY_CONFLICT,
        NotPermitted: DropReason.NOT_PERMITTED,
        NotInjectable: DropReason.NOT_PERMITTED,
    }
)


def drop_reason(error: ReminderError) -> DropReason:
    """Why a reminder that was refused with this error was dropped."""
    return _REASONS.get(type(error), DropReason.INVALID)


# What the producers of a store share.


class _Refusals(NamedTuple):
    """The refusals of one sender in one session that are not recorded yet.

    `context` is that of the task that was refused last: its event log gets the record.
    """

    talk: "Conversation"
    provenance: Provenance
    times: int
    context: Context


class Intake:
    """What the producers of one store share: the throttle, the clock, and the count of refusals.

    A task records the refusals; it runs only while there are any, and `close` ends it.
    """

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self.clock = clock
        self.throttle = Throttle(limits)
        self._refused: dict[tuple[str, str, DropReason], _Refusals] = {}
        self._recording: asyncio.Task[None] | None = None

    def count(self, talk: "Conversation", provenance: Provenance, reason: DropReason) -> None:
        """Count a refusal, to be recorded within `RECORD_SECONDS`."""
        key = talk.session_id, provenance.sender, reason
        earlier = self._refused.get(key)
        times = 1 if earlier is None else earlier.times + 1
        self._refused[key] = _Refusals(talk, provenance, times, copy_context())
        if self._recording is None:
            self._recording = asyncio.create_task(self._record(), name="sideband-refusals")

    async def close(self) -> None:
        """Record what was refused, and end the task."""
        if self._recording is not None:
            self._recording.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._recording
        await self.write()

    async def _record(self) -> None:
        try:
            while self._refused:
                await self.clock.sleep(RECORD_SECONDS)
                await self.write()
        finally:
            self._recording = None

    async def write(self) -> None:
        """Record what was refused since the last time."""
        for key in tuple(self._refused):
            # Removed one by one, so that those left are recorded later if this is cancelled.
            entry = self._refused.pop(key, None)
            if entry is not None:
                # A store that fails now has other commits to report it; the count is only a notice.
                with contextlib.suppress(StoreError):
                    await entry.context.run(entry.talk.write, _dropped(entry, key[2]))


def _dropped(entry: _Refusals, reason: DropReason) -> Decision[None]:
    sender = Provenance(trust=entry.provenance.trust, principal=entry.provenance.principal, via=entry.provenance.via)
    dropped = Dropped(
        reminder_id=entry.talk.new_id(), reason=reason, at_the_door=True, count=entry.times, provenance=sender
    )

    def decide(state: SessionState) -> Decided[None]:
        # A session that is over, or that was never begun, records nothing.
        return Decided((dropped,) if state.exists and not state.closed else (), None)

    return decide


# The door.


class _Refused(NamedTuple):
    """The value of a decision that refuses the request."""

    error: ReminderError


class Producer:
    """Tells a session reminders and messages in the name of one sender, and withdraws them.

    `provenance` says who the sender is and how far it is trusted; it comes from the connection, never from a payload.
    `surface` says how payloads are read. `source` is the kind of producer in the record of a reminder. `policy` lifts
    the trust ceilings if it is `seed`; `grants` raise them beside the grants of the session. What a method has accepted or changed is durable when it returns; a refused
    request raises `ReminderError` and has changed nothing. Only requests over the rate are recorded, with their count.
    """

    def __init__(
        self,
        session: "Session",
        provenance: Provenance,
        *,
        surface: Surface,
        source: Source = Source.BRIDGE,
        policy: TrustPolicy = TrustPolicy.CEILINGS,
        grants: Sequence[Grant] = (),
    ) -> None:
        self.provenance = provenance
        self._talk = session.talk
        self._intake = session.intake
        self._limits = session.talk.limits
        self._surface = surface
        self._source = source
        self._policy = policy
        self._grants = tuple(grants)

    # Reminders.

    async def remind(
        self, payload: Mapping[str, object] | bytes | str, *, meta: Mapping[str, object] | None = None
    ) -> Accepted:
        """Accept a reminder into the inbox; the next seam that drains its mode makes it live.

        `payload` is an object of the surface, or its JSON text. `meta` is the `_meta` object of the request, for surfaces
        that have it outside the payload.
        """
        return await self._remind(self._parse(payload), meta)

    async def _remind(self, draft: Draft, meta: Mapping[str, object] | None, *, is_offer: bool = False) -> Accepted:
        provenance = self._with_meta(meta)
        new_id, now, rules = self._talk.new_id(), self._intake.clock.now_ms(), RULES[self._surface]
        rate = self._reserve()

        def decide(state: SessionState) -> Decided[Accepted]:
            return accept.accept(
                state,
                draft,
                provenance,
                new_id=new_id,
                limits=self._limits,
                source=self._source,
                policy=self._policy,
                grants=self._grants,
                now=now,
                rate=rate,
                versioned=rules.versioned,
            )

        receipts = () if draft.caller_id is None else (draft.caller_id,)
        return await self._spend(
            rate, decide, receipts=receipts, is_free=lambda accepted: accepted.is_free, is_offer=is_offer
        )

    async def notify(self, payload: Mapping[str, object] | bytes | str) -> Accepted | None:
        """Accept a reminder from a sender that reads no reply; a refusal is counted and recorded, and returns None."""
        try:
            return await self.remind(payload)
        except (RateLimited, UnknownSession):
            # The first is counted where it was refused; nothing is recorded in a session that is unknown to the sender.
            return None
        except ReminderError as error:
            self.count_refusal(drop_reason(error))
            return None

    async def offer(self, draft: Draft, *, meta: Mapping[str, object] | None = None) -> Accepted:
        """Accept a reminder that was parsed already, for a caller that keeps it if there is no room and offers it again.

        A refusal costs no token, and nothing is recorded of it. `RateLimited` and `TooManyPending` say that there is no
        room now.
        """
        return await self._remind(draft, meta, is_offer=True)

    def count_refusal(self, reason: DropReason) -> None:
        """Record that something of this sender was refused before it was read, for example for want of a capability."""
        if not isinstance(reason, DropReason):
            raise InvalidOption(f"reason must be a DropReason, not {shown(reason)}", field="reason", value=reason)
        self._intake.count(self._talk, self.provenance, reason)

    def _parse(self, payload: Mapping[str, object] | bytes | str) -> Draft:
        if isinstance(payload, bytes | str):
            draft = parse_json(payload, self._surface, limits=self._limits)
        else:
            draft = parse(payload, self._surface, limits=self._limits)
        if RULES[self._surface].versioned:
            draft = in_name_of(draft, self.provenance.principal or "")
        check_body_size(draft.body, self.provenance.trust, self._limits)
        return draft

    # User messages.

    async def inject(
        self,
        content: str | Sequence[Mapping[str, Any]],
        *,
        mode: str,
        meta: Mapping[str, object] | None = None,
    ) -> str:
        """Accept a user message and return its id; `meta` is the `_meta` object of the request.

        `steer` reaches the running turn, `queue` starts the next one.
        """
        return await self._inject(content, read_inject_mode(mode), meta)

    async def prompt(
        self,
        content: str | Sequence[Mapping[str, Any]],
        *,
        meta: Mapping[str, object] | None = None,
        records: Mapping[str, Any] = MappingProxyType({}),
    ) -> str:
        """Queue the next user message of an idle session and return its id; the same commit sets these named records.

        `SessionBusy` while another message has a turn or waits for one.
        """
        kept = read_records(records, field="records")
        return await self._inject(content, InjectMode.QUEUE, meta, only_idle=True, records=kept)

    async def _inject(
        self,
        content: str | Sequence[Mapping[str, Any]],
        mode: InjectMode,
        meta: Mapping[str, object] | None,
        *,
        only_idle: bool = False,
        records: Mapping[str, Any] = MappingProxyType({}),
    ) -> str:
        blocks = read_content(as_blocks(content), self._limits)
        provenance = self._with_meta(meta)
        new_id, now = self._talk.new_id(), self._intake.clock.now_ms()
        rate = self._reserve()

        def decide(state: SessionState) -> Decided[str]:
            if only_idle:
                accept.refuse_closed(state)
                accept.refuse_turn(state)
            events, message_id = accept.accept_message(
                state, blocks, mode, provenance, new_id=new_id, limits=self._limits, now=now, rate=rate
            )
            return Decided((*events, *recorded(state, records)), message_id)

        return await self._spend(rate, decide)

    def _with_meta(self, meta: Mapping[str, object] | None) -> Provenance:
        if meta is None:
            return self.provenance
        read = read_meta(meta, self._surface, limits=self._limits)
        return msgspec.structs.replace(self.provenance, meta=dict(read))

    # Withdrawing and replacing.

    async def revoke(self, item_id: str) -> RevokeStatus:
        """Withdraw a queued reminder or message; `AlreadyDelivered` if it was drained."""
        wanted = read_item_id(item_id, "item_id")
        return await self._decide(lambda state: accept.revoke(state, wanted, self.provenance))

    async def revoke_reminder(self, reminder_id: str) -> RevokeStatus:
        """Withdraw a queued reminder; `AlreadyDelivered` if it was drained."""
        wanted = read_item_id(reminder_id, "reminder_id")
        return await self._decide(lambda state: accept.revoke_reminder(state, wanted, self.provenance))

    async def revoke_message(self, message_id: str) -> RevokeStatus:
        """Withdraw a queued message; `AlreadyDelivered` if it was drained."""
        wanted = read_item_id(message_id, "message_id")
        return await self._decide(lambda state: accept.revoke_message(state, wanted, self.provenance))

    async def replace_reminder(self, reminder_id: str, body: str) -> None:
        """Replace the body of a queued reminder; its id, mode and position stay."""
        wanted = read_item_id(reminder_id, "reminder_id")
        text = read_body(body, self._surface, limits=self._limits)
        check_body_size(text, self.provenance.trust, self._limits)
        await self._decide(lambda state: accept.replace_reminder(state, wanted, text, self.provenance))

    async def replace_message(self, message_id: str, content: str | Sequence[Mapping[str, Any]]) -> None:
        """Replace the content of a queued message; its id, mode and position stay."""
        wanted = read_item_id(message_id, "message_id")
        blocks = read_content(as_blocks(content), self._limits)
        await self._decide(lambda state: accept.replace_message(state, wanted, blocks, self.provenance))

    async def clear(self, *, id: str | None = None, tag: str | None = None, dedupe_key: str | None = None) -> int:
        """End every queued and live reminder that matches all given selectors; return how many.

        An `audit_only` reminder is selected by its id only.
        """
        selector = Selector(id=id, tag=tag, dedupe_key=dedupe_key)
        return await self._decide(lambda state: accept.clear(state, selector, self.provenance))

    # Looking.

    async def pending(self) -> tuple[Pending, ...]:
        """Every queued and every live reminder that this sender may see."""
        return await self._decide(lambda state: Decided((), pending(state, self.provenance)))

    async def waiting(self) -> tuple[Waiting, ...]:
        """The items of the inbox that this sender may see, in acceptance order."""
        return await self._decide(lambda state: Decided((), waiting(state, self.provenance)))

    # Commits.

    def _reserve(self) -> RateLimited | None:
        return self._intake.throttle.reserve(self._talk.session_id, self.provenance, now=self._intake.clock.monotonic())

    async def _spend(
        self,
        rate: RateLimited | None,
        decide: Decision[ValueT],
        *,
        receipts: Sequence[str] = (),
        is_free: Callable[[ValueT], bool] = lambda _value: False,
        is_offer: bool = False,
    ) -> ValueT:
        """Commit a decision for which a token was reserved, and give the token back if none was needed."""
        try:
            value = await self._decide(decide, receipts=receipts)
        except RateLimited:
            if not is_offer:
                self.count_refusal(DropReason.RATE_LIMITED)
            raise
        except TooManyPending:
            # The last check, after the one of the rate.
            if is_offer:
                self._give_back(rate)
            raise
        except Exception:
            self._give_back(rate)
            raise
        if is_free(value):
            self._give_back(rate)
        return value

    def _give_back(self, rate: RateLimited | None) -> None:
        if rate is None:
            self._intake.throttle.give_back(self._talk.session_id, self.provenance)

    async def _decide(self, decide: Decision[ValueT], *, receipts: Sequence[str] = ()) -> ValueT:
        """Commit a decision, and raise its refusal."""

        def refusing(state: SessionState) -> Decided[ValueT | _Refused]:
            try:
                refuse_stranger(state, self.provenance)
                return decide(state)
            except ReminderError as error:
                return Decided((), _Refused(error))

        value = await self._talk.write(refusing, receipts=receipts)
        if isinstance(value, _Refused):
            raise value.error
        return value
