"""The arguments of a tool call, as a model wrote them."""

from typing import Any

import msgspec

from sideband.ports import UNREADABLE


def read_arguments(text: str, *, is_cut: bool = False) -> dict[str, Any]:
    """The arguments; none where nothing was written, and what cannot be read as the value of `UNREADABLE`.

    Where the reply `is_cut` at this call, nothing written is not the same as no arguments.
    """
    if not text.strip():
        return {UNREADABLE: ""} if is_cut else {}
    try:
        value = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        # Malformed, cut off at the token limit, or nested deeper than anybody can follow.
        return {UNREADABLE: text}
    return value if isinstance(value, dict) else {UNREADABLE: text}
