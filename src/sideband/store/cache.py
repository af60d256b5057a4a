"""A cache of sessions by name: those that are referenced elsewhere, and the most recently used of the rest."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar
from weakref import WeakValueDictionary

# How many sessions stay in memory without a reference to them; others are read again when they are needed.
AT_HAND: Final = 256

_Item = TypeVar("_Item")


def _never(_item: object) -> bool:
    return False


class SessionCache(Generic[_Item]):
    """Keeps the `most` recently used items alive, and in addition every item for which `needed` is true.

    Other items stay available for as long as they are referenced elsewhere, so there is at most one item per name.
    """

    def __init__(self, most: int = AT_HAND, *, needed: Callable[[_Item], bool] = _never) -> None:
        self._most = max(most, 1)
        self._needed = needed
        self._kept: OrderedDict[str, _Item] = OrderedDict()
        self._known: WeakValueDictionary[str, _Item] = WeakValueDictionary()

    def get(self, name: str) -> _Item | None:
        """The item of this name, which becomes the most recently used."""
        item = self._kept.get(name)
        if item is not None:
            self._kept.move_to_end(name)
            return item
        item = self._known.get(name)
        if item is not None:
            self._keep(name, item)
        return item

    def peek(self, name: str) -> _Item | None:
        """The item of this name, without counting as a use."""
        return self._kept.get(name) or self._known.get(name)

    def add(self, name: str, item: _Item) -> _Item:
        """Add an item under a name that is not in the cache."""
        self._known[name] = item
        self._keep(name, item)
        return item

    def discard(self, name: str) -> None:
        """Remove the item of this name, if there is one; references to it stay valid."""
        self._kept.pop(name, None)
        self._known.pop(name, None)

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
