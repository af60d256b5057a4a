"""Running an agent: the loop and one call, with this process's clock, hooks and providers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from sideband.core.errors import InvalidOption, UnknownSession, shown
from sideband.core.live import LiveIndex
from sideband.loop.agent import AgentRun
from sideband.loop.asking import Asker, OnRestart
from sideband.loop.budget import Budget
from sideband.loop.compaction import Custom, KeepLast, Summarize
from sideband.loop.hooks import HOOK_SECONDS, Hooks
from sideband.loop.problems import Problem
from sideband.loop.run import LoopParts, LoopResult, LoopSettings
from sideband.loop.scope import Scope
from sideband.loop.telling import Surroundings
from sideband.models.scripted import ScriptedModel
from sideband.ports import Clock, Compactor, Message, Model, ModelError, OnText, Permission, Reply, Tool, Watcher
from sideband.providers import pressure, token_pressure
from sideband.providers.context import WorkspaceAnchor
from sideband.providers.options import read_options
from sideband.providers.registry import Registry
from sideband.providers.settings import find_number
from sideband.recall.facts import FactBook
from sideband.render.view import RequestView, system_text
from sideband.runtime.clock import SystemClock
from sideband.runtime.registries import HOOKS, PROVIDERS
from sideband.runtime.session import Session
from sideband.runtime.store import open_store

SUMMARY_INSTRUCTION: Final = (
    "Summarise this conversation for the agent that goes on with it: facts, decisions, open tasks."
)

CompactorChoice: TypeAlias = Compactor | str | Callable[..., Any] | None


async def agent_loop(task: str | None, *, session: Session | None = None, **options: Any) -> LoopResult:  # noqa: ANN401 - those of agent_run
    """Run an agent on a task until it is done, and return what it came to. The options are those of `agent_run`."""
    return await (await agent_run(task, session=session, **options)).finish()


async def agent_run(
    task: str | None,
    *,
    session: Session | None = None,
    model: str | Model,
    system: str = "",
    system_prompt_parts: Sequence[str] = (),
    system_appendix: str = "",
    system_suffix: str = "",
    tools: Sequence[Tool] = (),
    reminders: bool | Mapping[str, Any] = True,
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
    queue_after_cancel: str = "hold",
    model_seconds: float = 600.0,
    tool_seconds: float = 120.0,
    hook_seconds: float = HOOK_SECONDS,
    clock: Clock | None = None,
    hooks: Hooks = HOOKS,
    providers: Registry = PROVIDERS,
) -> AgentRun:
    """Begin a run that you drive: `await run.finish()`, `await run.step()`, or `async for event in run`.

    `task` is the user's prompt (None: go on with what waits). `reminders=False` turns all providers off;
    `{"providers": ["-id"], "config": {id: {…}}}` turns some off and configures others. `compactor` is `"keep_last"`,
    `"summarize"`, a function of messages and reminders, or an object with `compact`. `daemon=True` keeps the run
    going when it is idle, until an interrupt or a message wakes it. `queue_after_cancel` is `"hold"` or `"deliver"`.
    The system text is `system_prompt_parts`, `system`, `system_appendix` and `system_suffix`, in this order.
    `on_text` gets the text as it arrives, `on_restart` is told when a broken reply is asked for again from the start.
    """
    session = session or await open_store().session()
    session.refuse_busy()
    if session.talk.state.closed:
        raise UnknownSession(f"session {shown(session.id)} is closed", field="session", value=session.id)
    if queue_after_cancel not in ("hold", "deliver"):
        raise InvalidOption(
            f"queue_after_cancel must be 'hold' or 'deliver', not {shown(queue_after_cancel)}",
            field="queue_after_cancel",
            value=queue_after_cancel,
        )
    chosen = read_model(model)
    options = {"reminders": reminders, "model": model if isinstance(model, str) else type(model).__name__}
    config = read_options(options).config
    enabled = providers.enabled(options)
    parts = LoopParts(
        talk=session.talk,
        model=chosen,
        clock=clock or SystemClock(),
        hooks=hooks,
        providers=enabled,
        around=Surroundings(
            options=options,
            config_for=lambda provider_id: config.get(provider_id, {}),
            task=task or "",
            context_window=chosen.context_window,
            facts=facts,
            anchor=anchor,
        ),
        tools=tools,
        permission=permission,
        compactor=read_compactor(compactor, chosen),
        watcher=watcher if watcher is not None else _watcher_in(tools),
        on_text=on_text,
        on_restart=on_restart,
    )
    settings = LoopSettings(
        name=name,
        system=system_text(parts=system_prompt_parts, system=system, appendix=system_appendix, suffix=system_suffix),
        task=task or "",
        budget=Budget(max_turns=max_turns, max_tokens=max_tokens),
        context_window=_context_window(config, chosen),
        daemon=daemon,
        wake_seconds=wake_seconds,
        model_seconds=model_seconds,
        tool_seconds=tool_seconds,
        hook_seconds=hook_seconds,
        hold_queue_after_cancel=queue_after_cancel == "hold",
    )
    before, session.run = session.run, (run := AgentRun(parts, settings))
    try:
        if task is not None:
            await session.prompt(task)
    except BaseException:
        # What was refused has changed nothing.
        session.run = before
        raise
    return run


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
    model_seconds: float = 600.0,
    clock: Clock | None = None,
) -> Reply:
    """One model call. With a session it is one turn of it, which shows what is live; it drains no seam.

    Without a session nothing is rendered and nothing counted.
    """
    chosen = read_model(model)
    text = system_text(parts=system_prompt_parts, system=system, appendix=system_appendix, suffix=system_suffix)
    if session is None:
        message: Message = {"role": "user", "content": prompt}
        view = RequestView(
            turn=1, system=text.before, system_after=text.after, messages=[message], tools=[], live=LiveIndex()
        )
        return await chosen.complete(chosen.plan(view), on_text)
    talk = session.talk
    asker = Asker(talk, chosen, clock or SystemClock(), Scope(), _refuse, seconds=model_seconds, on_text=on_text)
    with session.calling():
        await talk.recover(may_repeat=lambda _name: False)
        await talk.start_with(prompt)
        try:
            return await asker.turn(text, [])
        finally:
            await talk.finish_call()


def _refuse(problem: Problem) -> None:
    raise ModelError(f"{problem.where} failed: {problem.message}")


def read_model(model: str | Model) -> Model:
    """A model, or the one a string names: `scripted:TEXT` answers TEXT to everything."""
    if not isinstance(model, str):
        return model
    transport, _, name = model.partition(":")
    if transport == "scripted":
        return ScriptedModel(the_end=name or "Done.")
    raise InvalidOption(
        f"no model is reached by {shown(model)}; pass a model object, or 'scripted:TEXT'", field="model", value=model
    )


def read_compactor(compactor: CompactorChoice, model: Model) -> Compactor | None:
    """The compactor that was chosen; a function becomes one."""
    match compactor:
        case None:
            return None
        case "keep_last":
            return KeepLast()
        case "summarize":
            return Summarize(lambda messages: _summary(messages, model))
        case str():
            raise InvalidOption(
                f"compactor must be 'summarize', 'keep_last', a function or an object, not {shown(compactor)}",
                field="compactor",
                value=compactor,
            )
        case _:
            return Custom(compactor) if not hasattr(compactor, "compact") else compactor


async def _summary(messages: Sequence[Message], model: Model) -> str:
    # The runtime's own call: no session, so nothing is rendered or counted.
    view = RequestView(turn=1, system=SUMMARY_INSTRUCTION, messages=messages, tools=[], live=LiveIndex())
    summary = (await model.complete(model.plan(view))).text
    if not summary.strip():
        # Better a conversation that is too long than one that begins with nothing.
        raise ModelError("the model gave no summary")
    return summary


def _context_window(config: Mapping[str, Mapping[str, Any]], model: Model) -> int | None:
    """What was configured, for whoever knows better than the model; else what the model says."""
    configured = find_number(config.get(token_pressure.ID, {}), pressure.WINDOW)
    return model.context_window if configured is None else int(configured)


def _watcher_in(tools: object) -> Watcher | None:
    return tools if isinstance(tools, Watcher) else None
