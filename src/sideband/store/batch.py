"""Commits that are written in one transaction: each decision sees the ones before it, and one that fails fails alone."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec

from sideband.core.errors import LeaseLost
from sideband.core.inbox import Receipt
from sideband.core.state import Decision
from sideband.ports import Lease, Logged
from sideband.store.codec import EncodedEvent, encode_records
from sideband.store.replica import Replica
from sideband.store.tables import TABLED, UNLISTED, Existence, SessionChanges


class Order(msgspec.Struct, frozen=True, eq=False):
    """A requested commit. `lease` is the lease of the run that it belongs to; None if it belongs to no run.

    `receipts` are the caller-supplied ids whose receipts the decision needs.
    """

    replica: Replica
    decide: Decision[Any]
    lease: Lease | None
    done: "asyncio.Future[Any]"
    receipts: Sequence[str] = ()


# One of each of the following is made per commit, so the garbage collector does not track them.


class Standing(msgspec.Struct, frozen=True, gc=False):
    """The lease of a session: the token of the last one, and whether it is held now."""

    token: int
    attended: bool


class NewRow(msgspec.Struct, frozen=True, gc=False):
    """An encoded event with its sequence and its session."""

    sequence: int
    session_id: str
    record: EncodedEvent


# Garbage-collected, because the traceback of an error refers back to its answer.
class CommitAnswer(msgspec.Struct, frozen=True):
    """The result of an order: the value of its decision, or why it was not committed."""

    order: Order
    value: Any = None
    error: Exception | None = None


ReadReceipts: TypeAlias = Callable[[str, Sequence[str]], Mapping[str, Receipt]]
"""The stored receipts of a session, of these caller-supplied ids; an id that was not used is left out."""


class Batch:
    """Orders that are decided one after the other, starting after sequence `last`; their replicas must be up to date.

    `time` is that of all rows, in milliseconds since the epoch.
    """

    def __init__(self, last: int, standing: Callable[[str], Standing], receipts: ReadReceipts, *, time: int) -> None:
        self.last = last
        self.time = time
        self.rows: list[NewRow] = []
        self.changes: dict[str, SessionChanges] = {}
        """What the rows change in the other tables, for each session."""
        self.answers: list[CommitAnswer] = []
        self.replicas: dict[Replica, Standing] = {}
        """The sessions with at least one decision in this batch."""
        self.postponed: list[Order] = []
        """Orders that follow one whose events could not be applied; their session has to be loaded again first."""
        self._standing = standing
        self._receipts = receipts

    def run(self, orders: Iterable[Order], unreadable: Mapping[Replica, Exception] = MappingProxyType({})) -> None:
        """Decide the orders in sequence; orders of an unreadable session are answered with its error."""
        answers = self.answers
        for order in orders:
            replica = order.replica
            if replica.is_loaded:
                try:
                    answers.append(CommitAnswer(order, self._decided(order, replica)))
                except Exception as error:  # noqa: BLE001 - any error of a decision belongs to its caller
                    answers.append(CommitAnswer(order, error=error))
            elif replica in unreadable:
                answers.append(CommitAnswer(order, error=unreadable[replica]))
            else:
                self.postponed.append(order)

    def _decided(self, order: Order, replica: Replica) -> Any:  # noqa: ANN401 - whatever the decision returns
        session_id = replica.session_id
        standing = self.replicas.get(replica)
        if standing is None:
            standing = self.replicas[replica] = self._standing(session_id)
        if order.lease is not None and order.lease.token != standing.token:
            raise LeaseLost(session_id)
        receipts = self._named(session_id, order.receipts) if order.receipts else {}
        existence = Existence(exists=replica.ahead.exists, deleted=replica.ahead.deleted)
        encoded, value = replica.decide(order.decide, attended=standing.attended, receipts=receipts)
        for entry in encoded:
            self.last += 1
            self.rows.append(NewRow(self.last, session_id, entry))
            if session_id in UNLISTED:
                continue
            begins = existence.follow(entry.event)
            if begins or type(entry.event) in TABLED:
                changes = self.changes.get(session_id) or self.changes.setdefault(session_id, SessionChanges())
                changes.add(entry.event, existence, begun=self.last if begins else 0)
                if changes.keys:
                    changes.records = encode_records(replica.ahead.records)
        return value

    def _named(self, session_id: str, caller_ids: Sequence[str]) -> dict[str, Receipt | None]:
        """The receipts of these ids, including those of earlier orders; None for an id that was not used."""
        changes = self.changes.get(session_id)
        known: dict[str, Receipt] = {}
        if changes is None or not changes.empties:
            known.update(self._receipts(session_id, caller_ids))
        if changes is not None:
            known.update(changes.receipts)
        return {caller_id: known.get(caller_id) for caller_id in caller_ids}

    def logged(self, base: int = 0) -> list[Logged]:
        """The rows as events; `base` is added to their sequences."""
        return [
            Logged(sequence=base + row.sequence, session_id=row.session_id, event=row.record.event, time=self.time)
            for row in self.rows
        ]

    def fail(self, error: Exception) -> None:
        """The transaction failed: every answer of a session that it would have written is void, refusals included."""
        wrote = {row.session_id for row in self.rows}
        for replica in self.replicas:
            if replica.session_id in wrote:
                replica.forget()
        self.answers = [
            CommitAnswer(answer.order, error=error) if answer.order.replica.session_id in wrote else answer
            for answer in self.answers
        ]
        self.rows, self.changes = [], {}

    def settle(self) -> None:
        """The transaction is durable."""
        for replica in self.replicas:
            if replica.is_loaded and replica.at < self.last:
                replica.at = self.last


def resolve(answers: Iterable[CommitAnswer]) -> None:
    """Resolve the futures of the orders; call it on the event loop."""
    for answer in answers:
        done = answer.order.done
        if done.done():
            continue
        if answer.error is None:
            done.set_result(answer.value)
        elif isinstance(answer.error, StopIteration):
            # A future cannot carry it.
            done.set_exception(RuntimeError("the decision raised StopIteration"))
        else:
            done.set_exception(answer.error)
