"""The named records and the messages that a program gives to a session, checked before they are committed."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from sideband.core.blocks import check_block
from sideband.core.errors import InvalidOption, NotStorable, shown
from sideband.core.messages import Message, are_calls, as_blocks, has_content, is_content
from sideband.core.serialize import non_finite
from sideband.store.codec import check_record_name


def read_records(records: object, *, field: str) -> dict[str, Any]:
    """Named records as the journal returns them; `field` names the parameter that they were given in."""
    if not isinstance(records, Mapping):
        raise InvalidOption(
            f"{field} must be a mapping of names to values, not {shown(records)}", field=field, value=records
        )
    for name in records:
        _check_name(name, field)
    return {name: _as_json(value, f"the record {shown(name)}", field) for name, value in records.items()}


def check_lookup(records: object) -> None:
    """Refuse records by which no session can be looked up."""
    if not isinstance(records, Mapping):
        raise InvalidOption(
            f"records must be a mapping of names to strings, not {shown(records)}", field="records", value=records
        )
    for name, value in records.items():
        _check_name(name, "records")
        if not isinstance(value, str):
            raise InvalidOption(
                f"sessions are looked up by strings; the record {shown(name)} cannot be {shown(value)}",
                field="records",
                value=value,
            )


def read_message(place: int, message: object) -> Message:
    """A message of a conversation as the journal returns it; `place` is its position in the list."""
    what = f"message {place}"
    read = _as_json(message, what, "messages")
    if not isinstance(read, dict) or not isinstance(read.get("role"), str) or "content" not in read:
        raise InvalidOption(
            f"{what} must be an object with 'role' and 'content', not {shown(message)}", field="messages", value=message
        )
    if not isinstance(read.get("id", ""), str):
        raise InvalidOption(
            f"the id of {what} must be a string, not {shown(read['id'])}", field="messages", value=message
        )
    wrong = _fault(read)
    if wrong is not None:
        raise InvalidOption(f"{what}: {wrong}", field="messages", value=message)
    return read


_ROLES: Final = ("user", "assistant", "tool", "system")


def _fault(message: Message) -> str | None:
    """Why no request can be made from a message; None if one can."""
    role, content = message["role"], message["content"]
    if role not in _ROLES:
        return f"role must be one of {', '.join(map(repr, _ROLES))}, not {shown(role)}"
    if not is_content(content):
        return f"content must be a text or a list of blocks, not {shown(content)}"
    if role == "user":
        try:
            for place, block in enumerate(as_blocks(content)):
                check_block(block, place)
        except InvalidOption as error:
            return str(error).removeprefix(f"{error.code}: ")
        if not has_content(content):
            return "content is blank: a message of the user needs text, or a block of another type"
    if message.get("tool_calls") is not None and not are_calls(message["tool_calls"]):
        return f"tool_calls must be a list of objects with id, name and args, not {shown(message['tool_calls'])}"
    native = message.get("native")
    if native is not None and not (isinstance(native, dict) and all(map(_are_objects, native.values()))):
        return f"native must be an object with a list of objects for each wire, not {shown(native)}"
    named = (field for field in ("tool_call_id", "name", "status") if not isinstance(message.get(field, ""), str))
    field = next(named, None)
    return None if field is None else f"{field} must be a string, not {shown(message[field])}"


def _are_objects(values: object) -> bool:
    return isinstance(values, list) and all(isinstance(value, dict) for value in values)


def _check_name(name: object, field: str) -> None:
    try:
        check_record_name(name)
    except NotStorable as error:
        raise InvalidOption(str(error), field=field, value=name) from None


def _as_json(value: object, what: str, field: str) -> Any:  # noqa: ANN401 - any JSON value
    try:
        raw = msgspec.json.encode(value)
        read = msgspec.json.decode(raw)
        # The encoder writes null for NaN and infinity, and null would remove a record.
        wrong = next(non_finite(value), None) if b"null" in raw else None
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidOption(f"{what} cannot be written as JSON: {error}", field=field, value=value) from None
    if wrong is not None:
        raise InvalidOption(f"{what} cannot be written as JSON, which has no {wrong}", field=field, value=value)
    return read
