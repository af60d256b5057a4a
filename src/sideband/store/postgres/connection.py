"""Connections to a PostgreSQL server that are made when they are needed and again after they were lost."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from sideband.core.errors import StoreClosed, StoreError, StoreRefused, StoreUnavailable
from sideband.core.state import ValueT

Connection: TypeAlias = psycopg.AsyncConnection[Any]

# Every text must be storable, whatever the address or the environment says.
ALWAYS: Final[Mapping[str, str]] = MappingProxyType({"client_encoding": "utf8"})
# Time-outs that detect a dead server; parameters of the address take precedence.
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

# A process that hangs inside a transaction blocks others, so the server ends it. An acknowledged commit is on the disk of
# the server even if the role turns that off; stricter settings (replicas) stay. Sequential and bitmap scans are off,
# because a plan that was made while a table was small would be kept when it is large: every statement here reads the rows
# that it needs in the order of an index.
_SET_UP: Final = """
SELECT pg_backend_pid(),
       set_config('idle_in_transaction_session_timeout', '15s', false),
       set_config('lock_timeout', '10s', false),
       set_config('enable_seqscan', 'off', false),
       set_config('enable_bitmapscan', 'off', false),
       set_config('synchronous_commit', CASE current_setting('synchronous_commit')
           WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false)
"""

SHORTEST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 1.0

# The connection works, and the statement may succeed later.
PASSING: Final = (
    errors.SerializationFailure,
    errors.DeadlockDetected,
    errors.LockNotAvailable,
    errors.QueryCanceled,
)
# The server does not accept writes any more; another one may have taken over.
DEMOTED: Final = (errors.ReadOnlySqlTransaction,)
# A prepared statement is missing, or that of another client is there.
POOLED: Final = (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement)


class ServerAddress(NamedTuple):
    """The address of a server; `shown` is its form in errors, without a password."""

    parameters: Mapping[str, Any]
    shown: str


def address_of(url: str) -> ServerAddress:
    """Parse a `postgresql://` address."""
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        # The message of psycopg quotes the address, and with it the password.
        raise StoreRefused(
            "this is not the address of a PostgreSQL store; write postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
        ) from None
    place = f"{given.get('host') or 'localhost'}:{given.get('port') or 5432}"
    return ServerAddress({**DEFAULTS, **given, **ALWAYS}, f"postgresql://{place}/{given.get('dbname') or ''}")


def pooled(place: str) -> StoreRefused:
    """The error for a pooler in transaction mode."""
    return StoreRefused(
        f"{place} is a pooler in transaction mode, on which a store cannot listen for notifications; "
        "give the address of the server itself, or of a pool in session mode"
    )


class Patience:
    """Retries with growing pauses, for a limited time."""

    def __init__(self, seconds: float) -> None:
        self._until = asyncio.get_running_loop().time() + seconds
        self._pause = SHORTEST_PAUSE

    async def lasts(self) -> bool:
        """Pause before the next try; False if the time is used up."""
        if asyncio.get_running_loop().time() + self._pause > self._until:
            return False
        await asyncio.sleep(self._pause)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        return True


def _cancellations() -> int:
    """How often the current task was cancelled."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


class Link:
    """One connection for one purpose; the lock makes its users take turns."""

    def __init__(self, address: ServerAddress, *, patience_seconds: float) -> None:
        self.address = address
        self._patience_seconds = patience_seconds
        self._connection: Connection | None = None
        self._backend: int | None = None
        self._is_shut = False
        self._talking = asyncio.Lock()

    async def connection(self) -> Connection:
        """The connection, in autocommit mode; a new one if it was lost."""
        self._refuse_shut()
        if self._connection is None or self._connection.closed:
            self._connection = None
            connection = await psycopg.AsyncConnection.connect(autocommit=True, **self.address.parameters)
            try:
                (self._backend, *_), *_ = await (await connection.execute(_SET_UP)).fetchall()
                # It may have been shut while it connected.
                self._refuse_shut()
            except BaseException:
                await connection.close()
                raise
            self._connection = connection
        return self._connection

    def _refuse_shut(self) -> None:
        if self._is_shut:
            raise StoreClosed

    async def run(self, work: Callable[[Connection], Awaitable[ValueT]]) -> ValueT:
        """Do idempotent work; it is done again if the connection is lost."""
        return await self._try(work, self._patience_seconds)

    async def at_once(self, work: Callable[[Connection], Awaitable[ValueT]]) -> ValueT:
        """Do work once, without retries."""
        return await self._try(work, 0.0)

    async def _try(self, work: Callable[[Connection], Awaitable[ValueT]], patience_seconds: float) -> ValueT:
        async with self._talking:
            patience, cancellations = Patience(patience_seconds), _cancellations()
            while True:
                try:
                    return await work(await self.connection())
                except psycopg.Error as error:
                    if _cancellations() > cancellations:
                        # psycopg waits for the server when a task is cancelled; if the connection is lost then, its error
                        # replaces the cancellation.
                        raise asyncio.CancelledError from error
                    if not await self.recovers(error) or not await patience.lasts():
                        raise self.refusal(error) from error
                finally:
                    await self.tidy()

    async def recovers(self, error: psycopg.Error) -> bool:
        """Whether a retry may succeed; an open transaction is discarded."""
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
        """The process id of the server, as the server itself reports it; a pooler may report another."""
        return None if self.is_lost else self._backend

    def refusal(self, error: BaseException) -> StoreError:
        """The `StoreError` for an error of PostgreSQL."""
        if isinstance(error, POOLED):
            return pooled(self.address.shown)
        # The messages of libpq have several lines.
        what = " ".join(f"{type(error).__name__}: {error}".split())
        return StoreUnavailable(f"{self.address.shown} cannot be used now: {what}")

    async def tidy(self) -> None:
        """Drop the connection if a cancelled or failed caller has left a transaction open."""
        if self._connection is not None and self._connection.info.transaction_status is not TransactionStatus.IDLE:
            await self.drop()

    async def shut(self) -> None:
        """Close the connection for good; later calls raise `StoreClosed`."""
        self._is_shut = True
        await self.drop()

    async def drop(self) -> None:
        """Close the connection; the next use makes a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
