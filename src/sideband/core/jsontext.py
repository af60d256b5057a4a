"""JSON text from outside: one object, bounded, every key once."""

from collections.abc import Mapping

import msgspec

from sideband.core.errors import InvalidReminder, shown


def read_object(text: bytes | str, *, max_bytes: int) -> dict[str, object]:
    """The object in `text`; what is too large, not JSON, not an object, or names a key twice is refused."""
    raw = _utf8(text)
    if len(raw) > max_bytes:
        raise InvalidReminder(f"the payload has {len(raw):,} bytes, at most {max_bytes:,} are read")
    try:
        found = msgspec.json.decode(raw)
        _refuse_repeated_keys(raw)
    except RecursionError:
        raise InvalidReminder("the payload is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidReminder(f"the payload is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise InvalidReminder(f"the payload must be an object, not {shown(found)}", value=found)
    return found


def _utf8(text: bytes | str) -> bytes:
    if isinstance(text, bytes):
        return text
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidReminder("the payload contains a lone surrogate, which no UTF-8 text can") from None


def _refuse_repeated_keys(raw: bytes) -> None:
    import json  # noqa: PLC0415 - few read JSON that has to be looked at so closely

    def once(pairs: list[tuple[str, object]]) -> None:
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise InvalidReminder(f"key {shown(key)} stands twice in one object", field=key, value=key)
            seen.add(key)

    json.loads(raw, object_pairs_hook=once)


def depth(value: object, *, limit: int) -> int:
    """How deep objects and arrays nest in `value`, counted no further than one past `limit`."""
    deepest, stack = 0, [(value, 1)]
    while stack:
        node, level = stack.pop()
        if isinstance(node, Mapping | list | tuple):
            deepest = max(deepest, level)
            if level <= limit:
                inner = node.values() if isinstance(node, Mapping) else node
                stack.extend((child, level + 1) for child in inner)
    return deepest
