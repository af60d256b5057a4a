"""Workers that one process has suspended and another one resumes."""

import asyncio
from typing import Any, Final

import pytest

import sideband as sb
from sideband.core.errors import InvalidOption, SessionBusy, UnknownSession
from sideband.core.messages import Reply
from sideband.loop.hooks import Hooks
from sideband.render.view import RequestView
from sideband.runtime.store import Store
from sideband.runtime.workers import WORKER_RECORD
from sideband.testing import ScriptedModel
from tests.agents import AnAgent, awaited
from tests.loop_builders import ATool, a_reply
from tests.programs import run_python
from tests.stored_agents import address
from tests.unit.store.twins import Twin

REASON: Final = "waiting for the nightly build"

# A process that makes a worker, suspends it in its first turn, and ends.
SUSPENDS: Final = f"""
import asyncio, sys
import sideband as sb
from sideband.testing import ScriptedModel
from tests.loop_builders import ATool, a_reply

async def main(url):
    async with sb.open_store(url) as store:
        parent = await store.session("coordinator")

        async def first(view):
            worker.suspend({REASON!r})
            return a_reply("work", text="I begin.")

        options = dict(model=ScriptedModel([first]), tools=[ATool()], name="reader")
        worker = await sb.spawn(parent, store, "Read the logs.", **options)
        assert (await worker.work()).status == "suspended"
        print(worker.session.id)

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.requirement("loop:worker:resumed-by-another-process", "loop:worker:parent-observes-it-anywhere")
@pytest.mark.parametrize("continues", [True, False], ids=["with-its-conversation", "with-a-digest"])
def test_a_worker_that_a_process_left_suspended_goes_on_in_another(durable: Twin, continues: bool) -> None:  # noqa: FBT001 - a column
    suspended = run_python("-c", SUSPENDS, address(durable))
    assert suspended.returncode == 0, suspended.stderr
    model, hooks, heard = ScriptedModel(["Read."]), Hooks(), list[dict[str, Any]]()
    for event in ("worker_resumed", "worker_progressed", "worker_completed"):
        hooks.register_session_hook(event, lambda context: heard.append(dict(context)))

    async def main() -> None:
        async with durable.open() as journal:
            store = Store(journal)
            worker = await sb.find_worker(store, suspended.stdout.strip(), model=model, tools=[ATool()], hooks=hooks)
            assert (worker.name, worker.task, worker.phase) == ("reader", "Read the logs.", "suspended")
            resumption = sb.Resumption(cause="timeout", continue_transcript=continues)
            assert (await worker.resume(resumption)).status == "completed"
            entry = (await store.sessions(records={"agent": "reader"})).sessions[0]
            assert entry.records[WORKER_RECORD]["phase"] == "ended"

    asyncio.run(main())
    (request,) = model.requests
    assert REASON in request.text
    assert "suspended at turn 1" in request.text
    assert "resumed by a timeout" in request.text
    assert ("A digest of it:" in request.text, len(request.messages) > 1) == (not continues, continues)
    assert [told["event"] for told in heard] == ["worker_resumed", "worker_progressed", "worker_completed"]
    assert {(told["session_id"], told["worker"]) for told in heard} == {("coordinator", "reader")}
    assert (heard[0]["reason"], heard[0]["cause"]) == (REASON, "timeout")


# A process that resumes a worker, and is killed in the next turn.
DIES: Final = """
import asyncio, os, sys
import sideband as sb
from sideband.testing import ScriptedModel
from tests.loop_builders import ATool, a_reply

async def main(url, session_id):
    async with sb.open_store(url) as store:
        script = [a_reply("work", text="I go on."), lambda _view: os._exit(9)]
        worker = await sb.find_worker(store, session_id, model=ScriptedModel(script), tools=[ATool()])
        await worker.resume(sb.Resumption(input="Go on."))

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.requirement("loop:worker:left-by-its-process")
@pytest.mark.parametrize("continues", [True, False], ids=["with-its-conversation", "with-a-digest"])
def test_a_worker_whose_process_was_killed_is_told_so(durable: Twin, continues: bool) -> None:  # noqa: FBT001 - a column
    session_id = run_python("-c", SUSPENDS, address(durable)).stdout.strip()
    assert run_python("-c", DIES, address(durable), session_id).returncode == 9
    model = ScriptedModel(["Read."])

    async def main() -> None:
        async with durable.open() as journal:
            store = Store(journal)
            await durable.let_leases_lapse(journal)
            worker = await sb.find_worker(store, session_id, model=model, tools=[ATool()])
            assert worker.phase == "left"
            resumption = sb.Resumption(cause="operator", continue_transcript=continues)
            assert (await worker.resume(resumption)).status == "completed"

    asyncio.run(main())
    (request,) = model.requests
    assert "The process that ran this session ended, and the session has been resumed by the operator." in request.text
    assert ("suspended" in request.text, REASON in request.text) == (False, False)
    assert ("A digest of it:" in request.text, len(request.messages) > 1) == (not continues, continues)


async def a_suspended_worker(agent: AnAgent, *, name: str = "worker") -> sb.Worker:
    workers: list[sb.Worker] = []

    def first(_view: RequestView) -> Reply:
        workers[0].suspend(REASON)
        return a_reply("work")

    model = ScriptedModel([first, "Read."])
    workers.append(await sb.spawn(agent.session, agent.children(), "Read.", model=model, tools=[ATool()], name=name))
    await workers[0].work()
    return workers[0]


@pytest.mark.requirement("loop:worker:resumed-by-one-process")
@awaited
async def test_a_worker_that_runs_or_has_ended_elsewhere_is_not_resumed() -> None:
    agent = AnAgent()
    ours = await a_suspended_worker(agent)

    async def looks(_view: RequestView) -> str:
        with pytest.raises(SessionBusy, match="worker 'worker' is being run"):
            await sb.find_worker(store, ours.session.id, model=theirs_model)
        with pytest.raises(SessionBusy, match="is being run"):
            await ours.resume(sb.Resumption(input="Mine!"))
        return "Read."

    # The store of another process.
    store, theirs_model = Store(agent.recorded), ScriptedModel([looks])
    theirs = await sb.find_worker(store, ours.session.id, model=theirs_model)
    await theirs.resume(sb.Resumption())
    with pytest.raises(sb.WrongPhase, match="is ended; this can only be done while it is suspended; make a new"):
        await ours.resume(sb.Resumption(input="Mine!"))
    assert (await ours.session.waiting(), theirs_model.requests[0].text.count("Mine!")) == ((), 0)


@pytest.mark.requirement("loop:worker:find-says-what-is-wrong")
@awaited
async def test_a_session_that_is_no_suspended_worker_is_refused() -> None:
    agent = AnAgent()
    store, model = agent.children(), ScriptedModel()
    with pytest.raises(UnknownSession, match="no session 'nowhere'"):
        await sb.find_worker(store, "nowhere", model=model)
    await agent.play()
    with pytest.raises(InvalidOption, match="session 'main' is not that of a worker; spawn makes workers"):
        await sb.find_worker(store, "main", model=model)
    new = await sb.spawn(agent.session, store, "Read.", model=model)
    with pytest.raises(sb.WrongPhase, match="worker 'worker' is new"):
        await sb.find_worker(store, new.session.id, model=model)
    wrong: Any = "st"
    with pytest.raises(InvalidOption, match="store must be a Store, not 'st'; open one"):
        await sb.find_worker(wrong, "main", model=model)
    suspended = await a_suspended_worker(agent)
    with pytest.raises(InvalidOption, match=r"resumption must be Resumption\(...\), not 'x'"):
        await suspended.resume("x")  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="the parent of worker 'worker' is session 'main', not 'child-1'"):
        await sb.find_worker(store, suspended.session.id, parent=new.session, model=model)
    found = await sb.find_worker(store, suspended.session.id, parent=agent.session, model=ScriptedModel(["Read."]))
    assert (await found.resume(sb.Resumption())).text == "Read."


@pytest.mark.requirement("loop:worker:spawn-says-what-is-wrong")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"model": "nope"}, "'nope' does not name a model"),
        ({"max_turns": "3"}, "max_turns must be a whole number of at least 0 or None, not '3'"),
        ({"closing": {"completed": 3}}, "closing must map"),
        ({"task": 3}, "task must be a text, not 3"),
        ({"task": " "}, "content is blank"),
        ({"parent": "p"}, r"parent must be a Session, not 'p'; get it with `await store.session\('p'\)`"),
        ({"store": "s"}, "store must be a Store, not 's'; open one with `open_store"),
    ],
)
@awaited
async def test_a_worker_that_could_never_run_is_not_made(given: dict[str, Any], message: str) -> None:
    agent = AnAgent()
    store = agent.children()
    right: dict[str, Any] = {"parent": agent.session, "store": store, "task": "Read.", "model": ScriptedModel()}
    with pytest.raises(InvalidOption, match=message):
        await sb.spawn(**(right | given))
    assert (await store.sessions()).sessions == ()


@pytest.mark.requirement("loop:worker:parent-observes-it-anywhere")
@awaited
async def test_a_worker_whose_parent_is_gone_can_be_resumed_all_the_same() -> None:
    agent = AnAgent()
    await agent.play()
    worker = await a_suspended_worker(agent)
    store = agent.children()
    await store.delete(agent.session.id)
    heard: list[str] = []
    agent.hooks.register_session_hook("worker_resumed", lambda context: heard.append(context["session_id"]))
    found = await sb.find_worker(store, worker.session.id, model=ScriptedModel(["Read."]), hooks=agent.hooks)
    assert (await found.resume(sb.Resumption())).status == "completed"
    assert (heard, await store.find("main")) == (["main"], None)


@pytest.mark.requirement("loop:worker:words-of-the-cause")
@awaited
async def test_a_cause_is_one_of_four_words() -> None:
    worker = await a_suspended_worker(AnAgent())
    with pytest.raises(InvalidOption, match="must be parent, timeout, trigger, operator, not 'nobody'") as refused:
        await worker.resume(sb.Resumption(cause="nobody"))
    assert (refused.value.field, worker.phase) == ("cause", "suspended")
    assert sb.Resumption(cause="trigger").cause is sb.ResumeCause.TRIGGER
    assert (await worker.resume(sb.Resumption(cause="timeout"))).status == "completed"


@pytest.mark.requirement("loop:worker:resumed-by-another-process")
@awaited
async def test_what_a_user_does_at_the_end_of_a_worker_is_done_beside_its_record() -> None:
    agent = AnAgent()
    closing = {"completed": sb.Closing(records={"state": "done"})}
    worker = await sb.spawn(agent.session, agent.children(), "Read.", model=ScriptedModel(["Read."]), closing=closing)
    await worker.work()
    records = worker.session.talk.state.records
    assert (records["state"], records[WORKER_RECORD]["phase"]) == ("done", "ended")
