"""The frames that the proxy looks at: how they are recognised without being decoded, and how their members are read.

Most frames are forwarded after one search. What cannot be decoded is read in part: an agent may send a number out of range,
or half of a surrogate pair, and its turn has to end all the same.
"""

import re
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from sideband.protocols.frames import MAX_FRAME_BYTES

# What a frame must contain to be looked at. A slash may be escaped in JSON. Each begins with a fixed text: a search for
# alternatives takes ten times as long, which is longer than everything else that forwarding a frame takes.
_FROM_EDITOR: Final = re.compile(rb"session\\?/(?!cancel|set_|list|update)").search
_INITIALIZE: Final = b'"initialize"'
# A frame that begins like this is an update. Any other one may be an answer, whatever words are in it.
_IS_UPDATE: Final = re.compile(rb'\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"method"\s*:\s*"session\\?/update"').match
_FROM_AGENT: Final = re.compile(
    rb"\"sessionUpdate\"\s*:\s*"
    rb"\"(?:tool_call|tool_call_update|usage_update|compaction_update|session_info_update|user_message(?:_chunk)?)\""
).search
# Most updates of an agent contain this, and none of interest does; inside a text the quotes would be escaped.
_STREAMED: Final = b'"sessionUpdate":"agent_message_chunk"'

# Half of a pair of surrogates. Agents that cut a text write one, and no strict decoder reads it.
_LONE_SURROGATE: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
# How deep an object is searched for the members that can be decoded, if one of them cannot.
_READ_DEPTH: Final = 3


def is_from_editor(frame: bytes) -> bool:
    """Whether a frame of the editor may be a request that the proxy takes part in."""
    return _FROM_EDITOR(frame) is not None or _INITIALIZE in frame


def is_from_agent(frame: bytes) -> bool:
    """Whether a frame of the agent may be an answer, or a call that the proxy takes part in."""
    if _IS_UPDATE(frame) is None:
        return True
    return _STREAMED not in frame and _FROM_AGENT(frame) is not None


class ProxyMessage(msgspec.Struct, gc=False):
    """The members of a frame; what is inside them is decoded later."""

    id: Raw | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


_decode_message: Final = msgspec.json.Decoder(ProxyMessage).decode
decode_object: Final = msgspec.json.Decoder(dict[str, Raw]).decode
decode: Final = msgspec.json.Decoder().decode
UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def read_message(frame: bytes) -> ProxyMessage | None:
    """The message in a frame; None if it is none, or too large to be looked at."""
    if len(frame) > MAX_FRAME_BYTES or frame[:1] != b"{":
        return None
    try:
        return _decode_message(frame)
    except UNREADABLE:
        return None


def key_of(message: ProxyMessage) -> object:
    """The id of a message as a value that can be looked up; None if it has none."""
    try:
        value = None if message.id is UNSET else decode(message.id)
        hash(value)
    except (*UNREADABLE, TypeError):
        return None
    return value


def object_in(raw: Raw | UnsetType) -> dict[str, Any]:
    value = None if raw is UNSET else readable(raw)
    return value if isinstance(value, dict) else {}


def readable(raw: Raw, *, depth: int = _READ_DEPTH) -> Any:  # noqa: ANN401 - any value of JSON
    """The value of this JSON without the members that cannot be decoded, such as a number out of range."""
    try:
        return decode(raw)
    except UNREADABLE:
        if depth == 0:
            return None
    try:
        members = decode_object(raw)
    except UNREADABLE:
        return None
    return {name: readable(value, depth=depth - 1) for name, value in members.items()}


def repaired(frame: bytes) -> bytes:
    """A frame that can be decoded in spite of halves of surrogate pairs."""
    return _LONE_SURROGATE.sub(rb"\\ufffd", frame)
