"""Decisions that are committed together: each sees those before it, and one that fails fails alone."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

import msgspec

from sideband.core.failures import LeaseLost
from sideband.ports import Committed, Decision, Lease
from sideband.store.records import Record
from sideband.store.replica import Replica


class Order(msgspec.Struct, frozen=True, eq=False):
    """A commit that somebody has asked for; `lease` is that of the run it belongs to (None: of no run)."""

    replica: Replica
    decide: Decision
    lease: Lease | None
    done: "asyncio.Future[Committed]"


# There are as many of the following as accepts: this is the cheapest that a record can be.


class Standing(msgspec.Struct, frozen=True, gc=False):
    """Who has a session: the token of the last lease of it, and whether that is held now."""

    token: int
    attended: bool


class Row(msgspec.Struct, frozen=True, gc=False):
    """A record in its place."""

    sequence: int
    session_id: str
    record: Record


# Not hidden from the garbage collector: the trace of an error leads back to its answer.
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
        answers = self.answers
        for order in orders:
            replica = order.replica
            if replica.is_loaded:
                try:
                    answers.append(Answer(order, self._decided(order, replica)))
                except Exception as error:  # noqa: BLE001 - whatever a decision raises is for whoever asked for it
                    answers.append(Answer(order, error))
            elif replica in unreadable:
                answers.append(Answer(order, unreadable[replica]))
            else:
                self.postponed.append(order)

    def _decided(self, order: Order, replica: Replica) -> Committed:
        session_id = replica.session_id
        standing = self.replicas.get(replica)
        if standing is None:
            standing = self.replicas[replica] = self._standing(session_id)
        if order.lease is not None and order.lease.token != standing.token:
            raise LeaseLost(session_id)
        events = []
        for entry in replica.decide(order.decide, attended=standing.attended):
            self.last += 1
            self.rows.append(Row(self.last, session_id, entry))
            events.append(entry.event)
        return Committed(events=tuple(events), sequence=self.last)

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
            if replica.is_loaded and replica.at < self.last:
                replica.at = self.last


def tell(answers: Iterable[Answer]) -> None:
    """Let those know who still wait; on the event loop."""
    for answer in answers:
        done, outcome = answer.order.done, answer.outcome
        if done.done():
            continue
        if isinstance(outcome, Committed):
            done.set_result(outcome)
        elif isinstance(outcome, StopIteration):
            # A future cannot carry it.
            done.set_exception(RuntimeError("the decision raised StopIteration"))
        else:
            done.set_exception(outcome)
