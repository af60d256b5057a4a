"""What a command acts on: `--to TARGET` and `--store URL`, which every command reads in the same way."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, TypeAlias

from cyclopts import Parameter, Token

from sideband.core.errors import StoreRefused
from sideband.inspect.report import CommandError
from sideband.runtime.home import USER_STORE, VARIABLE, user_file, user_store_url

if TYPE_CHECKING:
    from sideband.inspect.history import SessionHistory

StoreOption: TypeAlias = Annotated[
    str | None,
    Parameter(
        name="--store",
        metavar="URL",
        help="The address of the store: `sqlite:///sideband.db` or `postgresql://host/name`. The default is the user's "
        f"store: the one that `${VARIABLE}` names, or a file in your data directory.",
    ),
]
ToOption: TypeAlias = Annotated[
    str | None,
    Parameter(
        name="--to",
        metavar="TARGET",
        help="The session: its id, or `STORE_URL#ID`. The default is the only open session of the store, apart from "
        "those of sub-agents.",
    ),
]
ServerToOption: TypeAlias = Annotated[
    str | None,
    Parameter(
        name="--to",
        metavar="TARGET",
        help="The session: its id, `STORE_URL#ID`, or `http://HOST:PORT#ID` for a session of a running `sideband serve`. "
        "The default is the only open session of the store, apart from those of sub-agents.",
    ),
]
AgentToOption: TypeAlias = Annotated[
    str | None,
    Parameter(
        name="--to",
        metavar="TARGET",
        help="The session: its id, `STORE_URL#ID`, `http://HOST:PORT#ID` for a session of a running `sideband serve`, "
        "`acp:COMMAND#ID` for a session of another agent, which is started with COMMAND, or `a2a+http://HOST:PORT#TASK` for a task of an agent that is running elsewhere (`a2a+https` too; "
        "the token is read from `$SIDEBAND_TOKEN`). The default is the only open session of the store, apart from those "
        "of sub-agents.",
    ),
]
ServerOption: TypeAlias = Annotated[
    str | None,
    Parameter(
        name="--to",
        metavar="TARGET",
        help="A running `sideband serve`, `http://HOST:PORT`, instead of a store; the token is read from `$SIDEBAND_TOKEN`, "
        "and is your own for a server on this machine.",
    ),
]
Flag: TypeAlias = Annotated[bool, Parameter(negative=(), show_default=False)]
JsonOption: TypeAlias = Annotated[Flag, Parameter(help="Print one JSON object.")]
JsonLinesOption: TypeAlias = Annotated[Flag, Parameter(help="Print one JSON object per line.")]

_AGENT: Final = "agent:"
_SERVER: Final = ("http://", "https://")
_ACP: Final = "acp:"
_A2A: Final = "a2a+"
# The address of a store, with or without slashes: an id may contain a colon and a `#`, but not begin like this.
_STORE: Final = re.compile(r"[a-z][a-z0-9+.-]*://|(?:user|memory):(?:#|$)|(?:sqlite|postgresql|postgres):.*#")
# The address of a server without its scheme.
_HOST_AND_PORT: Final = re.compile(r"(?:localhost|[0-9]+(?:\.[0-9]+){3}|\[[0-9A-Fa-f:.]+\]):[0-9]+(?=[#/]|$)")
_DECIMAL: Final = re.compile(r"-?[0-9]+")


def _decimal(_type: object, tokens: Sequence[Token]) -> int:
    """The converter of integer options: `int` and the parser also take `1.5`, `0x10` and `1_0`."""
    value = tokens[0].value
    if _DECIMAL.fullmatch(value) is None:
        raise ValueError(f"{value!r} is not a whole number in decimal digits")
    return int(value)


Integer: TypeAlias = Annotated[int | None, Parameter(converter=_decimal)]


class Address(NamedTuple):
    """A session of a store; `session_id=None` is the only one that is open."""

    store_url: str
    session_id: str | None = None


class AgentAddress(NamedTuple):
    """A session of an agent that is started with `command` and speaks ACP."""

    command: str
    session_id: str


class TaskAddress(NamedTuple):
    """A task of an agent that is reached at `url` and speaks A2A."""

    url: str
    task_id: str


def agent_address(to: str | None, store: str | None) -> AgentAddress | None:
    """Read `--to acp:COMMAND#ID`; None if `to` has another form."""
    if to is None or not to.startswith(_ACP):
        return None
    # At the first #, as after the address of a store.
    command, _, session_id = to.removeprefix(_ACP).partition("#")
    if not command.strip() or not session_id:
        raise CommandError(f"--to must name an agent and a session: acp:COMMAND#ID, not {to!r}")
    if store is not None:
        raise CommandError(
            "--store does not belong to an agent over ACP; name its store in the command: acp:COMMAND#ID"
        )
    return AgentAddress(command, session_id)


def task_address(to: str | None, store: str | None) -> TaskAddress | None:
    """Read `--to a2a+http://HOST:PORT#TASK`; None if `to` has another form."""
    if to is None or not to.startswith((f"{_A2A}http://", f"{_A2A}https://")):
        return None
    # At the first #, as after the address of a store. The address is not repeated, because it may contain a password.
    url, _, task_id = to.removeprefix(_A2A).partition("#")
    if url.endswith("://") or not task_id:
        raise CommandError("--to must name an agent and a task: a2a+http://HOST:PORT#TASK")
    if store is not None:
        raise CommandError("--store does not belong to an agent over A2A, which keeps its tasks in a store of its own")
    return TaskAddress(url, task_id)


class ServerLost(CommandError):
    """The connection to a running server failed, or was lost before the answer; `reason` says why in a few words."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class StudioAddress(NamedTuple):
    """A session of a running server; `session_id=None` is the only one that is open."""

    url: str
    session_id: str | None = None


def server_address(to: str | None, store: str | None) -> StudioAddress | None:
    """Read `--to http://HOST:PORT#ID`, or without an id; None if `to` has another form."""
    if to is None or not to.startswith(_SERVER):
        return None
    # At the first #, as after the address of a store. The address is not repeated, because it may contain a password.
    url, _, session_id = to.partition("#")
    if url.endswith("://"):
        raise CommandError("--to must name a server and a session: http://HOST:PORT#ID")
    if session_id.startswith("login="):
        raise CommandError(
            "--to has the link that logs a browser in; name a session instead of its code: http://HOST:PORT#ID"
        )
    if store is not None:
        raise CommandError("--store does not belong to a running server, which has a store of its own")
    return StudioAddress(url, session_id or None)


def address(to: str | None, store: str | None, *, must_exist: bool = True) -> Address:
    """Read `--to` and `--store`; `CommandError` for a target that cannot be reached, or that is named in two ways.

    `must_exist` is that of `store_of`.
    """
    if to is None:
        return Address(store_of(store, must_exist=must_exist))
    if not to.strip():
        raise CommandError(f"--to must be the id of a session or STORE_URL#ID, not {to!r}")
    if to.startswith(_ACP):
        raise CommandError(
            "this command reads a store; a session of an agent over ACP (acp:...) can only be used with remind, inject, "
            "pending, revoke and clear"
        )
    if task_address(to, None) is not None:
        raise CommandError(
            "this command reads a store; a task of an agent over A2A (a2a+http:...) can only be used with remind, "
            "pending, revoke and clear"
        )
    if server_address(to, None) is not None:
        raise CommandError(
            "this command reads a store; a session of a running server (http:...) can be used with remind, inject, pending, "
            "revoke, clear, watch, events, transcript and timeline, and a server with sessions and facts"
        )
    if to.startswith(_AGENT):
        forms = "--to STORE_URL#ID" if store is not None else "--to ID with --store URL, or --to STORE_URL#ID"
        raise CommandError(
            f"this version cannot reach an agent that runs in this directory (agent:...); name a session of a store: {forms}"
        )
    if _HOST_AND_PORT.match(to) is not None:
        raise CommandError(f"--to names a server without http://; write --to http://{to}")
    if _STORE.match(to) is None:
        return Address(store_of(store, must_exist=must_exist), to)
    # At the first #, so that any id can follow it. A path that contains one is given with --store.
    url, marked, session_id = to.partition("#")
    if not marked or not session_id:
        raise CommandError("--to names a store and no session; write STORE_URL#ID, or --store STORE_URL")
    if store is not None:
        raise CommandError("the store is named twice; write --to STORE_URL#ID without --store, or --to ID with it")
    return Address(store_of(url, must_exist=must_exist), session_id)


def store_of(store: str | None, *, must_exist: bool = True) -> str:
    """The address of a store (None: the user's store); `StoreRefused` if the user's store must exist and does not."""
    if store is not None and store != USER_STORE:
        return store
    url = user_store_url()
    file = user_file()
    if must_exist and url == f"sqlite:///{file}" and not file.exists():
        raise StoreRefused(
            f"you have no store yet: {file} does not exist. `sideband serve`, `sideband facts add` or a program with "
            f"open_store({USER_STORE!r}) creates it. To use another store, name it with --store URL or in ${VARIABLE}"
        )
    return url


def find(wanted: Address) -> str:
    """The id of the session that is meant; it must exist, and nothing is created."""
    from sideband.inspect.sessions import inspect_store, stored_session  # noqa: PLC0415 - the help of a command does not need it

    with inspect_store(wanted.store_url) as found:
        return stored_session(found, wanted.session_id).session_id


def history_of(to: str | None, store: str | None, *, turns: int | None = None) -> "SessionHistory":
    """What happened in the session that is meant; with `turns`, the timeline has only the last so many turns."""
    server = server_address(to, store)
    if server is not None:
        from sideband.cli.server_session import Server  # noqa: PLC0415 - only needed for a server

        return Server(server.url).history(server.session_id, turns=turns)
    from sideband.inspect.history import session_history  # noqa: PLC0415 - the help of a command does not need it

    return session_history(*address(to, store), turns=turns)
