"""A session on lease: for as long as a run takes, renewed in time, and nothing is written once it is lost."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest

from sideband.core.errors import BodyTooLarge, LeaseLost, NoRunningTurn, SessionBusy, StoreClosed, StoreUnavailable
from sideband.core.events import Event, RequestCommitted, Started
from sideband.core.limits import Limits
from sideband.core.messages import Reply
from sideband.core.state import Decision
from sideband.loop.guard import Problem
from sideband.loop.receipts import with_audit_log
from sideband.loop.run import LoopResult, LoopStatus, Step
from sideband.ports import Lease, ModelError
from sideband.render.view import RequestView
from sideband.runtime.agents import agent_run, llm_call
from sideband.runtime.session import Session
from sideband.testing import MemoryStore, ScriptedModel, SeededEventLoop, run_schedule
from tests.decisions import deciding, whole
from tests.loop_builders import AScene, ATool, a_reply, a_session, same_state, until

_Value = TypeVar("_Value")

THIEF = "another process"


class LeasingStore(MemoryStore):
    """Leases lapse, by the clock of the loop; who commits and renews is noted."""

    def __init__(self, *, lease_seconds: float = 30) -> None:
        super().__init__(now_ms=lambda: int(asyncio.get_running_loop().time() * 1_000), lease_seconds=lease_seconds)
        self.committed: list[tuple[str, bool]] = []
        self.renewed: list[float] = []
        self.fails_until = 0.0
        self.hangs = self.is_closed = False

    async def commit(
        self, session_id: str, decide: Decision[_Value], *, lease: Lease | None = None, receipts: Sequence[str] = ()
    ) -> _Value:
        decided = await super().commit(session_id, whole(decide), lease=lease, receipts=receipts)
        self.committed += [(type(event).__name__, lease is not None) for event in decided.events]
        return decided.value

    async def renew(self, lease: Lease) -> Lease:
        now = asyncio.get_running_loop().time()
        if self.hangs:
            await asyncio.Event().wait()
        if self.is_closed:
            raise StoreClosed
        if now < self.fails_until:
            raise StoreUnavailable("the disk is full")
        self.renewed.append(now)
        return await super().renew(lease)

    async def steal(self, session_id: str = "main") -> Lease:
        """Another process takes the session over, as it may when the lease has lapsed."""
        del self._leases[session_id]
        return await self.acquire(session_id, THIEF)

    def held(self, session_id: str = "main") -> bool:
        return session_id in self._leases


def a_leased_scene(*tools: ATool, lease_seconds: float = 30) -> tuple[AScene, LeasingStore]:
    store = LeasingStore(lease_seconds=lease_seconds)
    return AScene(*tools, store=store), store


def block(seconds: float) -> None:
    """Keep the loop from doing anything else for so long."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SeededEventLoop)
    loop.advance(seconds)


# Holding it.


def test_every_commit_of_a_run_carries_its_lease_and_what_anybody_sends_does_not() -> None:
    async def do(*_: object) -> str:
        accepted = await scene.session.remind("a fact", tags=["t"])
        await scene.session.revoke(accepted.reminder_id)
        message = await scene.session.inject("a word")
        await scene.session.replace_message(message, "another")
        await scene.session.clear(tag="live")
        return "done"

    scene, store = a_leased_scene(ATool(do=do))
    scene.says(a_reply("work"))
    scene.hooks.register_session_hook("post_turn", lambda _: {"body": "noted", "tags": ["live"]})
    asyncio.run(scene.play())
    sent = {"Queued", "Revoked", "InjectAccepted", "InjectReplaced", "Expired"}
    assert {kind for kind, carried in store.committed if not carried} == sent
    assert not sent & {kind for kind, carried in store.committed if carried}
    assert same_state(scene)


def test_while_a_run_has_a_session_no_other_handle_runs_or_calls_it() -> None:
    scene, store = a_leased_scene()
    scene.says(a_reply("work"))

    async def main() -> None:
        other = a_session(store=store)
        async with await scene.begin() as run:
            await until(run, Step.TURN)
            with pytest.raises(SessionBusy, match="is run by"):
                await agent_run("Me too.", session=other, model=scene.model)
            with pytest.raises(SessionBusy, match="is run by"):
                await llm_call("Me too.", session=other, model=scene.model)
            assert not other.busy
            await other.remind("a fact")
        assert not store.held()
        await (await agent_run("Now.", session=other, model=scene.model)).finish()

    run_schedule(1, main)
    assert scene.requests_with("a fact") == [2]


@pytest.mark.parametrize("how", ["finished", "left", "never-begun", "cancelled", "refused"])
def test_however_a_run_ends_the_session_is_given_back(how: str) -> None:
    scene, store = a_leased_scene()
    scene.says(a_reply("work"))

    async def main() -> None:
        if how == "refused":
            scene.session = Session(store, "main", new_id=lambda: "x", limits=Limits(content_bytes=1))
            with pytest.raises(BodyTooLarge):
                await scene.begin()
        else:
            run = await scene.begin()
            assert store.held()
            if how != "never-begun":
                await run.step()
            if how == "finished":
                await run.finish()
            elif how == "cancelled":
                await scene.session.cancel()
            else:
                await run.aclose()
        assert (store.held(), scene.session.talk.lease, scene.session.busy) == (False, None, False)

    run_schedule(1, main)


def test_a_result_that_never_came_on_record_has_no_end_in_its_receipt() -> None:
    async def do(*_: object) -> str:
        await store.steal()
        return "done"

    scene, store = a_leased_scene(ATool(do=do))
    scene.says(a_reply("work"))
    with with_audit_log() as log:
        result = run_schedule(1, scene.play)
    assert result.status is LoopStatus.LEASE_LOST
    assert [receipt.status for receipt in log.receipts] == [None]


def test_a_call_takes_the_session_and_gives_it_back() -> None:
    scene, store = a_leased_scene()
    held: list[bool] = []

    def line(_view: RequestView) -> str:
        held.append(store.held())
        return "Hello."

    scene.says(line)
    run_schedule(1, lambda: llm_call("Hi.", session=scene.session, model=scene.model))
    assert (held, store.held(), scene.session.talk.lease) == ([True], False, None)


def test_a_turn_that_a_dead_process_has_left_running_cannot_be_steered() -> None:
    scene = AScene()

    async def main() -> None:
        await scene.store.commit("main", deciding(lambda _: [Started()]))
        assert scene.state.running
        with pytest.raises(NoRunningTurn):
            await scene.session.inject("Hello?", mode="steer")
        await scene.session.prompt("Then later.")

    asyncio.run(main())


# Renewing it.


def waiting(seconds: float, answer: str | Reply = "Done.") -> Callable[[RequestView], object]:
    async def line(_view: RequestView) -> str | Reply:
        await asyncio.sleep(seconds)
        return answer

    return line


def test_a_lease_is_renewed_at_a_third_of_it_for_as_long_as_the_run_takes() -> None:
    scene, store = a_leased_scene()
    scene.says(waiting(65))  # type: ignore[arg-type]  # a line of a script
    assert run_schedule(1, scene.play).status is LoopStatus.COMPLETED
    assert store.renewed == [10, 20, 30, 40, 50, 60]


def test_a_renewal_that_fails_for_the_moment_is_tried_again() -> None:
    scene, store = a_leased_scene()
    store.fails_until = 25
    scene.says(waiting(40))  # type: ignore[arg-type]  # a line of a script
    assert run_schedule(1, scene.play).status is LoopStatus.COMPLETED
    assert store.renewed == [25, 35]


@pytest.mark.parametrize("how", ["fails", "hangs"])
def test_a_run_whose_lease_lapses_because_it_cannot_be_renewed_is_cancelled(how: str) -> None:
    ended: list[float] = []

    async def do(*_: object) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(asyncio.get_running_loop().time())

    scene, store = a_leased_scene(ATool(do=do))
    scene.says(a_reply("work"))
    store.fails_until, store.hangs = 3_600, how == "hangs"
    result = run_schedule(1, scene.play)
    assert (result.status, ended) == (LoopStatus.LEASE_LOST, [30]), "not before it has lapsed, and not later"
    why = "the disk is full" if how == "fails" else "the store did not answer"
    (problem,) = (problem for problem in result.problems if problem.where == "lease")
    assert problem.message == f"the lease on session 'main' has lapsed, so another process may run it now: {why}"


def test_a_run_whose_store_is_closed_is_cancelled_at_the_next_renewal() -> None:
    scene, store = a_leased_scene()
    store.is_closed = True
    scene.says(waiting(3_600))  # type: ignore[arg-type]  # a line of a script
    loop_times: list[float] = []

    async def story() -> LoopResult:
        result = await scene.play()
        loop_times.append(asyncio.get_running_loop().time())
        return result

    assert run_schedule(1, story).status is LoopStatus.LEASE_LOST
    assert loop_times == [10]


def test_a_lease_that_never_lapses_is_not_renewed_and_needs_no_task() -> None:
    scene = AScene()
    tasks: list[int] = []

    def line(_view: RequestView) -> str:
        tasks.append(len(asyncio.all_tasks()))
        return "Done."

    scene.says(line)
    asyncio.run(scene.play())
    # The task that drives the run, and the one that watches for a cancellation by another process.
    assert tasks == [2]


@pytest.mark.parametrize("what", ["request", "retry", "tool"])
def test_nothing_is_begun_with_less_than_a_third_of_the_lease(what: str) -> None:
    async def block_loop(*_: object) -> None:
        block(25)

    async def busy(_view: RequestView) -> Reply:
        block(25)
        raise ModelError("busy", status=503)

    scene, store = a_leased_scene(ATool())
    if what == "request":
        scene.hooks.register_step_hook(pre=block_loop)
        scene.says("Done.")
    elif what == "retry":
        scene.says(busy, "Done.")
    else:
        scene.hooks.register_tool_hook("*", pre=block_loop)
        scene.says(a_reply("work"))
    asked: list[float] = []
    store_renew = store.renew

    async def renew(lease: Lease) -> Lease:
        asked.append(len(scene.events(RequestCommitted)) + len(scene.results()))
        return await store_renew(lease)

    store.renew = renew  # type: ignore[method-assign]
    run_schedule(1, lambda: scene.play(hook_seconds=60))
    # Before the first request, before it is sent again, before the call has a result.
    assert asked[0] == {"request": 0, "retry": 1, "tool": 1}[what]


# Losing it.


@pytest.mark.parametrize("where", ["model", "tool", "idle"])
def test_a_run_that_has_lost_its_lease_ends_and_writes_nothing_more(where: str) -> None:
    written: list[int] = []

    async def lose() -> None:
        await store.steal()
        written.append(len(store.journal))

    async def model(_view: RequestView) -> Reply:
        if where == "model":
            await lose()
            await asyncio.Event().wait()
        return a_reply(*(["work"] if where == "tool" else []))

    async def do(*_: object) -> None:
        await lose()
        await asyncio.Event().wait()

    scene, store = a_leased_scene(ATool(do=do))
    scene.says(model)
    finished: list[str] = []

    async def hook(context: dict[str, str]) -> dict[str, str]:
        finished.append(context["status"])
        return {"body": "too late"}

    scene.hooks.register_session_hook("post_finish", hook)

    async def main() -> LoopResult:
        await scene.session.remind("for the file", mode="audit_only")
        run = await scene.begin(daemon=where == "idle")
        if where == "idle":
            await until(run, Step.IDLE)
            await lose()
        return await run.finish()

    result = run_schedule(1, main)
    assert (result.status, finished) == (LoopStatus.LEASE_LOST, ["lease_lost"])
    assert Problem("lease", "session 'main' is run by another process now") in result.problems
    assert len(store.journal) == written[0]
    assert store.held()
    assert not scene.session.busy


def test_a_commit_that_is_refused_ends_the_run_too() -> None:
    tool = ATool()
    scene, store = a_leased_scene(tool, lease_seconds=3_600)

    async def line(_view: RequestView) -> Reply:
        await store.steal()
        return a_reply("work")

    scene.says(line)
    result = run_schedule(1, scene.play)
    assert (result.status, result.turns, tool.calls) == (LoopStatus.LEASE_LOST, 0, [])


def test_a_lease_that_is_lost_before_the_request_lets_none_leave() -> None:
    scene, store = a_leased_scene()

    async def steal(_context: object) -> None:
        block(25)
        await store.steal()

    scene.hooks.register_step_hook(pre=steal)
    result = run_schedule(1, lambda: scene.play(hook_seconds=60))
    assert result.status is LoopStatus.LEASE_LOST
    assert (scene.model.requests, scene.events(RequestCommitted)) == ([], [])


def test_leaving_a_run_that_has_lost_its_lease_writes_nothing() -> None:
    scene, store = a_leased_scene()
    scene.says(a_reply("work"))

    async def main() -> list[Event]:
        run = await scene.begin()
        await until(run, Step.TURN)
        await store.steal()
        await asyncio.sleep(15)
        before = scene.journal
        await run.aclose()
        assert scene.journal == before
        return before

    assert run_schedule(1, main)


def test_a_call_whose_session_is_taken_over_fails() -> None:
    scene, store = a_leased_scene()

    async def line(_view: RequestView) -> str:
        await store.steal()
        await asyncio.Event().wait()
        return ""

    model = ScriptedModel([line])
    with pytest.raises(LeaseLost):
        run_schedule(1, lambda: llm_call("Hi.", session=scene.session, model=model))
    assert store.held()


def test_a_new_run_of_the_same_handle_is_not_disturbed_by_the_end_of_the_old_one() -> None:
    scene, store = a_leased_scene()

    async def again(_context: object) -> None:
        if len(scene.model.requests) == 1:
            runs.append(await scene.begin("Again."))

    runs: list[object] = []
    scene.hooks.register_session_hook("post_finish", again)

    async def main() -> None:
        await scene.play()
        assert store.held()
        assert scene.session.talk.lease is not None
        (run,) = runs
        assert (await run.finish()).status is LoopStatus.COMPLETED  # type: ignore[attr-defined]

    run_schedule(1, main)
    assert not store.held()
