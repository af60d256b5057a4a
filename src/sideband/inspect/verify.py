"""Verify a store: its file, its journal, and every session rebuilt from its events."""

from collections.abc import Iterator

from sideband.core.errors import InvalidOption, StoreDamaged, shown
from sideband.inspect.report import CheckResult
from sideband.inspect.sessions import inspect_store
from sideband.runtime.system import moment
from sideband.store.inspector import Inspector, StoredSession, verify


def verified(store_url: str, session: str | None) -> list[CheckResult]:
    """Verify the store and one of its sessions (None: all sessions)."""
    try:
        with inspect_store(store_url) as store:
            faults = [
                CheckResult("store", f"fault {place}", fault, _mend(store, fault))
                for place, fault in enumerate(store.faults(), 1)
            ]
            if faults:
                # The content of a damaged store cannot be trusted, so the sessions are not checked.
                return faults
            return [*_medium(store), *_journal(store), *_sessions(store, session)]
    except StoreDamaged as error:
        return [CheckResult("store", "store", "damaged", str(error))]


def _mend(store: Inspector, fault: str) -> str:
    return f"{fault}; restore {store.place} from a backup"


def _medium(store: Inspector) -> Iterator[CheckResult]:
    for name, value in store.facts().items():
        yield CheckResult("store", name, value)
    yield CheckResult("store", "integrity", "ok")


def _journal(store: Inspector) -> Iterator[CheckResult]:
    gaps = store.missing()
    yield CheckResult("store", "sequence", "without gaps" if not gaps else "has gaps")
    for place, (first, last) in enumerate(gaps, 1):
        what = f"row {first} is missing" if first == last else f"rows {first} to {last} are missing"
        yield CheckResult("store", f"gap {place}", what, f"{what} from the journal, although nothing was pruned there")


def _sessions(store: Inspector, only: str | None) -> Iterator[CheckResult]:
    sessions = [stored for stored in store.sessions() if only is None or stored.session_id == only]
    if only is not None and not sessions:
        raise InvalidOption(f"there is no session {shown(only)} in {store.place}", field="session", value=only)
    from_start = from_snapshot = 0
    for stored in sessions:
        verdict = verify(store, stored)
        for fault in verdict.faults:
            yield CheckResult("sessions", stored.session_id, "differs", f"{fault} (session {shown(stored.session_id)})")
        from_start += verdict.from_start and not verdict.faults
        from_snapshot += not verdict.from_start and not verdict.faults
    yield CheckResult("sessions", "rebuilt from the first event", from_start)
    yield CheckResult("sessions", "rebuilt from a snapshot, the rest pruned", from_snapshot)
    yield from _leases(sessions)


def _leases(sessions: list[StoredSession]) -> Iterator[CheckResult]:
    for stored in sessions:
        if (lease := stored.lease) is not None:
            until = moment(lease.expires_at, timespec="seconds")
            standing = f"lapsed {until}" if lease.has_lapsed else f"until {until}"
            died = ", but its process has died" if lease.is_orphaned and not lease.has_lapsed else ""
            yield CheckResult("leases", stored.session_id, f"{lease.holder}, token {lease.token}, {standing}{died}")
