"""Agents whose sessions are in any of the stores, some of them in processes that are killed."""

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from sideband.core.limits import DEFAULT_LIMITS, Limits
from sideband.loop.hooks import Hooks
from sideband.loop.run import LoopResult
from sideband.models.scripted import Line
from sideband.ports import Journal
from sideband.providers.registry import Registry
from sideband.runtime.agents import agent_loop
from sideband.runtime.session import Session
from sideband.runtime.system import new_id
from sideband.testing import FakeClock, ScriptedModel
from tests.programs import ROOT
from tests.unit.store.twins import PostgresTwin, SqliteTwin, Twin

TASK: Final = "Mend the build."


def address(twin: Twin) -> str:
    """The address of a store for another process."""
    assert isinstance(twin, SqliteTwin | PostgresTwin)
    return twin.url if isinstance(twin, PostgresTwin) else f"sqlite:///{twin.path}"


async def a_session(
    store: Journal, name: str = "s", *, limits: Limits = DEFAULT_LIMITS, new_id: Callable[[], str] = new_id
) -> Session:
    await store.open(name)
    return Session(store, name, new_id=new_id, limits=limits)


async def run(
    session: Session,
    *script: Line,
    task: str | None = TASK,
    **options: Any,  # noqa: ANN401 - those of agent_loop
) -> tuple[LoopResult, ScriptedModel]:
    """Run to the end; return the result and the model. No hooks or providers are registered, and the clock is a fake."""
    model = options.pop("model", None) or ScriptedModel(script)
    defaults: dict[str, Any] = {
        "hooks": Hooks(),
        "providers": Registry(),
        "clock": FakeClock(),
        "reminders": False,
    }
    result = await agent_loop(task, session=session, model=model, **(defaults | options))
    return result, model


def is_shown(model: ScriptedModel, text: str) -> bool:
    """Whether any of its requests contains this text."""
    return any(text in request.text for request in model.requests)


class Victim:
    """A process that reports what it has done, and is killed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        self._process = process
        self._out = process.stdout

    async def line(self) -> str:
        return (await self._out.readline()).decode().strip()

    async def kill(self) -> list[str]:
        """Kill it with SIGKILL; return the lines it had written and no one had read."""
        self._process.kill()
        rest = (await self._out.read()).decode().splitlines()
        await self._process.wait()
        return rest


@asynccontextmanager
async def a_victim(twin: Twin, role: str) -> AsyncIterator[Victim]:
    """It plays a role of `tests.stored_victim`. Leases of one that was killed have lapsed."""
    arguments = ("-m", "tests.stored_victim", address(twin), role)
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, cwd=ROOT, stdout=PIPE)
    victim = Victim(process)
    try:
        yield victim
    finally:
        if process.returncode is None:
            await victim.kill()
        if isinstance(twin, PostgresTwin):
            twin.execute("UPDATE sideband.session SET expires_at = '-infinity'")
