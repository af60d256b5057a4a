"""The requests of a saved session as JSON: rows, one request in full, and one request for several models."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import sideband as sb
from sideband.core.errors import InvalidOption, NothingToAnswer, StoreDamaged, UnknownSession
from sideband.inspect.memory import inspect_memory
from sideband.inspect.request import Break, explain_request
from sideband.inspect.requests import (
    RequestDocument,
    RequestRow,
    compared_requests,
    inspectable_models,
    request_document,
    request_rows,
)
from sideband.inspect.saved import TYPICAL_MODELS, chosen_making, compared_request, saved_request, saved_requests
from sideband.inspect.sessions import inspect_store
from sideband.render.profiles import Placement, Wire
from sideband.render.renderer import Renderer
from sideband.runtime.session import Session
from sideband.store.inspector import Inspector, KeptRecords, restored
from sideband.testing import ScriptedModel
from tests.loopback import Loopback, Refusal, a_loopback, over_sockets
from tests.model_kinds import ANTHROPIC, MODEL_KINDS, OPENAI, ModelKind
from tests.stored_agents import a_session
from tests.unit.cli.stores import address, prune
from tests.unit.inspect.saving import a_run, a_talk, plain_bodies, url
from tests.unit.store.test_inspector import change
from tests.unit.store.twins import Twin, played

EVERY_MODEL_KIND = pytest.mark.parametrize("kind", MODEL_KINDS.values(), ids=MODEL_KINDS)
EVERY_PLACEMENT = pytest.mark.parametrize("placement", Placement, ids=[placement.value for placement in Placement])


def rows(folder: Path, session: str = "fix-login", **options: Any) -> list[RequestRow]:  # noqa: ANN401 - those of request_rows
    with inspect_store(url(folder)) as store:
        return request_rows(store, session=session, **options)


def document(folder: Path, turn: int | None = None, session: str = "fix-login", **options: Any) -> RequestDocument:  # noqa: ANN401 - those of request_document
    with inspect_store(url(folder)) as store:
        return request_document(store, session=session, turn=turn, **options)


def body(shown: RequestDocument) -> bytes:
    return "".join(part.text for part in shown.parts).encode()


def row_of(shown: RequestDocument) -> RequestRow:
    return RequestRow(**{name: getattr(shown, name) for name in RequestRow.__struct_fields__})


async def scripted(folder: Path, *replies: str) -> None:
    async with sb.open_store(url(folder)) as store:
        session = await store.session("s")
        await session.remind("Use tabs.")
        for number, reply in enumerate(replies):
            await session.remind(f"It is {number}.", ttl_turns=1)
            await a_run(session, f"Question {number}.", ScriptedModel([reply]))


# As they were sent.


@EVERY_MODEL_KIND
@EVERY_PLACEMENT
def test_every_request_is_shown_to_the_byte_and_has_its_row(
    kind: ModelKind, placement: Placement, tmp_path: Path
) -> None:
    bodies: list[bytes] = []

    @over_sockets
    async def story() -> None:
        async with a_loopback() as service, sb.open_store(url(tmp_path)) as store:
            session = await store.session("fix-login")
            await a_talk(session, service, kind, placement=placement)
        bodies.extend(service.bodies)

    story()
    found = rows(tmp_path)
    assert [row.turn for row in found] == [1, 2, 3]
    for row, sent in zip(found, bodies, strict=True):
        shown = document(tmp_path, row.turn)
        assert (body(shown), shown.bytes) == (sent, len(sent))
        assert row_of(shown) == row
        assert (row.model, row.placement) == (f"{kind.transport}:{kind.models[0]}", placement)
        assert (row.exact, row.outcome.value) == (True, "answered")
        assert {reminder.state for reminder in shown.reminders} == {"shown"}
        assert {reminder.trust for reminder in shown.reminders} == {"operator"}
        assert all(one.kind is not other.kind for one, other in zip(shown.parts, shown.parts[1:], strict=False))


@EVERY_MODEL_KIND
def test_a_row_says_what_the_explanation_of_its_request_says(kind: ModelKind, tmp_path: Path) -> None:
    asyncio.run(plain_bodies(url(tmp_path), kind))
    for row in rows(tmp_path):
        with inspect_store(url(tmp_path)) as store:
            saved = saved_request(store, chosen_making, session=None, turn=row.turn, coming=False)
        explained = explain_request(saved.subject, saved.making.renderer)
        used = explained.share
        assert (row.read, row.written, row.plain) == used[:3]
        assert (row.tokens, row.share, row.relative) == (used.tokens, used.read / used.tokens, explained.relative)
        assert document(tmp_path, row.turn).why_none == used.why_none


def test_the_json_has_the_names_of_the_api_and_leaves_out_what_does_not_apply(tmp_path: Path) -> None:
    asyncio.run(plain_bodies(url(tmp_path), ANTHROPIC))
    known = {"turn", "model", "placement", "outcome", "exact", "share", "relative"}
    known |= {"tokens", "read", "written", "plain"}
    (first, *_) = msgspec.to_builtins(rows(tmp_path))
    assert first.keys() == known
    shown = msgspec.to_builtins(document(tmp_path, 2))
    more = {"hasHead", "bytes", "betas", "parts", "reminders"}
    assert shown.keys() == known | more
    assert msgspec.to_builtins(document(tmp_path, 1)).keys() == known | more | {"whyNone"}
    assert shown["betas"] == ("mid-conversation-system-clear-at-2026-08-21",)
    assert {part["kind"] for part in shown["parts"]} >= {"head", "stable", "new", "clearing", "marker", "closing"}
    told = {entry["body"]: entry for entry in shown["reminders"]}
    assert told["Use tabs."].keys() == {"id", "body", "state", "role", "scope", "trust"}


def test_only_the_requests_after_a_turn_are_listed(tmp_path: Path) -> None:
    asyncio.run(plain_bodies(url(tmp_path), ANTHROPIC))
    every = rows(tmp_path)
    assert rows(tmp_path, after=1) == every[1:]
    assert rows(tmp_path, after=1, limit=1) == [every[1]]
    assert rows(tmp_path, after=3) == []


def test_a_number_that_a_void_turn_left_has_one_row(tmp_path: Path) -> None:
    bodies: list[bytes] = []

    @over_sockets
    async def story() -> None:
        answers = (Refusal(status=400), Refusal(status=529), ANTHROPIC.says("Done."), Refusal(status=400))
        async with a_loopback(*answers) as service, sb.open_store(url(tmp_path)) as store:
            session, model = await store.session("fix-login"), ANTHROPIC.model(service)
            await session.remind("Look out.", ttl_turns=1)
            for task in ("First.", "Second.", "Third."):
                await a_run(session, task, model)
        bodies.extend(service.bodies)

    story()
    assert [(row.turn, row.outcome.value, row.exact) for row in rows(tmp_path)] == [
        (1, "answered", True),
        (2, "void", True),
    ]
    assert [body(document(tmp_path, turn)) for turn in (1, 2)] == [bodies[2], bodies[3]]


def test_an_open_request_has_a_row(tmp_path: Path) -> None:
    found: list[RequestRow] = []
    shown: list[RequestDocument] = []

    @over_sockets
    async def story() -> None:
        async with a_loopback(ANTHROPIC.says("Done.")) as service, sb.open_store(url(tmp_path)) as store:

            async def look(_text: str) -> None:
                found.extend(await asyncio.to_thread(rows, tmp_path))
                shown.append(await asyncio.to_thread(document, tmp_path))

            await a_run(await store.session("fix-login"), "Go.", ANTHROPIC.model(service), on_text=look)
            assert body(shown[0]) == service.bodies[0]

    story()
    assert (found[0].turn, found[0].outcome.value, found[0].exact) == (1, "open", True)


@pytest.mark.parametrize("compact", [True, False])
def test_the_first_request_after_a_compaction_is_marked(compact: bool, tmp_path: Path) -> None:  # noqa: FBT001 - parametrized
    system = "You mend code. " * 2_000

    @over_sockets
    async def story() -> None:
        async with a_loopback() as service, sb.open_store(url(tmp_path)) as store:
            session, model = await store.session("fix-login"), ANTHROPIC.model(service)
            service.will_answer(ANTHROPIC.says("One."), ANTHROPIC.says("Two."))
            await a_run(session, "One.", model, system=system)
            await a_run(session, "Two.", model, system=system)
            if compact:
                before = list(session.talk.state.messages)
                assert await session.talk.compact(before, before[-2:], begun_at=0)
            service.will_answer(Refusal(status=400), ANTHROPIC.says("Three."), ANTHROPIC.says("Four."))
            for task in ("Three.", "Again.", "Four."):
                await a_run(session, task, model, system=system)

    story()
    found = rows(tmp_path)
    assert [row.compaction for row in found] == [False, False, compact, False]
    assert [row.broken for row in found] == [None, None, Break.COMPACTION.value if compact else None, None]
    assert all(row_of(document(tmp_path, row.turn)) == row for row in found)


def test_what_a_deleted_session_of_the_same_name_sent_is_gone(tmp_path: Path) -> None:
    @over_sockets
    async def story() -> None:
        async with a_loopback() as service, sb.open_store(url(tmp_path)) as store:
            await a_talk(await store.session("fix-login"), service, ANTHROPIC)
            await store.delete("fix-login")
            session = await store.begin("fix-login")
            assert rows(tmp_path) == []
            service.will_answer(OPENAI.says("Hello."))
            await a_run(session, "Hello.", OPENAI.model(service))
            shown = document(tmp_path)
            assert (body(shown), shown.since) == (service.bodies[-1], None)

    story()
    assert [(row.turn, row.exact, row.broken) for row in rows(tmp_path)] == [(1, True, None)]
    with pytest.raises(InvalidOption, match="recorded are turns 1 to 1"):
        document(tmp_path, 3)
    assert document(tmp_path, 1, model="google:gemini-4-argon").broken is None


# The work.


class Work(Counter[str]):
    """How often requests were rendered, and how many rows of the journal were read."""


@contextmanager
def counted(store: Inspector, monkeypatch: pytest.MonkeyPatch) -> Iterator[Work]:
    work = Work()
    render, entries = Renderer.render, store.entries

    def counting(renderer: Renderer, view: Any) -> Any:  # noqa: ANN401 - those of the renderer
        work["renders"] += 1
        return render(renderer, view)

    def read(session_id: str, *, after: int = 0) -> Iterator[Any]:
        for entry in entries(session_id, after=after):
            work["entries"] += 1
            yield entry

    with monkeypatch.context() as patch:
        patch.setattr(Renderer, "render", counting)
        patch.setattr(store, "entries", read)
        yield work


def test_the_work_grows_with_the_rows_and_not_with_their_square(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = 24

    @over_sockets
    async def story() -> None:
        async with a_loopback() as service, sb.open_store(url(tmp_path)) as store:
            session, model = await store.session("fix-login"), ANTHROPIC.model(service)
            for number in range(turns):
                service.will_answer(ANTHROPIC.says("Done."))
                await a_run(session, f"Question {number}.", model)

    story()
    with inspect_store(url(tmp_path)) as store:
        (stored,) = store.sessions()
        with counted(store, monkeypatch) as whole:
            assert len(request_rows(store, session="fix-login")) == turns
        with counted(store, monkeypatch) as page:
            assert len(request_rows(store, session="fix-login", after=turns - 5)) == 5
        with counted(store, monkeypatch) as compared:
            assert len(compared_requests(store, session="fix-login", turn=turns)) == 6
    assert whole["renders"] == 3 * turns
    assert page["renders"] == 3 * 5
    # The other five also build each of the earlier requests.
    assert compared["renders"] == 3 * 6 + 5 * (turns - 1)
    # Once to find the requests and their outcomes, and once to build them.
    assert all(work["entries"] <= 2 * stored.events for work in (whole, page, compared))


def test_a_session_that_is_built_for_another_model_is_built_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = 12
    played(lambda: scripted(tmp_path, *(f"Answer {number}." for number in range(turns))))
    with inspect_store(url(tmp_path)) as store, counted(store, monkeypatch) as work:
        assert len(request_rows(store, session="s", after=turns - 2)) == 2
    assert work["renders"] == turns - 1 + 3 * 2


# For other models.


def test_a_scripted_session_is_shown_for_a_typical_model(tmp_path: Path) -> None:
    played(lambda: scripted(tmp_path, "First.", "Second.", "Third."))
    found = rows(tmp_path, "s")
    assert [(row.turn, row.exact, row.outcome.value) for row in found] == [(n, False, "answered") for n in (1, 2, 3)]
    assert {row.model for row in found} == {TYPICAL_MODELS[Wire.ANTHROPIC]}
    for row in found:
        shown = document(tmp_path, row.turn, "s")
        assert row_of(shown) == row
        assert not shown.has_head
    assert [entry.scope for entry in document(tmp_path, 3, "s").reminders] == [
        "kept since an earlier request",
        "clearing",
    ]


def test_a_session_with_several_models_has_each_request_as_its_model_got_it(tmp_path: Path) -> None:
    bodies: dict[int, bytes] = {}

    @over_sockets
    async def story() -> None:
        async with a_loopback() as service, sb.open_store(url(tmp_path)) as store:
            session = await store.session("fix-login")
            await session.remind("Use tabs.")
            for turn, kind in enumerate((None, ANTHROPIC, ANTHROPIC, OPENAI, None, ANTHROPIC), start=1):
                if kind is None:
                    await a_run(session, "Go.", ScriptedModel(["Done."]))
                    continue
                service.will_answer(kind.says("Done."))
                await a_run(session, "Go.", kind.model(service, "claude-opus-5" if kind is ANTHROPIC else None))
                bodies[turn] = service.bodies[-1]

    story()
    found = rows(tmp_path)
    assert [row.exact for row in found] == [False, True, True, True, False, True]
    assert [row.model.partition(":")[0] for row in found if row.exact] == [
        "anthropic",
        "anthropic",
        "openai",
        "anthropic",
    ]
    assert [row.broken for row in found if row.exact] == [Break.ROUTE.value, None, Break.ROUTE.value, Break.ROUTE.value]
    for row in found:
        shown = document(tmp_path, row.turn)
        assert row_of(shown) == row
        if row.exact:
            assert body(shown) == bodies[row.turn]


@EVERY_MODEL_KIND
def test_a_request_is_compared_with_other_placements_and_wires(kind: ModelKind, tmp_path: Path) -> None:
    asyncio.run(plain_bodies(url(tmp_path), kind))
    with inspect_store(url(tmp_path)) as store:
        found = compared_requests(store, session="fix-login", turn=2)
    own = f"{kind.transport}:{kind.models[0]}"
    assert found[0] == rows(tmp_path)[1]
    assert [row.exact for row in found] == [True] + [False] * (len(found) - 1)
    assert {row.placement.value for row in found if row.model == own} >= {"tail", "seed"}
    others = {row.model for row in found} - {own}
    assert len(others) == (4 if kind.transport == "openai-chat" else 3)
    assert others < {*TYPICAL_MODELS.values()}
    for row in found:
        assert row == row_of(document(tmp_path, 2, model=row.model, placement=row.placement.value))


def test_a_model_that_would_have_nothing_to_say_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with sb.open_store(url(tmp_path)) as store:
            session = await store.session("s")
            await a_run(session, "Go.", ScriptedModel(["Done."]))
            await session.remind("word " * 1_000)
            await a_run(session, None, ScriptedModel(["Noted."]))
            await a_run(session, "Go on.", ScriptedModel(["Done."]))

    played(story)
    small = "local:smollm2"
    the_users_rows(tmp_path, monkeypatch, 'transport = "local"\ncontext_window = 2048')
    with inspect_store(url(tmp_path)) as store:
        (stored,) = store.sessions()
        found = saved_requests(store, stored, lambda head: chosen_making(head, model=small))
        assert [saved.subject.view.turn for saved in found] == [1, 3]
        both = compared_request(
            store, stored, lambda head: [chosen_making(head, model=small), chosen_making(head)], turn=2
        )
        assert [saved.making.model for saved in both] == [TYPICAL_MODELS[Wire.ANTHROPIC]]
    assert [row.turn for row in rows(tmp_path, "s")] == [1, 2, 3]
    with pytest.raises(NothingToAnswer):
        document(tmp_path, 2, "s", model=small)


def test_the_placements_of_a_model_are_those_that_make_a_difference(tmp_path: Path) -> None:
    played(lambda: scripted(tmp_path, "First."))
    for known in inspectable_models():
        bodies = {
            placement: body(document(tmp_path, 1, "s", model=known.model, placement=placement))
            for placement in Placement
        }
        assert (bodies[Placement.NATIVE] != bodies[Placement.TAIL]) is (Placement.NATIVE in known.placements)
        assert {Placement.TAIL, Placement.SEED} <= {*known.placements}
        assert known.placement in known.placements
        assert document(tmp_path, 1, "s", model=known.model).placement is known.placement
    assert {*TYPICAL_MODELS.values()} <= {known.model for known in inspectable_models()}


def test_a_placement_that_a_row_of_the_users_sets_can_be_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    the_users_rows(tmp_path, monkeypatch, 'transport = "google"\nplacement = "native"')
    (gemini,) = (known for known in inspectable_models() if known.model.startswith("google:"))
    assert msgspec.to_builtins(gemini) == {
        "model": TYPICAL_MODELS[Wire.GEMINI],
        "placements": ("tail", "seed", "native"),
        "placement": "native",
    }


def the_users_rows(folder: Path, monkeypatch: pytest.MonkeyPatch, row: str) -> None:
    path = folder / "rows.toml"
    path.write_text(f"[[profile]]\n{row}\n", encoding="utf-8")
    monkeypatch.setenv("SIDEBAND_PROFILES", str(path))


# The next one.


@EVERY_MODEL_KIND
def test_the_next_request_is_the_one_that_is_sent(kind: ModelKind, tmp_path: Path) -> None:
    @over_sockets
    async def story() -> None:
        async with a_loopback() as service, sb.open_store(url(tmp_path)) as store:
            session = await store.session("fix-login")
            model = await a_talk(session, service, kind)
            await session.remind("It waits.", ttl_turns=1)
            await session.prompt("And now?")
            shown = document(tmp_path, coming=True)
            service.will_answer(kind.says("Well."))
            await a_run(session, None, model)
            assert body(shown) == service.bodies[-1]
            assert (shown.turn, shown.outcome.value, shown.exact) == (4, "coming", False)

    story()


def test_of_a_session_that_has_not_run_only_the_next_request_is_shown(tmp_path: Path) -> None:
    async def story() -> None:
        async with sb.open_store(url(tmp_path)) as store:
            session = await store.session("s")
            await session.prompt("Go.")

    played(story)
    assert rows(tmp_path, "s") == []
    with pytest.raises(InvalidOption, match="no request has been sent yet"):
        document(tmp_path, 1, "s")
    shown = document(tmp_path, None, "s", coming=True)
    assert (shown.turn, shown.model, shown.has_head) == (1, TYPICAL_MODELS[Wire.ANTHROPIC], False)


# What cannot be shown.


def test_a_pruned_session_has_the_rows_that_are_left(durable: Twin) -> None:
    bodies: list[bytes] = []

    @over_sockets
    async def story() -> None:
        async with a_loopback() as service, durable.open() as store:
            session = await a_session(store, "s")
            model = await a_talk(session, service, ANTHROPIC)
            await prune(durable, keep=0)
            with inspect_store(address(durable)) as seen:
                assert request_rows(seen, session="s") == []
                with pytest.raises(InvalidOption, match="the kept part of its journal holds no request"):
                    request_document(seen, session="s", turn=None)
            service.will_answer(ANTHROPIC.says("Well."), ANTHROPIC.says("Well."))
            await a_run(session, "And now?", model)
            await a_run(session, "And then?", model)
        bodies.extend(service.bodies)

    story()
    with inspect_store(address(durable)) as store:
        found = request_rows(store, session="s")
        assert [(row.turn, row.exact) for row in found] == [(4, True), (5, True)]
        for row, sent in zip(found, bodies[3:], strict=True):
            shown = request_document(store, session="s", turn=row.turn)
            assert (body(shown), row_of(shown), shown.since) == (sent, row, 4)
        with pytest.raises(InvalidOption, match="recorded are turns 4 to 5"):
            compared_requests(store, session="s", turn=1)


def test_a_damaged_session_is_refused(durable: Twin) -> None:
    async def story() -> None:
        async with durable.open() as store:
            await a_run(await a_session(store, "s"), "Go.", ScriptedModel())

    played(story)
    change(durable, "UPDATE {store}journal SET checksum = 0 WHERE sequence = 2")
    with inspect_store(address(durable)) as store:
        for ask in (
            lambda: request_rows(store, session="s"),
            lambda: request_document(store, session="s", turn=None),
            lambda: compared_requests(store, session="s", turn=1),
        ):
            with pytest.raises(StoreDamaged, match="session 's' cannot be read: row 2 was changed"):
                ask()


@pytest.mark.parametrize(
    ("options", "said", "field"),
    [
        pytest.param({"turn": 4}, "has no recorded request of turn 4", "turn", id="turn"),
        pytest.param({"model": "gpt-6"}, "a model is written transport:model", "model", id="model"),
        pytest.param({"placement": "front"}, "placement must be 'seed', 'tail'", "placement", id="placement"),
    ],
)
def test_an_option_that_is_wrong_is_named(options: dict[str, Any], said: str, field: str, tmp_path: Path) -> None:
    asyncio.run(plain_bodies(url(tmp_path), ANTHROPIC))
    with pytest.raises(InvalidOption, match=said) as refused:
        document(tmp_path, **options)
    assert refused.value.field == field


def test_an_unknown_session_is_refused(tmp_path: Path) -> None:
    asyncio.run(plain_bodies(url(tmp_path), ANTHROPIC))
    with inspect_store(url(tmp_path)) as store:
        for ask in (
            lambda: request_rows(store, session="unknown"),
            lambda: request_document(store, session="unknown", turn=None),
            lambda: compared_requests(store, session="unknown", turn=1),
        ):
            with pytest.raises(UnknownSession, match="there is no session 'unknown' in "):
                ask()


# In memory.


@over_sockets
async def test_a_session_in_memory_is_shown_like_any_other() -> None:
    async with a_loopback() as service, sb.open_store("memory:") as store:
        session = await store.session("fix-login")
        await a_talk(session, service, ANTHROPIC)
        seen = await inspect_memory(store.journal, "fix-login")
        found = await asyncio.to_thread(request_rows, seen, session="fix-login")
        assert [(row.turn, row.exact) for row in found] == [(1, True), (2, True), (3, True)]
        for row, sent in zip(found, service.bodies, strict=True):
            assert body(request_document(seen, session="fix-login", turn=row.turn)) == sent
        with pytest.raises(UnknownSession, match="there is no session 'unknown'"):
            await inspect_memory(store.journal, "unknown")
        assert [summary.session_id for summary in seen.sessions()] == ["fix-login"]
        assert restored(seen, seen.sessions()[0]).live.turn == 3
        assert (seen.faults(), seen.missing(), seen.receipts("fix-login")) == ((), (), {})
        assert (seen.records("fix-login"), seen.facts()) == (
            KeptRecords('{"agent":"agent"}', {"agent": "agent"}),
            {"events": seen.sessions()[0].events},
        )
        seen.close()
        await pruned_in_memory(session, service, store)


async def pruned_in_memory(session: Session, service: Loopback, store: sb.Store) -> None:
    await store.journal.prune("fix-login")
    await session.prompt("And now?")
    seen = await inspect_memory(store.journal, "fix-login")
    assert request_rows(seen, session="fix-login") == []
    coming = request_document(seen, session="fix-login", turn=None, coming=True)
    service.will_answer(ANTHROPIC.says("Well."))
    await a_run(session, None, ANTHROPIC.model(service))
    assert body(coming) == service.bodies[-1]
