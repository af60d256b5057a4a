"""Telling hooks and providers what happens, and making live what they answer."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from sideband.core.draft import Draft
from sideband.core.effects import Effects, read_effects
from sideband.core.errors import ReminderError
from sideband.core.hookevents import SessionEvent, WorkerEvent
from sideband.core.inbox import check_body_size
from sideband.core.reminder import Reminder, Source
from sideband.core.surfaces import Surface
from sideband.core.trust import Trust
from sideband.loop.conversation import Conversation
from sideband.loop.hooks import HOOK_SECONDS, AroundHook, HookContext, HookFailure, HookFunction, Hooks, call, name_of
from sideband.loop.problems import Problem
from sideband.providers.context import Provider, ProviderContext, WorkspaceAnchor
from sideband.providers.evaluation import Evaluation, evaluate_one, failure, read_result, within_budget
from sideband.recall.facts import FactBook

# Where the reminders stand in what a hook answers; the rest of it is its action.
_REMINDERS: Final = frozenset({"reminder", "effects", "body"})


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


class Teller:
    """Tells one run's hooks and providers; what fails is reported by name and stops nothing."""

    def __init__(
        self,
        talk: Conversation,
        hooks: Hooks,
        providers: Sequence[Provider],
        around: Surroundings,
        report: Callable[[Problem], None],
        *,
        seconds: float = HOOK_SECONDS,
    ) -> None:
        self._talk = talk
        self._hooks = hooks
        self._seconds = seconds
        self.report = report
        self._subscribers: dict[str, list[tuple[Provider, ProviderContext]]] = {}
        for provider in providers:
            for event in provider.subscribes_to:
                context = _context(talk, around, provider.id, str(event))
                self._subscribers.setdefault(event, []).append((provider, context))

    def hears(self, event: SessionEvent | WorkerEvent) -> bool:
        """Whether there is anybody to tell."""
        return event in self._subscribers or event in self._hooks.session

    async def tell(self, event: SessionEvent | WorkerEvent, **payload: Any) -> list[Any]:  # noqa: ANN401 - the event's own
        """The actions that hooks answered with; their reminders, and those of providers, are live."""
        return await self.pass_on(event, payload)

    async def pass_on(self, event: SessionEvent | WorkerEvent, payload: dict[str, Any]) -> list[Any]:
        """The same for a payload that is at hand."""
        hooks = self._hooks.session.get(event)
        actions = await self._ask_all(hooks, event, payload) if hooks else []
        subscribers = self._subscribers.get(event)
        if subscribers:
            await self._evaluate(subscribers, payload)
        return actions

    async def _ask_all(
        self, hooks: Iterable[HookFunction], event: SessionEvent | WorkerEvent, payload: Mapping[str, Any]
    ) -> list[Any]:
        answers = [await self.ask(hook, event.value, payload) for hook in tuple(hooks)]
        return [answer.action for answer in answers if answer.action is not None]

    async def ask(self, hook: HookFunction, event: str, payload: Mapping[str, Any]) -> Answer:
        """Call one hook and make live the reminders it answers with."""
        where = f"hook {name_of(hook)} on {event}"
        context = HookContext(payload, event=event, session_id=self._talk.session_id)
        try:
            returned = await call(hook, context, seconds=self._seconds)
        except HookFailure as error:
            self.report(Problem(where, str(error)))
            return Answer((), None)
        effects = self._read(returned, event, where)
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
            return read_effects(returned, Surface.HOOK, event=event, limits=self._talk.limits)
        except ReminderError as error:
            self.report(Problem(where, str(error)))
        if not isinstance(returned, Mapping):
            return Effects((), None)
        # Who denies a call and words the reminder badly has denied it all the same.
        rest = {key: value for key, value in returned.items() if key not in _REMINDERS}
        return read_effects(rest, Surface.HOOK, event=event, limits=self._talk.limits)

    async def _inject(self, draft: Draft, source: Source, provider_id: str, where: str) -> tuple[Reminder, int] | None:
        try:
            return await self._talk.inject(draft, source=source, provider_id=provider_id)
        except ReminderError as error:
            self.report(Problem(where, str(error)))
            return None

    async def _evaluate(self, subscribers: Sequence[tuple[Provider, ProviderContext]], payload: dict[str, Any]) -> None:
        evaluations: list[Evaluation] = []
        fired = False
        for provider, shared in subscribers:
            context = msgspec.structs.replace(shared, payload=payload)
            # The canonical ones are pure and ours; anybody else's runs where it cannot stop the loop, on copies.
            returned = evaluate_one(provider, context) if provider.canonical else await self._guarded(provider, context)
            if returned.drafts:
                fired, returned = True, self._of_a_size(returned)
            evaluations.append(returned)
        for evaluation in within_budget(evaluations) if fired else evaluations:
            self._talk.note(evaluation.event)
            if evaluation.drafts or evaluation.event.error is not None:
                await self._heed(evaluation)

    async def _heed(self, evaluation: Evaluation) -> None:
        """Report how a provider failed, or make live what it wants said."""
        where = f"provider {evaluation.provider_id} on {evaluation.event.event_name}"
        if evaluation.event.error is not None:
            self.report(Problem(where, evaluation.event.error))
        for draft in evaluation.drafts:
            await self._inject(draft, Source.STDLIB_PROVIDER, evaluation.provider_id, where)

    async def _guarded(self, provider: Provider, shared: ProviderContext) -> Evaluation:
        context = msgspec.structs.replace(
            shared,
            payload=dict(shared.payload),
            options=dict(shared.options),
            config=dict(shared.config),
            profile=dict(shared.profile or {}),
        )
        try:
            returned = await call(provider.evaluate, context, seconds=self._seconds)
        except HookFailure as error:
            return failure(provider.id, context.event, str(error))
        return read_result(provider.id, context.event, returned)

    def _of_a_size(self, evaluation: Evaluation) -> Evaluation:
        """Too long a body is a failure of its provider: what is noted as fired will be live."""
        try:
            for draft in evaluation.drafts:
                check_body_size(draft, Trust.OPERATOR, self._talk.limits)
        except ReminderError as error:
            return failure(evaluation.provider_id, evaluation.event.event_name, str(error))
        return evaluation


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
