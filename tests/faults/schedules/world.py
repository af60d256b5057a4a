"""One schedule while it is played: a session, its actors, and the record of what they saw."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple, TypeAlias

from sideband.core.errors import ReminderError
from sideband.core.limits import DEFAULT_LIMITS
from sideband.core.messages import ToolCall
from sideband.core.trust import Provenance, Trust
from sideband.loop.agent import AgentRun
from sideband.loop.conversation import Conversation
from sideband.loop.dispatch import Dispatcher
from sideband.loop.hooks import Hooks
from sideband.runtime.agents import agent_run
from sideband.runtime.producer import Intake
from sideband.runtime.session import Session
from sideband.testing.fakes import CountingIds, FakeClock
from tests.decisions import saying
from tests.faults.schedules.actors import StepTool, Witness, steps
from tests.faults.schedules.bridge import Bridge
from tests.faults.schedules.records import RunRecord, Ticket, Told, Watched
from tests.faults.schedules.stores import GroupingStore, WitnessedStore

Actor: TypeAlias = Coroutine[Any, Any, None]
Speaker: TypeAlias = Session | Bridge

EDITOR: Final = Provenance(trust=Trust.CONTROLLER, principal="editor", via="acp")
TERMINAL: Final = Provenance(trust=Trust.CONTROLLER, principal="terminal", via="acp")
PEER: Final = Provenance(trust=Trust.PEER, principal="planner", via="a2a")

# Most stores let others in between; the one in memory does not.
GROUPED: Final = 0.75
MAX_TURNS: Final = 50


class Plant(NamedTuple):
    """What is built in place of the real thing; by default it is the real thing (a store of None: by the seed)."""

    store: type[WitnessedStore] | None = None
    session: type[Session] = Session
    talk: type[Conversation] = Conversation
    dispatcher: type[Dispatcher] = Dispatcher


NOTHING_PLANTED: Final = Plant()


class World:
    """Whatever is random about it comes from `rng`, in the order of its events."""

    def __init__(self, rng: random.Random, plant: Plant = NOTHING_PLANTED) -> None:
        self.rng = rng
        by_seed = GroupingStore if rng.random() < GROUPED else WitnessedStore
        self.store = (plant.store or by_seed)()
        new_id = CountingIds()
        intake = Intake(DEFAULT_LIMITS, FakeClock())
        self.session = plant.session(self.store, "s", new_id=new_id, limits=DEFAULT_LIMITS, intake=intake)
        self.session.talk = plant.talk(self.store, "s", new_id=new_id, limits=DEFAULT_LIMITS)
        self.model = Witness(self.store.journal)
        self.tool = StepTool(self.store.journal)
        self.hooks = Hooks()
        self.clock = FakeClock()
        self.told: list[Told] = []
        self.tickets: list[Ticket] = []
        self.runs: list[RunRecord] = []
        self.watched: list[Watched] = []
        self.run: AgentRun | None = None
        self._counted: dict[str, int] = {}

    # Names.

    @property
    def now(self) -> int:
        return len(self.store.journal)

    def count(self, what: str) -> int:
        """1 for the first of its kind, 2 for the second."""
        self._counted[what] = self._counted.get(what, 0) + 1
        return self._counted[what]

    def new_label(self) -> str:
        """A word that stands in the text of one item and nowhere else."""
        return f"L{self.count('label')}"

    def new_call(self, **args: Any) -> ToolCall:  # noqa: ANN401 - what the tool is told
        """A call of the tool under an id of its own."""
        call_id = f"c{self.count('call')}"
        return ToolCall(id=call_id, name=self.tool.name, args={"id": call_id, "steps": 0, **args})

    def speaker(self, who: Provenance | None = None) -> Speaker:
        """The session itself, or a client or peer of it."""
        return self.session if who is None else Bridge(self.session, who)

    def note(self, verb: str, label: str, answer: str, *, item_id: str = "", version: int = 1) -> None:
        self.told.append(Told(self.now, verb, label, answer, item_id, version))

    # Playing.

    async def play(self, prompt: str, *actors: Actor, drive: "Drive | None" = None, **options: Any) -> None:  # noqa: ANN401 - those of agent_run
        """Run the agent while others act; what they do may go on after it."""
        async with asyncio.TaskGroup() as group:
            for actor in actors:
                group.create_task(actor)
            await self.start(prompt, drive, **options)
            self.store.end_of_play()

    async def start(self, prompt: str | None, drive: "Drive | None" = None, **options: Any) -> None:  # noqa: ANN401 - those of agent_run
        """Run the agent, to the end unless its driver gives up; a run that is refused is noted."""
        began = self.now
        try:
            run = self.run = await agent_run(
                prompt,
                session=self.session,
                model=self.model,
                tools=[self.tool],
                reminders=False,
                hooks=self.hooks,
                clock=self.clock,
                **{"max_turns": MAX_TURNS, **options},
            )
        except ReminderError as refusal:
            self.note("start", "", refusal.reason)
            return
        ended = await (drive or finish)(self, run)
        # A cancelled task did not wait for its last commits; they are queued before this one.
        await self.session.talk.commit(saying())
        most = options.get("max_turns", MAX_TURNS)
        left_open = () if self.session.busy else self._left_open()
        self.runs.append(RunRecord(began, ended, run.result, most, left_open))

    def _left_open(self) -> tuple[str, ...]:
        state = self.session.talk.state
        still = {
            "the session running": state.running,
            "a request open": state.request is not None,
            "calls without result": bool(state.open_calls),
            "a permission open": state.permission_open,
        }
        return tuple(what for what, is_so in still.items() if is_so)

    async def end(self) -> None:
        """One more run without other actors, which shows what is left; then the session is closed."""
        self.hooks.clear()
        self.model.follow(())
        if not self.session.talk.state.closed:
            await self.start("anything else?")
            await self.session.close()


Drive: TypeAlias = Callable[[World, AgentRun], Coroutine[Any, Any, int]]


# Ways to drive a run; each tells how long the journal was when it ended.


async def finish(world: World, run: AgentRun) -> int:
    """Stay to the end."""
    await run.finish()
    return world.now


def give_up_after(events: int) -> Drive:
    """Drive a run for so many events and leave it."""

    async def drive(world: World, run: AgentRun) -> int:
        for _ in range(events):
            await run.step()
            if run.result is not None:
                return world.now
        await run.aclose()
        return world.now

    return drive


def be_cancelled_after(count: int) -> Drive:
    """Have a task drive the run, and cancel that task after so many steps."""

    async def drive(world: World, run: AgentRun) -> int:
        task = asyncio.ensure_future(finish(world, run))
        await steps(count)
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            return task.result()
        await run.aclose()
        return world.now

    return drive
