"""The content of a user message: blocks, of which the journal gives back what it was given."""

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

import msgspec

from sideband.core.errors import BodyTooLarge, InvalidOption, shown
from sideband.core.limits import Limits


def as_blocks(content: object) -> tuple[dict[str, Any], ...]:
    """A text as one block, and blocks as they are, each copied."""
    if isinstance(content, str):
        return ({"type": "text", "text": content},)
    if not isinstance(content, Sequence) or isinstance(content, bytes | bytearray | memoryview):
        raise InvalidOption(
            f"content must be a text or a list of blocks, not {shown(content)}", field="content", value=content
        )
    for block in content:
        if not isinstance(block, Mapping):
            raise InvalidOption(
                f"a block of content must be an object, like {{'type': 'text', 'text': ...}}, not {shown(block)}",
                field="content",
                value=block,
            )
    return tuple(dict(block) for block in content)


def read_content(content: object, limits: Limits) -> tuple[dict[str, Any], ...]:
    """The blocks as the journal will give them back; what it could not hold is refused before it is promised to."""
    try:
        raw = msgspec.json.encode(content)
        blocks = msgspec.json.decode(raw, type=tuple[dict[str, Any], ...])
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidOption(f"content must be blocks that JSON can hold: {error}", field="content") from None
    if len(raw) > limits.frame_bytes:
        raise BodyTooLarge(len(raw), limits.frame_bytes, field="content")
    for block in blocks:
        if not isinstance(block.get("text", ""), str):
            raise InvalidOption(f"the text of a block must be a text, not {shown(block['text'])}", field="content")
    if not any(_says_something(block) for block in blocks):
        raise InvalidOption(
            "content says nothing: a message needs a text that is not blank, or another block", field="content"
        )
    # In JSON there is null in the place of a number that is none.
    if b"null" in raw and (wrong := next(_no_numbers(content), None)) is not None:
        raise InvalidOption(
            f"content must be blocks that JSON can hold, and {wrong} is no number there", field="content"
        )
    return blocks


def _says_something(block: Mapping[str, Any]) -> bool:
    """Whether it is more than a blank text; what has other keys is for the provider to understand."""
    if block.get("type", "text") != "text" or block.keys() - {"type", "text"}:
        return True
    return bool(block.get("text", "").strip())


def _no_numbers(value: object) -> Iterator[float]:
    """What is a float and no number."""
    if isinstance(value, float):
        if not isfinite(value):
            yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _no_numbers(inner)
    elif isinstance(value, list | tuple | set | frozenset):
        for inner in value:
            yield from _no_numbers(inner)
