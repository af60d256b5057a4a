"""What the thread that writes hands over to the event loop."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sideband.core.state import SessionState
from sideband.ports import Logged
from sideband.store.batch import Answer, Order
from sideband.store.feed import Gap
from sideband.store.replica import Replica


class Opened(NamedTuple):
    """A session that the event loop can show from now on, as it was at a sequence."""

    replica: Replica
    state: SessionState
    at: int


class Delivery(NamedTuple):
    """What the event loop is told at once, in this order; `lost` where what happened cannot be told without a gap."""

    opened: Sequence[Opened] = ()
    lost: Gap | None = None
    news: Sequence[Logged] = ()
    answers: Sequence[Answer] = ()


class Round(NamedTuple):
    """A group of orders was dealt with; `postponed` ones come first in the next, `touched` has something new."""

    delivery: Delivery
    postponed: Sequence[Order] = ()
    touched: Iterable[Replica] = ()
