"""Two processes with a runner each on one session, while clients prompt, steer, revoke and cancel, and a process dies."""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

from sideband.core.errors import ReminderError, StoreClosed
from sideband.core.events import Idled, InjectAccepted, RequestCommitted, ResultRecorded, Started, TurnCommitted
from sideband.core.limits import DEFAULT_LIMITS
from sideband.core.messages import Reply, ToolCall
from sideband.core.seams import InjectMode
from sideband.core.state import Decision, SessionState
from sideband.loop.agent import AgentRun
from sideband.loop.conversation import Conversation
from sideband.loop.hooks import Hooks
from sideband.loop.run import LoopResult
from sideband.models.scripted import Line, ScriptedModel
from sideband.ports import AsOf, Lease, Logged, Model, ModelError, OnText
from sideband.providers.registry import Registry
from sideband.render.plan import Plan
from sideband.runtime.agents import llm_call
from sideband.runtime.producer import Intake
from sideband.runtime.runner import RETRY_SECONDS, Outcome, Runner
from sideband.runtime.session import Session
from sideband.testing.fakes import CountingIds
from tests.faults.schedules.actions import text_of
from tests.faults.schedules.actors import StepTool, steps
from tests.faults.schedules.records import Sent
from tests.faults.schedules.stores import GroupingStore, WitnessedStore

_Value = TypeVar("_Value")

NAME: Final = "s"
LEASE_SECONDS: Final = 30.0
# Longer than any schedule lasts in which every prompt finds a runner.
PATIENCE: Final = 20 * LEASE_SECONDS
CUES: Final = (InjectAccepted, Started, RequestCommitted, TurnCommitted, ResultRecorded, Idled)


class ProcessPlant(NamedTuple):
    """What is built in place of the real thing."""

    runner: type[Runner] = Runner
    talk: type[Conversation] = Conversation
    run: type[AgentRun] = AgentRun


NOTHING_PLANTED: Final = ProcessPlant()


class LoopClock:
    """The clock of the event loop, which a seed controls."""

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def now_ms(self) -> int:
        return int(self.monotonic() * 1_000)

    def sleep(self, seconds: float) -> Coroutine[Any, Any, None]:
        return asyncio.sleep(seconds)


class MortalJournal:
    """The journal as one process reaches it. After its death no call of it is made, and none returns."""

    def __init__(self, store: WitnessedStore) -> None:
        self._store = store
        # Set when the process has died; what waits for it is ended together with the schedule.
        self.grave: asyncio.Future[None] | None = None

    @property
    def dead(self) -> bool:
        return self.grave is not None

    async def alive(self) -> None:
        if self.grave is not None:
            await asyncio.shield(self.grave)

    async def open(self, session_id: str) -> object:
        return await self._store.open(session_id)

    async def close(self) -> None:
        """The store belongs to all processes."""

    def state(self, session_id: str) -> SessionState:
        return self._store.state(session_id)

    def nothing_waits(self, session_id: str) -> bool:
        return self._store.nothing_waits(session_id)

    async def commit(
        self, session_id: str, decide: Decision[_Value], *, lease: Lease | None = None, receipts: Sequence[str] = ()
    ) -> _Value:
        await self.alive()
        value = await self._store.commit(session_id, decide, lease=lease, receipts=receipts)
        await self.alive()
        return value

    async def read(self, session_id: str, look: Callable[[SessionState], _Value]) -> AsOf[_Value]:
        await self.alive()
        return await self._store.read(session_id, look)

    async def acquire(self, session_id: str, holder: str) -> Lease:
        await self.alive()
        return await self._store.acquire(session_id, holder)

    async def renew(self, lease: Lease) -> Lease:
        await self.alive()
        return await self._store.renew(lease)

    async def release(self, lease: Lease) -> None:
        await self.alive()
        await self._store.release(lease)

    def wake(self, session_id: str) -> asyncio.Event:
        return self._store.wake(session_id)

    def subscribe(
        self, *, session_id: str | None = None, kind_prefix: str = "", after: int = 0
    ) -> AsyncGenerator[Logged, None]:
        return self._store.subscribe(session_id=session_id, kind_prefix=kind_prefix, after=after)

    def history(
        self, *, session_id: str | None = None, kind_prefix: str = "", after: int = 0
    ) -> AsyncGenerator[Logged, None]:
        return self._store.history(session_id=session_id, kind_prefix=kind_prefix, after=after)


class MortalModel(ScriptedModel):
    """Answers each request after some steps, fails, or hangs until it is cancelled; it says nothing after its death."""

    def __init__(self, world: "TwoProcesses", journal: MortalJournal) -> None:
        super().__init__()
        self._world = world
        self._mortal = journal

    async def complete(self, plan: Plan, on_text: OnText | None = None) -> Reply:
        world = self._world
        world.sent.append(Sent(len(world.store.journal), plan.request[1]))
        self._script = [world.line()]
        self._next = 0
        reply = await super().complete(plan, on_text)
        await self._mortal.alive()
        return reply


class Process:
    """A process with a handle on the session, and a runner."""

    def __init__(self, world: "TwoProcesses") -> None:
        self.journal = MortalJournal(world.store)
        self.session = world.handle(self.journal)
        self.session.talk = world.plant.talk(self.journal, NAME, new_id=world.new_id)  # type: ignore[arg-type]  # it lists no sessions
        self.model: Model = MortalModel(world, self.journal)
        self.runner = world.plant.runner(
            self.session,
            model=self.model,
            tools=[world.tool],
            hooks=Hooks(),
            providers=Registry(),
            reminders=False,
            clock=LoopClock(),
            on_result=world.note_result,
            queue_after_cancel=world.after_cancel,
        )

    def die(self) -> None:
        """As with kill -9: nothing is released, and no commit follows."""
        self.journal.grave = asyncio.get_running_loop().create_future()


class Answer(NamedTuple):
    """A verb that a client used on a prompt, and the answer; `at` is how long the journal was then."""

    at: int
    verb: str
    message_id: str
    answer: object


class TwoProcesses:
    """Whatever is random about it comes from `rng`."""

    def __init__(self, rng: random.Random, plant: ProcessPlant = NOTHING_PLANTED) -> None:
        self.rng = rng
        self.plant = plant
        clock = LoopClock()
        kind = GroupingStore if rng.random() < 0.75 else WitnessedStore
        self.store = kind(lease_seconds=LEASE_SECONDS, now_ms=clock.now_ms)
        self.new_id = CountingIds()
        self.after_cancel: Literal["hold", "deliver"] = rng.choice(("hold", "hold", "deliver"))
        self.sent: list[Sent] = []
        self.tool = StepTool(self.store.journal)
        self.prompts: list[str] = []
        self.steers: list[str] = []
        self.told: list[Answer] = []
        self.results: list[tuple[str | None, LoopResult]] = []
        self.outcomes: dict[str, Outcome] = {}
        self.may_hang = False
        # Whether clients cancel or revoke anything.
        self.may_cancel = False
        self._labels = 0
        self._calls = 0
        self.processes: list[Process] = []

    def handle(self, journal: MortalJournal) -> Session:
        """A handle on the session, which holds leases of its own."""
        intake = Intake(DEFAULT_LIMITS, LoopClock())
        return Session(journal, NAME, new_id=self.new_id, limits=DEFAULT_LIMITS, intake=intake)  # type: ignore[arg-type]  # it lists no sessions

    def note_result(self, message_id: str | None, result: LoopResult) -> None:
        self.results.append((message_id, result))

    def label(self) -> str:
        self._labels += 1
        return f"L{self._labels}"

    def line(self) -> Line:
        """What the model says next."""
        rng = self.rng
        thinking, dice = rng.randrange(5), rng.random()
        hangs = self.may_hang and dice < 0.3

        async def think(_view: object) -> Reply:
            await steps(thinking)
            if hangs:
                await asyncio.get_running_loop().create_future()
            if dice > 0.95:
                raise ModelError("bad key", retryable=False)
            if dice > 0.7:
                self._calls += 1
                call_id = f"c{self._calls}"
                return Reply(
                    text="", tool_calls=(ToolCall(id=call_id, name=self.tool.name, args={"id": call_id, "steps": 2}),)
                )
            return Reply(text="That was it.")

        return think

    # What clients do.

    async def prompt(self, process: Process) -> None:
        message_id = await process.session.inject(text_of(self.label()), mode=InjectMode.QUEUE)
        self.prompts.append(message_id)
        if self.rng.random() < 0.3:
            await self.steer(process)

    async def steer(self, process: Process) -> None:
        try:
            self.steers.append(await process.session.inject(text_of(self.label()), mode=InjectMode.STEER))
        except ReminderError:
            return

    async def revoke(self, process: Process) -> None:
        if self.prompts:
            message_id = self.rng.choice(self.prompts)
            try:
                answer: object = (await process.session.revoke(message_id)).value
            except ReminderError as refusal:
                answer = refusal.reason
            self.told.append(Answer(len(self.store.journal), "revoke", message_id, answer))

    async def cancel(self, process: Process) -> None:
        await process.session.cancel()

    async def cancel_prompt(self, process: Process) -> None:
        if self.prompts:
            message_id = self.rng.choice(self.prompts[-2:])
            answer = await process.session.cancel(message_id)
            self.told.append(Answer(len(self.store.journal), "cancel", message_id, answer))

    async def call(self, process: Process) -> None:
        """Another handle of the process takes the session for a moment, without a runner that would look again."""
        try:
            await llm_call(
                "A word?", model=ScriptedModel(["Yes."]), session=self.handle(process.journal), clock=LoopClock()
            )
        except (ReminderError, ModelError):
            return


Deed: TypeAlias = Callable[[TwoProcesses, Process], Coroutine[Any, Any, None]]

CANCELLING: Final[frozenset[Deed]] = frozenset((TwoProcesses.revoke, TwoProcesses.cancel, TwoProcesses.cancel_prompt))


async def play(world: TwoProcesses, deeds: Sequence[Deed], *, dies: bool = False, runners: int = 2) -> None:
    """Let clients act at both processes, and wait until every prompt has an outcome."""
    rng = world.rng
    world.may_cancel = not CANCELLING.isdisjoint(deeds)
    world.processes = [Process(world), Process(world)]
    mortal, survivor = world.processes
    for process in world.processes[-runners:]:
        process.runner.start()
    async with asyncio.TaskGroup() as group:
        clients = [group.create_task(_client(world, rng.choice(world.processes), deeds)) for _ in range(3)]
        clients.append(group.create_task(_client(world, survivor, [TwoProcesses.prompt])))
        if dies:
            await steps(rng.randrange(60))
            mortal.die()
        await steps(200)
        world.store.end_of_play()
        pending = [client for client in clients if not client.done()]
        if pending:
            # A client of the dead process waits for ever.
            await asyncio.wait(pending, timeout=LEASE_SECONDS)
            for client in pending:
                client.cancel()
    if world.may_hang:
        world.may_hang = False
        await survivor.session.cancel()
    if world.store.state(NAME).queue_held:
        # The queue goes on after the next message.
        await world.prompt(survivor)
    async with asyncio.timeout(PATIENCE):
        for message_id in accepted_prompts(world):
            world.outcomes[message_id] = await survivor.runner.outcome(message_id)
    for process in world.processes:
        if process.journal.grave is not None:
            process.journal.grave.set_exception(StoreClosed())
        await process.runner.aclose()
    await asyncio.sleep(LEASE_SECONDS + RETRY_SECONDS)
    await world.handle(MortalJournal(world.store)).close()


async def prompts_from_both(world: TwoProcesses) -> None:
    """Clients of both processes prompt and steer, and one calls the model beside the runners."""
    await play(world, [TwoProcesses.prompt, TwoProcesses.prompt, TwoProcesses.steer, TwoProcesses.call])


async def prompts_without_a_runner(world: TwoProcesses) -> None:
    """Only one process has a runner; clients of the other one prompt while it runs, and when it has just become idle."""
    await play(world, [TwoProcesses.prompt, TwoProcesses.prompt, TwoProcesses.steer], runners=1)


async def cancelling_from_both(world: TwoProcesses) -> None:
    """Turns are cancelled and prompts are withdrawn, from the process that runs them and from the other one."""
    world.may_hang = True
    deeds = [
        TwoProcesses.prompt,
        TwoProcesses.steer,
        TwoProcesses.revoke,
        TwoProcesses.cancel,
        TwoProcesses.cancel_prompt,
    ]
    await play(world, deeds)


async def a_process_dies(world: TwoProcesses) -> None:
    """One process dies at any moment; its lease lapses, and the other one goes on."""
    deeds = [
        TwoProcesses.prompt,
        TwoProcesses.prompt,
        TwoProcesses.steer,
        TwoProcesses.cancel,
        TwoProcesses.cancel_prompt,
    ]
    await play(world, deeds, dies=True)


SCENARIOS: Final = MappingProxyType(
    {
        scenario.__name__: scenario
        for scenario in (prompts_from_both, prompts_without_a_runner, cancelling_from_both, a_process_dies)
    }
)


def accepted_prompts(world: TwoProcesses) -> list[str]:
    """Every prompt in the journal, also one whose sender died before it got the answer."""
    events = (logged.event for logged in world.store.journal)
    return [
        event.item.id
        for event in events
        if isinstance(event, InjectAccepted)
        and event.item.mode is InjectMode.QUEUE
        and event.item.provenance.via is None
    ]


async def _client(world: TwoProcesses, process: Process, deeds: Sequence[Deed]) -> None:
    rng = world.rng
    for _ in range(rng.randint(1, 3)):
        if rng.random() < 0.5:
            await world.store.cue(rng.choice(CUES))
            await steps(rng.randrange(6))
        else:
            await steps(rng.randrange(40))
        await rng.choice(deeds)(world, process)
