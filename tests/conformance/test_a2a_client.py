"""The A2A client: how it reads what a peer can do, what it does where a peer can less, and what a delegation passes on."""

import asyncio
import json
from typing import Any

import pytest

from sideband.core.errors import UnknownSession
from sideband.core.reminder import Propagate, RoleHint
from sideband.loop.run import LoopStatus
from sideband.protocols.a2a import delegate_tool
from sideband.protocols.a2a.client import (
    CardPlace,
    CardReminders,
    NotSupportedByPeer,
    PeerNotTrusted,
    PeerNotUnderstood,
    PeerSilent,
    PeerState,
    TaskFallback,
    TaskReminded,
    TaskReminderRoute,
    connect,
)
from sideband.protocols.a2a.client.capabilities import read_reminders
from sideband.runtime.agents import agent_run
from sideband.runtime.options import AgentOptions
from tests.a2a_callers import Door, in_time, on_sockets, served
from tests.a2a_delegations import WAITS, a_delegation, bodies, told
from tests.a2a_fakes import CARD, SEED_CARD, URI, Raw, a_card, a_fake_peer, a_task, error, error_info, with_extension
from tests.programs import ROOT

INJECT = "tasks/inject_reminder"
SUPPRESSED = TaskReminded(TaskReminderRoute.SUPPRESSED)


def reminders_in(capabilities: dict[str, Any]) -> CardReminders | None:
    return read_reminders({"name": "peer", "capabilities": capabilities})


# The card.


@pytest.mark.requirement("a2a:card:documents-place-is-read")
def test_the_first_place_of_the_capability_counts() -> None:
    yes = {"inject": True, "emit": True}
    places: list[tuple[CardPlace, dict[str, Any]]] = [
        (CardPlace.EXTENSION, {"extensions": [{"uri": "urn:other"}, {"uri": URI, "params": yes}]}),
        (CardPlace.PROPOSED, {"reminders": yes}),
        (CardPlace.HARN, {"_meta": {"harn": {"reminders": True}}}),
    ]
    for number, (place, here) in enumerate(places):
        found = reminders_in(here)
        assert found is not None
        assert (found.place, found.inject, found.emit) == (place, True, True)
        merged: dict[str, Any] = {}
        for _, there in places[number:]:
            merged |= there
        first = reminders_in(merged)
        assert first is not None
        assert first.place is place
    refusing = reminders_in({"extensions": [{"uri": URI, "params": {"inject": False}}], "reminders": yes})
    assert refusing is not None
    assert not refusing.inject


@pytest.mark.requirement(
    "a2a:card:documents-place-is-read", "wire:capability:absent-propagate", "wire:capability:absent-role-hints"
)
def test_absent_values_are_session_and_system() -> None:
    silent = reminders_in({"reminders": {"inject": True}})
    assert silent is not None
    assert (silent.emit, silent.propagate, silent.role_hints) == (False, (Propagate.SESSION,), (RoleHint.SYSTEM,))
    assert silent.methods == (INJECT,)
    telling = reminders_in({"reminders": {"inject": True, "propagate": ["none", "x"], "roleHints": ["developer", 7]}})
    assert telling is not None
    assert (telling.propagate, telling.role_hints) == ((Propagate.NONE,), (RoleHint.DEVELOPER,))


@pytest.mark.requirement("a2a:card:documents-place-is-read")
@on_sockets
async def test_a_peer_with_the_card_of_the_proposal_is_told_reminders() -> None:
    card = json.loads((ROOT / "examples/payloads/a2a/agent_card.json").read_text(encoding="utf-8"))
    async with a_fake_peer(
        {INJECT: {"reminderId": "r", "dedupedCount": 1, "acceptedAt": "2026-04-30T12:34:56.789Z"}}
    ) as fake:
        fake.answers |= {CARD: Raw(404), SEED_CARD: {**card, "url": f"{fake.url}{SEED_CARD}"}}
        async with connect(fake.url) as peer:
            assert (peer.name, peer.interface.url) == (card["name"], f"{fake.url}/")
            accepted = await peer.remind("t", "Rebase first.", propagate="all", role_hint="user_block", ttl_turns=2)
        assert (accepted.reminder_id, accepted.deduped_count) == ("r", 1)
        assert accepted.requested == {"propagate": "all", "role_hint": "user_block"}
        # The example allows `session` and `none`, and `system` and `developer`.
        assert accepted.effective == {"propagate": "session", "role_hint": "developer"}
        (asked,) = fake.asked(INJECT)
        reminder = {"body": "Rebase first.", "propagate": "session", "roleHint": "developer", "ttlTurns": 2}
        assert asked == {"taskId": "t", "reminder": reminder}


# The token.


@pytest.mark.requirement("a2a:client:origin-of-the-card")
@on_sockets
async def test_the_token_is_not_sent_to_another_origin_than_that_of_the_card() -> None:
    async with a_fake_peer() as other, a_fake_peer() as fake:
        fake.answers[CARD] = a_card(f"{other.url}/")
        with pytest.raises(PeerNotTrusted, match="add that origin to allowed_origins"):
            async with connect(fake.url, token="a-token"):  # noqa: S106 - no secret
                pass
        assert other.requests == []
        async with connect(fake.url, token="a-token", allowed_origins=[other.url]) as peer:  # noqa: S106 - no secret
            with pytest.raises(NotSupportedByPeer):
                await peer.get("t")
        assert [request.headers.get("authorization") for request in other.requests] == ["Bearer a-token"]


# A peer without reminders.


@pytest.mark.requirement("a2a:card:absent-is-unsupported")
@pytest.mark.parametrize(
    "capabilities",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"reminders": {"inject": False}}, id="no-inject"),
        pytest.param({"extensions": [{"uri": "urn:other"}]}, id="another-extension"),
    ],
)
@on_sockets
async def test_without_the_capability_a_reminder_is_suppressed_and_the_method_is_not_tried(
    capabilities: dict[str, Any],
) -> None:
    async with a_fake_peer({INJECT: {"reminderId": "r"}}, **capabilities) as fake, connect(fake.url) as peer:
        assert await peer.remind("t", "The build is red.") == SUPPRESSED
        assert fake.asked(INJECT) == []


@pytest.mark.requirement("a2a:card:absent-is-unsupported")
@on_sockets
async def test_without_the_capability_a_reminder_can_go_with_the_next_message_to_its_task() -> None:
    answers = {"SendMessage": {"task": a_task("input_required")}}
    async with a_fake_peer(answers) as fake, connect(fake.url, fallback=TaskFallback.NEXT_MESSAGE) as peer:
        route = TaskReminderRoute.WITH_NEXT_MESSAGE
        assert await peer.remind("t", "Old.", dedupe_key="k", ttl_turns=2) == TaskReminded(route)
        assert await peer.remind("t", "New.", dedupe_key="k", ttl_turns=2) == TaskReminded(route, deduped_count=1)
        assert await peer.remind("t", "For the record.", mode="audit_only") == SUPPRESSED
        await peer.send("Another task.")
        await peer.send("Yes.", task_id="t", metadata={"mine": 1})
        await peer.send("Go on.", task_id="t")
        first, second, third = (params.get("metadata") for params in fake.asked("SendMessage"))
        assert (first, third) == (None, None)
        assert second["harn"]["reminder"].pop("id")
        assert second == {"mine": 1.0, "harn": {"reminder": {"body": "New.", "dedupeKey": "k", "ttlTurns": 2.0}}}


@pytest.mark.requirement("a2a:card:absent-is-unsupported")
@on_sockets
async def test_a_reminder_that_goes_with_a_message_is_read_by_our_server() -> None:
    door = Door()
    door.open.set()
    options: Any = {"tools": [door.wait_at_the_door]}
    async with served([WAITS, "Rebased."], asks=True, options=options) as tasks:
        async with connect(tasks.url, fallback="next_message") as peer:
            asking = await in_time(peer.send("Rebase."))
            assert asking.state is PeerState.INPUT_REQUIRED
            peer.reminders = None
            held = await peer.remind(asking.id, "The build is red.", tags=["build"], ttl_turns=2)
            assert held.route is TaskReminderRoute.WITH_NEXT_MESSAGE
            assert (await in_time(peer.send("yes", task_id=asking.id))).text == "Rebased."
        assert "The build is red." in tasks.requests[1].text


@pytest.mark.requirement("a2a:inject_reminder:unimplemented")
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(error(-32601, "Method not found"), id="unknown-method"),
        pytest.param(Raw(405), id="not-allowed"),
        pytest.param(Raw(501), id="not-implemented"),
        pytest.param(Raw(404), id="not-found"),
    ],
)
@on_sockets
async def test_a_peer_that_does_not_know_the_method_is_not_asked_again(answer: Any) -> None:  # noqa: ANN401 - of two kinds
    async with a_fake_peer({INJECT: answer}, **with_extension()) as fake, connect(fake.url) as peer:
        assert await peer.remind("t", "The build is red.") == SUPPRESSED
        assert peer.reminders is None
        assert await peer.remind("t", "The build is red.") == SUPPRESSED
        assert len(fake.asked(INJECT)) == 1


@pytest.mark.requirement("a2a:client:other-code-for-unknown-task")
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(error(-32001, "Task not found"), id="the-code-of-a2a"),
        pytest.param(error(-32004, "Unknown task"), id="the-code-of-the-proposal"),
        pytest.param(error(-32001, "gone", error_info("UNKNOWN_SESSION", field="taskId")), id="our-reason"),
    ],
)
@on_sockets
async def test_an_unknown_task_has_two_codes(answer: dict[str, Any]) -> None:
    async with a_fake_peer({INJECT: answer}, **with_extension()) as fake, connect(fake.url) as peer:
        with pytest.raises(UnknownSession):
            await peer.remind("t", "The build is red.")
        assert peer.reminders is not None


# Delegation.


@pytest.mark.requirement("a2a:delegation:propagate-remote")
@on_sockets
async def test_reminders_that_propagate_reach_a_delegated_task() -> None:
    async with a_delegation() as delegation:
        session = delegation.session
        for reach in ("all", "session", "none"):
            await session.remind(f"It reaches {reach}.", propagate=reach)
        await session.remind("Only for the record.", propagate="all", mode="audit_only")
        running = delegation.run(propagate_remote=True)
        worker = await delegation.worker()
        assert bodies(await told(worker, 2)) == ["It reaches all.", "It reaches session."]
        await session.remind("It came later.", propagate="all")
        await told(worker, 3)
        delegation.door.open.set()
        await in_time(running)
        request = delegation.tasks.requests[1].text
        for body in ("It reaches all.", "It reaches session.", "It came later."):
            assert body in request
        assert "It reaches none." not in request
        assert "Only for the record." not in request
        assert delegation.result["content"] == "The branch is rebased."


@pytest.mark.requirement("a2a:delegation:propagate-remote")
@on_sockets
async def test_without_the_option_a_delegated_task_gets_no_reminders() -> None:
    async with a_delegation() as delegation:
        await delegation.session.remind("It reaches all.", propagate="all")
        running = delegation.run()
        worker = await delegation.worker()
        await delegation.session.remind("It came later.", propagate="all")
        delegation.door.open.set()
        await in_time(running)
        assert [update.kind async for update in worker.updates(follow=False) if "reminder" in update.kind] == []
        assert delegation.result["content"] == "The branch is rebased."


@pytest.mark.requirement("a2a:delegation:propagate-remote")
@on_sockets
async def test_a_peer_whose_card_has_no_reminders_gets_none() -> None:
    async with a_delegation() as delegation:
        delegation.peer.reminders = None
        await delegation.session.remind("It reaches all.", propagate="all")
        running = delegation.run(propagate_remote=True)
        worker = await delegation.worker()
        delegation.door.open.set()
        await in_time(running)
        assert [update.kind async for update in worker.updates(follow=False) if "reminder" in update.kind] == []
        assert delegation.result["content"] == "The branch is rebased."


@pytest.mark.requirement("a2a:client:bounded")
@on_sockets
async def test_a_redirect_is_not_followed() -> None:
    async with a_fake_peer() as other:
        away = Raw(307, headers={"location": f"{other.url}/"})
        answers = {INJECT: away, "GetTask": away}
        async with (
            a_fake_peer(answers, **with_extension()) as fake,
            connect(fake.url, token="a-token") as peer,  # noqa: S106 - no secret
        ):
            with pytest.raises(PeerNotUnderstood, match="HTTP status 307"):
                await peer.get("t")
            with pytest.raises(PeerNotUnderstood, match="HTTP status 307"):
                await peer.remind("t", "Merged.")
        assert other.requests == []


@pytest.mark.requirement("a2a:client:bounded")
@on_sockets
async def test_an_agent_that_does_not_answer_is_silent() -> None:
    async with a_fake_peer({CARD: Raw(silent=True)}) as fake:
        with pytest.raises(PeerSilent, match=r"did not send its card within 0\.01 s"):
            async with connect(fake.url, answer_seconds=0.01):
                pass
    answers = {INJECT: Raw(silent=True), "SendMessage": Raw(silent=True)}
    async with a_fake_peer(answers, **with_extension()) as fake, connect(fake.url, answer_seconds=0.05) as peer:
        with pytest.raises(PeerSilent, match="did not answer tasks/inject_reminder"):
            await peer.remind("t", "Merged.")
        with pytest.raises(PeerSilent, match="did not answer SendMessage"):
            await peer.start("Rebase.")


@pytest.mark.requirement("a2a:delegation:cancel")
@on_sockets
async def test_cancelling_the_run_cancels_the_task() -> None:
    async with a_delegation() as delegation:
        options: AgentOptions = {"model": delegation.model, "tools": [delegate_tool(delegation.peer)]}
        async with await agent_run("Go.", session=delegation.session, **options) as run:
            running = asyncio.ensure_future(run.finish())
            worker = await delegation.worker()
            await delegation.session.cancel()
            result = await in_time(running)
        assert result.status is LoopStatus.CANCELLED
        assert (await in_time(delegation.peer.wait(worker.id))).state == "canceled"
