"""Telling a pooler from a server: a store listens on a connection, and prepares statements there.

One that lends its connections to whoever begins a transaction next cannot be used. It gives itself away by what no
server does: two connections that are open at the same time have one and the same process behind them.
"""

from typing import Final

from sideband.store.postgres.link import Connection, Link, pooled

# Others may come in between and take the connection that would have given it away.
TRIES: Final = 8


async def refuse_pooler(one: Link, other: Link) -> None:
    """Refuse what does not keep a connection; two links, since one alone may be lucky."""
    if not await one.at_once(_is_behind_something):
        return
    pairs = [(await one.at_once(_backend), await other.at_once(_backend)) for _ in range(TRIES)]
    mine, theirs = zip(*pairs, strict=True)
    if len({*mine}) > 1 or len({*theirs}) > 1 or mine[0] == theirs[0]:
        raise pooled(one.address.shown)


async def _is_behind_something(connection: Connection) -> bool:
    """A pooler makes up what a server says of itself when a connection begins."""
    return await _backend(connection) != connection.info.backend_pid


async def _backend(connection: Connection) -> int:
    ((backend,),) = await (await connection.execute("SELECT pg_backend_pid()")).fetchall()
    return int(backend)
