"""What a process has at hand, by name: what somebody holds on to, and beside it what was used last."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar
from weakref import WeakValueDictionary

# So many sessions stay at hand though nobody holds on to them; others are read again when they are wanted.
AT_HAND: Final = 256

_Item = TypeVar("_Item")


def _never(_item: object) -> bool:
    return False


class Roster(Generic[_Item]):
    """Keeps the `most` that were used last, and no other from being forgotten; one that is `needed` it keeps beyond that.

    As long as anybody has an item, there is no other under its name.
    """

    def __init__(self, most: int = AT_HAND, *, needed: Callable[[_Item], bool] = _never) -> None:
        self._most = max(most, 1)
        self._needed = needed
        self._kept: OrderedDict[str, _Item] = OrderedDict()
        self._known: WeakValueDictionary[str, _Item] = WeakValueDictionary()

    def get(self, name: str) -> _Item | None:
        """The item of this name; it is the last one that will be forgotten."""
        item = self._kept.get(name)
        if item is not None:
            self._kept.move_to_end(name)
            return item
        item = self._known.get(name)
        if item is not None:
            self._keep(name, item)
        return item

    def peek(self, name: str) -> _Item | None:
        """The same, without having used it."""
        return self._kept.get(name) or self._known.get(name)

    def add(self, name: str, item: _Item) -> _Item:
        """Have an item at hand, under a name that has none."""
        self._known[name] = item
        self._keep(name, item)
        return item

    def clear(self) -> None:
        self._kept.clear()
        self._known.clear()

    def __iter__(self) -> Iterator[_Item]:
        return iter(list(self._known.values()))

    def _keep(self, name: str, item: _Item) -> None:
        self._kept[name] = item
        for _ in range(len(self._kept) - self._most):
            oldest, unused = self._kept.popitem(last=False)
            if self._needed(unused):
                self._kept[oldest] = unused
