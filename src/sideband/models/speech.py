"""The text of a reply: handed on as it arrives, whole in the end, and without halves of characters."""

from collections.abc import Awaitable
from typing import Any

from sideband.ports import OnText


class Speech:
    """What a model says, piece by piece; whoever listens hears each piece once it ends with a whole character."""

    def __init__(self, on_text: OnText | None) -> None:
        self._on_text = on_text
        self._pieces: list[str] = []
        self._half = ""

    @property
    def text(self) -> str:
        """All that was said so far."""
        return "".join(self._pieces)

    async def say(self, piece: str) -> None:
        """One piece more. JSON may tear a character into two escapes, and a stream may send them one by one."""
        piece, self._half = self._half + piece, ""
        if "\ud800" <= piece[-1:] <= "\udbff":
            piece, self._half = piece[:-1], piece[-1]
        await self._tell(whole(piece))

    async def end(self) -> None:
        """Nothing follows: what waits for its other half stays alone."""
        half, self._half = self._half, ""
        await self._tell(whole(half))

    async def _tell(self, piece: str) -> None:
        if not piece:
            return
        self._pieces.append(piece)
        if self._on_text is not None:
            told = self._on_text(piece)
            if isinstance(told, Awaitable):
                await told


def whole(text: str) -> str:
    """The text with the halves of characters joined, and those without another half replaced."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def whole_value(value: Any) -> Any:  # noqa: ANN401 - whatever JSON can hold
    """The same for every text in a JSON value: what cannot be encoded could be neither kept nor sent back."""
    match value:
        case str():
            return whole(value)
        case list():
            return [whole_value(item) for item in value]
        case dict():
            return {whole(key): whole_value(item) for key, item in value.items()}
        case _:
            return value
