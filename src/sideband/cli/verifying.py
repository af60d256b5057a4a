"""`sideband doctor --verify`: whether a store is what was written to it."""

from collections.abc import Iterator

from sideband.cli.doctor import Finding
from sideband.cli.moments import moment
from sideband.core.errors import InvalidOption, shown
from sideband.core.failures import StoreDamaged
from sideband.runtime.inspecting import inspect_store
from sideband.store.inspection import Inspector, Shelf, verify


def verified(store_url: str, session: str | None) -> list[Finding]:
    """What was found, of one session or (None) of all."""
    try:
        with inspect_store(store_url) as store:
            faults = [
                Finding("store", f"fault {place}", fault, _mend(store, fault))
                for place, fault in enumerate(store.faults(), 1)
            ]
            if faults:
                # Of what it holds nothing can be said: what is read there may be anything.
                return faults
            return [*_medium(store), *_journal(store), *_sessions(store, session)]
    except StoreDamaged as error:
        return [Finding("store", "store", "damaged", str(error))]


def _mend(store: Inspector, fault: str) -> str:
    return f"{fault}; restore {store.place} from a backup"


def _medium(store: Inspector) -> Iterator[Finding]:
    for name, value in store.facts().items():
        yield Finding("store", name, value)
    yield Finding("store", "soundness", "sound")


def _journal(store: Inspector) -> Iterator[Finding]:
    gaps = store.missing()
    yield Finding("store", "sequence", "without gaps" if not gaps else "has gaps")
    for place, (first, last) in enumerate(gaps, 1):
        what = f"row {first} is missing" if first == last else f"rows {first} to {last} are missing"
        yield Finding("store", f"gap {place}", what, f"{what} from the journal, and nothing was pruned there")


def _sessions(store: Inspector, only: str | None) -> Iterator[Finding]:
    shelves = [shelf for shelf in store.shelves() if only is None or shelf.session_id == only]
    if only is not None and not shelves:
        raise InvalidOption(f"there is no session {shown(only)} in {store.place}", field="session", value=only)
    from_start = from_snapshot = 0
    for shelf in shelves:
        verdict = verify(store, shelf)
        for fault in verdict.faults:
            yield Finding("sessions", shelf.session_id, "differs", f"{fault} (session {shown(shelf.session_id)})")
        from_start += verdict.from_start and not verdict.faults
        from_snapshot += not verdict.from_start and not verdict.faults
    yield Finding("sessions", "rebuilt from the first event", from_start)
    yield Finding("sessions", "rebuilt from a snapshot, the rest pruned", from_snapshot)
    yield from _leases(shelves)


def _leases(shelves: list[Shelf]) -> Iterator[Finding]:
    for shelf in shelves:
        if shelf.lease is not None:
            yield Finding("leases", shelf.session_id, _lease(shelf))


def _lease(shelf: Shelf) -> str:
    lease = shelf.lease
    assert lease is not None  # noqa: S101 - whoever calls has looked
    until = moment(lease.expires_at, timespec="seconds")
    standing = f"lapsed {until}" if lease.has_lapsed else f"until {until}"
    died = ", but its process has died" if lease.is_orphaned and not lease.has_lapsed else ""
    return f"{lease.holder}, token {lease.token}, {standing}{died}"
