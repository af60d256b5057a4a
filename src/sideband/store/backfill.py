"""What a store of an earlier version has to be given when its tables are migrated: its list of sessions, and receipts.

Earlier versions had no list, and kept the receipts in the snapshots.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from sideband.core.events import Queued
from sideband.core.inbox import Receipt, receipt_of
from sideband.store.codec import decode_event


class OldReceipt(NamedTuple):
    """A receipt that was found in a store of an earlier version."""

    caller_id: str
    receipt: Receipt


class _OldInbox(msgspec.Struct, frozen=True):
    receipts: dict[str, Receipt] = {}


class _OldSnapshot(msgspec.Struct, frozen=True):
    inbox: _OldInbox


def receipts_in_snapshot(body: bytes) -> Mapping[str, Receipt]:
    """The receipts of a snapshot; none if it cannot be read, because loading its session will report that."""
    try:
        return msgspec.json.decode(body, type=_OldSnapshot).inbox.receipts
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}


def receipt_in_row(body: bytes) -> OldReceipt | None:
    """The receipt of a `queued` row; None if it has none, or cannot be read."""
    # Most reminders have no id of their caller, and decoding takes longer than this.
    if b'"caller_id"' not in body:
        return None
    try:
        event = decode_event(body)
    except ValueError:
        return None
    if not isinstance(event, Queued) or event.item.caller_id is None:
        return None
    receipt = receipt_of(event.item)
    return None if receipt is None else OldReceipt(event.item.caller_id, receipt)


def first_sequences(oldest: Iterable[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    """The sequence at which each session counts as begun, from its oldest known one, in descending order.

    The first event of a pruned session is gone, and its oldest known sequence may be that of another session's event. The
    list is paged by this number, so every session gets its own: the next lower one that is free.
    """
    before: int | None = None
    for session_id, sequence in oldest:
        begun = sequence if before is None else min(sequence, before - 1)
        yield session_id, begun
        before = begun
