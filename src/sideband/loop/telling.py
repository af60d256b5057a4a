"""Telling hooks and providers what happens, and making live what they answer."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import msgspec

from sideband.core.draft import Draft
from sideband.core.effects import Effects, action_of, read_effects
from sideband.core.errors import ReminderError, TooManyPending, shown
from sideband.core.events import ProviderEvaluated
from sideband.core.failures import LeaseLost
from sideband.core.hookevents import SessionEvent, WorkerEvent
from sideband.core.inbox import check_body_size
from sideband.core.reminder import Reminder, Source
from sideband.core.surfaces import Surface
from sideband.core.trust import Trust
from sideband.loop.conversation import Conversation
from sideband.loop.foreign import Failed, ask, name_of, read
from sideband.loop.hooks import HOOK_SECONDS, AroundHook, HookContext, HookFunction, Hooks
from sideband.loop.problems import Problem
from sideband.loop.scope import Scope
from sideband.ports import ToolOutput
from sideband.providers.context import Provider, ProviderContext, WorkspaceAnchor
from sideband.providers.evaluation import (
    OVER_BUDGET,
    Evaluation,
    evaluate_one,
    failure,
    read_result,
    silent,
    within_budget,
)
from sideband.recall.facts import FactBook


class Answer(NamedTuple):
    """What one hook answered: the reminders that are live now, and the action that remains."""

    reminders: tuple[tuple[Reminder, int], ...]
    action: Any


class Surroundings(NamedTuple):
    """What providers may look at besides the event itself."""

    options: Mapping[str, Any]
    config_for: Callable[[str], Mapping[str, Any]]
    task: str = ""
    context_window: int | None = None
    facts: FactBook | None = None
    anchor: WorkspaceAnchor | None = None


class Audience(msgspec.Struct):
    """The providers that subscribe to an event, each with what it is told besides the payload.

    `silence` is what it comes to when none of them has anything to say, as nearly always; `noted` is what is noted then.
    """

    subscribers: list[tuple[Provider, ProviderContext]] = []
    silence: list[Evaluation] = []
    noted: list[ProviderEvaluated] = []


class Teller:
    """Tells one run's hooks and providers; what fails is reported by name and stops nothing.

    All of them are awaited in `scope`, so that whoever ends it need not wait for them.
    """

    def __init__(
        self,
        talk: Conversation,
        hooks: Hooks,
        providers: Sequence[Provider],
        around: Surroundings,
        report: Callable[[Problem], None],
        *,
        seconds: float = HOOK_SECONDS,
        scope: Scope | None = None,
    ) -> None:
        self._talk = talk
        self._hooks = hooks
        self._seconds = seconds
        self.report = report
        self.scope = scope or Scope()
        self._audiences: dict[str, Audience] = {}
        for provider in providers:
            for event in provider.subscribes_to:
                audience = self._audiences.setdefault(event, Audience())
                audience.subscribers.append((provider, _context(talk, around, provider.id, str(event))))
                audience.silence.append(silent(provider.id, str(event)))
                audience.noted.append(audience.silence[-1].event)

    def hears(self, event: SessionEvent | WorkerEvent) -> bool:
        """Whether there is anybody to tell."""
        return event in self._audiences or event in self._hooks.session

    async def tell(self, event: SessionEvent | WorkerEvent, **payload: Any) -> list[Any]:  # noqa: ANN401 - the event's own
        """The actions that hooks answered with; their reminders, and those of providers, are live."""
        return await self.pass_on(event, payload)

    async def pass_on(self, event: SessionEvent | WorkerEvent, payload: dict[str, Any]) -> list[Any]:
        """The same for a payload that is at hand."""
        hooks = self._hooks.session.get(event)
        actions = await self._ask_all(hooks, event, payload) if hooks else []
        audience = self._audiences.get(event)
        if audience is None:
            return actions
        evaluations: list[Evaluation] = []
        for provider, shared in audience.subscribers:
            context = msgspec.structs.replace(shared, payload=payload)
            # The canonical ones are pure and ours; anybody else's runs where it cannot stop the loop, on copies.
            returned = evaluate_one(provider, context) if provider.canonical else await self._guarded(provider, context)
            evaluations.append(returned)
        if evaluations == audience.silence:
            self._talk.note(*audience.noted)
        else:
            await self._heed_all(evaluations)
        return actions

    async def _ask_all(
        self, hooks: Iterable[HookFunction], event: SessionEvent | WorkerEvent, payload: Mapping[str, Any]
    ) -> list[Any]:
        actions: list[Any] = []
        for hook in tuple(hooks):
            action = (await self.ask(hook, event.value, payload)).action
            if action is None:
                continue
            actions.append(action)
            # Around tools there is more to decide; of all that is told here, only a compaction can be kept from.
            if event is not SessionEvent.PRE_COMPACT or not blocks(action):
                self.report(Problem(_where(hook, event), f"nothing is done here about {shown(action)}"))
        return actions

    # Hooks.

    async def ask(
        self, hook: HookFunction, event: str, payload: Mapping[str, Any], *, scope: Scope | None = None
    ) -> Answer:
        """Call one hook and make live the reminders it answers with."""
        where = _where(hook, event)
        context = HookContext(_own(payload), event=event, session_id=self._talk.session_id)
        try:
            returned = await ask(hook, context, scope=scope or self.scope, seconds=self._seconds)
            effects = read(self._read, returned, event, where)
        except Failed as error:
            self.report(Problem(where, str(error)))
            return Answer((), None)
        live = [await self._inject(draft, Source.HOOK, name_of(hook), where) for draft in effects.reminders]
        return Answer(tuple(injected for injected in live if injected is not None), effects.action)

    async def ask_around(self, what: str, side: str, hooks: Iterable[AroundHook], payload: Mapping[str, Any]) -> None:
        """Call the hooks on one side of an iteration or a run, and make live the reminders they answer with."""
        for hook in tuple(hooks):
            function = hook.pre if side == "pre" else hook.post
            if function is not None:
                await self.ask(function, f"{side}_{what}", payload)

    def _read(self, returned: object, event: str, where: str) -> Effects:
        try:
            effects = read_effects(returned, Surface.HOOK, event=event, limits=self._talk.limits)
        except ReminderError as error:
            # Who denies a call and words the reminder badly has denied it all the same.
            self.report(Problem(where, str(error)))
            return Effects((), action_of(returned))
        if (
            isinstance(returned, Mapping)
            and "body" in returned
            and effects.action is not None
            and not effects.reminders
        ):
            self.report(Problem(where, 'a body beside a decision is none: write {"reminder": {…}, "then": {…}}'))
        return effects

    async def _inject(self, draft: Draft, source: Source, provider_id: str, where: str) -> tuple[Reminder, int] | None:
        try:
            return await self._talk.inject(draft, source=source, provider_id=provider_id)
        except (ReminderError, LeaseLost) as error:
            self.report(Problem(where, str(error)))
            return None

    # Providers.

    async def _heed_all(self, evaluations: Iterable[Evaluation]) -> None:
        for evaluation in within_budget([self._of_a_size(evaluation) for evaluation in evaluations]):
            await self._heed(evaluation)

    async def _heed(self, evaluation: Evaluation) -> None:
        """Note what came of a provider, report how it failed, and make live what it wants said and there is room for."""
        where = f"provider {evaluation.provider_id} on {evaluation.event.event_name}"
        kept: list[Draft] = []
        for draft in evaluation.drafts:
            if self._talk.has_room(draft, beside=len(kept)):
                kept.append(draft)
        event = evaluation.event
        if len(kept) < len(evaluation.drafts):
            most = self._talk.limits.pending_per_session
            self.report(Problem(where, str(TooManyPending(most, most, scope="session"))))
            event = msgspec.structs.replace(event, fired=bool(kept), skipped=OVER_BUDGET)
        self._talk.note(event)
        if event.error is not None:
            self.report(Problem(where, event.error))
        for draft in kept:
            await self._inject(draft, Source.STDLIB_PROVIDER, evaluation.provider_id, where)

    async def _guarded(self, provider: Provider, shared: ProviderContext) -> Evaluation:
        context = msgspec.structs.replace(
            shared,
            payload=_own(shared.payload),
            options=_own(shared.options),
            config=_own(shared.config),
            profile=dict(shared.profile or {}),
        )
        try:
            returned = await ask(provider.evaluate, context, scope=self.scope, seconds=self._seconds)
            return read(read_result, provider.id, context.event, returned)
        except (Failed, ReminderError) as error:
            return failure(provider.id, context.event, str(error))

    def _of_a_size(self, evaluation: Evaluation) -> Evaluation:
        """Too long a body is a failure of its provider: what is noted as fired will be live."""
        try:
            for draft in evaluation.drafts:
                check_body_size(draft, Trust.OPERATOR, self._talk.limits)
        except ReminderError as error:
            return failure(evaluation.provider_id, evaluation.event.event_name, str(error))
        return evaluation


def blocks(action: object) -> bool:
    """Whether an action keeps from happening what it was asked about."""
    return isinstance(action, Mapping) and bool(action.get("block"))


def _where(hook: HookFunction, event: str) -> str:
    return f"hook {name_of(hook)} on {event}"


def _own(payload: Mapping[str, Any]) -> dict[str, Any]:
    """A payload for somebody who may change it: the next one is told what happened, not what became of that."""
    return {key: _copied(value) for key, value in payload.items()}


def _copied(value: Any) -> Any:  # noqa: ANN401 - whatever a tool put there
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, ToolOutput):
        return msgspec.structs.replace(value, data=_copied(value.data))
    try:
        return deepcopy(value)
    except Exception:  # noqa: BLE001 - what cannot be copied is shared
        return value


def _context(talk: Conversation, around: Surroundings, provider_id: str, event: str) -> ProviderContext:
    """What a provider is told of an event besides its payload."""
    return ProviderContext(
        event=event,
        session=talk,
        session_id=talk.session_id,
        options=dict(around.options),
        config=dict(around.config_for(provider_id)),
        profile={"context_window": around.context_window},
        facts=around.facts,
        anchor=around.anchor,
        task=around.task,
    )
