"""Two stores on one file, each with a runner, while clients of both prompt, steer, revoke and cancel."""

import asyncio
import random
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Final

import pytest

from sideband.core.errors import ReminderError
from sideband.core.events import InjectAccepted
from sideband.core.messages import Reply
from sideband.core.seams import InjectMode
from sideband.loop.hooks import Hooks
from sideband.models.scripted import ScriptedModel
from sideband.ports import OnText
from sideband.providers.registry import Registry
from sideband.render.plan import Plan
from sideband.runtime.runner import Runner
from sideband.runtime.session import Session
from sideband.runtime.store import open_store
from tests.faults.replay import Tried
from tests.faults.schedules import process_laws
from tests.faults.schedules.processes import TwoProcesses
from tests.faults.schedules.records import Sent

ROUNDS: Final = 12
# Far longer than a round takes: a prompt without a runner must not keep the tests waiting.
PATIENCE: Final = 60.0

# Those that need no more than the journal, the requests and the outcomes.
LAWS: Final = (
    process_laws.a_prompt_is_started_at_most_once,
    process_laws.every_prompt_is_answered_or_taken_back,
    process_laws.no_request_without_a_prompt,
    process_laws.a_cancel_ends_a_turn,
    process_laws.a_cancelled_turn_is_over,
    process_laws.every_message_ends_once,
    process_laws.a_session_is_idle_in_the_end,
)


class Slow(ScriptedModel):
    """Answers after a moment; some replies come only after a cancel."""

    def __init__(self, world: TwoProcesses) -> None:
        super().__init__()
        self._world = world

    async def complete(self, plan: Plan, on_text: OnText | None = None) -> Reply:
        world = self._world
        world.sent.append(Sent(0, plan.request[1]))
        if world.may_hang and world.rng.random() < 0.2:
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(world.rng.random() / 200)
        return await super().complete(plan, on_text)


async def client(world: TwoProcesses, session: Session) -> None:
    rng = world.rng
    for _ in range(8):
        await asyncio.sleep(rng.random() / 100)
        try:
            match rng.choice(("prompt", "prompt", "steer", "revoke", "cancel", "cancel one")):
                case "prompt":
                    world.prompts.append(await session.prompt(world.label()))
                case "steer":
                    await session.inject(world.label(), mode=InjectMode.STEER)
                case "revoke" if world.prompts:
                    await session.revoke(rng.choice(world.prompts))
                case "cancel":
                    await session.cancel()
                case "cancel one" if world.prompts:
                    await session.cancel(rng.choice(world.prompts[-2:]))
                case _:
                    pass
        except ReminderError:
            continue


async def played(url: str, seed: int) -> TwoProcesses:
    world = TwoProcesses(random.Random(seed))  # noqa: S311 - a schedule, no secret
    world.may_hang = world.may_cancel = True
    async with AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(open_store(url)) for _ in range(2)]
        sessions = [await store.session("s") for store in stores]
        runners = [
            await stack.enter_async_context(
                Runner(
                    session,
                    model=Slow(world),
                    reminders=False,
                    hooks=Hooks(),
                    providers=Registry(),
                    on_result=world.note_result,
                )
            )
            for session in sessions
        ]
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*(client(world, session) for session in (*sessions, *sessions)))
            world.may_hang = False
            await sessions[0].cancel()
            world.prompts.append(await sessions[1].prompt("the last one"))
            for place, message_id in enumerate(world.prompts):
                world.outcomes[message_id] = await runners[place % 2].outcome(message_id)
        for runner in runners:
            await runner.aclose()
        await sessions[0].close()
        async with aclosing(stores[1].journal.history(session_id="s")) as logged:
            world.store.journal.extend([entry async for entry in logged])
    return world


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_two_runners_on_one_file_break_no_law(tmp_path: Path, seed: int, tried: Tried) -> None:
    world = asyncio.run(played(f"sqlite:///{tmp_path}/store.db", seed))
    accepted = [entry.event for entry in world.store.journal if isinstance(entry.event, InjectAccepted)]
    assert len(accepted) >= len(world.prompts)
    assert not [f"{law.__name__}: {found}" for law in LAWS for found in law(world)]
    tried("runners, SQLite", 1)
