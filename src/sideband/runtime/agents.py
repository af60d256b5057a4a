"""Running agents: `agent_loop`, `agent_run` and `llm_call`, and how their options are read.

Options are checked before a run begins, so that a mistake does not fail in the middle of it.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, Required, TypeAlias, TypedDict, TypeVar, Unpack

from sideband.core.errors import InvalidOption, UnknownSession, shown, suggestion
from sideband.core.events import Closing
from sideband.core.limits import DEFAULT_LIMITS, Bound
from sideband.core.live import LiveIndex
from sideband.core.masking import mask_text
from sideband.core.messages import Content, Message, Reply, as_blocks, read_content, text_of
from sideband.core.seams import Seam
from sideband.loop.agent import AgentRun
from sideband.loop.cancel import CancelScope, Ended
from sideband.loop.compaction import Custom, KeepLast, RunCompactor, Summarize, TokenCompactor, as_document
from sideband.loop.conversation import Conversation
from sideband.loop.guard import Problem, name_of
from sideband.loop.hooks import HOOK_SECONDS, Hooks
from sideband.loop.run import LoopResult, LoopStatus, RunOptions
from sideband.loop.turn import OnRestart, RequestSender, TurnRunner, make_plan
from sideband.ports import Clock, Compactor, Model, ModelError, OnText, Permission, Tool, Watcher
from sideband.providers import token_pressure
from sideband.providers.context import WorkspaceAnchor
from sideband.providers.registry import Registry
from sideband.providers.settings import NOTHING, find_number, read_options
from sideband.recall.facts import FactBook
from sideband.render.profiles import PlacementWord
from sideband.render.view import RequestView, system_text
from sideband.runtime.facts import facts_from
from sideband.runtime.models import read_model
from sideband.runtime.registries import HOOKS, PROVIDERS
from sideband.runtime.session import Session
from sideband.runtime.store import open_store
from sideband.runtime.system import SystemClock
from sideband.tools.function import ToolLike, read_tools, watcher_of

_Value = TypeVar("_Value")

CompactorChoice: TypeAlias = Compactor | TokenCompactor | Literal["keep_last", "summarize"] | Callable[..., Any] | None

MODEL_SECONDS: Final = 600.0
TOOL_SECONDS: Final = 120.0

SUMMARY_INSTRUCTION: Final = (
    "Summarise this conversation for the agent that goes on with it: facts, decisions, open tasks."
)

_LOG: Final = logging.getLogger("sideband")


# Options.


class RemindersOption(TypedDict, total=False):
    """Which providers run: `providers` lists ids to add, or to turn off with a leading `-`; `config` is by id."""

    enabled: bool
    providers: Sequence[str]
    config: Mapping[str, Mapping[str, Any]]


class AgentOptions(TypedDict, total=False):
    """The options of `agent_loop`, which describes them; `agent_run`, `spawn`, `Session.chat` and `Runner` share them."""

    model: Required[str | Model]
    system: str
    system_prompt_parts: Sequence[str]
    system_appendix: str
    system_suffix: str
    placement: PlacementWord | None
    base_url: str | None
    api_key: str | None
    tools: Sequence[ToolLike]
    reminders: bool | RemindersOption
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
    queue_after_cancel: Literal["hold", "deliver"]
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

_SECONDS: Final = Bound(0, whole=False, above=True)
_NUMBERS: Final[Mapping[str, Bound]] = MappingProxyType(
    {
        "max_turns": Bound(0, optional=True),
        "max_tokens": Bound(0, optional=True),
        "wake_seconds": Bound(0, whole=False, above=True, optional=True),
        "model_seconds": _SECONDS,
        "tool_seconds": _SECONDS,
        "hook_seconds": _SECONDS,
    }
)
_TEXTS: Final = ("system", "system_appendix", "system_suffix", "name")


class _Kind(NamedTuple):
    """The values that an option may have, and how an error describes them."""

    admits: Callable[[object], bool]
    wanted: str


def _is_callable(value: object) -> bool:
    return value is None or callable(value)


def _is_clock(value: object) -> bool:
    return value is None or all(callable(getattr(value, name, None)) for name in ("monotonic", "now_ms", "sleep"))


_KINDS: Final[Mapping[str, _Kind]] = MappingProxyType(
    {
        "daemon": _Kind(lambda value: isinstance(value, bool), "True or False"),
        "on_text": _Kind(_is_callable, "a function or None"),
        "on_restart": _Kind(_is_callable, "a function or None"),
        "facts": _Kind(lambda value: isinstance(value, FactBook | None), "a FactBook or None"),
        "anchor": _Kind(lambda value: isinstance(value, WorkspaceAnchor | None), "a WorkspaceAnchor or None"),
        "clock": _Kind(_is_clock, "an object with monotonic(), now_ms() and sleep(), or None"),
        "closing": _Kind(lambda value: isinstance(value, Mapping), "a mapping from statuses to Closing(...)"),
        "hooks": _Kind(lambda value: isinstance(value, Hooks), "Hooks(); register_session_hook and others fill it"),
        "providers": _Kind(
            lambda value: isinstance(value, Registry),
            "a Registry of providers; the option that turns providers on and off is reminders={'providers': [...]}",
        ),
    }
)

# The statuses with which a run makes its session idle. A run that has lost its lease writes nothing.
_CLOSES: Final = frozenset(LoopStatus) - {LoopStatus.LEASE_LOST}


def check_names(options: AgentOptions) -> None:
    """Raise TypeError for an unknown option or a missing model, as Python does for the arguments of a function."""
    for name in options:
        if name not in _NAMES:
            raise TypeError(f"a run has no option {name!r}; {suggestion(name, sorted(_NAMES), kind='options')}")
    if "model" not in options:
        raise TypeError("a run needs a model")


def check_session(session: object, *, field: str = "session") -> Session:
    """Raise `InvalidOption` if this is not a session, for example only the name of one."""
    if isinstance(session, Session):
        return session
    name = shown(session) if isinstance(session, str) else "..."
    raise InvalidOption(
        f"{field} must be a Session, not {shown(session)}; get it with `await store.session({name})`",
        field=field,
        value=session,
    )


def read_run_options(task: str | None, options: AgentOptions) -> RunOptions:
    _check_values(options)
    model = read_model(
        options["model"],
        placement=options.get("placement"),
        base_url=options.get("base_url"),
        api_key=options.get("api_key"),
    )
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
    tools = read_tools(options.get("tools", ()))
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
        watcher=_read_watcher(options, tools),
        providers=providers.enabled(seen_by_providers),
        provider_options=seen_by_providers,
        recall=facts_from,
        registered=_registered(hooks, providers),
        context_window=_read_window(model, read_options(seen_by_providers).config),
        hold_queue_after_cancel=after_cancel == "hold",
        closing=_read_closing(options.get("closing", {})),
        **unchanged,
    )


def _check_values(options: AgentOptions) -> None:
    for name, bound in _NUMBERS.items():
        if name in options:
            bound.check(name, options.get(name))
    for name in _TEXTS:
        if not isinstance(text := options.get(name, ""), str):
            raise InvalidOption(f"{name} must be a text, not {shown(text)}", field=name, value=text)
    parts: object = options.get("system_prompt_parts", ())
    if not isinstance(parts, Sequence) or isinstance(parts, str) or not all(isinstance(part, str) for part in parts):
        raise InvalidOption(
            f"system_prompt_parts must be a list of texts, not {shown(parts)}",
            field="system_prompt_parts",
            value=parts,
        )
    for name, (is_right, wanted) in _KINDS.items():
        if name in options and not is_right(value := options.get(name)):
            raise InvalidOption(f"{name} must be {wanted}, not {shown(value)}", field=name, value=value)


def _read_closing(closing: Mapping[str, Closing]) -> Mapping[str, Closing]:
    for status, entry in closing.items():
        if status not in _CLOSES or not isinstance(entry, Closing):
            raise InvalidOption(
                f"closing must map {', '.join(sorted(_CLOSES))} to Closing(...), not {shown(status)} to {shown(entry)}",
                field="closing",
                value=status,
            )
    return closing


def _read_window(model: Model, config: Mapping[str, Mapping[str, Any]]) -> int | None:
    """The context window that is configured for the provider of token pressure, else the model's own."""
    own: object = getattr(model, "context_window", None)
    if own is not None and (not isinstance(own, int) or isinstance(own, bool) or own < 1):
        raise InvalidOption(
            f"the context window of a model must be a number of tokens, not {shown(own)}",
            field="context_window",
            value=own,
        )
    configured = find_number(config.get(token_pressure.ID, {}), token_pressure.WINDOW)
    if configured is not None and configured < 1:
        raise InvalidOption(
            f"the context_window of {token_pressure.ID} must be a number of tokens, not {shown(configured)}",
            field=f"reminders.config.{token_pressure.ID}.{token_pressure.WINDOW}",
            value=configured,
        )
    return own if configured is None else int(configured)


def _read_watcher(options: AgentOptions, tools: Sequence[Tool]) -> Watcher | None:
    """The given watcher; without one, what watches the files that the tools have touched."""
    watcher = options.get("watcher")
    if watcher is None:
        return watcher_of(options.get("tools"), tools)
    return _with_method(watcher, "changes", "watcher")


def read_compactor(compactor: CompactorChoice, model: Model) -> RunCompactor | None:
    """The chosen compactor; a function or an object of the user becomes one."""
    match compactor:
        case None:
            return None
        case "keep_last":
            return KeepLast()
        case "summarize":
            return Summarize(lambda messages: _summary(messages, model))
        case TokenCompactor():
            return compactor
    method = getattr(compactor, "compact", compactor)
    if callable(method):
        return Custom(method)
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
    task: Content | None,
    *,
    model: str | Model,
    session: Session | None = None,
    system: str = "",
    system_prompt_parts: Sequence[str] = (),
    system_appendix: str = "",
    system_suffix: str = "",
    placement: PlacementWord | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
    tools: Sequence[ToolLike] = (),
    reminders: bool | RemindersOption = True,
    name: str = "agent",
    max_turns: int | None = 50,
    max_tokens: int | None = None,
    daemon: bool = False,
    wake_seconds: float | None = None,
    permission: Permission | None = None,
    compactor: CompactorChoice = None,
    watcher: Watcher | None = None,
    on_text: OnText | None = None,
    on_restart: OnRestart | None = None,
    facts: FactBook | None = None,
    anchor: WorkspaceAnchor | None = None,
    queue_after_cancel: Literal["hold", "deliver"] = "hold",
    closing: Mapping[str, Closing] = NOTHING,
    model_seconds: float = MODEL_SECONDS,
    tool_seconds: float = TOOL_SECONDS,
    hook_seconds: float = HOOK_SECONDS,
    clock: Clock | None = None,
    hooks: Hooks = HOOKS,
    providers: Registry = PROVIDERS,
) -> LoopResult:
    """Run an agent on a task to the end and return the result.

    Args:
        task: The user's prompt, as text or as blocks of content. None continues with what is queued.
        model: A name such as `anthropic:NAME`, or a model object.
        session: The conversation to continue. None begins one in memory, which ends with the process.
        system: The system text; it stands after `system_prompt_parts` and before `system_appendix`.
        system_prompt_parts: The first parts of the system text.
        system_appendix: Text after `system`.
        system_suffix: The end of the system text.
        placement: Where reminders stand in a request: `tail`, `native` or `seed`. None is the default of the model.
        base_url: The address of the model's service. None is the default of the service.
        api_key: The key for the service. None is the key in the environment.
        tools: Functions with type hints, tools, and sequences of tools such as `workspace_tools(".")`.
        reminders: False turns all providers off; `{"providers": ["-id"], "config": {id: {…}}}` turns some off and
            configures others.
        name: The name of the agent, for hooks and published events.
        max_turns: How many turns the run may take. None is no limit.
        max_tokens: How many tokens the run may use. None is no limit.
        daemon: An idle run waits for an interrupt or a message, instead of ending.
        wake_seconds: An idle daemon also wakes after this time. None: only on an interrupt or a message.
        permission: Asked before every tool call, except those for which its `needs` returns False.
        compactor: `"keep_last"`, `"summarize"`, a function of messages and reminders, or an object with `compact`.
        watcher: Notices files that something else has changed. Without one, workspace tools watch what they touched.
        on_text: Called with text as it arrives.
        on_restart: Called before every retry of a request.
        facts: The facts that the provider `project_facts` recalls. None: those of the session's store.
        anchor: The workspace that the provider `workspace_anchor` names.
        queue_after_cancel: Whether queued messages wait for the next prompt after a cancelled turn (`hold`), or start
            a turn (`deliver`).
        closing: Maps the status of a run to what the commit that makes the session idle does: it sets records of the
            session, and may end the session.
        model_seconds: The time limit of a request.
        tool_seconds: The time limit of a tool that has none of its own.
        hook_seconds: The time limit of a hook, a provider, a watcher or a listener.
        clock: The clock of the run; for tests.
        hooks: The hooks of the run, instead of those registered in this process.
        providers: The providers of the run, instead of those registered in this process.

    """
    async with await agent_run(
        task,
        session=session,
        model=model,
        system=system,
        system_prompt_parts=system_prompt_parts,
        system_appendix=system_appendix,
        system_suffix=system_suffix,
        placement=placement,
        base_url=base_url,
        api_key=api_key,
        tools=tools,
        reminders=reminders,
        name=name,
        max_turns=max_turns,
        max_tokens=max_tokens,
        daemon=daemon,
        wake_seconds=wake_seconds,
        permission=permission,
        compactor=compactor,
        watcher=watcher,
        on_text=on_text,
        on_restart=on_restart,
        facts=facts,
        anchor=anchor,
        queue_after_cancel=queue_after_cancel,
        closing=closing,
        model_seconds=model_seconds,
        tool_seconds=tool_seconds,
        hook_seconds=hook_seconds,
        clock=clock,
        hooks=hooks,
        providers=providers,
    ) as run:
        return await run.finish()


async def agent_run(
    task: Content | None, *, session: Session | None = None, **options: Unpack[AgentOptions]
) -> AgentRun:
    """Begin a run that you drive: `await run.finish()`, `await run.step()`, or `async for event in run`.

    Write `async with await agent_run(…) as run:` if you may leave the run before it is over: leaving the block ends it,
    and until a run has ended nothing else can run on its session. The options are those of `agent_loop`.
    """
    check_names(options)
    session = await open_store().session() if session is None else check_session(session)
    session.refuse_busy()
    if session.talk.state.closed:
        raise UnknownSession(f"session {shown(session.id)} is closed", field="session", value=session.id)
    content = None if task is None else read_content(as_blocks(task), session.talk.limits)
    read = read_run_options(None if content is None else text_of({"content": content}), options)
    # Acquiring the lease may take a while; no other run of this process may begin meanwhile.
    with session.calling():
        lease = await session.attend()
        try:
            run = AgentRun(session.talk, read, lease)
            if content is not None:
                run.prompt_id = await session.prompt(content)
        except BaseException:
            await lease.release()
            raise
        session.run = run
    return run


# Single calls.


async def llm_call(
    prompt: Content,
    *,
    model: str | Model,
    session: Session | None = None,
    system: str = "",
    system_prompt_parts: Sequence[str] = (),
    system_appendix: str = "",
    system_suffix: str = "",
    placement: PlacementWord | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
    on_text: OnText | None = None,
    model_seconds: float = MODEL_SECONDS,
    clock: Clock | None = None,
) -> Reply:
    """Call the model once and return its reply. `prompt` is a text or blocks.

    With a session the call is one turn of it. It makes the queued reminders live, except those with the mode
    `audit_only`, and shows everything that is live. Queued messages wait, and no provider is called. Without a session no
    reminder is shown and no turn is counted. A failure of `on_text` is logged; the reply is returned all the same.
    """
    _check_values(
        {
            "model": model,
            "system": system,
            "system_prompt_parts": system_prompt_parts,
            "system_appendix": system_appendix,
            "system_suffix": system_suffix,
            "on_text": on_text,
            "model_seconds": model_seconds,
            "clock": clock,
        }
    )
    if session is not None:
        check_session(session)
    blocks = read_content(as_blocks(prompt), DEFAULT_LIMITS if session is None else session.talk.limits)
    if not isinstance(prompt, str):
        prompt = blocks
    chosen = read_model(model, placement=placement, base_url=base_url, api_key=api_key)
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


async def _one_turn(session: Session, prompt: Content, runner: TurnRunner, scope: CancelScope) -> Reply:
    talk, status = session.talk, LoopStatus.FAILED
    await talk.recover()
    await talk.start_with(prompt)
    watching = asyncio.ensure_future(_end_when_idle(talk, scope))
    try:
        # User messages stay queued: the call answers its own prompt.
        await talk.drain(Seam.ITERATION_START, reminders_only=True)
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
    document: Message = {"role": "user", "content": as_document(messages)}
    view = RequestView(turn=1, system=SUMMARY_INSTRUCTION, messages=[document], tools=[], live=LiveIndex())
    sender = RequestSender(
        model, SystemClock(), CancelScope(), _log, seconds=MODEL_SECONDS, listener_seconds=HOOK_SECONDS
    )
    summary = (await sender.send(make_plan(model, view))).text
    if not summary.strip():
        # A conversation that is too long is better than one that has lost its beginning.
        raise ModelError("it returned an empty one")
    return summary


def _log(problem: Problem) -> None:
    _LOG.warning("%s: %s", problem.where, mask_text(problem.message))
