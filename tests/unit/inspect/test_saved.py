"""`sideband render` on a store: the bytes that a session sent, or would send, from nothing but its journal."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

import sideband as sb
from sideband.cli.render import render
from sideband.core.events import RequestCommitted
from sideband.core.ledger import RequestHead
from sideband.inspect.sessions import inspect_store
from sideband.render.plan import Plan
from sideband.render.profiles import Placement
from sideband.render.view import RequestView
from sideband.store.inspector import StoredSession
from sideband.testing import ScriptedModel
from tests.loopback import Refusal, a_loopback, over_sockets
from tests.model_kinds import ANTHROPIC, COMPATIBLE, GOOGLE, MODEL_KINDS, OPENAI_CHAT, ModelKind
from tests.stored_agents import a_session
from tests.unit.cli.stores import address
from tests.unit.inspect.saving import Captured, a_run, a_talk, document, plain_bodies, refusal, url
from tests.unit.store.twins import Twin, played

EVERY_MODEL_KIND = pytest.mark.parametrize("kind", MODEL_KINDS.values(), ids=MODEL_KINDS)
EVERY_PLACEMENT = pytest.mark.parametrize("placement", Placement, ids=[placement.value for placement in Placement])


# As it was sent.


@EVERY_MODEL_KIND
@EVERY_PLACEMENT
def test_every_request_of_a_session_is_shown_to_the_byte(
    kind: ModelKind, placement: Placement, tmp_path: Path, capsys: Captured
) -> None:
    bodies: list[bytes] = []

    @over_sockets
    async def story() -> None:
        async with a_loopback() as service, sb.open_store(url(tmp_path)) as store:
            parameters = {"temperature": 0.5} if kind is not GOOGLE else {}
            session = await store.session("fix-login")
            await a_talk(session, service, kind, placement=placement, max_output_tokens=900, parameters=parameters)
        bodies.extend(service.bodies)

    story()
    assert len(bodies) == 3
    for turn, body in enumerate(bodies, start=1):
        found = document(capsys, url(tmp_path), turn=turn)
        assert found["body"].encode() == body
        assert (found["session"], found["turn"], found["outcome"]) == ("fix-login", turn, "answered")
        assert (found["as_sent"], found["placement"]) == (True, placement.value)
        assert {reminder["state"] for reminder in found["reminders"]} == {"shown"}
    assert document(capsys, url(tmp_path))["turn"] == 3
    assert render(store=url(tmp_path), to="fix-login", turn=2) == 0
    assert "\nsession fix-login: exactly as it was sent; it was answered\n" in capsys.readouterr().out


def test_what_an_earlier_request_said_for_good_is_told_as_carried(tmp_path: Path, capsys: Captured) -> None:
    @over_sockets
    async def story() -> None:
        async with a_loopback() as service, sb.open_store(url(tmp_path)) as store:
            await a_talk(await store.session(), service, ANTHROPIC)

    story()
    told = {entry["body"]: entry for entry in document(capsys, url(tmp_path), turn=2)["reminders"]}
    assert told["Use tabs."]["scope"] == "kept since an earlier request"
    assert told["Mind the tests."]["scope"] == "clearing"
    assert document(capsys, url(tmp_path), turn=3)["cached_share"] > 0.5


def test_what_the_budget_left_out_when_it_was_sent_is_told(tmp_path: Path, capsys: Captured) -> None:
    @over_sockets
    async def story() -> None:
        async with a_loopback(ANTHROPIC.says("Done.")) as service, sb.open_store(url(tmp_path)) as store:
            session = await store.session()
            for number in range(4):
                await session.remind(f"{number} " + "word " * 1_200, ttl_turns=1)
            await a_run(session, "Go.", ANTHROPIC.model(service))

    story()
    states = [entry["state"] for entry in document(capsys, url(tmp_path))["reminders"]]
    assert states == ["shown", "left out", "left out", "left out"]


def test_a_turn_that_was_void_and_used_again_is_the_one_that_counts(tmp_path: Path, capsys: Captured) -> None:
    bodies: list[bytes] = []

    @over_sockets
    async def story() -> None:
        answers = (Refusal(status=400), Refusal(status=529), ANTHROPIC.says("Done."), Refusal(status=400))
        async with a_loopback(*answers) as service, sb.open_store(url(tmp_path)) as store:
            session, model = await store.session(), ANTHROPIC.model(service)
            await session.remind("Look out.", ttl_turns=1)
            await a_run(session, "First.", model)
            await a_run(session, "Second.", model)
            await a_run(session, "Third.", model)
        bodies.extend(service.bodies)

    story()
    assert len(bodies) == 4
    counted = document(capsys, url(tmp_path), turn=1)
    assert (counted["body"].encode(), counted["outcome"]) == (bodies[2], "answered")
    last = document(capsys, url(tmp_path))
    assert (last["body"].encode(), last["turn"], last["outcome"]) == (bodies[3], 2, "void")


def test_a_request_can_be_looked_at_while_its_reply_arrives_and_nothing_is_changed(
    durable: Twin, capsys: Captured
) -> None:
    seen: list[dict[str, Any]] = []
    bodies: list[bytes] = []

    @over_sockets
    async def story() -> None:
        async with a_loopback(ANTHROPIC.says("Done.")) as service, durable.open() as store:
            session = await a_session(store, "s")

            async def look(_text: str) -> None:
                if not seen:
                    before = await asyncio.to_thread(sessions_of, durable)
                    assert await asyncio.to_thread(render, store=address(durable), json=True) == 0
                    seen.append(json.loads(capsys.readouterr().out))
                    assert await asyncio.to_thread(sessions_of, durable) == before
                    assert before[0].lease is not None

            await session.remind("Look out.", ttl_turns=1)
            await a_run(session, "Go.", ANTHROPIC.model(service), on_text=look)
            assert session.talk.state.live.turn == 1
        bodies.extend(service.bodies)

    story()
    assert (seen[0]["outcome"], seen[0]["as_sent"], seen[0]["body"].encode()) == ("open", True, bodies[0])


def sessions_of(twin: Twin) -> list[StoredSession]:
    with inspect_store(address(twin)) as store:
        return list(store.sessions())


# As it had been on another model.

# What they send back of a plain reply is nothing of their own.
PLAIN: Final = {kind.transport: kind for kind in (ANTHROPIC, OPENAI_CHAT, COMPATIBLE, GOOGLE)}


@pytest.mark.parametrize("had", PLAIN)
@pytest.mark.parametrize("other", PLAIN)
def test_for_another_model_it_is_what_that_would_have_been_sent_in_the_same_session(
    had: str, other: str, tmp_path: Path, capsys: Captured
) -> None:
    asyncio.run(plain_bodies(url(tmp_path), PLAIN[had]))
    expected = asyncio.run(plain_bodies("memory:", PLAIN[other]))
    for turn, body in enumerate(expected, start=1):
        found = document(capsys, url(tmp_path), turn=turn, model=f"{other}:{PLAIN[other].models[0]}")
        assert found["body"].encode() == body
        assert found["as_sent"] is (had == other)


@pytest.mark.parametrize("other", Placement, ids=[placement.value for placement in Placement])
def test_for_another_placement_it_is_what_that_would_have_sent(
    other: Placement, tmp_path: Path, capsys: Captured
) -> None:
    asyncio.run(plain_bodies(url(tmp_path), ANTHROPIC))
    expected = asyncio.run(plain_bodies("memory:", ANTHROPIC, other))
    for turn, body in enumerate(expected, start=1):
        assert document(capsys, url(tmp_path), turn=turn, placement=other.value)["body"].encode() == body
    if other is Placement.SEED:
        assert render(store=url(tmp_path), placement="seed") == 0
        assert (
            "session fix-login: as it would have been sent if the whole session had run with these settings\n"
            in capsys.readouterr().out
        )


def test_with_rows_of_the_users_it_is_made_by_those(tmp_path: Path, capsys: Captured) -> None:
    asyncio.run(plain_bodies(url(tmp_path), ANTHROPIC))
    rows = tmp_path / "rows.toml"
    rows.write_text('[[profile]]\ntransport = "anthropic"\nplacement = "seed"\n', encoding="utf-8")
    found = document(capsys, url(tmp_path), profiles=rows)
    assert (found["model"], found["placement"], found["as_sent"]) == ("anthropic:claude-opus-5-5", "seed", False)


def test_what_another_version_has_put_down_is_made_by_the_table(tmp_path: Path, capsys: Captured) -> None:
    async def story() -> None:
        async with sb.open_store(url(tmp_path)) as store:
            session = await store.session("s")
            await session.prompt("Go.")
            model = NotOurs()
            await a_run(session, None, model)

    played(story)
    found = document(capsys, url(tmp_path))
    assert (found["model"], found["as_sent"]) == ("anthropic:claude-opus-5", False)
    assert "Be brief." in found["body"]


class NotOurs(ScriptedModel):
    """A model whose head says more than this version knows."""

    def plan(self, view: RequestView) -> Plan:
        head = RequestHead(
            route="r", model="anthropic:claude-opus-5", rendering={"profile": {"wire": "telepathy"}}, system=view.system
        )
        return msgspec.structs.replace(super().plan(view), route="r", head=head)


# The next one.


@EVERY_MODEL_KIND
def test_the_next_request_is_the_one_that_is_sent_when_the_session_goes_on(
    kind: ModelKind, tmp_path: Path, capsys: Captured
) -> None:
    shown: list[dict[str, Any]] = []

    @over_sockets
    async def story() -> None:
        async with a_loopback() as service, sb.open_store(url(tmp_path)) as store:
            session = await store.session("fix-login")
            model = await a_talk(session, service, kind)
            await session.remind("It waits.", ttl_turns=1)
            await session.prompt("And now?")
            shown.append(document(capsys, url(tmp_path), coming=True))
            service.will_answer(kind.says("Well."))
            await a_run(session, None, model)
            assert shown[0]["body"].encode() == service.bodies[-1]

    story()
    assert (shown[0]["turn"], shown[0]["outcome"], shown[0]["as_sent"]) == (4, "coming", False)
    assert "It waits." in [entry["body"] for entry in shown[0]["reminders"]]


def test_of_a_session_that_has_not_run_the_next_request_is_its_first(tmp_path: Path, capsys: Captured) -> None:
    async def story() -> None:
        async with sb.open_store(url(tmp_path)) as store:
            session = await store.session("s")
            await session.remind("Look out.", ttl_turns=1)
            await session.prompt("Go.")

    played(story)
    assert "session 's' has no recorded request: no request has been sent yet; only the next one can" in refusal(
        capsys, url(tmp_path)
    )
    assert "has no recorded model; choose one with --model transport:model" in refusal(
        capsys, url(tmp_path), coming=True
    )
    assert render(store=url(tmp_path), coming=True, wire="anthropic") == 0
    text = capsys.readouterr().out
    assert "\nsession s: the next request, without what the user, hooks and providers would add" in text
    assert "\nIts system text and tools were not recorded, so they are missing below.\n" in text
    assert "Look out." in text


# Sessions of models that build no bytes.


def test_a_scripted_session_can_be_shown_as_any_model_would_get_it(tmp_path: Path, capsys: Captured) -> None:
    async def story() -> None:
        async with sb.open_store(url(tmp_path)) as store:
            session = await store.session("s")
            await session.remind("Use tabs.")
            await a_run(session, "One.", ScriptedModel(["First."]))
            await a_run(session, "Two.", ScriptedModel(["Second."]))

    played(story)
    assert "the session has no recorded model" in refusal(capsys, url(tmp_path))
    found = document(capsys, url(tmp_path), model="openai-chat:gpt-4o")
    assert (found["turn"], found["as_sent"]) == (2, False)
    assert [entry["scope"] for entry in found["reminders"]] == ["kept since an earlier request"]
    assert found["body"].count("Use tabs.") == 1


# Where a window begins.


@pytest.mark.parametrize(
    ("change_it", "why"),
    [
        pytest.param(
            "system", "were made for another model, placement, tools or system text.", id="another-system-text"
        ),
        pytest.param("compaction", None, id="compacted"),
    ],
)
def test_where_a_window_begins_the_conversation_is_not_in_the_cache(
    change_it: str, why: str | None, tmp_path: Path, capsys: Captured
) -> None:
    system = "You mend code. " * 2_000

    @over_sockets
    async def story() -> None:
        async with a_loopback() as service, sb.open_store(url(tmp_path)) as store:
            session, model = await store.session("s"), ANTHROPIC.model(service)
            service.will_answer(*(ANTHROPIC.says(f"Answer {number}. " * 500) for number in range(3)))
            await a_run(session, "One.", model, system=system)
            await a_run(session, "Two.", model, system=system)
            if change_it == "compaction":
                before = list(session.talk.state.messages)
                assert await session.talk.compact(before, before[-2:], begun_at=0)
            await a_run(session, "Three.", model, system=system if change_it == "compaction" else f"{system}!")

    story()
    assert document(capsys, url(tmp_path), turn=2)["cached_share"] > 0.8
    found = document(capsys, url(tmp_path), turn=3)
    assert found["as_sent"]
    assert render(store=url(tmp_path), turn=3) == 0
    text = capsys.readouterr().out
    if why is None:
        # The head is unchanged; what follows it is not.
        head = sum(part["end"] - part["start"] for part in found["parts"] if part["kind"] == "head")
        assert found["tokens"]["read"] == head / 4
    else:
        assert found["cached_share"] == 0
        assert f"Nothing is read from the cache: the requests before it {why}" in text


# What is on record.


@EVERY_MODEL_KIND
def test_what_a_route_is_is_put_down_once_and_again_when_it_is_another(kind: ModelKind, tmp_path: Path) -> None:
    heads: list[RequestHead | None] = []

    @over_sockets
    async def story() -> None:
        async with a_loopback() as service, sb.open_store(url(tmp_path)) as store:
            session = await store.session("s")
            model = await a_talk(session, service, kind)
            service.will_answer(kind.says("Well."), kind.says("Well."))
            await a_run(session, "And now?", model, system="Be verbose.")
            await a_run(session, "And then?", model, system="Be verbose.")
            history = [logged.event async for logged in store.journal.history(session_id="s")]
            heads.extend(event.head for event in history if isinstance(event, RequestCommitted))

    story()
    assert [head and head.system for head in heads] == ["Be brief.", None, None, "Be verbose.", None]
    first = heads[0]
    assert first is not None
    assert first.model == f"{kind.transport}:{kind.models[0]}"
    assert [tool["name"] for tool in first.tools] == ["work"]
    assert "a-key" not in str(first)


def test_no_key_and_no_address_is_in_the_file(tmp_path: Path) -> None:
    asyncio.run(plain_bodies(url(tmp_path), ANTHROPIC))
    raw = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"Be brief." in raw
    assert re.search(rb"a-key|127\.0\.0\.1", raw) is None
