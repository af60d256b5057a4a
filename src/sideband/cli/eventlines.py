"""Events of a journal as observers see them: a line of JSON, or a line of a table."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from sideband.cli.moments import moment
from sideband.core.events import Event, InjectAccepted, Injected, Queued
from sideband.core.ids import uuid7_ms
from sideband.core.topic import Correlation, publish
from sideband.lint.report import printable
from sideband.ports import Logged

PREFIX: Final = "transcript."
"""What every kind on the topic begins with."""

HEADING: Final = f"{'sequence':>9}  {'time':<24}  {'session':<20}  {'kind':<27}  about"
# Every line has a column for these, or they say nothing.
_TOLD: Final = ("session_id", "task_id", "agent_id")


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One public record; `time` is in RFC 3339 (None: the journal does not say)."""

    sequence: int
    session: str
    kind: str
    time: str | None = None
    payload: dict[str, Any]


def line_of(logged: Logged) -> Line | None:
    """What may be told of an event, without bodies and with secrets masked; None for what only recovery needs."""
    published = publish(logged.event, Correlation(session_id=logged.session_id))
    if published is None:
        return None
    return Line(
        sequence=logged.sequence,
        session=logged.session_id,
        kind=published.kind,
        time=_time(logged.event),
        payload=published.payload,
    )


def _time(event: Event) -> str | None:
    """An item has the time of its acceptance in the id that was minted for it; one that a caller chose is no witness."""
    match event:
        case Queued(item=item) if item.caller_id is None:
            minted = uuid7_ms(item.id)
        case InjectAccepted(item=message):
            minted = uuid7_ms(message.message_id)
        case Injected(reminder=reminder, seam=None):
            minted = uuid7_ms(reminder.id)
        case _:
            minted = None
    return None if minted is None else moment(minted)


def as_json(line: Line) -> str:
    """On one line."""
    return msgspec.json.encode(line).decode()


def as_row(line: Line) -> str:
    """For people; nothing in it is an order to their terminal."""
    session, about = printable(line.session), printable(" ".join(_about(line.payload)))
    kind = line.kind.removeprefix(PREFIX)
    return f"{line.sequence:>9}  {line.time or '':<24}  {session:<20}  {kind:<27}  {about}"


def _about(payload: dict[str, Any]) -> Iterator[str]:
    for name, value in payload.items():
        if name not in _TOLD and value not in (None, [], {}):
            yield f"{name}={value if isinstance(value, str) else msgspec.json.encode(value).decode()}"
