"""The encoding of events and receipts in a durable store, their checksums, and the names that every store can hold."""

import zlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, get_args

import msgspec

from sideband.core.errors import NotStorable, shown
from sideband.core.events import Begun, Event, Recorded
from sideband.core.inbox import Receipt
from sideband.core.topic import KINDS
from sideband.ports import INDEXED_BYTES

_DECODER: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder(Event)
_RECEIPT_DECODER: Final = msgspec.json.Decoder(Receipt)
_ENCODER: Final = msgspec.json.Encoder()

WORDS: Final[Mapping[type[Event], str]] = MappingProxyType(
    {kind: str(kind.__struct_config__.tag) for kind in get_args(Event)}
)
"""The word under which each kind of event is written."""


class EncodedEvent(msgspec.Struct, frozen=True, gc=False):
    """An event with its encoded form; `event` is what decoding `body` returns."""

    event: Event
    word: str
    body: bytes


def encode_event(event: Event) -> EncodedEvent:
    """Encode an event. The event in the result was decoded again, so it equals what every later reader gets."""
    match event:
        case Begun(attributes=attributes):
            for name in attributes:
                check_record_name(name)
        case Recorded(name=name):
            check_record_name(name)
    try:
        body = _ENCODER.encode(event)
        return EncodedEvent(_DECODER.decode(body), WORDS[type(event)], body)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise NotStorable(f"{type(event).__name__} has a value that the journal cannot hold: {error}") from error


def decode_event(body: bytes) -> Event:
    """Decode an event; `ValueError` if `body` is not one."""
    event: Event = _DECODER.decode(body)
    return event


def checksum(sequence: int, session_id: str, body: bytes, time: int = 0) -> int:
    """The checksum of a row. It covers the place of the row, so that a row which was moved is detected, too.

    A row without a time has the checksum that earlier versions of Sideband wrote.
    """
    total = zlib.crc32(body, zlib.crc32(f"{sequence} {session_id} ".encode()))
    return zlib.crc32(b" %d" % time, total) if time else total


def is_as_written(sequence: object, session_id: object, total: object, body: object, time: object = 0) -> bool:
    """Whether a row or a snapshot still matches its checksum.

    In a damaged file a value may have another type than its column, because SQLite checks types only when it writes.
    """
    if not (isinstance(sequence, int) and isinstance(session_id, str) and isinstance(body, bytes)):
        return False
    return isinstance(time, int) and checksum(sequence, session_id, body, time) == total


def words_of(kind_prefix: str) -> tuple[str, ...]:
    """The words of all events whose kind on the topic starts with the prefix."""
    return tuple(WORDS[kind] for kind, name in KINDS.items() if name.startswith(kind_prefix))


# Receipts.


def encode_receipt(receipt: Receipt) -> bytes:
    return _ENCODER.encode(receipt)


def decode_receipt(body: bytes) -> Receipt:
    """Decode a receipt; `ValueError` if `body` is not one."""
    return _RECEIPT_DECODER.decode(body)


def receipt_sum(session_id: str, caller_id: str, body: bytes) -> int:
    """The checksum of a receipt; it covers the session and the id, so that a receipt of another request is detected."""
    return checksum(0, f"{session_id} {caller_id}", body)


# Named records.


def encode_records(records: Mapping[str, Any]) -> str:
    """The records of a session as a JSON object."""
    return _ENCODER.encode(records).decode()


def indexed(value: object) -> str | None:
    """The value of a record as the index of a store holds it; None if it cannot be looked up.

    PostgreSQL stores no NUL, and UTF-8 cannot encode a lone surrogate.
    """
    if not isinstance(value, str) or "\x00" in value:
        return None
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return None
    return value if size <= INDEXED_BYTES else None


def check_record_name(name: object) -> None:
    """Refuse the name of a record that a store cannot index."""
    if not isinstance(name, str) or not name.strip() or indexed(name) is None:
        raise NotStorable(
            f"the name of a record must be a string of at most {INDEXED_BYTES} bytes that is not blank and has no NUL "
            f"and no lone surrogate, not {shown(name)}"
        )


# Session ids, in bytes. An index of PostgreSQL cannot hold much longer keys; all stores have one limit, so that a program
# can change its store.
LONGEST_NAME: Final = 2_000


def check_name(session_id: object) -> None:
    """Refuse a session id that a store cannot hold, before it delays other commits."""
    if not isinstance(session_id, str):
        raise NotStorable(f"a session id must be a string, not {shown(session_id)}")
    try:
        size = len(session_id.encode())
    except UnicodeEncodeError as error:
        raise NotStorable(f"a session id must be valid Unicode: {error}") from error
    if "\x00" in session_id or size > LONGEST_NAME:
        raise NotStorable(
            f"a session id must have at most {LONGEST_NAME} bytes and no NUL; shorten {shown(session_id)}"
        )
