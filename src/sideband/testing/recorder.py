"""What really went to a model and came back, whichever model it is."""

from copy import deepcopy
from typing import Any

import msgspec

from sideband.ports import Model, OnText, Plan, Reply
from sideband.render.view import RequestView


class Exchange(msgspec.Struct, kw_only=True):
    """One request and what came of it; a request that is sent again is another exchange, with the same plan.

    `view` is what the request was built from, as it was then, whatever has become of the session since. `body` is what
    left, byte for byte (None where the model has no wire, as a scripted one). Of `reply` and `error` one is set once the
    exchange is over.
    """

    view: RequestView
    plan: Plan
    body: bytes | None
    reply: Reply | None = None
    error: BaseException | None = None

    @property
    def json(self) -> Any:  # noqa: ANN401 - whatever the wire is made of
        """The body, read."""
        return None if self.body is None else msgspec.json.decode(self.body)

    @property
    def shown(self) -> tuple[str, ...]:
        """The ids of the reminders that it shows."""
        return tuple(entry.reminder_id for entry in self.plan.shown)


class WireRecorder:
    """A model that passes everything on to another and keeps a record: give it to an agent in that one's place."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.exchanges: list[Exchange] = []
        self._planned: list[tuple[Plan, RequestView]] = []

    @property
    def context_window(self) -> int | None:
        return self.model.context_window

    @property
    def bodies(self) -> list[Any]:
        """Every body that left, read."""
        return [exchange.json for exchange in self.exchanges]

    def plan(self, view: RequestView) -> Plan:
        """The model's plan."""
        plan = self.model.plan(view)
        self._planned.append((plan, _as_it_is(view)))
        return plan

    async def complete(self, plan: Plan, on_text: OnText | None = None) -> Reply:
        """The model's reply, or its failure."""
        view = next(view for planned, view in reversed(self._planned) if planned is plan)
        body = getattr(plan.request, "body", None)
        exchange = Exchange(view=view, plan=plan, body=body if isinstance(body, bytes) else None)
        self.exchanges.append(exchange)
        try:
            exchange.reply = await self.model.complete(plan, on_text)
        except BaseException as error:
            exchange.error = error
            raise
        return exchange.reply


def _as_it_is(view: RequestView) -> RequestView:
    """A view for good: messages, live reminders and the ledger are the session's own, which goes on."""
    return msgspec.structs.replace(
        view, messages=deepcopy(view.messages), live=deepcopy(view.live), ledger=deepcopy(view.ledger)
    )
