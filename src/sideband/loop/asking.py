"""One turn: a request planned, put on record, sent, and answered."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sideband.core.errors import shown
from sideband.core.ledger import Fragment, RequestHead
from sideband.core.lifecycle import OpenRequest, Shown, Unusable
from sideband.core.live import LiveIndex
from sideband.core.state import SessionState
from sideband.loop.conversation import Conversation
from sideband.loop.decisions import Opened
from sideband.loop.problems import Problem, describe
from sideband.loop.scope import Ended
from sideband.loop.sending import Sender
from sideband.loop.tenure import Tenure
from sideband.ports import Advice, Model, ModelError, Plan, Reply
from sideband.render.view import RequestView, SystemText


class Asker:
    """Asks a model on behalf of a conversation, always with the same system text and tools.

    With a tenure, only while that lasts.
    """

    def __init__(
        self,
        talk: Conversation,
        model: Model,
        sender: Sender,
        report: Callable[[Problem], None],
        *,
        system: SystemText,
        tools: Sequence[Mapping[str, Any]] = (),
        tenure: Tenure | None = None,
    ) -> None:
        self._talk = talk
        self._model = model
        self._sender = sender
        self._report = report
        self._system = system
        self._tools = tools
        self._tenure = tenure if tenure is not None and tenure.lapses else None
        self._advised: set[Advice] = set()
        self._opened: Opened | None = None

    async def turn(self) -> Reply:
        """The reply, committed. A request that failed for good leaves its turn open, to be voided."""
        if self._tenure is not None:
            await self._tenure.ensure()
        opened = await self._talk.open_request(self._plan)
        if opened.plan.advice:
            self._advise(opened.plan.advice)
        self._opened = opened
        reply = await self._sender.send(opened.plan, attempt=opened.attempt, again=self._again)
        # Whoever holds on to the body of a request makes the next one a copy of it.
        self._opened = None
        if not await self._talk.close_turn(reply):
            raise Ended
        return reply

    async def _again(self, attempt: int) -> None:
        if self._tenure is not None:
            await self._tenure.ensure()
        # Whoever voided the turn meanwhile has ended it: a cancel of another process, for instance.
        if self._opened is None or not await self._talk.retry_request(self._opened, attempt=attempt):
            raise Ended

    def _plan(self, state: SessionState, left: OpenRequest | None) -> Plan:
        view = RequestView(
            turn=state.live.turn + 1,
            system=self._system.before,
            system_after=self._system.after,
            messages=state.messages,
            tools=self._tools,
            live=state.live,
            session_id=self._talk.session_id,
            window=state.window,
            ledger=state.ledger,
            again=None if left is None else left.fragments,
            known_route="" if state.head is None else state.head.route,
        )
        return made_plan(self._model, view)

    def _advise(self, advice: Sequence[Advice]) -> None:
        # Once is enough: the same would be said of every request that shows the reminder.
        for entry in advice:
            if entry not in self._advised:
                self._advised.add(entry)
                self._report(Problem(entry.code, entry.message))


def made_plan(model: Model, view: RequestView) -> Plan:
    """The model's plan for a view; what is none is an error before anything is on record."""
    try:
        plan: object = model.plan(view)
        return _read(plan, view)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise ModelError(f"no request could be built: {describe(error)}") from error


def _read(plan: object, view: RequestView) -> Plan:
    if not isinstance(plan, Plan):
        raise TypeError(f"{type(plan).__name__} is no plan")
    for entry in plan.shown:
        # What is sent again as it was may show what has ended since.
        if type(entry) is not Shown or (view.again is None and entry.reminder_id not in view.live):
            raise ValueError(f"it shows {shown(entry)}, which is not live")
    if plan.left_out or plan.unusable or plan.fragments or plan.advice or plan.head is not None:
        _check_rest(plan, view.live)
    return plan


def _check_rest(plan: Plan, live: LiveIndex) -> None:
    for entries, kind in ((plan.unusable, Unusable), (plan.fragments, Fragment), (plan.advice, Advice)):
        if not all(isinstance(entry, kind) for entry in entries):
            raise TypeError(f"it has {shown(entries)} where there should be {kind.__name__}s")
    if not isinstance(plan.head, RequestHead | None):
        raise TypeError(f"it has {shown(plan.head)} where there should be a RequestHead")
    for reminder_id in (*plan.left_out, *(entry.reminder_id for entry in plan.unusable)):
        if reminder_id not in live:
            raise ValueError(f"it leaves out {shown(reminder_id)}, which is not live")
