"""What one server tells the host: its capabilities, and its reminders in every form that is read.

The reminders of a server that does not declare them are dropped. Everything else is read once, and goes to the sessions
that are attached. While none is attached, the newest reminder of each key is held for the next one.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from sideband.core.errors import BodyTooLarge, ReminderError
from sideband.core.events import DropReason
from sideband.core.limits import DEFAULT_LIMITS, Limits
from sideband.core.parse import parse, read_meta, refuse_repeated_keys
from sideband.core.reminder import in_name_of
from sideband.core.surfaces import RULES, Case, Surface, spelled
from sideband.core.trust import Trust
from sideband.logs import LOG
from sideband.protocols.mcp import capabilities
from sideband.protocols.mcp.config import ServerConfig
from sideband.protocols.mcp.host.delivery import Held, SessionDelivery
from sideband.protocols.mcp.host.hold import Arrival, Hold
from sideband.protocols.mcp.host.reports import Admission, OnReport, ReminderReport
from sideband.runtime.producer import drop_reason
from sideband.runtime.session import Session

LOGGED_NOTIFICATION: Final = "notifications/message"
# For so many sessions that were detached, what they had not taken is kept.
MAX_DETACHED: Final = 16
METHODS: Final = frozenset({capabilities.NOTIFICATION, capabilities.CHANNEL_NOTIFICATION, LOGGED_NOTIFICATION})
# The members of a reminder in a log message, which spells them in snake_case.
_LOGGED: Final[Mapping[str, str]] = {name: spelled(name, Case.CAMEL) for name in RULES[Surface.MCP].fields}


class Receiver:
    """Receives the reminders of one server, for any number of sessions."""

    def __init__(self, server: ServerConfig, on_report: OnReport, new_id: Callable[[], str]) -> None:
        self._server = server
        self._on_report = on_report
        self._new_id = new_id
        self._deliveries: dict[str, SessionDelivery] = {}
        # What came while no session was attached, and what sessions that were detached had not taken.
        self._hold = Hold()
        self._held: dict[str, Held] = {}
        self.emits = False
        self._emits_channel = False
        self._warned: set[DropReason] = set()

    # Sessions.

    def attach(self, session: Session) -> None:
        """Deliver to this session from now on, and what was held while there was none."""
        if session.id not in self._deliveries:
            delivery = self._deliveries[session.id] = SessionDelivery(
                session, self._server, self._on_report, on_end=lambda: self._end(delivery)
            )
            for held in (self._held.pop(session.id, None), Held(self._hold.take_all(), self._hold.left_out)):
                if held is not None:
                    delivery.resume(held)
            self._hold.left_out = 0

    async def detach(self, session_id: str) -> None:
        """Deliver nothing more to this session; what waits for room is held until it is attached again."""
        delivery = self._deliveries.pop(session_id, None)
        if delivery is not None:
            held = await delivery.close()
            if held.arrivals or held.left_out:
                self._held[session_id] = held
                if len(self._held) > MAX_DETACHED:
                    del self._held[next(iter(self._held))]

    def _end(self, delivery: SessionDelivery) -> None:
        """A session is over: what comes from now on is for others."""
        if self._deliveries.get(delivery.session.id) is delivery:
            del self._deliveries[delivery.session.id]

    @property
    def limits(self) -> Limits:
        return next((delivery.limits for delivery in self._deliveries.values()), DEFAULT_LIMITS)

    # Messages.

    def declared(self, told: object) -> None:
        """The server has told its capabilities, at the beginning of a connection."""
        self.emits = capabilities.declares_emit(told)
        self._emits_channel = not self.emits and capabilities.declares_channel(told)
        self._warned.clear()

    def receive(self, method: str, params: object, frame: bytes | None) -> None:
        """Read a notification of one of the `METHODS`; `frame` is its text, if it is known."""
        given = params if isinstance(params, Mapping) else {}
        meta = sent_meta(given.get("_meta"))
        match method:
            case capabilities.CHANNEL_NOTIFICATION:
                reminder = {"id": self._new_id(), "body": given.get("content"), "tags": ["channel"]}
                self._take(reminder, sent_meta(given.get("meta")), frame, is_declared=self._emits_channel)
            case capabilities.NOTIFICATION:
                self._take(given.get("reminder"), meta, frame, is_declared=self.emits)
            case _:
                harn = meta.get("harn")
                logged = harn.get("reminder") if isinstance(harn, Mapping) else None
                if logged is not None:
                    self._take(_camel(logged), {}, frame, is_declared=self.emits)

    async def settle(self) -> None:
        """Wait, for a short time, while sessions have many reminders to take."""
        for delivery in tuple(self._deliveries.values()):
            await delivery.settle()

    def oversized(self, limit: int) -> None:
        """A message of the server was longer than the limit, and was discarded."""
        self._drop(DropReason.TOO_LARGE, f"a message of more than {limit:,} bytes")

    def unreadable(self) -> None:
        """A reminder of the server was not JSON-RPC in UTF-8."""
        self._drop(DropReason.INVALID, "a message that is not JSON-RPC in UTF-8")

    def _take(self, payload: object, meta: Mapping[str, Any], frame: bytes | None, *, is_declared: bool) -> None:
        if not is_declared:
            self._drop(DropReason.UNDECLARED_CAPABILITY, "it does not declare reminders in its capabilities")
            return
        if not self._server.reminders.enabled:
            self._drop(DropReason.NOT_PERMITTED, "its reminders are turned off in the configuration")
            return
        try:
            if frame is not None:
                refuse_repeated_keys(frame)
            arrival = self._read(payload, meta)
        except ReminderError as error:
            self._drop(drop_reason(error), str(error))
            return
        for delivery in self._deliveries.values():
            delivery.put(arrival)
        if not self._deliveries:
            self._keep(arrival)

    def _read(self, payload: object, meta: Mapping[str, Any]) -> Arrival:
        limits = self.limits
        draft = parse(payload, Surface.MCP, limits=limits)
        # A body that the session would refuse is not held. The session itself checks what is offered.
        most, size = limits.body_bytes.get(Trust.SERVER), len(draft.body.encode())
        if most is not None and size > most:
            raise BodyTooLarge(size, most, field="body")
        read_meta(meta, Surface.MCP, limits=limits)
        draft = msgspec.structs.replace(draft, ignored=())
        return Arrival(in_name_of(draft, self._server.name), meta, is_keyless=draft.dedupe_key is None)

    def _keep(self, arrival: Arrival) -> None:
        is_held = self._hold.add(arrival)
        self._on_report(
            ReminderReport(
                server=self._server.name,
                admission=Admission.HELD if is_held else Admission.DROPPED,
                id=arrival.draft.caller_id,
                body=arrival.draft.body,
                dedupe_key=arrival.draft.dedupe_key,
                reason=None if is_held else DropReason.TOO_MANY_PENDING,
                detail="no session is attached",
            )
        )

    # Drops.

    def _drop(self, reason: DropReason, detail: str) -> None:
        if reason not in self._warned:
            # Once per connection: a server may repeat its mistake without end.
            self._warned.add(reason)
            LOG.warning("MCP server %s: a reminder was dropped (%s): %s", self._server.name, reason, detail)
        for delivery in self._deliveries.values():
            delivery.drop(reason)
        self._on_report(
            ReminderReport(server=self._server.name, admission=Admission.DROPPED, reason=reason, detail=detail)
        )


def sent_meta(meta: object) -> Mapping[str, Any]:
    """The `_meta` object of a notification without the members of MCP itself."""
    if not isinstance(meta, Mapping):
        return {}
    return {name: value for name, value in meta.items() if not str(name).startswith("io.modelcontextprotocol/")}


def _camel(logged: object) -> object:
    """The reminder of a log message with the names of `notifications/reminder`."""
    return {_LOGGED.get(name, name): value for name, value in logged.items()} if isinstance(logged, Mapping) else logged
