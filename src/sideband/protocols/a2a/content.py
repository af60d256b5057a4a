"""Messages of A2A as the content of user messages, and back.

A session stores a user message as blocks. What a block has no place for, such as the id that the caller gave its message or
the metadata of a part, is kept beside it under the key `a2a`. No request to a model contains that key.
"""

import base64
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from a2a.types import Message, Part, Role
from google.protobuf.json_format import MessageToDict, ParseDict

from sideband.core.blocks import kind_of_media, usual_media_type
from sideband.core.errors import InvalidOption
from sideband.core.messages import Message as StoredMessage
from sideband.core.messages import text_of
from sideband.core.parse import depth

KEY: Final = "a2a"
# Metadata is stored with the task and returned with it.
MAX_METADATA_BYTES: Final = 64 * 1024
MAX_METADATA_DEPTH: Final = 32

_CONTENT: Final = ("text", "raw", "url")
_NO_NAME: Final = "attachment"


# From A2A.


def blocks_of(message: Message) -> list[dict[str, Any]]:
    """The parts of a message as blocks, the first with the rest of the message; `InvalidOption` if it has no parts."""
    if message.role not in (Role.ROLE_USER, Role.ROLE_UNSPECIFIED):
        raise InvalidOption("message.role must be ROLE_USER", field="message.role")
    blocks = [_block(part, place) for place, part in enumerate(message.parts)]
    if not blocks:
        raise InvalidOption("message.parts must have at least one part", field="message.parts")
    kept: dict[str, Any] = {"messageId": message.message_id}
    if message.HasField("metadata"):
        kept["metadata"] = checked_metadata(MessageToDict(message.metadata), "message.metadata")
    if message.extensions:
        kept["extensions"] = list(message.extensions)
    if message.reference_task_ids:
        kept["referenceTaskIds"] = list(message.reference_task_ids)
    blocks[0].setdefault(KEY, {})["message"] = kept
    return blocks


def checked_metadata(metadata: dict[str, Any], field: str) -> dict[str, Any]:
    """The metadata; `InvalidOption` if it is larger than a task keeps."""
    if depth(metadata, limit=MAX_METADATA_DEPTH) > MAX_METADATA_DEPTH:
        raise InvalidOption(f"{field} is nested more than {MAX_METADATA_DEPTH} levels deep", field=field)
    size = len(msgspec.json.encode(metadata))
    if size > MAX_METADATA_BYTES:
        raise InvalidOption(f"{field} has {size:,} bytes, at most {MAX_METADATA_BYTES:,} are accepted", field=field)
    return metadata


def _block(part: Part, place: int) -> dict[str, Any]:
    block = _content(part, place)
    rest = {name: value for name, value in MessageToDict(part).items() if name not in _CONTENT}
    if rest:
        checked_metadata(rest, f"message.parts[{place}]")
        block[KEY] = {"part": rest}
    return block


def _content(part: Part, place: int) -> dict[str, Any]:
    media_type = usual_media_type(part.media_type)
    kind = kind_of_media(media_type)
    match part.WhichOneof("content"):
        case "text":
            return {"type": "text", "text": part.text}
        case "data":
            return {"type": "text", "text": msgspec.json.encode(MessageToDict(part.data)).decode()}
        case "url" if kind is not None and part.url.lower().startswith(("http://", "https://")):
            return {"type": kind, "media_type": media_type, "url": part.url, "title": part.filename}
        case "url":
            return {"type": "resource_link", "uri": part.url, "name": part.filename or part.url}
        case "raw" if kind is not None:
            return {"type": kind, "media_type": media_type, "data": _base64(part.raw), "title": part.filename}
        case "raw":
            return {"type": "resource", "resource": _file(part, media_type or "application/octet-stream")}
        case _:
            raise InvalidOption(
                f"message.parts[{place}] must have one of text, raw, url and data", field=f"message.parts[{place}]"
            )


def _file(part: Part, media_type: str) -> dict[str, Any]:
    file: dict[str, Any] = {"uri": part.filename or _NO_NAME, "mimeType": media_type}
    if media_type.startswith("text/") or media_type == "application/json":
        try:
            return {**file, "text": part.raw.decode()}
        except UnicodeDecodeError:
            pass
    return {**file, "blob": _base64(part.raw)}


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


# To A2A.


def _envelope(message: StoredMessage) -> Mapping[str, Any]:
    """What the sender of a stored message said beside its parts; empty if it did not come over A2A."""
    content = message.get("content")
    first = content[0] if isinstance(content, list) and content else {}
    kept = first.get(KEY)
    return kept.get("message", {}) if isinstance(kept, dict) else {}


def message_of(message: StoredMessage, task_id: str, context_id: str) -> Message | None:
    """A stored message of the user or the agent; None if it is neither, or has no text to show."""
    role = message.get("role")
    if role == "user":
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        told = Message(role=Role.ROLE_USER, parts=[*map(_part, blocks)], message_id=message.get("id", ""))
        ParseDict(dict(_envelope(message)), told)
    elif role == "assistant" and (text := text_of(message)).strip():
        told = agent_message(text, message.get("id", ""))
    else:
        return None
    told.task_id, told.context_id = task_id, context_id
    return told


def agent_message(text: str, message_id: str) -> Message:
    """A message of the agent with this text."""
    return Message(role=Role.ROLE_AGENT, parts=[Part(text=text)], message_id=message_id)


def _part(block: Mapping[str, Any]) -> Part:
    kept = block.get(KEY, {}).get("part", {})
    part = Part()
    ParseDict(kept, part)
    if "data" in kept:
        return part
    resource = block.get("resource", {})
    if "text" in block:
        part.text = block["text"]
    elif "url" in block or "uri" in block:
        part.url = block.get("url") or block["uri"]
    elif "text" in resource:
        part.raw = resource["text"].encode()
    else:
        part.raw = base64.b64decode(block.get("data") or resource.get("blob", ""))
    return part
