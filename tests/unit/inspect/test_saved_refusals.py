"""`sideband render` on a store: what cannot be shown, and how that is told."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import sideband as sb
from sideband.cli.render import render
from sideband.core.messages import ToolCall
from sideband.testing import ScriptedModel
from tests.loop_builders import ATool
from tests.loopback import a_loopback, over_sockets
from tests.model_kinds import ANTHROPIC
from tests.stored_agents import a_session
from tests.unit.cli.stores import address, prune
from tests.unit.inspect.saving import Captured, a_run, a_talk, document, plain_bodies, refusal, url
from tests.unit.store.test_inspector import change
from tests.unit.store.twins import Twin, played

# What cannot be shown.


def test_a_store_with_several_sessions_has_to_be_told_which(tmp_path: Path, capsys: Captured) -> None:
    async def story() -> None:
        async with sb.open_store(url(tmp_path)) as store:
            for name in ("one", "two"):
                await store.begin(name)

    played(story)
    assert render(store=url(tmp_path)) == 2
    assert "are open; choose one with --to ID:" in capsys.readouterr().err
    assert render(store=url(tmp_path), to="unknown") == 2
    assert "there is no session 'unknown' in " in capsys.readouterr().err


def test_a_store_without_sessions_has_nothing_to_show(tmp_path: Path, capsys: Captured) -> None:
    async def story() -> None:
        async with sb.open_store(url(tmp_path)):
            pass

    played(story)
    assert "there is no session in " in refusal(capsys, url(tmp_path))


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        pytest.param("sqlite:///nothing.db", {}, "there is no store: ", id="no-store"),
        pytest.param("memory:", {}, "a store in memory cannot be inspected", id="in-memory"),
        pytest.param("mongodb://x", {}, "mongodb", id="no-such-kind"),
        pytest.param(
            "sqlite:///s.db",
            {"turn": 1, "coming": True},
            "use --turn for a request that was sent or --next for the next one, not both",
            id="a-turn-and-the-next",
        ),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(
    source: str, options: dict[str, Any], said: str, capsys: Captured
) -> None:
    assert said in refusal(capsys, source, **options)


@pytest.mark.parametrize("option", [{"turn": 1}, {"to": "s"}, {"store": "sqlite:///s.db"}, {"coming": True}])
def test_a_file_has_no_session(option: dict[str, Any], capsys: Captured) -> None:
    assert render("a.json", **option) == 2
    said = "error: a.json is a file; --to, --store, --turn and --next are about a session of a store\n"
    assert capsys.readouterr() == ("", said)


def test_a_turn_that_was_not_is_refused_with_those_that_were(tmp_path: Path, capsys: Captured) -> None:
    asyncio.run(plain_bodies(url(tmp_path), ANTHROPIC))
    assert refusal(capsys, url(tmp_path), turn=4) == (
        "error: session 'fix-login' has no recorded request of turn 4; recorded are turns 1 to 3\n"
    )


def test_of_a_pruned_session_the_turns_that_are_left_can_be_shown(durable: Twin, capsys: Captured) -> None:
    bodies: list[bytes] = []

    @over_sockets
    async def story() -> None:
        async with a_loopback() as service, durable.open() as store:
            session = await a_session(store, "s")
            model = await a_talk(session, service, ANTHROPIC)
            await prune(durable, keep=0)
            assert "session 's' has no recorded request: the kept part of its journal holds no request" in refusal(
                capsys, address(durable)
            )
            service.will_answer(ANTHROPIC.says("Well."))
            await a_run(session, "And now?", model)
        bodies.extend(service.bodies)

    story()
    found = document(capsys, address(durable))
    assert (found["turn"], found["as_sent"], found["body"].encode()) == (4, True, bodies[3])
    assert "recorded are turns 4 to 4" in refusal(capsys, address(durable), turn=1)
    assert document(capsys, address(durable), model="openai:gpt-6")["as_sent"] is False
    assert render(store=address(durable), model="openai:gpt-6") == 0
    assert (
        "as it would have been sent if the session had run with these settings since turn 4; earlier turns"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize("state", ["closed", "asking", "working", "empty"])
def test_a_next_request_that_cannot_be_known_is_not_made_up(state: str, tmp_path: Path, capsys: Captured) -> None:
    said = {
        "closed": "session 's' is closed: it will send no further request",
        "asking": "the request of turn 1 in session 's' has no reply yet; show that request instead of the next one",
        "working": "tools of session 's' are still running; the next request depends on their results",
        "empty": "session 's' has no message and no reminder yet",
    }

    def look(*_: object) -> str:
        assert said[state] in refusal(capsys, url(tmp_path), to="s", coming=True, model="anthropic:claude-opus-5")
        return "looked"

    async def story() -> None:
        async with sb.open_store(url(tmp_path)) as store:
            session = await store.session("s")
            call = sb.Reply(tool_calls=(ToolCall(id="c1", name="work"),))
            match state:
                case "closed":
                    await session.prompt("Go.")
                    await session.close()
                    look()
                case "empty":
                    await session.remind("Only for the record.", mode="audit_only")
                    look()
                case "asking":
                    await a_run(session, "Go.", ScriptedModel([look]))
                case "working":
                    await a_run(session, "Go.", ScriptedModel([call]), tools=[ATool(do=look)])
                    assert session.talk.state.messages[-2]["content"] == "looked"

    played(story)


def test_a_session_that_was_changed_from_outside_is_refused(durable: Twin, capsys: Captured) -> None:
    async def story() -> None:
        async with durable.open() as store:
            await a_run(await a_session(store, "s"), "Go.", ScriptedModel())

    played(story)
    change(durable, "UPDATE {store}journal SET checksum = 0 WHERE sequence = 2")
    assert "session 's' cannot be read: row 2 was changed" in refusal(capsys, address(durable))
