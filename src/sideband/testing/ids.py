"""Ids that count."""

import itertools


class CountingIds:
    """`r-1`, `r-2`, … in the order in which they were asked for."""

    def __init__(self, prefix: str = "r") -> None:
        self._prefix = prefix
        self._numbers = itertools.count(1)

    def __call__(self) -> str:
        return f"{self._prefix}-{next(self._numbers)}"
