"""Running agents: `agent_loop`, `agent_run` and `llm_call`."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Literal, Unpack

from sideband.core.errors import UnknownSession, shown
from sideband.core.events import Closing
from sideband.core.limits import DEFAULT_LIMITS
from sideband.core.live import LiveIndex
from sideband.core.messages import Content, Message, Reply, as_blocks, read_content, text_of
from sideband.core.seams import Seam
from sideband.loop.agent import AgentRun
from sideband.loop.cancel import CancelScope, Ended
from sideband.loop.conversation import Conversation
from sideband.loop.hooks import HOOK_SECONDS, Hooks
from sideband.loop.run import LoopResult, LoopStatus
from sideband.loop.turn import OnRestart, RequestSender, TurnRunner, make_plan
from sideband.ports import Clock, Model, ModelError, OnText, Permission, Watcher
from sideband.providers.context import WorkspaceAnchor
from sideband.providers.registry import Registry
from sideband.providers.settings import NOTHING
from sideband.recall.facts import FactBook
from sideband.render.profiles import PlacementWord
from sideband.render.view import RequestView, system_text
from sideband.runtime.models import read_model
from sideband.runtime.options import (
    MODEL_SECONDS,
    TOOL_SECONDS,
    AgentOptions,
    CompactorChoice,
    RemindersOption,
    check_names,
    check_session,
    check_values,
    log_problem,
    read_run_options,
)
from sideband.runtime.registries import HOOKS, PROVIDERS
from sideband.runtime.session import Session
from sideband.runtime.store import open_store
from sideband.runtime.system import SystemClock
from sideband.tools.function import ToolLike

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
    check_values({"model": model, "on_text": on_text, "model_seconds": model_seconds, "clock": clock})
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
        log_problem,
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
            runner = TurnRunner(session.talk, chosen, sender, log_problem, system=text, lease=lease)
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
