"""Running an agent: the loop and one call, with this process's clock, hooks and providers."""

import logging
from collections.abc import Sequence
from typing import Final, Unpack

from sideband.core.errors import UnknownSession, shown
from sideband.core.live import LiveIndex
from sideband.core.masking import mask_text
from sideband.loop.agent import AgentRun
from sideband.loop.asking import Asker, made_plan
from sideband.loop.compaction import KeepLast, Summarize
from sideband.loop.foreign import name_of
from sideband.loop.hooks import HOOK_SECONDS, Hooks
from sideband.loop.problems import Problem
from sideband.loop.run import LoopParts, LoopResult, LoopSettings
from sideband.loop.scope import Ended, Scope
from sideband.loop.sending import Sender
from sideband.loop.telling import Surroundings
from sideband.ports import Clock, Compactor, Message, Model, ModelError, OnText, Reply
from sideband.providers.options import read_options
from sideband.providers.registry import Registry
from sideband.render.view import RequestView, system_text
from sideband.runtime.clock import SystemClock
from sideband.runtime.models import read_model
from sideband.runtime.options import (
    AgentOptions,
    CompactorChoice,
    read_custom,
    read_permission,
    read_settings,
    read_tools,
    read_watcher,
    read_window,
    refuse_unknown,
)
from sideband.runtime.registries import HOOKS, PROVIDERS
from sideband.runtime.session import Session
from sideband.runtime.store import open_store

SUMMARY_INSTRUCTION: Final = (
    "Summarise this conversation for the agent that goes on with it: facts, decisions, open tasks."
)
MODEL_SECONDS: Final = 600.0

_LOG: Final = logging.getLogger("sideband")


async def agent_loop(
    task: str | None, *, session: Session | None = None, **options: Unpack[AgentOptions]
) -> LoopResult:
    """Run an agent on a task until it is done, and return what it came to. The options are those of `AgentOptions`."""
    async with await agent_run(task, session=session, **options) as run:
        return await run.finish()


async def agent_run(task: str | None, *, session: Session | None = None, **options: Unpack[AgentOptions]) -> AgentRun:
    """Begin a run that you drive: `await run.finish()`, `await run.step()`, or `async for event in run`.

    Say `async with await agent_run(…) as run:` wherever you may leave it before it is over: it ends with the block, and
    until it has ended nothing else runs on its session. `task` is the user's prompt (None: go on with what waits). The
    options are those of `AgentOptions`.
    """
    refuse_unknown(options)
    session = session or await open_store().session()
    session.refuse_busy()
    if session.talk.state.closed:
        raise UnknownSession(f"session {shown(session.id)} is closed", field="session", value=session.id)
    parts, settings = _read(task, session, options)
    # Taking the session over may take a while: nobody else begins meanwhile.
    with session.calling():
        tenure = await session.attend()
        try:
            run = AgentRun(parts._replace(tenure=tenure), settings)
            if task is not None:
                await session.prompt(task)
        except BaseException:
            # What was refused has changed nothing.
            await tenure.release()
            raise
        session.run = run
    return run


def _read(task: str | None, session: Session, options: AgentOptions) -> tuple[LoopParts, LoopSettings]:
    model = read_model(options["model"])
    told = {
        "reminders": options.get("reminders", True),
        "model": options["model"] if isinstance(options["model"], str) else type(model).__name__,
    }
    config = read_options(told).config
    window = read_window(model, config)
    tools = read_tools(options.get("tools", ()))
    hooks, providers = options.get("hooks", HOOKS), options.get("providers", PROVIDERS)
    parts = LoopParts(
        talk=session.talk,
        model=model,
        clock=options.get("clock") or SystemClock(),
        hooks=hooks,
        providers=providers.enabled(told),
        around=Surroundings(
            options=told,
            config_for=lambda provider_id: config.get(provider_id, {}),
            task=task or "",
            context_window=model.context_window,
            facts=options.get("facts"),
            anchor=options.get("anchor"),
        ),
        tools=tools,
        permission=read_permission(options.get("permission")),
        compactor=read_compactor(options.get("compactor"), model),
        watcher=read_watcher(options.get("watcher"), tools),
        on_text=options.get("on_text"),
        on_restart=options.get("on_restart"),
        registered=_registered(hooks, providers),
    )
    return parts, read_settings(task, options, context_window=window)


def _registered(hooks: Hooks, providers: Registry) -> tuple[str, ...]:
    """What a later process has to register too, if it is to go on in the same way."""
    named = {f"hook {name_of(function)}" for function in hooks.functions()}
    return (*sorted(f"provider {provider_id}" for provider_id in providers.registered), *sorted(named))


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
    """One model call. With a session it is one turn of it, which shows what is live; it drains no seam.

    Without a session nothing is rendered and nothing counted. What `on_text` does wrong is logged and costs no reply.
    """
    chosen = read_model(model)
    text = system_text(parts=system_prompt_parts, system=system, appendix=system_appendix, suffix=system_suffix)
    scope = Scope()
    sender = Sender(
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
        return await sender.send(made_plan(chosen, view))
    with session.calling():
        tenure = await session.attend()
        try:
            tenure.keep(lambda _lost: scope.end())
            asker = Asker(session.talk, chosen, sender, _log, system=text, tenure=tenure)
            return await _one_turn(session, prompt, asker)
        finally:
            await tenure.release()


async def _one_turn(session: Session, prompt: str, asker: Asker) -> Reply:
    talk = session.talk
    await talk.recover(may_repeat=lambda _name: False)
    await talk.start_with(prompt)
    try:
        return await asker.turn()
    except Ended:
        raise ModelError("the turn was ended by somebody else") from None
    finally:
        await talk.finish_call()


def _log(problem: Problem) -> None:
    _LOG.warning("%s: %s", problem.where, mask_text(problem.message))


def read_compactor(compactor: CompactorChoice, model: Model) -> Compactor | None:
    """The compactor that was chosen; a function becomes one."""
    match compactor:
        case None:
            return None
        case "keep_last":
            return KeepLast()
        case "summarize":
            return Summarize(lambda messages: _summary(messages, model))
        case _:
            return read_custom(compactor)


async def _summary(messages: Sequence[Message], model: Model) -> str:
    # The runtime's own call: no session, so nothing is rendered or counted.
    view = RequestView(turn=1, system=SUMMARY_INSTRUCTION, messages=messages, tools=[], live=LiveIndex())
    sender = Sender(model, SystemClock(), Scope(), _log, seconds=MODEL_SECONDS, listener_seconds=HOOK_SECONDS)
    summary = (await sender.send(made_plan(model, view))).text
    if not summary.strip():
        # Better a conversation that is too long than one that begins with nothing.
        raise ModelError("the model gave no summary")
    return summary
