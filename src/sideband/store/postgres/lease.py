"""Leases in PostgreSQL: columns of a session's row, which commits lock, so that both are serialised.

All times are of the server's clock.
"""

from typing import Final

from sideband.core.errors import LeaseLost, SessionBusy, shown
from sideband.ports import Lease
from sideband.store.postgres.connection import Connection

_ACQUIRE: Final = """
INSERT INTO sideband.session AS held (session_id, holder, token, expires_at)
VALUES (%(session)s, %(holder)s, 1, clock_timestamp() + make_interval(secs => %(seconds)s))
ON CONFLICT (session_id) DO UPDATE
SET holder = excluded.holder, token = held.token + 1, expires_at = clock_timestamp() + make_interval(secs => %(seconds)s)
WHERE held.holder = excluded.holder OR held.expires_at <= clock_timestamp()
RETURNING token, (extract(epoch FROM expires_at) * 1000)::bigint
"""
_RENEW: Final = """
UPDATE sideband.session SET expires_at = clock_timestamp() + make_interval(secs => %(seconds)s)
WHERE session_id = %(session)s AND token = %(token)s
RETURNING (extract(epoch FROM expires_at) * 1000)::bigint
"""
# The token rises, so that the released lease is stale.
_RELEASE: Final = """
UPDATE sideband.session SET holder = '', token = token + 1, expires_at = '-infinity'
WHERE session_id = %(session)s AND token = %(token)s
"""


async def acquire(connection: Connection, session_id: str, holder: str, *, seconds: float) -> Lease:
    """Lease a session that is free, or whose lease has expired; of two calls the second one counts.

    In a transaction, because a server finishes a statement whose client is gone, but does not commit it. A caller that was
    cancelled, or that retries on another connection, does not leave the session leased.
    """
    asked = {"session": session_id, "holder": holder, "seconds": seconds}
    async with connection.transaction():
        row = await (await connection.execute(_ACQUIRE, asked)).fetchone()
        if row is None:
            raise await _busy(connection, session_id)
    token, expires_at = row
    return Lease(session_id=session_id, holder=holder, token=token, seconds=seconds, expires_at=expires_at)


async def _busy(connection: Connection, session_id: str) -> SessionBusy:
    query = "SELECT holder FROM sideband.session WHERE session_id = %s"
    other = await (await connection.execute(query, (session_id,))).fetchone()
    whose = shown(other[0]) if other is not None and other[0] else "another holder"
    return SessionBusy(f"session {shown(session_id)} is run by {whose}", field="session", value=session_id)


async def renew(connection: Connection, lease: Lease, *, seconds: float) -> Lease:
    asked = {"session": lease.session_id, "token": lease.token, "seconds": seconds}
    row = await (await connection.execute(_RENEW, asked)).fetchone()
    if row is None:
        raise LeaseLost(lease.session_id)
    return Lease(
        session_id=lease.session_id, holder=lease.holder, token=lease.token, seconds=seconds, expires_at=row[0]
    )


async def release(connection: Connection, lease: Lease) -> None:
    await connection.execute(_RELEASE, {"session": lease.session_id, "token": lease.token})
