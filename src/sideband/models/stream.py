"""What the models share while a reply is streamed: its text, valid Unicode, and the arguments of tool calls."""

from collections.abc import Awaitable
from typing import Any

import msgspec

from sideband.core.messages import UNREADABLE
from sideband.ports import OnText


class TextStream:
    """The text of a reply while it arrives; `on_text` gets each piece, never half a surrogate pair."""

    def __init__(self, on_text: OnText | None) -> None:
        self._on_text = on_text
        self._pieces: list[str] = []
        self._half = ""

    @property
    def text(self) -> str:
        """The text that has arrived so far."""
        return "".join(self._pieces)

    async def add(self, piece: str) -> None:
        """Add a piece; a stream may send the two halves of a surrogate pair in separate pieces."""
        piece, self._half = self._half + piece, ""
        if "\ud800" <= piece[-1:] <= "\udbff":
            piece, self._half = piece[:-1], piece[-1]
        await self._emit(whole(piece))

    async def end(self) -> None:
        """Finish the text; a surrogate that still waits for its other half is replaced."""
        half, self._half = self._half, ""
        await self._emit(whole(half))

    async def _emit(self, piece: str) -> None:
        if not piece:
            return
        self._pieces.append(piece)
        if self._on_text is not None:
            returned = self._on_text(piece)
            if isinstance(returned, Awaitable):
                await returned


def whole(text: str) -> str:
    """The text with surrogate pairs joined into characters, and unpaired surrogates replaced by U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def whole_value(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """`whole` for every string in a JSON value: an unpaired surrogate could be neither stored nor sent back."""
    match value:
        case str():
            return whole(value)
        case list():
            return [whole_value(item) for item in value]
        case dict():
            return {whole(key): whole_value(item) for key, item in value.items()}
        case _:
            return value


def read_arguments(text: str, *, is_cut: bool = False) -> dict[str, Any]:
    """The arguments of a tool call from their JSON text; text that is not a JSON object becomes `{UNREADABLE: text}`.

    Empty text means no arguments, unless the reply `is_cut`: then the arguments are unknown, hence unreadable.
    """
    if not text.strip():
        return {UNREADABLE: ""} if is_cut else {}
    try:
        value = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        # Malformed, cut off at the token limit, or nested too deeply to decode.
        return {UNREADABLE: text}
    return value if isinstance(value, dict) else {UNREADABLE: text}
