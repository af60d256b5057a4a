"""A session's state as bytes, so that a long journal need not be folded from its beginning."""

from typing import Any, Final

import msgspec

from sideband.core.ledger import Ledger, RequestHead
from sideband.core.lifecycle import OpenRequest
from sideband.core.live import LiveDump
from sideband.core.state import Audited, SessionState
from sideband.core.trust import Grant
from sideband.core.waiting import InboxDump

VERSION: Final = 1


class UnknownSnapshot(ValueError):
    """These bytes are no snapshot, or not one of a version that is known here."""


class _Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Every field of the state under its own name; parts that have indexes as what these are built from."""

    version: int = VERSION
    inbox: InboxDump
    live: LiveDump
    ledger: Ledger
    audit: list[Audited]
    messages: list[dict[str, Any]]
    open_calls: dict[str, dict[str, Any]]
    request: OpenRequest | None
    running: bool
    closed: bool
    queue_held: bool
    skipped_batches: int
    window: int
    permissions: dict[str, None]
    grants: list[Grant]
    # Neither is in a snapshot that was written before it was on record.
    equipped: tuple[str, ...] = ()
    head: RequestHead | None = None


class _Header(msgspec.Struct, frozen=True):
    version: int


_DUMPED: Final = ("inbox", "live")
_PLAIN: Final = tuple(name for name in _Snapshot.__struct_fields__ if name not in ("version", *_DUMPED))


def encode(state: SessionState) -> bytes:
    """All that the state knows from its events."""
    plain = {name: getattr(state, name) for name in _PLAIN}
    return msgspec.json.encode(_Snapshot(inbox=state.inbox.dump(), live=state.live.dump(), **plain))


def decode(data: bytes) -> SessionState:
    """A state that every later event changes as it would have changed the one that was written."""
    try:
        version = msgspec.json.decode(data, type=_Header).version
        if version != VERSION:
            raise UnknownSnapshot(f"a snapshot of version {version} cannot be read here; {VERSION} can")
        read = msgspec.json.decode(data, type=_Snapshot)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnknownSnapshot(f"this is not a snapshot: {error}") from error
    state = SessionState()
    for name in _PLAIN:
        setattr(state, name, getattr(read, name))
    state.inbox.load(read.inbox)
    state.live.load(read.live)
    return state
