"""Tools that may change between two runs."""

from collections.abc import Callable, Iterator, Sequence
from typing import overload

from sideband.ports import Tool


class LiveTools(Sequence[Tool]):
    """The tools that a function returns whenever they are read: when a run begins."""

    def __init__(self, tools: Callable[[], Sequence[Tool]]) -> None:
        self._tools = tools

    def __len__(self) -> int:
        return len(self._tools())

    @overload
    def __getitem__(self, index: int) -> Tool: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Tool]: ...
    def __getitem__(self, index: int | slice) -> Tool | Sequence[Tool]:
        return self._tools()[index]

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools())
