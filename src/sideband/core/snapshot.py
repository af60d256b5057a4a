"""Snapshots: the state of a session as bytes, so that a store need not fold the whole journal to load it."""

from typing import Any, Final

import msgspec

from sideband.core.events import Closing, DropReason
from sideband.core.inbox import InboxDump
from sideband.core.ledger import Ledger, RequestHead
from sideband.core.live import LiveDump
from sideband.core.state import AuditRecord, OpenRequest, SessionState
from sideband.core.trust import Grant

VERSION: Final = 1


class UnknownSnapshot(ValueError):
    """The bytes are not a snapshot, or have a version that this program cannot read."""


class _Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Every field of the state under its own name; indexes are rebuilt from `inbox` and `live`."""

    version: int = VERSION
    inbox: InboxDump
    live: LiveDump
    ledger: Ledger
    audit: list[AuditRecord]
    messages: list[dict[str, Any]]
    open_calls: dict[str, dict[str, Any]]
    request: OpenRequest | None
    running: bool
    queue_held: bool
    skipped_batches: int
    window: int
    permissions: dict[str, None]
    grants: list[Grant]
    # Optional, because earlier versions of this format did not have them.
    equipped: tuple[str, ...] = ()
    head: RequestHead | None = None
    exists: bool = True
    deleted: bool = False
    records: dict[str, Any] = {}
    closing: dict[str, Closing] = {}
    prompt: str = ""
    hold_queue: bool = True
    closed_reason: DropReason | None = None
    closed: bool = False
    """Written by earlier versions instead of `closed_reason`."""


class _Header(msgspec.Struct, frozen=True):
    version: int


_NOT_PLAIN: Final = ("version", "inbox", "live", "closed")
_PLAIN: Final = tuple(name for name in _Snapshot.__struct_fields__ if name not in _NOT_PLAIN)


def encode(state: SessionState) -> bytes:
    """The state as bytes, without `attended` and `receipts`, which are not part of the journal."""
    plain = {name: getattr(state, name) for name in _PLAIN}
    return msgspec.json.encode(_Snapshot(inbox=state.inbox.dump(), live=state.live.dump(), **plain))


def decode(data: bytes) -> SessionState:
    """The state that was encoded; `UnknownSnapshot` if the bytes cannot be read."""
    try:
        version = msgspec.json.decode(data, type=_Header).version
        if version != VERSION:
            raise UnknownSnapshot(f"the snapshot has version {version}; this program reads version {VERSION}")
        read = msgspec.json.decode(data, type=_Snapshot)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnknownSnapshot(f"not a snapshot: {error}") from error
    state = SessionState()
    for name in _PLAIN:
        setattr(state, name, getattr(read, name))
    if read.closed:
        state.closed_reason = DropReason.SESSION_CLOSED
    state.inbox.load(read.inbox)
    state.live.load(read.live)
    return state
