"""Hooks and providers: user code that is called on the events of a loop.

A hook may return reminders, and around a tool call or a compaction also a decision. A provider may return reminders.
`Hooks` is the registry of hooks; `HookRunner` calls the hooks and providers of one run.
"""

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from copy import deepcopy
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from sideband.core.accept import check_body_size
from sideband.core.effects import NO_EFFECT, Effects, action_of, ignored, read_effects
from sideband.core.errors import InvalidOption, LeaseLost, ReminderError, StoreError, TooManyPending, shown
from sideband.core.events import ProviderEvaluated
from sideband.core.hookevents import SessionEvent, WorkerEvent, read_hook_event
from sideband.core.reminder import Draft, Reminder, Source
from sideband.core.surfaces import Surface
from sideband.core.trust import Trust
from sideband.loop.cancel import CancelScope, OutOfTime
from sideband.loop.conversation import Conversation
from sideband.loop.guard import Problem, UserCodeFailed, call_guarded, name_of, read_guarded
from sideband.ports import Journal, ToolOutput
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
from sideband.providers.settings import NOTHING, read_options
from sideband.recall.facts import FactBook

# The default time limit of a hook, a provider, a watcher or a listener.
HOOK_SECONDS: Final = 5.0

HookFunction: TypeAlias = Callable[[Any], Any]

# Reads the facts of the store of a session or, if one is named, of another store.
Recall: TypeAlias = Callable[[Journal, str | None], Coroutine[Any, Any, FactBook]]

# Where in the loop each event occurs. A reminder that a hook adds is live at once, and the next request shows it. After
# the last reply, that is the first request of the next prompt, except for a reminder of `pre_finish`.
WHEN: Final[Mapping[SessionEvent, str]] = MappingProxyType(
    {
        SessionEvent.SESSION_START: "before the first iteration_start of a session",
        SessionEvent.USER_PROMPT_SUBMIT: "after a prompt is delivered, before iteration_start",
        SessionEvent.FILE_EDITED: "before iteration_start, once per file that was not changed by the agent",
        SessionEvent.PRE_COMPACT: "before a compaction, which it may block; before iteration_start",
        SessionEvent.POST_COMPACT: "after a compaction, before iteration_start",
        SessionEvent.POST_TURN: "after the reply is committed, before pre_tool_dispatch",
        SessionEvent.ON_BUDGET_THRESHOLD: "after post_turn, when a share of a budget is first reached",
        SessionEvent.PERMISSION_ASKED: "between pre_tool_dispatch and the call that needs a permission",
        SessionEvent.PERMISSION_REPLIED: "after the answer, before the call runs or is denied",
        SessionEvent.POST_TOOL_USE: "after each result is recorded, before post_tool_dispatch",
        SessionEvent.POST_STEP: "after post_tool_dispatch, before iteration_end",
        SessionEvent.POST_AGENT_TURN: "after a reply without tool calls, before the closing iteration_end",
        SessionEvent.PRE_FINISH: "after post_agent_turn, before the closing iteration_end; a reminder adds an iteration",
        SessionEvent.POST_FINISH: "after loop_exit",
        SessionEvent.SESSION_IDLE: "between daemon_idle_pre and daemon_idle_post",
        SessionEvent.SESSION_ERROR: "when a model fails for good, before loop_exit",
        SessionEvent.SESSION_END: "when the session is closed",
    }
)

BODY_IGNORED: Final = (
    '`body` is ignored when the hook returns a decision: write {"reminder": {…}, "then": {…}} to return both'
)
SESSION_DECISIONS: Final = 'a session hook can decide nothing but {"block": true} on pre_compact'


# The registry.


class HookContext(dict[str, Any]):
    """The payload of an event for a hook; its entries are also attributes.

    A missing entry reads as None as an attribute, so that one hook can serve several events. `context["name"]` raises
    KeyError instead, which finds misspelt names.
    """

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the type of the entry
        if name.startswith("__"):
            raise AttributeError(name)
        return self.get(name)


class PairedHook(NamedTuple):
    """Functions to call before and after a tool call, an iteration, or the run of an agent with a matching name."""

    pattern: str
    pre: HookFunction | None
    post: HookFunction | None


class Hooks:
    """A registry of hooks, each kind in the order of registration."""

    def __init__(self) -> None:
        self.tool: list[PairedHook] = []
        self.step: list[PairedHook] = []
        self.persona: list[PairedHook] = []
        self.session: dict[SessionEvent | WorkerEvent, list[HookFunction]] = {}

    def register_tool_hook(
        self, pattern: str, *, pre: HookFunction | None = None, post: HookFunction | None = None
    ) -> None:
        """Call `pre` and `post` around every call of a tool whose name matches (`*` and `?` as in file names)."""
        self.tool.append(_paired(pattern, pre, post))

    def register_step_hook(self, *, pre: HookFunction | None = None, post: HookFunction | None = None) -> None:
        """Call `pre` and `post` around every iteration of a loop."""
        self.step.append(_paired("*", pre, post))

    def register_persona_hook(
        self, pattern: str, *, pre: HookFunction | None = None, post: HookFunction | None = None
    ) -> None:
        """Call `pre` and `post` around every run of an agent whose name matches."""
        self.persona.append(_paired(pattern, pre, post))

    def register_session_hook(self, event: str, function: HookFunction) -> None:
        """Call the function on every occurrence of the event in a session."""
        if not callable(function):
            raise InvalidOption(f"a hook must be a function, not {shown(function)}", field="function", value=function)
        self.session.setdefault(read_hook_event(event), []).append(function)

    def functions(self) -> Iterable[HookFunction]:
        """Every registered function."""
        paired = [side for hook in (*self.tool, *self.step, *self.persona) for side in (hook.pre, hook.post)]
        session = [function for functions in self.session.values() for function in functions]
        return [function for function in (*paired, *session) if function is not None]

    def clear(self) -> None:
        """Remove every hook."""
        self.tool.clear()
        self.step.clear()
        self.persona.clear()
        self.session.clear()

    def tools_matching(self, name: str) -> Iterable[PairedHook]:
        return [hook for hook in self.tool if fnmatchcase(name, hook.pattern)]

    def personas_matching(self, name: str) -> Iterable[PairedHook]:
        return [hook for hook in self.persona if fnmatchcase(name, hook.pattern)]


def _paired(pattern: object, pre: HookFunction | None, post: HookFunction | None) -> PairedHook:
    if not isinstance(pattern, str) or not pattern:
        raise InvalidOption(
            f"pattern must be a name, which may contain the wildcards * and ?, not {shown(pattern)}",
            field="pattern",
            value=pattern,
        )
    for field, function in (("pre", pre), ("post", post)):
        if function is not None and not callable(function):
            raise InvalidOption(f"{field} must be a function, not {shown(function)}", field=field, value=function)
    return PairedHook(pattern, pre, post)


# Calling them.


class HookResult(NamedTuple):
    """What one hook returned: its reminders, which are live now, each with the number it replaced; and its action."""

    reminders: tuple[tuple[Reminder, int], ...]
    action: Any


class Subscribers(msgspec.Struct):
    """The providers that subscribe to an event, each with its context apart from the payload.

    `silence` is the result in which no provider has anything to say, as in nearly every turn, and `notes` are the
    events that record it. They are built once per run.
    """

    providers: list[tuple[Provider, ProviderContext]] = []
    silence: list[Evaluation] = []
    notes: list[ProviderEvaluated] = []


class HookRunner:
    """Calls the hooks and providers of one run. A failure is reported with the name of the function and stops nothing.

    `options` are the loop's options as providers see them; `context_window` is that of the model. Everything is awaited
    in `scope`, so that ending the scope cancels it, and has `seconds` for each call. `recall` reads the facts of a store
    for the providers that want them, unless the program has given `facts`.
    """

    def __init__(
        self,
        talk: Conversation,
        hooks: Hooks,
        report: Callable[[Problem], None],
        *,
        providers: Sequence[Provider] = (),
        options: Mapping[str, Any] = NOTHING,
        task: str = "",
        context_window: int | None = None,
        facts: FactBook | None = None,
        recall: Recall | None = None,
        anchor: WorkspaceAnchor | None = None,
        seconds: float = HOOK_SECONDS,
        scope: CancelScope | None = None,
    ) -> None:
        self.registry = hooks
        self.report = report
        self.scope = scope or CancelScope()
        self._talk = talk
        self.seconds = seconds
        # The ids of the hooks that returned a value without effect; the registry keeps the hooks alive.
        self._without_effect: set[int] = set()
        self._recall = recall
        self._subscribers: dict[str, Subscribers] = {}
        config = read_options(options).config
        for provider in providers:
            for event in provider.subscribes_to:
                context = ProviderContext(
                    event=str(event),
                    session=talk,
                    session_id=talk.session_id,
                    options=dict(options),
                    config=dict(config.get(provider.id, NOTHING)),
                    profile={"context_window": context_window},
                    facts=facts,
                    anchor=anchor,
                    task=task,
                )
                subscribers = self._subscribers.setdefault(event, Subscribers())
                subscribers.providers.append((provider, context))
                subscribers.silence.append(silent(provider.id, str(event)))
                subscribers.notes.append(subscribers.silence[-1].event)

    def listens(self, event: SessionEvent | WorkerEvent) -> bool:
        """Whether a hook or a provider is called on this event."""
        return event in self._subscribers or event in self.registry.session

    async def notify(self, event: SessionEvent | WorkerEvent, payload: dict[str, Any]) -> list[Any]:
        """Call the hooks and providers of this event, make their reminders live, and return the hooks' actions."""
        hooks = self.registry.session.get(event)
        actions = await self._call_session_hooks(hooks, event, payload) if hooks else []
        subscribers = self._subscribers.get(event)
        if subscribers is None:
            return actions
        evaluations: list[Evaluation] = []
        for provider, shared in subscribers.providers:
            context = msgspec.structs.replace(shared, payload=payload)
            # The canonical providers are pure. Any other is user code: it is guarded, and works on copies.
            returned = (
                await self._evaluate_canonical(provider, context)
                if provider.canonical
                else await self._evaluate(provider, context)
            )
            evaluations.append(returned)
        if evaluations == subscribers.silence:
            self._talk.note(*subscribers.notes)
        else:
            for evaluation in within_budget([self._with_allowed_size(evaluation) for evaluation in evaluations]):
                await self._apply(evaluation)
        return actions

    # Hooks.

    async def _call_session_hooks(
        self, hooks: Iterable[HookFunction], event: SessionEvent | WorkerEvent, payload: Mapping[str, Any]
    ) -> list[Any]:
        actions: list[Any] = []
        for hook in tuple(hooks):
            action = (await self.call(hook, event.value, payload)).action
            if action is None:
                continue
            actions.append(action)
            # A session hook can block a compaction and decide nothing else. Tool hooks decide about tool calls.
            if event is not SessionEvent.PRE_COMPACT or not blocks(action):
                self.report(Problem(hook_label(hook, event), f"{shown(action)} is ignored: {SESSION_DECISIONS}"))
        return actions

    async def call(
        self, hook: HookFunction, event: str, payload: Mapping[str, Any], *, scope: CancelScope | None = None
    ) -> HookResult:
        """Call one hook and make the reminders that it returns live."""
        where = hook_label(hook, event)
        context = HookContext(_copied_payload(payload), event=event, session_id=self._talk.session_id)
        try:
            returned = await call_guarded(hook, context, scope=scope or self.scope, seconds=self.seconds)
            effects = read_guarded(self._read, returned, hook, event)
        except UserCodeFailed as error:
            self.report(Problem(where, str(error)))
            return HookResult((), None)
        live = [await self._inject(draft, Source.HOOK, name_of(hook), where) for draft in effects.reminders]
        return HookResult(tuple(injected for injected in live if injected is not None), effects.action)

    async def call_paired(self, what: str, side: str, hooks: Iterable[PairedHook], payload: Mapping[str, Any]) -> None:
        """Call one side (`pre` or `post`) of the hooks around an iteration or a run."""
        for hook in tuple(hooks):
            function = hook.pre if side == "pre" else hook.post
            if function is not None:
                await self.call(function, f"{side}_{what}", payload)

    def _read(self, returned: object, hook: HookFunction, event: str) -> Effects:
        where = hook_label(hook, event)
        try:
            effects = read_effects(returned, Surface.HOOK, event=event, limits=self._talk.limits)
        except ReminderError as error:
            # A denial counts even if the reminder beside it is invalid.
            self.report(Problem(where, str(error)))
            return Effects((), action_of(returned))
        why = ignored(returned)
        if why is not None and id(hook) not in self._without_effect:
            # Once per hook, because a hook may return another value at every call.
            self._without_effect.add(id(hook))
            self.report(Problem(where, f"{NO_EFFECT}: {why}"))
        if (
            isinstance(returned, Mapping)
            and "body" in returned
            and effects.action is not None
            and not effects.reminders
        ):
            self.report(Problem(where, BODY_IGNORED))
        return effects

    async def _inject(self, draft: Draft, source: Source, provider_id: str, where: str) -> tuple[Reminder, int] | None:
        try:
            return await self._talk.inject(draft, source=source, provider_id=provider_id)
        except (ReminderError, LeaseLost) as error:
            self.report(Problem(where, str(error)))
            return None

    # Providers.

    async def _evaluate_canonical(self, provider: Provider, context: ProviderContext) -> Evaluation:
        recall, recalls = self._recall, provider.recalls
        if recall is None or recalls is None or context.facts is not None:
            return evaluate_one(provider, context)
        source = recalls(context)
        if source is None:
            return evaluate_one(provider, context)
        try:
            reading = recall(self._talk.journal, source.root)
            facts = await self.scope.run(reading, seconds=self.seconds)
        except OutOfTime:
            return failure(provider.id, context.event, f"reading the facts took longer than {self.seconds:g} s")
        except (ReminderError, StoreError) as error:
            return failure(provider.id, context.event, f"the facts cannot be read: {error}")
        return evaluate_one(provider, msgspec.structs.replace(context, facts=facts))

    async def _evaluate(self, provider: Provider, shared: ProviderContext) -> Evaluation:
        context = msgspec.structs.replace(
            shared,
            payload=_copied_payload(shared.payload),
            options=_copied_payload(shared.options),
            config=_copied_payload(shared.config),
            profile=dict(shared.profile or {}),
        )
        try:
            returned = await call_guarded(provider.evaluate, context, scope=self.scope, seconds=self.seconds)
            return read_guarded(read_result, provider.id, context.event, returned)
        except (UserCodeFailed, ReminderError) as error:
            return failure(provider.id, context.event, str(error))

    def _with_allowed_size(self, evaluation: Evaluation) -> Evaluation:
        """The evaluation, or a failure if a body is too long: what is recorded as fired must become live."""
        try:
            for draft in evaluation.drafts:
                check_body_size(draft.body, Trust.OPERATOR, self._talk.limits)
        except ReminderError as error:
            return failure(evaluation.provider_id, evaluation.event.event_name, str(error))
        return evaluation

    async def _apply(self, evaluation: Evaluation) -> None:
        """Note the evaluation, report its failure, and make its reminders live as far as there is capacity."""
        where = f"provider {evaluation.provider_id} on {evaluation.event.event_name}"
        kept: list[Draft] = []
        for draft in evaluation.drafts:
            if self._talk.has_capacity(draft, beside=len(kept)):
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


def blocks(action: object) -> bool:
    """Whether a hook's action blocks what the hook was called about."""
    return isinstance(action, Mapping) and bool(action.get("block"))


def hook_label(hook: HookFunction, event: str) -> str:
    """How a problem names a hook."""
    return f"hook {name_of(hook)} on {event}"


def _copied_payload(payload: Mapping[str, Any]) -> dict[str, Any]:
    """A copy that user code may change without changing what the next hook sees."""
    return {key: _copied(value) for key, value in payload.items()}


def _copied(value: Any) -> Any:  # noqa: ANN401 - a tool's data has any type
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, ToolOutput):
        return msgspec.structs.replace(value, data=_copied(value.data))
    try:
        return deepcopy(value)
    except Exception:  # noqa: BLE001 - a value that cannot be copied is shared
        return value
