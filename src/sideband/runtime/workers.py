"""Sub-agents: spawned with what their parent may pass on."""

from typing import TYPE_CHECKING, Any

from sideband.loop.agent import AgentRun
from sideband.loop.hooks import Hooks
from sideband.loop.subagent import Worker, envelope, receive
from sideband.loop.telling import Surroundings, Teller
from sideband.providers.options import read_options
from sideband.providers.registry import Registry
from sideband.runtime.agents import agent_run
from sideband.runtime.registries import HOOKS, PROVIDERS
from sideband.runtime.session import Session
from sideband.runtime.store import Store

if TYPE_CHECKING:
    from sideband.loop.problems import Problem


async def spawn(
    parent: Session,
    store: Store,
    task: str,
    *,
    name: str = "worker",
    reminders: bool | dict[str, Any] = True,
    hooks: Hooks = HOOKS,
    providers: Registry = PROVIDERS,
    **options: Any,  # noqa: ANN401 - those of agent_run
) -> Worker:
    """Make a sub-agent of `parent` that has what propagates to it; `await worker.work()` runs it.

    The options are those of `agent_run`, for the worker.
    """
    child = await store.session()
    await receive(child.talk, envelope(parent.talk, task))
    problems: list[Problem] = []
    loop_options = {"reminders": reminders}
    config = read_options(loop_options).config
    around = Surroundings(options=loop_options, config_for=lambda id: config.get(id, {}), task=task)

    async def begin(prompt: str | None) -> AgentRun:
        return await agent_run(
            prompt, session=child, name=name, reminders=reminders, hooks=hooks, providers=providers, **options
        )

    return Worker(
        name,
        task,
        child.talk,
        parent_teller=Teller(parent.talk, hooks, (), around, problems.append),
        child_teller=Teller(child.talk, Hooks(), providers.enabled(loop_options), around, problems.append),
        begin=begin,
        problems=problems,
    )
