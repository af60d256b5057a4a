"""What the commands that tell a session something share: BODY, and the producer that they are."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Final, Protocol, TypeAlias, TypeVar

from cyclopts import Parameter

from sideband.cli.target import TaskAddress, address, agent_address, find, server_address, task_address
from sideband.core.errors import shown
from sideband.inspect.report import CommandError, printable, printable_json

if TYPE_CHECKING:
    from sideband.cli.a2a_task import TaskRecipient
    from sideband.runtime.producer import Accepted, Producer, RevokeStatus

_ValueT = TypeVar("_ValueT")

BodyArgument: TypeAlias = Annotated[
    str, Parameter(allow_leading_hyphen=True, help="The text; `-` reads it from standard input.")
]
# What follows BODY by mistake. The parser would refuse it too, but would not say how BODY is written.
Surplus: TypeAlias = Annotated[str, Parameter(allow_leading_hyphen=True, show=False)]
_LIKE_AN_OPTION: Final = re.compile(r"--[a-z][a-z-]*(=.*)?")


def read_body(body: str, surplus: Sequence[str], command: str, *, argument: str = "BODY") -> str:
    """The text that BODY of this command stands for; `surplus` are the arguments after it, of which there must be none."""
    if (wrong := next(filter(_LIKE_AN_OPTION.fullmatch, (body, *surplus)), None)) is not None:
        raise CommandError(_about_option(wrong, command))
    if surplus:
        raise CommandError(f"{argument} must be one argument; put it in quotes: {shown(' '.join((body, *surplus)))}")
    return _standard_input() if body == "-" else body


def _about_option(argument: str, command: str) -> str:
    from sideband.cli.app import options_of, unknown_option  # noqa: PLC0415 - only needed for an error message

    name = argument.partition("=")[0]
    if name in options_of(command):
        return f"{name} follows `--`, after which there are no options; write options before `--`"
    return (
        f"{unknown_option(argument, command)} "
        "(a text that looks like an option is read from standard input, with - as the argument)"
    )


def _standard_input() -> str:
    if sys.stdin is None:
        raise CommandError("there is no standard input to read BODY from")
    try:
        # As bytes, because the encoding of the terminal need not be that of a file.
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise CommandError(f"standard input is not UTF-8: {error.reason} at byte {error.start:,}") from None


def print_reply(line: str, *, json: bool, **fields: object) -> None:
    """Print the line, or the fields as a JSON object."""
    print(printable_json(fields) if json else printable(line))


class Recipient(Protocol):
    """What a command tells something: the producer of a stored session, a session of a server, or one of another agent."""

    async def remind(self, payload: Mapping[str, object], /) -> "Accepted":
        """Send a reminder."""

    async def inject(self, content: str, /, *, mode: str) -> str | None:
        """Send a user message and return its id; None if it cannot be revoked."""

    async def revoke(self, item_id: str, /) -> "RevokeStatus":
        """Withdraw a reminder or message that waits."""

    async def clear(self, *, id: str | None = None, tag: str | None = None, dedupe_key: str | None = None) -> int:
        """End the reminders that match."""


def tell(to: str | None, store: str | None, act: Callable[[Recipient], Awaitable[_ValueT]]) -> tuple[str, _ValueT]:
    """Find the session that is meant, run `act` with it, and return its id and the value of `act`."""
    agent = agent_address(to, store)
    if agent is not None:
        from sideband.cli.agent_session import with_agent  # noqa: PLC0415 - only needed for an agent over ACP

        return agent.session_id, asyncio.run(with_agent(agent, act))
    task = task_address(to, store)
    if task is not None:
        return task.task_id, tell_task(task, act)
    server = server_address(to, store)
    if server is not None:
        from sideband.cli.server_session import recipient_at  # noqa: PLC0415 - only needed for a server

        session_id, recipient = recipient_at(server)
        return session_id, asyncio.run(_acted(act, recipient))
    wanted = address(to, store)
    session_id = find(wanted)

    async def telling() -> _ValueT:
        async with _reached(wanted.store_url, session_id) as producer:
            return await act(producer)

    return session_id, asyncio.run(telling())


async def _acted(act: Callable[[Recipient], Awaitable[_ValueT]], recipient: Recipient) -> _ValueT:
    return await act(recipient)


def tell_task(wanted: TaskAddress, act: "Callable[[TaskRecipient], Awaitable[_ValueT]]") -> _ValueT:
    """Run `act` with a task of an agent over A2A, and return its value."""
    try:
        from sideband.cli.a2a_task import with_task  # noqa: PLC0415 - only needed for an agent over A2A
    except ModuleNotFoundError as missing:
        raise CommandError(
            f"{missing.name} is not installed, and a task of an agent over A2A needs it: pip install 'sideband[a2a]'"
        ) from None
    return asyncio.run(with_task(wanted, act))


@asynccontextmanager
async def _reached(store_url: str, session_id: str) -> AsyncIterator["Producer"]:
    """A producer in the name of the operator.

    A user who can write the store is its operator. A command therefore has the rights of the operator's own code: level
    T0, the source `in_pipeline`, and the keys that code and controllers share. `via` tells it from the agent's process.
    """
    # Imported here, so that the help of a command appears fast.
    from sideband.core.reminder import Source  # noqa: PLC0415 - see above
    from sideband.core.surfaces import Surface  # noqa: PLC0415 - see above
    from sideband.core.trust import Provenance, Trust  # noqa: PLC0415 - see above
    from sideband.runtime.producer import Producer  # noqa: PLC0415 - see above
    from sideband.runtime.store import open_store  # noqa: PLC0415 - see above

    # The program that owns the store decides how many events are kept, so a command prunes nothing.
    async with open_store(store_url, kept_events=None) as store:
        session = await store.find(session_id)
        if session is None:
            raise CommandError(f"session {session_id!r} was deleted just now")
        provenance = Provenance(trust=Trust.OPERATOR, via="cli")
        yield Producer(session, provenance, surface=Surface.COMMAND_LINE, source=Source.IN_PIPELINE)
