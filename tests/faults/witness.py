"""What clients of a store have been told; its journal has to agree with them."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple


class Sent(NamedTuple):
    """A request as it was sent.

    `committed` are its fragments as they are on record and `messages` the length of the conversation then; the model
    compares the plan that it was handed with the record, and says whether it `agrees`.
    """

    turn: int
    attempt: int
    committed: str
    messages: int
    body: str
    agrees: bool


class Witness:
    """Keeps the replies, the requests sent to the model, and the tool calls, in order."""

    def __init__(self) -> None:
        self.accepted: dict[str, str] = {}
        """The text of each accepted item, by id."""
        self.revoked: set[str] = set()
        self.delivered: set[str] = set()
        """Items that could not be revoked because they were delivered."""
        self.replaced: dict[str, str] = {}
        """The last text that an accepted message was given."""
        self.cleared = 0
        self.sent: list[Sent] = []
        self.ran: list[str] = []
        self.closed = False

    def hear(self, word: str, *what: Any) -> None:  # noqa: ANN401 - it may come from another process
        """Record a report; unknown words are ignored."""
        hearing = _HEARINGS.get(word)
        if hearing is not None:
            hearing(self, *what)

    def _hear_accepted(self, item_id: str, text: str) -> None:
        self.accepted[item_id] = text

    def _hear_revoked(self, item_id: str) -> None:
        self.revoked.add(item_id)

    def _hear_delivered(self, item_id: str) -> None:
        self.delivered.add(item_id)

    def _hear_replaced(self, item_id: str, text: str) -> None:
        self.replaced[item_id] = text

    def _hear_cleared(self, count: int) -> None:
        self.cleared += count

    def _hear_asked(self, *request: Any) -> None:  # noqa: ANN401 - the fields of what was sent
        self.sent.append(Sent(*request))

    def _hear_ran(self, call_id: str) -> None:
        self.ran.append(call_id)

    def _hear_closed(self) -> None:
        self.closed = True


_HEARINGS: Final[Mapping[str, Any]] = {
    "accepted": Witness._hear_accepted,
    "revoked": Witness._hear_revoked,
    "delivered": Witness._hear_delivered,
    "replaced": Witness._hear_replaced,
    "cleared": Witness._hear_cleared,
    "asked": Witness._hear_asked,
    "ran": Witness._hear_ran,
    "closed": Witness._hear_closed,
}
