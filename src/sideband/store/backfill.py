"""What a store of an earlier version has to be given when its tables are migrated: its list of sessions, and receipts.

Earlier versions had no list, and kept the receipts in the snapshots.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from sideband.core.inbox import Receipt, receipt_in
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
    found = receipt_in(event)
    return None if found is None else OldReceipt(*found)


def first_sequences(oldest: Iterable[tuple[str, int]], pruned: Iterable[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    """The sequence at which each session counts as begun; no two sessions have the same, because the list is paged by it.

    `oldest` are the oldest rows of the sessions. A session without rows, in `pruned`, counts as begun with the last row
    that it lost; if another session has that number, with the next lower one that is free.
    """
    taken = set[int]()
    for session_id, sequence in oldest:
        taken.add(sequence)
        yield session_id, sequence
    for session_id, through in pruned:
        begun = through
        while begun in taken:
            begun -= 1
        taken.add(begun)
        yield session_id, begun
