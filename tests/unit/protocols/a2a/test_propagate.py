"""Delegation: what the tool returns, what it does when it is cancelled, and which reminders it passes on."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sideband.core.errors import InvalidOption, StoreClosed
from sideband.core.limits import DEFAULT_LIMITS
from sideband.core.reminder import Source
from sideband.core.surfaces import Surface
from sideband.core.trust import Provenance, Trust
from sideband.core.updates import UpdateKind
from sideband.ports import ToolOutput
from sideband.protocols.a2a import connect, delegate_tool, propagate
from sideband.protocols.a2a.propagate import DELEGATION_SECONDS, RemotePropagation
from sideband.runtime.producer import Producer
from sideband.runtime.session import Session
from sideband.runtime.store import open_store
from tests.a2a_callers import DASHBOARD, in_time, on_sockets, some_peers
from tests.a2a_delegations import a_delegation, bodies, told
from tests.a2a_fakes import FakePeer, Raw, a_fake_peer, a_task, error, error_info, with_extension
from tests.waiting import until

INJECT = "tasks/inject_reminder"
CLEAR = "tasks/clear_reminders"


class Context:
    """A context for calls outside a loop."""

    call_id = "c"

    def applied(self, what: str) -> None:
        raise AssertionError(what)


async def called(peer: Any, task: str = "Rebase it.", **options: Any) -> ToolOutput:  # noqa: ANN401 - those of delegate_tool
    output = await in_time(delegate_tool(peer, **options).call({"task": task}, Context()))
    assert isinstance(output, ToolOutput)
    return output


# What the tool returns.


@on_sockets
async def test_an_address_gets_a_connection_for_each_call() -> None:
    async with a_delegation(["Rebased.", "Rebased again."], peers=some_peers()) as delegation:
        url = delegation.tasks.url
        first = await called(url, token=DASHBOARD)
        assert (first.text, first.is_error) == ("Rebased.", False)
        assert first.data["state"] == "completed"
        assert (await called(url, token=DASHBOARD)).text == "Rebased again."


@pytest.mark.parametrize(
    ("state", "said"),
    [
        pytest.param("failed", "ended as failed: Because.", id="failed"),
        pytest.param("canceled", "ended as canceled: Because.", id="canceled"),
        pytest.param("rejected", "ended as rejected: Because.", id="rejected"),
        pytest.param("input_required", "needs input before it can go on with its task t: Because.\n", id="input"),
        pytest.param("auth_required", "needs input before it can go on with its task t: Because.\n", id="auth"),
    ],
)
@on_sockets
async def test_a_task_that_is_not_done_is_an_error_with_the_reason(state: str, said: str) -> None:
    note = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "Because."}]}
    task = a_task(state)
    task["status"]["message"] = note
    async with a_fake_peer({"SendMessage": {"task": task}, "GetTask": task}) as fake:
        output = await called(fake.url)
        assert output.is_error
        assert said in output.text
        assert output.data == {"task_id": "t", "context_id": "c", "state": state}
        needs_input = state.endswith("_required")
        assert len(fake.asked("CancelTask")) == needs_input
        assert ("The task could not be cancelled, because this tool cannot answer." in output.text) is needs_input
        fake.answers["CancelTask"] = a_task("canceled")
        assert ("The task was cancelled, because" in (await called(fake.url)).text) is needs_input


@on_sockets
async def test_an_answer_without_a_text_and_one_without_a_task_are_results() -> None:
    message = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "Hello."}]}
    answers: Any = {"SendMessage": [{"task": a_task()}, {"message": message}], "GetTask": a_task()}
    async with a_fake_peer(answers) as fake:
        assert (await called(fake.url)).text == "The agent has finished and gave no result."
        assert (await called(fake.url)).text == "Hello."
        failed = a_task("failed")
        fake.answers |= {"SendMessage": {"task": failed}, "GetTask": failed}
        assert (await called(fake.url)).text == "The task of the agent fake ended as failed."


@on_sockets
async def test_a_peer_that_fails_meanwhile_fails_the_call_and_the_task_is_cancelled() -> None:
    answers = {"SendMessage": {"task": a_task("working")}, "GetTask": error(-32603, "broken")}
    async with a_fake_peer(answers) as fake:
        with pytest.raises(Exception, match="broken"):
            await called(fake.url)
        assert len(fake.asked("CancelTask")) == 1


# Options.


@on_sockets
async def test_wrong_options_are_refused() -> None:
    async with a_delegation() as delegation:
        for options, named in (
            ({"propagate_remote": True}, "session"),
            ({"propagate_remote": True, "session": "coordinator"}, "session"),
            ({"token": "x"}, "token"),
            ({"name": "no name"}, "name"),
        ):
            with pytest.raises(InvalidOption, match=named):
                delegate_tool(delegation.peer, **options)
        with pytest.raises(InvalidOption, match="peer must be"):
            delegate_tool(7)  # type: ignore[arg-type]
        made = delegate_tool(delegation.peer, name="ask_the_worker")
        assert (made.name, made.seconds, made.idempotent) == ("ask_the_worker", DELEGATION_SECONDS, False)
        assert "the agent sideband" in made.description
        assert delegate_tool("http://host", description="Ask.").description == "Ask."
        assert [*made.parameters["properties"]] == ["task"]


# Cancelling.


@on_sockets
async def test_a_call_that_is_cancelled_before_the_task_is_known_cancels_it_when_it_is() -> None:
    async with a_fake_peer({"SendMessage": Raw(silent=True)}) as fake, connect(fake.url, answer_seconds=0.1) as peer:
        calling = asyncio.create_task(called(peer))
        await in_time(fake.is_silent.wait())
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
    answers = {
        "SendMessage": {"task": a_task("working")},
        "GetTask": a_task("working"),
        "CancelTask": a_task("canceled"),
    }
    async with a_fake_peer(answers) as fake, connect(fake.url) as peer:
        calling = asyncio.create_task(called(peer))
        # Before the other agent was even asked.
        await asyncio.sleep(0)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert len(fake.asked("CancelTask")) == 1


# Reminders.


@on_sockets
async def test_a_reminder_keeps_its_key_ttl_and_tags_and_says_where_it_comes_from() -> None:
    async with a_delegation(token=DASHBOARD, peers=some_peers()) as delegation:
        session = delegation.session
        await session.remind("All.", propagate="all", dedupe_key="k", ttl_turns=7, tags=["a"], preserve_on_compact=True)
        await session.remind("Session.", propagate="session", role_hint="developer")
        running = delegation.run(propagate_remote=True)
        worker = await delegation.worker()
        far, near = await told(worker, 2)
        assert far.reminder is not None
        assert near.reminder is not None
        # It was shown in one turn already.
        assert (far.reminder.body, far.reminder.ttl_turns) == ("All.", 6)
        assert (far.reminder.dedupe_key, far.reminder.tags, far.reminder.preserve_on_compact) == ("k", ("a",), True)
        assert far.reminder.propagate == "all"
        # It began here, so that it goes no further than to the agents that this one starts.
        assert (near.reminder.propagate, near.reminder.role_hint) == ("none", "developer")
        assert far.provenance is not None
        assert far.provenance.claims == {
            "source": "host",
            "fired_at_turn": 1,
            "originating_agent_id": "coordinator",
        }
        delegation.door.open.set()
        await in_time(running)


@on_sockets
async def test_a_reminder_that_ends_is_cleared_and_one_that_is_replaced_takes_its_place() -> None:
    async with a_delegation() as delegation:
        session = delegation.session
        running = delegation.run(propagate_remote=True)
        worker = await delegation.worker()
        plain = await session.remind("It is over soon.", propagate="all")
        await session.remind("The build is red.", propagate="all", dedupe_key="build")
        await told(worker, 2)
        await session.revoke(plain.reminder_id)
        (cleared,) = await told(worker, 1, UpdateKind.REMINDER_EXPIRED)
        await session.remind("The build is green.", propagate="all", dedupe_key="build")
        third = (await told(worker, 3))[2]
        assert bodies([third]) == ["The build is green."]
        await session.replace_reminder((await session.pending())[0].reminder.id, "The build is yellow.")
        await told(worker, 4)
        assert [entry.reminder.body for entry in await worker.pending()] == ["The build is yellow."]
        await session.clear(dedupe_key="build")
        _, gone = await told(worker, 2, UpdateKind.REMINDER_EXPIRED)
        assert (cleared.phase, gone.dedupe_key) == ("cleared", "build")
        assert await worker.pending() == ()
        delegation.door.open.set()
        await in_time(running)


@on_sockets
async def test_reminders_of_other_peers_and_servers_are_not_passed_on() -> None:
    async with a_delegation() as delegation:
        session = delegation.session
        for trust in (Trust.PEER, Trust.SERVER):
            await session.grant("other", trust=trust.name.lower(), field="propagate", value="all")  # type: ignore[arg-type]
            other = Producer(session, Provenance(trust=trust, principal="other"), surface=Surface.A2A)
            await other.remind({"body": f"From a {trust.name}.", "propagate": "all"})
        running = delegation.run(propagate_remote=True)
        worker = await delegation.worker()
        await session.remind("Ours.", propagate="all")
        assert bodies(await told(worker, 1)) == ["Ours."]
        delegation.door.open.set()
        await in_time(running)


@on_sockets
async def test_a_refusal_is_logged_once_and_does_not_fail_the_delegation(caplog: pytest.LogCaptureFixture) -> None:
    async with a_delegation() as delegation:
        running = delegation.run(propagate_remote=True)
        worker = await delegation.worker()
        burst = DEFAULT_LIMITS.accept_rate[Trust.PEER].burst
        with caplog.at_level(logging.WARNING, "sideband"):
            for number in range(burst + 3):
                await delegation.session.remind(f"Fact {number}.", propagate="all")
            assert bodies(await told(worker, burst)) == [f"Fact {number}." for number in range(burst)]
            await until(lambda: "sends too fast" in caplog.text)
            delegation.door.open.set()
            await in_time(running)
        assert delegation.result["content"] == "The branch is rebased."
        assert caplog.text.count("does not take all reminders") == 1


SENT = {"reminderId": "far"}


@asynccontextmanager
async def passing(answers: Any, **params: Any) -> AsyncIterator[tuple[FakePeer, Session, "asyncio.Task[None]"]]:  # noqa: ANN401 - of `a_fake_peer`
    """A session whose reminders are passed on to task `t` of an agent with these answers."""
    async with (
        a_fake_peer(answers, **with_extension(**params)) as fake,
        connect(fake.url) as peer,
        open_store("memory:") as store,
    ):
        session = await store.begin("coordinator")
        running = asyncio.create_task(RemotePropagation(peer, "t", session).run())
        try:
            yield fake, session, running
        finally:
            running.cancel()
            await asyncio.wait({running})


def sent_to(fake: FakePeer) -> list[str]:
    return [params["reminder"]["body"] for params in fake.asked(INJECT)]


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(error(-32000, "fast", error_info("RATE_LIMITED", retryAfterMs="1")), id="too-fast"),
        pytest.param(error(-32000, "full", error_info("TOO_MANY_PENDING")), id="full"),
        pytest.param(Raw(503), id="unreachable"),
    ],
)
@on_sockets
async def test_a_reminder_that_the_peer_could_not_take_is_sent_again(
    refusal: Any,  # noqa: ANN401 - of two kinds
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(propagate, "ROOM_SECONDS", 0.001)
    monkeypatch.setattr(propagate, "RETRY_SECONDS", 0.001)
    async with passing({INJECT: [refusal, SENT]}) as (fake, session, _):
        await session.remind("One.", propagate="all")
        await until(lambda: sent_to(fake) == ["One.", "One."])
        await session.remind("Two.", propagate="all")
        await until(lambda: sent_to(fake) == ["One.", "One.", "Two."])


@on_sockets
async def test_a_reminder_that_may_have_arrived_is_sent_again_with_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(propagate, "RETRY_SECONDS", 0.001)
    taken = error(-32000, "used", error_info("IDEMPOTENCY_CONFLICT"))
    async with passing({INJECT: [Raw(503), taken, Raw(503)], CLEAR: {"removedCount": 1}}) as (fake, session, _):
        one = await session.remind("One.", propagate="all")
        await until(lambda: len(fake.asked(INJECT)) == 2)
        first, second = (params["reminder"]["id"] for params in fake.asked(INJECT))
        assert first == second
        await session.revoke(one.reminder_id)
        await until(lambda: [params["id"] for params in fake.asked(CLEAR)] == [first])
        # This one is never accepted, and is cleared nevertheless.
        two = await session.remind("Two.", propagate="all")
        await until(lambda: len(fake.asked(INJECT)) > 3)
        await session.revoke(two.reminder_id)
        await until(lambda: fake.asked(CLEAR)[-1]["id"] == fake.asked(INJECT)[-1]["reminder"]["id"])


@on_sockets
async def test_nothing_is_sent_again_sooner_than_after_a_second() -> None:
    refusal = error(-32000, "fast", error_info("RATE_LIMITED", retryAfterMs="1"))
    async with passing({INJECT: [refusal, SENT], CLEAR: {"removedCount": 1}}) as (fake, session, _):
        await session.remind("One.", propagate="all")
        await until(lambda: sent_to(fake) == ["One."])
        for number in range(5):
            await session.remind(f"Fact {number}.", propagate="all")
            await asyncio.sleep(0.01)
        assert sent_to(fake) == ["One."]


@on_sockets
async def test_reminders_of_the_canonical_providers_are_not_passed_on() -> None:
    async with passing({INJECT: SENT}) as (fake, session, _):
        provider = Producer(
            session, Provenance(trust=Trust.OPERATOR), surface=Surface.SESSION, source=Source.STDLIB_PROVIDER
        )
        await provider.remind({"body": "The context window is almost full.", "propagate": "all"})
        await session.remind("Ours.", propagate="all")
        await until(lambda: sent_to(fake) == ["Ours."])


@on_sockets
async def test_a_reminder_that_the_peer_refuses_for_good_is_not_sent_again() -> None:
    answers = {INJECT: [error(-32602, "no", error_info("BODY_TOO_LARGE")), SENT], CLEAR: error(-32603, "broken")}
    async with passing(answers) as (fake, session, running):
        refused = await session.remind("Large.", propagate="all")
        await until(lambda: sent_to(fake) == ["Large."])
        small = await session.remind("Small.", propagate="all")
        await until(lambda: sent_to(fake) == ["Large.", "Small."])
        await session.revoke(refused.reminder_id)
        await session.revoke(small.reminder_id)
        await until(lambda: fake.asked(CLEAR))
        await session.remind("Next.", propagate="all")
        await until(lambda: sent_to(fake) == ["Large.", "Small.", "Next."])
        assert [params["id"] for params in fake.asked(CLEAR)] == ["far"]
        assert not running.done()


@on_sockets
async def test_without_the_method_nothing_is_cleared() -> None:
    async with passing({INJECT: SENT}, methods=[INJECT]) as (fake, session, _):
        over = await session.remind("Over soon.", propagate="all")
        await until(lambda: sent_to(fake) == ["Over soon."])
        await session.revoke(over.reminder_id)
        await session.remind("Next.", propagate="all")
        await until(lambda: sent_to(fake) == ["Over soon.", "Next."])
        assert fake.asked(CLEAR) == []


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(error(-32004, "over", error_info("TASK_FINISHED")), id="finished"),
        pytest.param(error(-32001, "gone"), id="unknown"),
        pytest.param(error(-32601, "what?"), id="not-supported"),
    ],
)
@on_sockets
async def test_it_ends_when_the_peer_takes_no_more(answer: Any) -> None:  # noqa: ANN401 - an answer
    async with passing({INJECT: answer}) as (fake, session, running):
        await session.remind("One.", propagate="all")
        await in_time(running)
        assert sent_to(fake) == ["One."]


@on_sockets
async def test_it_ends_with_the_error_of_a_store_that_is_closed(tmp_path: Path) -> None:
    async with a_fake_peer({INJECT: SENT}, **with_extension()) as fake, connect(fake.url) as peer:
        async with open_store(f"sqlite:///{tmp_path}/store.db") as store:
            session = await store.begin("coordinator")
            running = asyncio.create_task(RemotePropagation(peer, "t", session).run())
            await session.remind("One.", propagate="all")
            await until(lambda: sent_to(fake))
        with pytest.raises(StoreClosed):
            await in_time(running)


@on_sockets
async def test_a_delegation_goes_on_when_reminders_can_no_longer_be_passed_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_delegation(["Rebased."]) as delegation:
        async with open_store(f"sqlite:///{tmp_path}/store.db") as store:
            session = await store.begin("other")
        output = await called(delegation.peer, session=session, propagate_remote=True)
        assert output.text == "Rebased."
    assert "were no longer passed on" in caplog.text
