"""Running agents: `agent_loop`, `agent_run`, `llm_call` and `spawn`, and how their options are read.

Options are checked before a run begins, so that a mistake does not fail in the middle of it.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Required, TypeAlias, TypedDict, TypeVar, Unpack, cast

from sideband.core.errors import InvalidOption, UnknownSession, shown
from sideband.core.events import Closing
from sideband.core.live import LiveIndex
from sideband.core.masking import mask_text
from sideband.core.messages import Message, Reply
from sideband.loop.agent import AgentRun
from sideband.loop.cancel import CancelScope, Ended
from sideband.loop.compaction import Custom, KeepLast, Summarize
from sideband.loop.conversation import Conversation
from sideband.loop.guard import Problem, name_of
from sideband.loop.hooks import HOOK_SECONDS, HookRunner, Hooks
from sideband.loop.run import LoopResult, LoopStatus, RunOptions
from sideband.loop.subagent import Worker, envelope, receive
from sideband.loop.turn import OnRestart, RequestSender, TurnRunner, make_plan
from sideband.ports import Clock, Compactor, Model, ModelError, OnText, Permission, Tool, Watcher
from sideband.providers import token_pressure
from sideband.providers.context import WorkspaceAnchor
from sideband.providers.registry import Registry
from sideband.providers.settings import find_number, read_options
from sideband.recall.facts import FactBook
from sideband.render.view import RequestView, system_text
from sideband.runtime.models import read_model
from sideband.runtime.registries import HOOKS, PROVIDERS
from sideband.runtime.session import Session
from sideband.runtime.store import Store, open_store
from sideband.runtime.system import SystemClock

_Value = TypeVar("_Value")

CompactorChoice: TypeAlias = Compactor | str | Callable[..., Any] | None

MODEL_SECONDS: Final = 600.0

SUMMARY_INSTRUCTION: Final = (
    "Summarise this conversation for the agent that goes on with it: facts, decisions, open tasks."
)

_LOG: Final = logging.getLogger("sideband")


# Options.


class AgentOptions(TypedDict, total=False):
    """The options of a run.

    Only `model` is required. The system text consists of `system_prompt_parts`, `system`, `system_appendix` and
    `system_suffix`, in this order. `reminders=False` turns all providers off; `{"providers": ["-id"], "config":
    {id: {…}}}` turns some off and configures others.

    `max_turns` (50) and `max_tokens` limit the run; None is no limit. With `daemon=True` an idle run waits for an
    interrupt or a message, or until `wake_seconds` have passed, instead of ending.

    `permission` is asked before every tool call, except those for which its `needs` returns False. `compactor` is `"keep_last"`, `"summarize"`, a function of messages and
    reminders, or an object with `compact`. `on_text` is called with text as it arrives, and `on_restart` before
    every retry of a request. `queue_after_cancel` is `"hold"` or `"deliver"`. `closing` maps the status of a run to what
    the commit that makes the session idle does: it sets records of the session, and may end the session.

    Time limits: `model_seconds` (600) for a request, `tool_seconds` (120) for a tool without a limit of its own, and
    `hook_seconds` (5) for a hook, a provider, a watcher or a listener.
    """

    model: Required[str | Model]
    system: str
    system_prompt_parts: Sequence[str]
    system_appendix: str
    system_suffix: str
    tools: Sequence[Tool]
    reminders: bool | Mapping[str, Any]
    name: str
    max_turns: int | None
    max_tokens: int | None
    daemon: bool
    wake_seconds: float | None
    permission: Permission | None
    compactor: CompactorChoice
    watcher: Watcher | None
    on_text: OnText | None
    on_restart: OnRestart | None
    facts: FactBook | None
    anchor: WorkspaceAnchor | None
    queue_after_cancel: str
    closing: Mapping[str, Closing]
    model_seconds: float
    tool_seconds: float
    hook_seconds: float
    clock: Clock | None
    hooks: Hooks
    providers: Registry


_NAMES: Final = AgentOptions.__required_keys__ | AgentOptions.__optional_keys__

# Options that a run takes as they are.
_UNCHANGED: Final = (
    "name",
    "max_turns",
    "max_tokens",
    "daemon",
    "wake_seconds",
    "on_text",
    "on_restart",
    "facts",
    "anchor",
    "model_seconds",
    "tool_seconds",
    "hook_seconds",
)

# The statuses with which a run makes its session idle. A run that has lost its lease writes nothing.
_CLOSES: Final = frozenset(LoopStatus) - {LoopStatus.LEASE_LOST}


def check_names(options: AgentOptions) -> None:
    """Raise TypeError for an unknown option or a missing model, as Python does for the arguments of a function."""
    for name in options:
        if name not in _NAMES:
            raise TypeError(f"a run has no option {name!r}")
    if "model" not in options:
        raise TypeError("a run needs a model")


def read_run_options(task: str | None, options: AgentOptions) -> RunOptions:
    model = read_model(options["model"])
    seen_by_providers = {
        "reminders": options.get("reminders", True),
        "model": options["model"] if isinstance(options["model"], str) else type(model).__name__,
    }
    after_cancel = options.get("queue_after_cancel", "hold")
    if after_cancel not in ("hold", "deliver"):
        raise InvalidOption(
            f"queue_after_cancel must be 'hold' or 'deliver', not {shown(after_cancel)}",
            field="queue_after_cancel",
            value=after_cancel,
        )
    tools = _read_tools(options.get("tools", ()))
    hooks, providers = options.get("hooks", HOOKS), options.get("providers", PROVIDERS)
    unchanged: dict[str, Any] = {name: value for name, value in options.items() if name in _UNCHANGED}
    return RunOptions(
        model=model,
        clock=options.get("clock") or SystemClock(),
        hooks=hooks,
        task=task or "",
        system=system_text(
            parts=options.get("system_prompt_parts", ()),
            system=options.get("system", ""),
            appendix=options.get("system_appendix", ""),
            suffix=options.get("system_suffix", ""),
        ),
        tools=tools,
        permission=_with_method(options.get("permission"), "ask", "permission"),
        compactor=read_compactor(options.get("compactor"), model),
        watcher=_read_watcher(options.get("watcher"), tools),
        providers=providers.enabled(seen_by_providers),
        provider_options=seen_by_providers,
        registered=_registered(hooks, providers),
        context_window=_read_window(model, read_options(seen_by_providers).config),
        hold_queue_after_cancel=after_cancel == "hold",
        closing=_read_closing(options.get("closing", {})),
        **unchanged,
    )


def _read_closing(closing: Mapping[str, Closing]) -> Mapping[str, Closing]:
    for status, entry in closing.items():
        if status not in _CLOSES or not isinstance(entry, Closing):
            raise InvalidOption(
                f"closing must map {', '.join(sorted(_CLOSES))} to Closing(...), not {shown(status)} to {shown(entry)}",
                field="closing",
                value=status,
            )
    return closing


def _read_tools(tools: Sequence[Tool]) -> Sequence[Tool]:
    names: list[object] = [tool.name for tool in tools]
    for name in names:
        if not isinstance(name, str) or not name or names.count(name) > 1:
            raise InvalidOption(
                f"every tool must have a name that no other tool has, not {shown(name)}", field="tools", value=name
            )
    return tools


def _read_window(model: Model, config: Mapping[str, Mapping[str, Any]]) -> int | None:
    """The context window that is configured for the provider of token pressure, else the model's own."""
    own: object = model.context_window
    if own is not None and (not isinstance(own, int) or isinstance(own, bool) or own < 1):
        raise InvalidOption(
            f"the context window of a model must be a number of tokens, not {shown(own)}",
            field="context_window",
            value=own,
        )
    configured = find_number(config.get(token_pressure.ID, {}), token_pressure.WINDOW)
    return own if configured is None else int(configured)


def _read_watcher(watcher: Watcher | None, tools: object) -> Watcher | None:
    """The given watcher; without one the tools, if they watch the files that they have touched."""
    if watcher is None and isinstance(tools, Watcher):
        return tools
    return _with_method(watcher, "changes", "watcher")


def read_compactor(compactor: CompactorChoice, model: Model) -> Compactor | None:
    """The chosen compactor; a function becomes one."""
    match compactor:
        case None:
            return None
        case "keep_last":
            return KeepLast()
        case "summarize":
            return Summarize(lambda messages: _summary(messages, model))
    if hasattr(compactor, "compact"):
        return cast("Compactor", _with_method(compactor, "compact", "compactor"))
    if callable(compactor):
        return Custom(compactor)
    raise InvalidOption(
        f"compactor must be 'summarize', 'keep_last', a function or an object, not {shown(compactor)}",
        field="compactor",
        value=compactor,
    )


def _with_method(value: _Value, method: str, field: str) -> _Value:
    if value is not None and not callable(getattr(value, method, None)):
        raise InvalidOption(f"{field} must have a method {method!r}; {shown(value)} has none", field=field, value=value)
    return value


def _registered(hooks: Hooks, providers: Registry) -> tuple[str, ...]:
    """The ids that a later process has to register too, to continue the session in the same way."""
    named = {f"hook {name_of(function)}" for function in hooks.functions()}
    return (*sorted(f"provider {provider_id}" for provider_id in providers.registered), *sorted(named))


# Runs.


async def agent_loop(
    task: str | None, *, session: Session | None = None, **options: Unpack[AgentOptions]
) -> LoopResult:
    """Run an agent on a task to the end and return the result. The options are those of `AgentOptions`."""
    async with await agent_run(task, session=session, **options) as run:
        return await run.finish()


async def agent_run(task: str | None, *, session: Session | None = None, **options: Unpack[AgentOptions]) -> AgentRun:
    """Begin a run that you drive: `await run.finish()`, `await run.step()`, or `async for event in run`.

    Write `async with await agent_run(…) as run:` if you may leave the run before it is over: leaving the block ends it,
    and until a run has ended nothing else can run on its session. `task` is the user's prompt (None: continue with what
    is queued). The options are those of `AgentOptions`.
    """
    check_names(options)
    session = session or await open_store().session()
    session.refuse_busy()
    if session.talk.state.closed:
        raise UnknownSession(f"session {shown(session.id)} is closed", field="session", value=session.id)
    read = read_run_options(task, options)
    # Acquiring the lease may take a while; no other run of this process may begin meanwhile.
    with session.calling():
        lease = await session.attend()
        try:
            run = AgentRun(session.talk, read, lease)
            if task is not None:
                run.prompt_id = await session.prompt(task)
        except BaseException:
            await lease.release()
            raise
        session.run = run
    return run


async def spawn(parent: Session, store: Store, task: str, **options: Unpack[AgentOptions]) -> Worker:
    """Make a sub-agent of `parent` with the reminders that propagate to it; `await worker.work()` runs it.

    The options are those of `AgentOptions`, for the worker; its `name` is "worker" by default.
    """
    check_names(options)
    worker_options: AgentOptions = {"name": "worker", **options}
    child = await store.session()
    await receive(child.talk, envelope(parent.talk, task))
    problems: list[Problem] = []
    hooks, providers = options.get("hooks", HOOKS), options.get("providers", PROVIDERS)
    reminders = {"reminders": options.get("reminders", True)}

    async def begin(prompt: str | None) -> AgentRun:
        return await agent_run(prompt, session=child, **worker_options)

    return Worker(
        worker_options["name"],
        task,
        child.talk,
        parent_hooks=HookRunner(parent.talk, hooks, problems.append),
        child_hooks=HookRunner(
            child.talk,
            Hooks(),
            problems.append,
            providers=providers.enabled(reminders),
            options=reminders,
            task=task,
        ),
        begin=begin,
        problems=problems,
    )


# Single calls.


async def llm_call(
    prompt: str,
    *,
    model: str | Model,
    session: Session | None = None,
    system: str = "",
    system_prompt_parts: Sequence[str] = (),
    system_appendix: str = "",
    system_suffix: str = "",
    on_text: OnText | None = None,
    model_seconds: float = MODEL_SECONDS,
    clock: Clock | None = None,
) -> Reply:
    """Call the model once and return its reply.

    With a session the call is one turn of it: it shows the live reminders, and drains no seam. Without a session no
    reminder is shown and no turn is counted. A failure of `on_text` is logged; the reply is returned all the same.
    """
    chosen = read_model(model)
    text = system_text(parts=system_prompt_parts, system=system, appendix=system_appendix, suffix=system_suffix)
    scope = CancelScope()
    sender = RequestSender(
        chosen,
        clock or SystemClock(),
        scope,
        _log,
        seconds=model_seconds,
        listener_seconds=HOOK_SECONDS,
        on_text=on_text,
    )
    if session is None:
        message: Message = {"role": "user", "content": prompt}
        view = RequestView(
            turn=1, system=text.before, system_after=text.after, messages=[message], tools=[], live=LiveIndex()
        )
        return await sender.send(make_plan(chosen, view))
    with session.calling():
        lease = await session.attend()
        try:
            lease.keep(lambda _lost: scope.end())
            runner = TurnRunner(session.talk, chosen, sender, _log, system=text, lease=lease)
            return await _one_turn(session, prompt, runner, scope)
        finally:
            await lease.release()


async def _one_turn(session: Session, prompt: str, runner: TurnRunner, scope: CancelScope) -> Reply:
    talk, status = session.talk, LoopStatus.FAILED
    await talk.recover()
    await talk.start_with(prompt)
    watching = asyncio.ensure_future(_end_when_idle(talk, scope))
    try:
        reply = await runner.run()
        status = LoopStatus.COMPLETED
    except Ended:
        raise ModelError("the turn was cancelled, or another process has taken the session over") from None
    finally:
        watching.cancel()
        await talk.finish_call(status=status)
    return reply


async def _end_when_idle(talk: Conversation, scope: CancelScope) -> None:
    """End the call when another process has cancelled its turn."""
    wake = talk.journal.wake(talk.session_id)
    while talk.state.running:
        wake.clear()
        await wake.wait()
    scope.end()


async def _summary(messages: Sequence[Message], model: Model) -> str:
    # Without a session: the request shows no reminder and is not a turn.
    view = RequestView(turn=1, system=SUMMARY_INSTRUCTION, messages=messages, tools=[], live=LiveIndex())
    sender = RequestSender(
        model, SystemClock(), CancelScope(), _log, seconds=MODEL_SECONDS, listener_seconds=HOOK_SECONDS
    )
    summary = (await sender.send(make_plan(model, view))).text
    if not summary.strip():
        # A conversation that is too long is better than one that has lost its beginning.
        raise ModelError("the model returned an empty summary")
    return summary


def _log(problem: Problem) -> None:
    _LOG.warning("%s: %s", problem.where, mask_text(problem.message))
