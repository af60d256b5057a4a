"""An event as a durable journal holds it: its kind, its bytes, and a sum that tells whether they are still the same."""

import zlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, get_args

import msgspec

from sideband.core.events import Event
from sideband.core.failures import NotStorable
from sideband.core.topic import KINDS

_DECODER: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder(Event)
_ENCODER: Final = msgspec.json.Encoder()

WORDS: Final[Mapping[type[Event], str]] = MappingProxyType(
    {kind: str(kind.__struct_config__.tag) for kind in get_args(Event)}
)
"""Each kind of event by the word it is written under."""


class Record(msgspec.Struct, frozen=True, gc=False):
    """An event and how it is written; the event is what reading these bytes gives."""

    event: Event
    word: str
    body: bytes


def record(event: Event) -> Record:
    """The event as every later reader will see it: what lists, tuples and enumerations become in a file, they are now."""
    try:
        body = _ENCODER.encode(event)
        return Record(_DECODER.decode(body), WORDS[type(event)], body)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise NotStorable(f"{type(event).__name__} has a value that the journal cannot hold: {error}") from error


def read(body: bytes) -> Event:
    """The event that was written so; `ValueError` where these bytes are none."""
    event: Event = _DECODER.decode(body)
    return event


def checksum(sequence: int, session_id: str, body: bytes) -> int:
    """Tells a row that was changed, or stands in the place of another, from the one that was written."""
    return zlib.crc32(body, zlib.crc32(f"{sequence} {session_id} ".encode()))


def is_as_written(sequence: object, session_id: object, total: object, body: object) -> bool:
    """Whether a row, or a snapshot, is still what its checksum was made of.

    Where a file was damaged, a value may have become one of another type: SQLite looks at that only when it writes.
    """
    if not (isinstance(sequence, int) and isinstance(session_id, str) and isinstance(body, bytes)):
        return False
    return checksum(sequence, session_id, body) == total


def words_of(kind_prefix: str) -> tuple[str, ...]:
    """The words of all events whose kind on the topic begins so."""
    return tuple(WORDS[kind] for kind, name in KINDS.items() if name.startswith(kind_prefix))
