"""Leases in SQLite: the holder of a session, the expiry, and the token that identifies a stale lease."""

from collections.abc import Callable
from typing import NamedTuple

import apsw

from sideband.core.errors import LeaseLost, SessionBusy, shown
from sideband.ports import Lease


class Term(NamedTuple):
    """The last lease of a session; `token` is 0 if there never was one."""

    token: int = 0
    expires_at: int = 0


class _Row(NamedTuple):
    """A row of the lease table."""

    holder: str
    address: str
    token: int
    expires_at: int


class Terms(NamedTuple):
    """How a process takes leases: the current time, the duration, and the address of its doorbell."""

    now: int
    seconds: float
    address: str

    @property
    def until(self) -> int:
        return self.now + int(self.seconds * 1_000)


def term(connection: apsw.Connection, session_id: str) -> Term:
    row = _row(connection, session_id)
    return Term() if row is None else Term(row.token, row.expires_at)


def _row(connection: apsw.Connection, session_id: str) -> _Row | None:
    row = connection.execute(
        "SELECT holder, address, token, expires_at FROM lease WHERE session_id = ?", (session_id,)
    ).get
    if row is None:
        return None
    # SQLite checks types only when it writes.
    if not all(map(isinstance, row, (str, str, int, int))):
        raise apsw.CorruptError(f"the lease of session {shown(session_id)} was changed")
    return _Row(*row)


def acquire(
    connection: apsw.Connection, session_id: str, holder: str, terms: Terms, *, is_dead: Callable[[str], bool]
) -> Lease:
    """Lease a session that is free, whose lease has expired, or whose holder's process has died."""
    row = _row(connection, session_id)
    token = 1
    if row is not None:
        if row.holder != holder and row.expires_at > terms.now and not is_dead(row.address):
            raise SessionBusy(
                f"session {shown(session_id)} is run by {shown(row.holder)}", field="session", value=session_id
            )
        token = row.token + 1
    connection.execute(
        "INSERT INTO lease (session_id, holder, address, token, expires_at) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (session_id) DO UPDATE SET holder = excluded.holder, address = excluded.address, "
        "token = excluded.token, expires_at = excluded.expires_at",
        (session_id, holder, terms.address, token, terms.until),
    )
    return Lease(session_id=session_id, holder=holder, token=token, seconds=terms.seconds, expires_at=terms.until)


def renew(connection: apsw.Connection, lease: Lease, terms: Terms) -> Lease:
    connection.execute(
        "UPDATE lease SET expires_at = ? WHERE session_id = ? AND token = ?",
        (terms.until, lease.session_id, lease.token),
    )
    if not connection.changes():
        raise LeaseLost(lease.session_id)
    return Lease(
        session_id=lease.session_id,
        holder=lease.holder,
        token=lease.token,
        seconds=terms.seconds,
        expires_at=terms.until,
    )


def release(connection: apsw.Connection, lease: Lease) -> None:
    """Free the session. The token rises, so that the released lease is stale."""
    connection.execute(
        "UPDATE lease SET holder = '', address = '', token = token + 1, expires_at = 0 "
        "WHERE session_id = ? AND token = ?",
        (lease.session_id, lease.token),
    )


def expire_leases(connection: apsw.Connection, address: str) -> None:
    """Expire the leases of a process that has died."""
    connection.execute("UPDATE lease SET expires_at = 0 WHERE address = ?", (address,))
