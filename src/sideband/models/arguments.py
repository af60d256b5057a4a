"""The arguments of a tool call, as a model wrote them."""

from typing import Any, Final

import msgspec

# The only argument of a call whose arguments are no JSON object. No tool takes one of this name, so a tool that reads
# its arguments strictly refuses the call and quotes the name, and the model learns what was wrong with it.
UNREADABLE: Final = "unreadable_arguments"


def read_arguments(text: str) -> dict[str, Any]:
    """The arguments; none where nothing was written, and what cannot be read as the value of `UNREADABLE`."""
    if not text.strip():
        return {}
    try:
        value = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        # Malformed, cut off at the token limit, or nested deeper than anybody can follow.
        return {UNREADABLE: text}
    return value if isinstance(value, dict) else {UNREADABLE: text}
