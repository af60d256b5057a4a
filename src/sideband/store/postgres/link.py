"""A connection to a PostgreSQL server: made when it is needed, and made again when it was lost."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from sideband.core.failures import StoreClosed, StoreError, StoreRefused, StoreUnavailable

Connection: TypeAlias = psycopg.AsyncConnection[Any]
_Result = TypeVar("_Result")

# Any text may be written, whatever an address or an environment says of its own.
ALWAYS: Final[Mapping[str, str]] = MappingProxyType({"client_encoding": "utf8"})
# A server that is gone without a word has to be noticed; whoever has other wishes writes them into the address.
DEFAULTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "application_name": "sideband",
        "connect_timeout": "5",
        "keepalives_idle": "10",
        "keepalives_interval": "3",
        "keepalives_count": "3",
        "tcp_user_timeout": "15000",
        "target_session_attrs": "read-write",
    }
)

# A process that hangs inside a transaction keeps others waiting: the server ends that. What is acknowledged is on its
# disk, whatever the settings of the role say; more than that (replicas) stays as it was set. And a plan that was made
# when a table was small does not read the whole of it for ever after.
_SET_UP: Final = """
SELECT pg_backend_pid(),
       set_config('idle_in_transaction_session_timeout', '15s', false),
       set_config('lock_timeout', '10s', false),
       set_config('enable_seqscan', 'off', false),
       set_config('synchronous_commit', CASE current_setting('synchronous_commit')
           WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false)
"""

SHORTEST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 1.0

# The connection works, and the same may work later.
PASSING: Final = (
    errors.SerializationFailure,
    errors.DeadlockDetected,
    errors.LockNotAvailable,
    errors.QueryCanceled,
)
# The server is not the one that takes writes, or not any longer: another may have taken over.
DEMOTED: Final = (errors.ReadOnlySqlTransaction,)
# What was prepared on this connection is not there, or somebody else's is.
POOLED: Final = (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement)


class Address(NamedTuple):
    """Where a server is; `shown` is what errors say, without a password."""

    parameters: Mapping[str, Any]
    shown: str


def address_of(url: str) -> Address:
    """Read what libpq reads: a `postgresql://` address."""
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        # Its message quotes the address, and with it the password.
        raise StoreRefused(
            "this is not the address of a PostgreSQL store; write postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
        ) from None
    place = f"{given.get('host') or 'localhost'}:{given.get('port') or 5432}"
    return Address({**DEFAULTS, **given, **ALWAYS}, f"postgresql://{place}/{given.get('dbname') or ''}")


def pooled(place: str) -> StoreRefused:
    """What has to be said of a pooler that gives a connection to others between two transactions."""
    return StoreRefused(
        f"{place} is a pooler that lends its connections for one transaction at a time, and a store listens on one; "
        "give the address of the server itself, or of a pool in session mode"
    )


class Patience:
    """How often something is tried again: after ever longer pauses, and not for ever."""

    def __init__(self, seconds: float) -> None:
        self._until = asyncio.get_running_loop().time() + seconds
        self._pause = SHORTEST_PAUSE

    async def lasts(self) -> bool:
        """Wait a little; False once it has lasted long enough."""
        if asyncio.get_running_loop().time() + self._pause > self._until:
            return False
        await asyncio.sleep(self._pause)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        return True


def _cancellations() -> int:
    """How often this task was cancelled."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


class Link:
    """One connection for one purpose; the lock keeps two from talking at the same time."""

    def __init__(self, address: Address, *, patience_seconds: float) -> None:
        self.address = address
        self._patience_seconds = patience_seconds
        self._connection: Connection | None = None
        self._backend: int | None = None
        self._is_shut = False
        self._talking = asyncio.Lock()

    async def connection(self) -> Connection:
        """The connection as it is, or a new one where it was lost. Every statement is a transaction of its own."""
        if self._is_shut:
            raise StoreClosed
        if self._connection is None or self._connection.closed:
            self._connection = None
            connection = await psycopg.AsyncConnection.connect(autocommit=True, **self.address.parameters)
            try:
                (self._backend, *_), *_ = await (await connection.execute(_SET_UP)).fetchall()
            except BaseException:
                await connection.close()
                raise
            self._connection = connection
        return self._connection

    async def run(self, work: Callable[[Connection], Awaitable[_Result]]) -> _Result:
        """Do something that may be done twice: where the connection was lost on the way, it is."""
        return await self._try(work, self._patience_seconds)

    async def at_once(self, work: Callable[[Connection], Awaitable[_Result]]) -> _Result:
        """Do something now, or say that it cannot be done."""
        return await self._try(work, 0.0)

    async def _try(self, work: Callable[[Connection], Awaitable[_Result]], patience_seconds: float) -> _Result:
        async with self._talking:
            patience, cancellations = Patience(patience_seconds), _cancellations()
            while True:
                try:
                    return await work(await self.connection())
                except psycopg.Error as error:
                    if _cancellations() > cancellations:
                        # Whoever is cancelled waits for the answer, and a connection that is lost then hides that.
                        raise asyncio.CancelledError from error
                    if not await self.recovers(error) or not await patience.lasts():
                        raise self.refusal(error) from error
                finally:
                    await self.tidy()

    async def recovers(self, error: psycopg.Error) -> bool:
        """Whether the same may work when it is tried again; nothing is left of what was begun."""
        if isinstance(error, DEMOTED):
            await self.drop()
        may = self.is_lost or isinstance(error, PASSING)
        await self.tidy()
        return may

    @property
    def is_lost(self) -> bool:
        return self._connection is None or self._connection.closed

    @property
    def backend(self) -> int | None:
        """The process of the server at the other end, as the server calls it: what stands between may lie."""
        return None if self.is_lost else self._backend

    def refusal(self, error: BaseException) -> StoreError:
        """What an error of PostgreSQL means for whoever uses the store."""
        if isinstance(error, POOLED):
            return pooled(self.address.shown)
        # What libpq says goes over several lines.
        what = " ".join(f"{type(error).__name__}: {error}".split())
        return StoreUnavailable(f"{self.address.shown} cannot be used now: {what}")

    async def tidy(self) -> None:
        """Somebody was cancelled, or failed, in the middle of a transaction: nobody goes on from there."""
        if self._connection is not None and self._connection.info.transaction_status is not TransactionStatus.IDLE:
            await self.drop()

    async def shut(self) -> None:
        """Let go of the connection for good: whoever waits for it is too late."""
        self._is_shut = True
        await self.drop()

    async def drop(self) -> None:
        """Let go of the connection; the next use makes another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
