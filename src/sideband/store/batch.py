"""Decisions that are committed together: each sees those before it, and one that fails fails alone."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from sideband.core.failures import LeaseLost
from sideband.ports import Committed, Decision, Lease, Logged
from sideband.store.records import Record, record
from sideband.store.replica import Replica


class Order(msgspec.Struct, frozen=True, eq=False):
    """A commit that somebody has asked for; `lease` is that of the run it belongs to (None: of no run)."""

    replica: Replica
    decide: Decision
    lease: Lease | None
    done: "asyncio.Future[Committed]"


class Standing(NamedTuple):
    """Who has a session: the token of the last lease of it, and whether that is held now."""

    token: int
    attended: bool


# There are as many of the following as accepts: this is the cheapest that a record can be.


class Row(msgspec.Struct, frozen=True, gc=False):
    """A record in its place."""

    sequence: int
    session_id: str
    record: Record

    @property
    def logged(self) -> Logged:
        return Logged(sequence=self.sequence, session_id=self.session_id, event=self.record.event)


class Answer(msgspec.Struct, frozen=True):
    """What an order came to: what was committed, or why nothing was."""

    order: Order
    outcome: Committed | Exception


class Batch:
    """Orders decided one after the other behind sequence `last`; replicas have to be loaded and up to date."""

    def __init__(self, last: int, standing: Callable[[str], Standing]) -> None:
        self.last = last
        self.rows: list[Row] = []
        self.answers: list[Answer] = []
        self.replicas: dict[Replica, Standing] = {}
        """The sessions that something was decided for."""
        self.postponed: list[Order] = []
        """Those behind an order whose events could not be applied; they need the session loaded again."""
        self._standing = standing

    def run(self, orders: Iterable[Order], unreadable: Mapping[Replica, Exception] = MappingProxyType({})) -> None:
        """Decide them in this order; those of sessions that cannot be read are told so."""
        for order in orders:
            replica = order.replica
            if replica in unreadable:
                self.answers.append(Answer(order, unreadable[replica]))
            elif not replica.is_loaded:
                self.postponed.append(order)
            else:
                outcome: Committed | Exception
                try:
                    outcome = self._decided(order, replica)
                except Exception as error:  # noqa: BLE001 - whatever a decision raises is for whoever asked for it
                    outcome = error
                self.answers.append(Answer(order, outcome))

    def _decided(self, order: Order, replica: Replica) -> Committed:
        standing = self.replicas.get(replica)
        if standing is None:
            standing = self.replicas[replica] = self._standing(replica.session_id)
        if order.lease is not None and order.lease.token != standing.token:
            raise LeaseLost(replica.session_id)
        records = [record(event) for event in replica.decide(order.decide, attended=standing.attended)]
        try:
            replica.advance(records)
        except Exception:
            # It may have been applied in part. Nothing of it is written, and nobody decides on what it left behind.
            replica.forget()
            raise
        for entry in records:
            self.last += 1
            self.rows.append(Row(self.last, replica.session_id, entry))
        return Committed(events=tuple([entry.event for entry in records]), sequence=self.last)

    def fail(self, error: Exception) -> None:
        """The transaction was not made. What was decided on top of it is void too, refusals included."""
        wrote = {row.session_id for row in self.rows}
        for replica in self.replicas:
            if replica.session_id in wrote:
                replica.forget()
        self.answers = [
            Answer(answer.order, error) if answer.order.replica.session_id in wrote else answer
            for answer in self.answers
        ]
        self.rows = []

    def settle(self) -> None:
        """The transaction is durable."""
        for replica in self.replicas:
            if replica.is_loaded:
                replica.settle(self.last)


def tell(answers: Iterable[Answer]) -> None:
    """Let those know who still wait; on the event loop."""
    for answer in answers:
        order, outcome = answer.order, answer.outcome
        if order.done.done():
            continue
        if isinstance(outcome, Committed):
            order.done.set_result(outcome)
        elif isinstance(outcome, StopIteration):
            # A future cannot carry it.
            order.done.set_exception(RuntimeError("the decision raised StopIteration"))
        else:
            order.done.set_exception(outcome)
