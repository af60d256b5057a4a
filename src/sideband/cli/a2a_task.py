"""A task of an agent over A2A as the target of a command: connect to the agent, and act on the task."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, TypeVar

from sideband.cli.target import TaskAddress
from sideband.cli.token import TOKEN_VARIABLE, token_for
from sideband.core.errors import InvalidOption, UnknownSession, shown
from sideband.core.reminder import ReminderId
from sideband.inspect.report import CommandError
from sideband.protocols.a2a.client import (
    NotSupportedByPeer,
    PeerAgent,
    PeerFailed,
    PeerNotTrusted,
    RpcError,
    TaskReminderRoute,
    TokenRefused,
    connect,
)
from sideband.protocols.a2a.messages import PendingReminder
from sideband.runtime.producer import Accepted, RevokeStatus

# What the options of `connect` are to a user of the command line.
_REMEDIES: Final[Mapping[str | None, str]] = MappingProxyType(
    {
        "url": "--to must be like a2a+http://HOST:PORT#TASK, with no query, user name or password before the #; the "
        f"token is read from ${TOKEN_VARIABLE}",
        "token": f"${TOKEN_VARIABLE} must be a text of printable ASCII characters",
    }
)

_ValueT = TypeVar("_ValueT")


class TaskRecipient:
    """Tells a task of an agent what a command tells a stored session; each request makes a connection of its own."""

    def __init__(self, wanted: TaskAddress) -> None:
        self._wanted = wanted

    async def remind(self, payload: Mapping[str, Any], /) -> Accepted:
        """Send a reminder."""
        fields = dict(payload)
        async with self._connected() as peer:
            reminded = await peer.remind(self._wanted.task_id, fields.pop("body"), **fields)
        if reminded.route is not TaskReminderRoute.ACCEPTED or reminded.reminder_id is None:
            raise CommandError(
                "the agent takes no reminders (its card has no such capability, or it does not know the method), so "
                "nothing was sent; wait until the task needs input or has ended, and send the text in a message"
            )
        return Accepted(
            ReminderId(reminded.reminder_id),
            reminded.deduped_count,
            dict(reminded.requested),
            dict(reminded.effective),
            _milliseconds(reminded.accepted_at),
        )

    async def inject(self, content: str, /, *, mode: str) -> str | None:  # noqa: ARG002 - of the interface
        """Refuse: A2A has no message that a running task takes."""
        raise CommandError(
            "a running task of an agent over A2A takes no user message; tell the agent something with `sideband remind`, "
            "or send a message with an A2A client when the task needs input"
        )

    async def revoke(self, item_id: str, /) -> RevokeStatus:
        """Withdraw a reminder that waits."""
        async with self._connected() as peer:
            return await peer.revoke(self._wanted.task_id, item_id)

    async def clear(self, *, id: str | None = None, tag: str | None = None, dedupe_key: str | None = None) -> int:
        """End the reminders that match."""
        async with self._connected() as peer:
            return await peer.clear(self._wanted.task_id, id=id, tag=tag, dedupe_key=dedupe_key)

    async def pending(self) -> list[dict[str, Any]]:
        """The reminders that wait, then those that are live, in the form that `sideband pending --json` prints."""
        async with self._connected() as peer:
            return [*map(_row, await peer.pending(self._wanted.task_id))]

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[PeerAgent]:
        url, task_id = self._wanted
        token = token_for(url)
        try:
            async with connect(url, token=token) as peer:
                yield peer
        except InvalidOption as error:
            if error.field not in _REMEDIES:
                raise
            raise CommandError(_REMEDIES[error.field], code=error.code) from None
        except TokenRefused as error:
            what = "requires a token" if token is None else "refused the token"
            raise CommandError(
                f"the agent at {url} {what} (HTTP {error.status}); set ${TOKEN_VARIABLE} to the token its operator gave "
                "you",
                code=error.code,
            ) from None
        except PeerNotTrusted as error:
            why = str(error).rpartition("; ")[0]
            raise CommandError(f"{why}; if you trust that address, name it with --to", code=error.code) from None
        except (PeerFailed, NotSupportedByPeer) as error:
            raise CommandError(str(error), code=error.code) from None
        except UnknownSession as error:
            raise CommandError(
                f"the agent at {url} has no task {shown(task_id)}, or the task belongs to another caller; to be that "
                f"caller, set ${TOKEN_VARIABLE} to its token",
                code=error.code,
            ) from None
        except RpcError as error:
            raise CommandError(f"the agent refused: {error.message} ({error.code})") from None


async def with_task(wanted: TaskAddress, act: Callable[[TaskRecipient], Awaitable[_ValueT]]) -> _ValueT:
    """Run `act` with the task; `CommandError` if the agent cannot do it."""
    return await act(TaskRecipient(wanted))


def _milliseconds(moment: str | None) -> int:
    try:
        return 0 if moment is None else round(datetime.fromisoformat(moment).timestamp() * 1_000)
    except ValueError:
        return 0


def _row(item: PendingReminder) -> dict[str, Any]:
    fields = ("id", "body", "tags", "dedupe_key", "ttl_turns", "role_hint", "source")
    reminder = {name: value for name in fields if (value := getattr(item, name)) is not None}
    row: dict[str, Any] = {"state": item.state, "kind": "reminder", "id": item.id, "reminder": reminder}
    waits = {"position": item.position, "mode": item.mode}
    return row | {name: value for name, value in waits.items() if value is not None}
