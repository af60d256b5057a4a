"""A read-only view of one session of a store in memory, for the process that has the store."""

from collections.abc import Iterator, Mapping, Sequence

from sideband.core import snapshot
from sideband.core.errors import CursorExpired, UnknownSession, shown
from sideband.ports import Journal, Logged, SessionEntry
from sideband.store.codec import WORDS, encode_event, encode_records, indexed
from sideband.store.inspector import JournalEntry, KeptReceipt, KeptRecords, KeptSnapshot, Missing, StoredSession


async def inspect_memory(journal: Journal, session_id: str) -> "MemoryInspector":
    """The session as it is now; `UnknownSession` if it does not exist. The result can be used in another thread.

    If the beginning of the session is pruned, the view has only its present state.
    """
    listing = await journal.entry(session_id)
    if listing is None:
        raise UnknownSession(f"there is no session {shown(session_id)}", field="session", value=session_id)
    kept, pruned = None, 0
    try:
        logged = [entry async for entry in journal.history(session_id=session_id)]
    except CursorExpired as expired:
        state, at = await journal.read(session_id, snapshot.encode)
        kept, pruned = KeptSnapshot(at, state, is_whole=True), expired.oldest
        logged = [entry async for entry in journal.history(session_id=session_id, after=at)]
    return MemoryInspector(listing, logged, kept, pruned_through=pruned)


class MemoryInspector:
    """An `Inspector` of one session; `kept` is its state at the time of the view if its beginning is pruned."""

    place = "memory:"

    def __init__(
        self, listing: SessionEntry, logged: Sequence[Logged], kept: KeptSnapshot | None, *, pruned_through: int
    ) -> None:
        self._listing = listing
        self._logged = logged
        self._kept = kept
        self._pruned_through = pruned_through

    def facts(self) -> Mapping[str, int | str]:
        return {"events": len(self._logged)}

    def faults(self) -> Sequence[str]:
        return ()

    def missing(self) -> Sequence[Missing]:
        return ()

    def sessions(self) -> Sequence[StoredSession]:
        listing, last = self._listing, self._logged[-1] if self._logged else None
        stored = StoredSession(
            listing.session_id,
            listing.begun,
            listing.begun_at,
            events=len(self._logged),
            snapshot_at=0 if self._kept is None else self._kept.sequence,
            pruned_through=self._pruned_through,
        )
        return (stored if last is None else stored._replace(last=last.sequence, last_word=WORDS[type(last.event)]),)

    def kept(self, _session_id: str) -> KeptSnapshot | None:
        return self._kept

    def entries(self, _session_id: str, *, after: int = 0) -> Iterator[JournalEntry]:
        for entry in self._logged:
            if entry.sequence > after:
                encoded = encode_event(entry.event)
                yield JournalEntry(entry.sequence, encoded.word, encoded.body, is_whole=True, time=entry.time)

    def records(self, _session_id: str) -> KeptRecords:
        records = self._listing.records
        keys = {name: key for name, value in records.items() if (key := indexed(value)) is not None}
        return KeptRecords(encode_records(records), keys)

    def receipts(self, _session_id: str) -> Mapping[str, KeptReceipt]:
        return {}

    def close(self) -> None:
        """Nothing is open."""
