"""What the loop needs from outside, as the fewest methods that will do; fakes of all of it are public."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

import msgspec

from sideband.core.events import Event
from sideband.core.ledger import Fragment, RequestHead
from sideband.core.lifecycle import Shown, Unusable
from sideband.core.reminder import Reminder
from sideband.core.state import SessionState
from sideband.core.usage import Usage
from sideband.render.view import RequestView

Message: TypeAlias = dict[str, Any]
OnText: TypeAlias = Callable[[str], Awaitable[None] | None]


class Clock(Protocol):
    """Time, injected: a test decides how late it is."""

    def monotonic(self) -> float:
        """Seconds that only go forward."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""

    def sleep(self, seconds: float) -> Coroutine[Any, Any, None]:
        """Return after so many seconds of this clock."""


# The journal.

Decision: TypeAlias = Callable[[SessionState], Iterable[Event]]


# No cycle leads through an entry, so that the garbage collector need not visit them, however long a journal is.
class Logged(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An event with its place in the one gap-free sequence of its store."""

    sequence: int
    session_id: str
    event: Event


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    """What a commit wrote; nothing where the decision had nothing to write."""

    events: tuple[Event, ...]
    sequence: int


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """The right to run a session; one process has it at a time.

    Every commit of a run carries it. Once somebody else has taken the session over, `token` is stale and the store
    refuses to write anything for it. It lapses after `seconds` unless it is renewed: at `expires_at`, in milliseconds
    of the store's clock.
    """

    session_id: str
    holder: str
    token: int
    seconds: float
    expires_at: int


class Journal(Protocol):
    """Where sessions live. A decision runs inside the commit, on the state as it is then."""

    async def open(self, session_id: str) -> object:
        """Have the state of a session at hand; one that nobody has mentioned yet begins here.

        It stays at hand for whoever keeps what this returns, and while the session is on lease. Of others a store may
        let go, beyond a number of them.
        """

    def state(self, session_id: str) -> SessionState:
        """The state of an open session, to be read."""

    def nothing_waits(self, session_id: str) -> bool:
        """Whether the inbox is surely empty; a store that would have to look it up says no."""

    async def commit(self, session_id: str, decide: Decision, *, lease: Lease | None = None) -> Committed:
        """Commit what the decision returns, all or nothing.

        Commits of one session are made in the order in which they were asked for. Cancelling the caller neither undoes
        its commit nor keeps it from being made. Before the decision, `attended` of the state says whether somebody has
        the session on lease. A lease that was taken over is `LeaseLost`; one that has merely run out is still good.
        """

    async def acquire(self, session_id: str, holder: str) -> Lease:
        """Take the session on lease; `SessionBusy` where another holder has it. An older lease of one's own is stale."""

    async def renew(self, lease: Lease) -> Lease:
        """The same lease for as long again; `LeaseLost` where somebody has taken the session over."""

    async def release(self, lease: Lease) -> None:
        """Give it back; one that was taken over or given back before is left alone."""

    def wake(self, session_id: str) -> "Wake":
        """Set at each commit of the session, whoever made it."""

    def subscribe(
        self, *, session_id: str | None = None, kind_prefix: str = "", after: int = 0
    ) -> AsyncGenerator[Logged, None]:
        """What was and will be logged behind `after`, by whatever process.

        `CursorLost` is for a subscriber that falls too far behind, `CursorExpired` for an `after` behind which
        something is no longer kept.
        """

    def history(
        self, *, session_id: str | None = None, kind_prefix: str = "", after: int = 0
    ) -> AsyncGenerator[Logged, None]:
        """What is logged behind `after` now; it ends where it would have to wait."""

    async def prune(self, session_id: str, *, keep_events: int = 0) -> int:
        """Take from the journal all but the last events of a session, which stays as it is; how many are gone."""

    async def close(self) -> None:
        """Finish what was asked for and let go of files, connections and leases; sessions stay as they are."""


class Wake(Protocol):
    """Something to wait for; `asyncio.Event` is one."""

    def clear(self) -> None: ...

    def wait(self) -> Coroutine[Any, Any, object]: ...


# Models.


# The only argument of a call whose arguments could not be read, with the text that the model wrote there; empty where
# its reply broke off before there was any. Such a call is not run.
UNREADABLE: Final = "unreadable_arguments"


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call a model asks for; `id` is the model's and unique in its reply."""

    id: str
    name: str
    args: dict[str, Any] = {}


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What a model answered.

    `native` is the answer as its wire wants it back, under the name of that wire: reasoning that is signed, for
    instance (None: text and calls are all there is).
    """

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    native: dict[str, Any] | None = None


class Advice(NamedTuple):
    """Something the sender of a reminder should know: a diagnostic code, and what happened."""

    code: str
    message: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A request ready to leave: what it shows, what the budget left out, what can never be shown, and the request itself.

    `route` and `fragments` are for the ledger: what the request is made for, and what it carries beside the messages.
    `head` says what the route is, so that the request can be shown later (None: it is on record, or cannot be told).
    """

    shown: tuple[Shown, ...] = ()
    left_out: tuple[str, ...] = ()
    unusable: tuple[Unusable, ...] = ()
    route: str = ""
    fragments: tuple[Fragment, ...] = ()
    head: RequestHead | None = None
    advice: tuple[Advice, ...] = ()
    request: Any = None


# With these a service says that the same request may succeed later; so does every 5xx.
RETRIED_STATUSES: Final = frozenset({408, 409, 429})


class ModelError(Exception):
    """A model could not answer; a `retryable` failure is one of the connection or the service, not of the request.

    Where it is not said (None) the HTTP status decides. `retry_after` is for how many seconds the service wants to be
    left alone (None: it does not say).
    """

    def __init__(
        self,
        message: str,
        *,
        retryable: bool | None = None,
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.retryable = _may_pass(status) if retryable is None else retryable
        self.status = status
        self.retry_after = retry_after


def _may_pass(status: int | None) -> bool:
    return status is not None and (status in RETRIED_STATUSES or 500 <= status <= 599)  # noqa: PLR2004 - HTTP's own


class Model(Protocol):
    """A model on some wire. Planning is pure and comes first, so that what will be shown is on record before it is."""

    @property
    def context_window(self) -> int | None:
        """How many tokens a prompt may have; None where that is not known."""

    def plan(self, view: RequestView) -> Plan:
        """The request for this view."""

    def complete(self, plan: Plan, on_text: OnText | None = None) -> Coroutine[Any, Any, Reply]:
        """Send it and wait for the whole reply; text is handed to `on_text` as it arrives."""


# Tools.


class ToolStatus(StrEnum):
    """How a call ended; every call ends in exactly one of these."""

    OK = "ok"
    ERROR = "error"
    TIMED_OUT = "timed_out"
    DENIED = "denied"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


class ToolOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool gives back.

    A shortened output says how long it was (`original_bytes`; None: it is whole). `data` is for hooks and providers, not
    for the model: an exit code, the diagnostics a verifier reported, the command that ran.
    """

    text: str
    is_error: bool = False
    original_bytes: int | None = None
    data: dict[str, Any] = {}

    @property
    def truncated(self) -> bool:
        return self.original_bytes is not None


class ToolContext(Protocol):
    """What a running tool may tell its loop."""

    def applied(self, what: str) -> None:
        """Note a change that was made for good, so that a cancelled call can still say what it did."""


class Tool(Protocol):
    """A tool of the agent. An `idempotent` one may be run again where it is not known whether it ran."""

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
        """Do it; an exception is recorded as the call's error."""


# People, watchers, compaction.


class Permission(Protocol):
    """Whoever may allow or refuse a tool call."""

    async def ask(self, call: ToolCall) -> str | None:
        """None allows it; a text is the reason why not."""


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    """A file the agent knows has changed, not by the agent."""

    path: str
    kind: str = "modified"


@runtime_checkable
class Watcher(Protocol):
    """Where changes from outside are noticed."""

    def changes(self) -> Sequence[FileChange]:
        """What changed since the last call; each change is told once."""


class Compactor(Protocol):
    """Makes a shorter conversation of a long one."""

    async def compact(self, messages: Sequence[Message], reminders: Sequence[Reminder]) -> Sequence[Message]:
        """The messages to go on with; equal to the given ones where there is nothing to compact."""
