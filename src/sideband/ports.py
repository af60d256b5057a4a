"""The interfaces that the loop needs from outside, each with the fewest methods; `sideband.testing` has public fakes."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final, Generic, NamedTuple, Protocol, TypeAlias, runtime_checkable

import msgspec

from sideband.core.events import Event
from sideband.core.messages import Message, Reply, ToolCall
from sideband.core.reminder import Reminder
from sideband.core.state import Decision, SessionState, ValueT
from sideband.render.plan import Plan
from sideband.render.view import RequestView

OnText: TypeAlias = Callable[[str], Awaitable[None] | None]


class Clock(Protocol):
    """The injected clock; a test passes a fake one."""

    def monotonic(self) -> float:
        """Seconds of a clock that never goes backwards."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""

    def sleep(self, seconds: float) -> Coroutine[Any, Any, None]:
        """Return after this many seconds of this clock."""


# The journal.


# No reference cycle contains an entry, so the garbage collector need not visit the entries of a long journal.
class Logged(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An event with its number in the gap-free sequence of its store.

    `time` is when it was committed, in milliseconds since the epoch; 0 if an earlier version of Sideband wrote it.
    """

    sequence: int
    session_id: str
    event: Event
    time: int = 0


class SessionEntry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A session in the list of its store, with its named records.

    `begun` is the sequence of its first event. `begun_at` and `changed_at` are the times of its first and its last event,
    in milliseconds since the epoch; 0 if an earlier version of Sideband wrote them.
    """

    session_id: str
    begun: int
    begun_at: int
    changed_at: int
    records: dict[str, Any] = {}


# The session that holds the facts of a store. A store does not list it, and `Store` refuses its id.
FACTS_SESSION: Final = "sideband:facts"


class AsOf(NamedTuple, Generic[ValueT]):
    """A value that was read from a session, and the sequence up to which the session was complete."""

    value: ValueT
    at: int


# A record can be looked up by its value if that is a string of at most this many bytes in UTF-8.
INDEXED_BYTES: Final = 256
NO_RECORDS: Final[Mapping[str, str]] = MappingProxyType({})


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """The right to run a session, which one holder has at a time.

    Every commit of a run carries its lease. After another holder has taken the session over, `token` is stale and the
    store refuses commits with it. A lease expires after `seconds` unless it is renewed: at `expires_at`, in milliseconds
    of the store's clock.
    """

    session_id: str
    holder: str
    token: int
    seconds: float
    expires_at: int


class Journal(Protocol):
    """A store of sessions. A decision runs inside the commit, on the current state."""

    async def open(self, session_id: str) -> object:
        """Load a session, or create it.

        It stays in memory while the returned object is referenced or the session is leased by this process. A store may
        unload other sessions.
        """

    def state(self, session_id: str) -> SessionState:
        """The state of an open session. Read it only; commits change it."""

    def nothing_waits(self, session_id: str) -> bool:
        """Whether the inbox is certainly empty; False if the store would have to read it."""

    async def commit(
        self,
        session_id: str,
        decide: Decision[ValueT],
        *,
        lease: Lease | None = None,
        receipts: Sequence[str] = (),
    ) -> ValueT:
        """Commit the events of the decision, all or none, and return its value.

        The commits of one session are made in the order of their calls. Cancelling the caller neither prevents nor
        undoes its commit. Before the decision, `attended` of the state is set to whether there is a lease on the
        session, and `receipts` of the state to the receipts of these caller-supplied ids. `LeaseLost` if the lease was
        taken over; a lease that has only lapsed is still valid.
        """

    async def read(self, session_id: str, look: Callable[[SessionState], ValueT]) -> AsOf[ValueT]:
        """What `look` returns for the newest committed state, and the sequence of that state.

        `attended` of the state is set as for a commit. The value must hold no reference into the state. A subscription
        after that sequence misses nothing and repeats nothing.
        """

    async def entry(self, session_id: str) -> SessionEntry | None:
        """The session in the list of the store; None if it does not exist. This creates nothing."""

    async def sessions(
        self, *, records: Mapping[str, str] = NO_RECORDS, before: int | None = None, limit: int = 100
    ) -> Sequence[SessionEntry]:
        """The newest sessions that were begun before the sequence `before` (None: all), newest first.

        With `records`, only sessions that have all these records with these values; longer values than `INDEXED_BYTES`
        match nothing.
        """

    async def acquire(self, session_id: str, holder: str) -> Lease:
        """Lease the session; `SessionBusy` if another holder has it. An older lease of the same holder becomes stale."""

    async def renew(self, lease: Lease) -> Lease:
        """Extend the lease; `LeaseLost` if another holder has taken the session over."""

    async def release(self, lease: Lease) -> None:
        """Release the lease; does nothing if it is stale."""

    def wake(self, session_id: str) -> "Wake":
        """An event that is set at each commit of the session, by any process."""

    def subscribe(
        self, *, session_id: str | None = None, kind_prefix: str = "", after: int = 0
    ) -> AsyncGenerator[Logged, None]:
        """Past and future events after `after`, of all processes.

        Raises `CursorLost` if the subscriber is too slow, and `CursorExpired` if events after `after` were pruned.
        """

    def history(
        self, *, session_id: str | None = None, kind_prefix: str = "", after: int = 0
    ) -> AsyncGenerator[Logged, None]:
        """The events after `after` that are in the journal now."""

    async def prune(self, session_id: str, *, keep_events: int = 0) -> int:
        """Delete all but the last events of a session, and return the number of deleted ones. The state does not change."""

    async def close(self) -> None:
        """Finish all requested commits, release the leases, and close files and connections."""


class Wake(Protocol):
    """A flag to wait for, such as an `asyncio.Event`."""

    def clear(self) -> None: ...

    def wait(self) -> Coroutine[Any, Any, object]: ...


# Models.


# HTTP statuses after which the same request may succeed later; every 5xx is one too.
RETRIED_STATUSES: Final = frozenset({408, 409, 429})


class ModelError(Exception):
    """The model failed. A failure of the connection or the service is `retryable`; one of the request is not.

    If `retryable` is None, the HTTP status decides. `retry_after` is the pause in seconds that the service asks for
    (None: it asks for none).
    """

    code: ClassVar[str] = "SIDEBAND-401"

    def __init__(
        self,
        message: str,
        *,
        retryable: bool | None = None,
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.retryable = _is_temporary(status) if retryable is None else retryable
        self.status = status
        self.retry_after = retry_after


def _is_temporary(status: int | None) -> bool:
    return status is not None and (status in RETRIED_STATUSES or 500 <= status <= 599)  # noqa: PLR2004 - HTTP's own


class Model(Protocol):
    """A model. Planning comes first and is pure, so that what a request shows is recorded before it is sent."""

    @property
    def context_window(self) -> int | None:
        """How many tokens a prompt may have; None if unknown."""

    def plan(self, view: RequestView) -> Plan:
        """The request for this view."""

    def complete(self, plan: Plan, on_text: OnText | None = None) -> Coroutine[Any, Any, Reply]:
        """Send the request and return the whole reply; `on_text` is called with text as it arrives."""


class ToolOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a tool.

    A truncated output has its original size in `original_bytes` (None: it is complete). `data` is for hooks and
    providers and is not shown to the model: an exit code, the diagnostics of a verifier, the command that ran.
    """

    text: str
    is_error: bool = False
    original_bytes: int | None = None
    data: dict[str, Any] = {}

    @property
    def truncated(self) -> bool:
        return self.original_bytes is not None


class ToolContext(Protocol):
    """What a running tool knows of its call, and what it can report to the loop."""

    @property
    def call_id(self) -> str:
        """The id that the model gave the call."""

    def applied(self, what: str) -> None:
        """Report a permanent change, which the result mentions even if the call is cancelled."""


class Tool(Protocol):
    """A tool of the agent. An `idempotent` tool may be run again if it is not known whether it ran."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """JSON Schema of the arguments."""

    @property
    def idempotent(self) -> bool: ...

    def call(self, args: Mapping[str, Any], context: ToolContext) -> Coroutine[Any, Any, ToolOutput]:
        """Run the tool; an exception becomes the error result of the call."""


# Permission, watchers, compaction.


class Permission(Protocol):
    """Allows or refuses tool calls.

    A method `needs(call) -> bool` is optional. A call for which it returns False is made without a question.
    """

    async def ask(self, call: ToolCall) -> str | None:
        """Return None to allow the call, or the reason for refusing it."""


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    """A file known to the agent that something else has changed."""

    path: str
    kind: str = "modified"


@runtime_checkable
class Watcher(Protocol):
    """Notices changes of files from outside."""

    def changes(self) -> Sequence[FileChange]:
        """The changes since the last call; each change is returned once."""


class Compactor(Protocol):
    """Makes a conversation shorter."""

    async def compact(self, messages: Sequence[Message], reminders: Sequence[Reminder]) -> Sequence[Message]:
        """The messages to continue with; equal to the given ones if there is nothing to compact."""
