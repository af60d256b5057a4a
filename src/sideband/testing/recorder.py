"""A recorder of the requests that a model received and the replies that it gave."""

from copy import deepcopy
from typing import Any

import msgspec

from sideband.core.messages import Reply
from sideband.ports import Model, OnText
from sideband.render.plan import Plan
from sideband.render.view import RequestView


class Exchange(msgspec.Struct, kw_only=True):
    """One request and its reply or error; a retried request is another exchange with the same plan.

    `view` is a copy of what the request was built from, at that time. `body` contains the exact bytes that were sent
    (None if the model sends none, as a scripted one). When the exchange has ended, either `reply` or `error` is set.
    """

    view: RequestView
    plan: Plan
    body: bytes | None
    reply: Reply | None = None
    error: BaseException | None = None

    @property
    def json(self) -> Any:  # noqa: ANN401 - any JSON value
        """The body, decoded."""
        return None if self.body is None else msgspec.json.decode(self.body)

    @property
    def shown(self) -> tuple[str, ...]:
        """The ids of the reminders that the request shows."""
        return tuple(entry.reminder_id for entry in self.plan.shown)


class WireRecorder:
    """A model that forwards every call to another model and records it; pass it to an agent instead of that model."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.exchanges: list[Exchange] = []
        self._planned: list[tuple[Plan, RequestView]] = []

    @property
    def context_window(self) -> int | None:
        return self.model.context_window

    @property
    def bodies(self) -> list[Any]:
        """Every body that was sent, decoded."""
        return [exchange.json for exchange in self.exchanges]

    def plan(self, view: RequestView) -> Plan:
        plan = self.model.plan(view)
        self._planned.append((plan, _frozen(view)))
        return plan

    async def complete(self, plan: Plan, on_text: OnText | None = None) -> Reply:
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


def _frozen(view: RequestView) -> RequestView:
    """A copy of the view: its messages, live reminders and ledger belong to the session, which changes them later."""
    return msgspec.structs.replace(
        view, messages=deepcopy(view.messages), live=deepcopy(view.live), ledger=deepcopy(view.ledger)
    )
