"""What an ACP agent tells its client about the life of reminders, as `session/update` notifications."""

from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from sideband.protocols import wire
from sideband.protocols.acp.messages import SessionId


class EndPhase(StrEnum):
    """How a reminder ended."""

    TTL_EXPIRED = "ttl_expired"
    CLEARED = "cleared"
    COMPACTED_OUT = "compacted_out"


class UpdateNote(wire.Outbound, frozen=True, kw_only=True):
    """What we add to an update."""

    turn: Annotated[int, Meta(description="The turn whose request it was shown in.")] | None = None
    rendered_role: Annotated[str, Meta(description="The role of the message that carried it.")] | None = None
    event: Annotated[str, Meta(description="`revoked` when it was withdrawn before delivery.")] | None = None
    requested: Annotated[dict[str, Any], Meta(description="Hints that were lowered, as asked for.")] | None = None
    effective: Annotated[dict[str, Any], Meta(description="The same hints as they are.")] | None = None


class RecordEnvelope(wire.Outbound, frozen=True, kw_only=True):
    """Where observers of older agents look for the record."""

    reminder: wire.ReminderRecord


class UpdateMeta(wire.Outbound, frozen=True, kw_only=True):
    """The extension envelope of an update."""

    sideband: UpdateNote | None = None
    harn: RecordEnvelope | None = None


class ReminderEmitted(wire.Outbound, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="reminder_emitted"):
    """A reminder was put into the request for a turn."""

    reminder_id: wire.MintedId
    body: wire.Body
    tags: wire.Tags | None = None
    dedupe_key: wire.DedupeKey | None = None
    source: wire.SourceWord
    provider_id: Annotated[str, Meta(description="The provider or hook that produced it.")] | None = None
    fired_at_turn: wire.FiredAtTurn | None = None
    meta: UpdateMeta | None = msgspec.field(default=None, name="_meta")


class ReminderDeduped(wire.Outbound, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="reminder_deduped"):
    """A newer reminder took the place of older ones with the same key."""

    reminder_id: Annotated[str, Meta(description="The newer one, which stays.")]
    dedupe_key: Annotated[str, Meta(description="The key they share.")]
    dropped_reminder_ids: Annotated[tuple[str, ...], Meta(description="The ones that are gone.")]
    meta: UpdateMeta | None = msgspec.field(default=None, name="_meta")


class ReminderExpired(wire.Outbound, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="reminder_expired"):
    """A reminder has ended."""

    reminder_id: wire.MintedId
    phase: EndPhase
    expired_at_turn: Annotated[int, Meta(description="The turn after which it ended.")] | None = None
    meta: UpdateMeta | None = msgspec.field(default=None, name="_meta")


ReminderUpdate = ReminderEmitted | ReminderDeduped | ReminderExpired


class CarriedUpdate(wire.Outbound, frozen=True, kw_only=True):
    """The update that a client of protocol version 1 would not understand by itself."""

    update: ReminderUpdate


class CarrierMeta(wire.Outbound, frozen=True, kw_only=True):
    """The extension envelope of an update that only carries another."""

    sideband: CarriedUpdate
    harn: RecordEnvelope | None = None


class SessionInfoUpdate(wire.Outbound, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="session_info_update"):
    """The carrier of reminder updates to clients of protocol version 1 that have not asked for them by name."""

    meta: CarrierMeta = msgspec.field(name="_meta")


class SessionUpdateParams(wire.Outbound, frozen=True, kw_only=True):
    """Params of a `session/update` about a reminder."""

    session_id: SessionId
    update: ReminderEmitted | ReminderDeduped | ReminderExpired | SessionInfoUpdate
    meta: wire.Extension | None = msgspec.field(default=None, name="_meta")
