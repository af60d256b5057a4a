"""The rehearsal: it plays to its end, every state and every producer is seen in it, and nothing of it is left behind."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from sideband.core.errors import InvalidOption
from sideband.core.events import DropReason
from sideband.core.reminder import Propagate, RoleHint, Source
from sideband.core.trust import Provenance, Trust
from sideband.core.updates import (
    CheckpointUpdate,
    CompactionUpdate,
    MessageUpdate,
    Phase,
    ReminderUpdate,
    ResultUpdate,
    TurnUpdate,
    Update,
    UpdateKind,
)
from sideband.rehearsal import Rehearsal, play, rehearsal
from sideband.rehearsal.script import NEXT_TASK, PEER_SAYS, STEER, TASK
from sideband.runtime.runner import Runner, TurnStatus
from sideband.runtime.session import Session
from sideband.runtime.store import Store, open_store
from tests.programs import run_python

# pytest rewrites these modules when they are imported. Python 3.11 cannot do that in threads, in which the rehearsal would
# import them.
for _name in ("build", "files", "peer"):
    import_module(f"sideband.rehearsal.{_name}")

# Every wait of a test ends after this time; it is far longer than a rehearsal without pauses takes.
SECONDS: Final = 120.0
LAST_TURN: Final = 15


class Played(NamedTuple):
    """A rehearsal that was played to its end: the updates of its session and of the sub-agent, and the replies."""

    updates: Sequence[Update]
    of_reviewer: Sequence[Update]
    records: dict[str, Any]
    pieces: Sequence[tuple[str, str, int, str]]
    left_out: Sequence[str]
    model: str

    def of(self, kind: UpdateKind) -> list[ReminderUpdate]:
        return [update for update in self.updates if isinstance(update, ReminderUpdate) and update.kind is kind]

    def keyed(self, kind: UpdateKind, key: str) -> list[ReminderUpdate]:
        return [update for update in self.of(kind) if update.dedupe_key == key]

    def replies(self) -> list[str]:
        return [str(update.reply["content"]) for update in _turns(self.updates) if update.reply is not None]

    def place(self, update: Update) -> int:
        return self.updates.index(update)


def _turns(updates: Sequence[Update]) -> list[TurnUpdate]:
    return [update for update in updates if isinstance(update, TurnUpdate) and update.kind is UpdateKind.TURN_COMMITTED]


async def past(session: Session) -> list[Update]:
    async with aclosing(session.updates(follow=False)) as updates:
        return [update async for update in updates]


async def found(store: Store, session_id: str) -> Session:
    session = await store.find(session_id)
    assert session is not None
    return session


async def in_time(waiting: Awaitable[Any]) -> Any:  # noqa: ANN401 - any value
    return await asyncio.wait_for(waiting, SECONDS)


async def until(session: Session, holds: Callable[[Update], bool]) -> None:
    """Return when the session has had an update for which this holds."""
    async with aclosing(session.updates()) as updates:
        async for update in updates:
            if holds(update):
                return


async def _play(url: str) -> Played:
    pieces: list[tuple[str, str, int, str]] = []
    async with (
        open_store(url) as store,
        Rehearsal(store, fast=True, on_reply=lambda *piece: pieces.append(piece)) as played,
    ):
        session = await found(store, await played.start())
        await played.wait()
        (reviewer,) = [entry for entry in (await store.sessions()).sessions if entry.session_id != session.id]
        assert reviewer.records["worker"]["parent"] == session.id
        return Played(
            await past(session),
            await past(await found(store, reviewer.session_id)),
            await session.records(),
            pieces,
            tuple(played.left_out),
            "" if session.talk.state.head is None else session.talk.state.head.model,
        )


@pytest.fixture(name="played", scope="module")
def _played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    folder = tmp_path_factory.mktemp("rehearsal")
    played: Played = asyncio.run(in_time(_play(f"sqlite:///{folder}/played.db")))
    return played


@pytest.fixture(name="temporary")
def _temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which temporary folders are made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def folders(temporary: Path) -> list[Path]:
    return [*temporary.iterdir()]


def children() -> set[str]:
    """The processes that this process has started and that have not ended."""
    own = str(Path("/proc/self").resolve().name)

    def lines() -> Iterator[tuple[str, list[str]]]:
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                try:
                    yield entry.name, (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
                except OSError:
                    continue

    return {name for name, fields in lines() if fields[1] == own and fields[0] != "Z"}


# The story.


@pytest.mark.requirement("rehearsal:story:ends")
def test_it_plays_to_its_end_and_fixes_the_bug(played: Played) -> None:
    assert [update.turn for update in _turns(played.updates)] == [*range(1, LAST_TURN + 1)]
    runs = [
        update.status
        for update in played.updates
        if isinstance(update, ResultUpdate) and "Ran 2 tests" in str(update.message["content"])
    ]
    assert runs == ["error", "ok"]
    assert played.left_out == ()


@pytest.mark.requirement("rehearsal:story:ends")
def test_its_session_is_open_and_says_what_it_is(played: Played) -> None:
    assert {name: played.records[name] for name in ("title", "rehearsal", "agent")} == {
        "title": "Rehearsal",
        "rehearsal": True,
        "agent": "rehearsal",
    }
    assert played.updates[-1].kind is UpdateKind.RUN_IDLED


@pytest.mark.requirement("rehearsal:model:real-requests")
def test_the_requests_are_those_of_a_real_profile_and_read_from_its_cache(played: Played) -> None:
    assert played.model == "anthropic:claude-opus-5-5"
    usages = [update.usage for update in _turns(played.updates) if update.usage is not None]
    assert usages[0].cached_tokens == 0
    assert all(0 < usage.cached_tokens < usage.prompt_tokens for usage in usages[1:])


@pytest.mark.requirement("rehearsal:model:real-requests")
def test_replies_are_written_piece_by_piece(played: Played) -> None:
    for updates in (played.updates, played.of_reviewer):
        for turn in _turns(updates):
            assert turn.reply is not None
            pieces = [text for _, reply_id, attempt, text in played.pieces if (reply_id, attempt) == (turn.reply_id, 1)]
            assert "".join(pieces) == turn.reply["content"]
            assert len(pieces) > 2


# Every state.

STATES: Final[dict[str, Callable[[ReminderUpdate], bool]]] = {
    "queued": lambda update: update.kind is UpdateKind.REMINDER_QUEUED,
    "live": lambda update: update.kind is UpdateKind.REMINDER_INJECTED,
    "shown": lambda update: update.kind is UpdateKind.REMINDER_EMITTED,
    "left out": lambda update: update.kind is UpdateKind.REMINDER_DEFERRED,
    "expired": lambda update: update.phase is Phase.TTL_EXPIRED,
    "cleared": lambda update: update.phase is Phase.CLEARED,
    "compacted out": lambda update: update.phase is Phase.COMPACTED_OUT,
    "deduped": lambda update: update.kind is UpdateKind.REMINDER_DEDUPED,
    "revoked": lambda update: update.kind is UpdateKind.REMINDER_REVOKED,
    "dropped": lambda update: update.reason is DropReason.TOO_LARGE,
    "audit only": lambda update: update.kind is UpdateKind.REMINDER_AUDIT_RECORDED,
}


@pytest.mark.requirement("rehearsal:story:every-state")
@pytest.mark.parametrize("state", STATES)
def test_every_state_of_the_lifecycle_is_seen(state: str, played: Played) -> None:
    assert any(isinstance(update, ReminderUpdate) and STATES[state](update) for update in played.updates)


@pytest.mark.requirement("rehearsal:story:dedupe")
def test_one_reminder_replaces_one_that_waits_and_one_replaces_a_live_one(played: Played) -> None:
    live = {update.reminder_id for update in played.of(UpdateKind.REMINDER_INJECTED)}
    replaced = [
        (update.dedupe_key, one in live)
        for update in played.of(UpdateKind.REMINDER_DEDUPED)
        for one in update.dropped_ids
    ]
    assert sorted(replaced) == [
        ("build:status", False),
        ("editor:cursor", True),
        ("file_changed:discount.py", False),
        ("token_pressure", True),
    ]


@pytest.mark.requirement("rehearsal:story:every-state")
def test_what_was_left_out_is_shown_later(played: Played) -> None:
    (left_out,) = played.of(UpdateKind.REMINDER_DEFERRED)
    shown = [
        update.turn for update in played.of(UpdateKind.REMINDER_EMITTED) if update.reminder_id == left_out.reminder_id
    ]
    assert left_out.turn is not None
    assert shown[0] == left_out.turn + 1


@pytest.mark.requirement("rehearsal:story:compaction")
def test_a_policy_outlives_the_compaction_and_a_loose_remark_does_not(played: Played) -> None:
    (compaction,) = [update for update in played.updates if isinstance(update, CompactionUpdate)]
    shown = {
        update.turn: update.reminder.body
        for update in played.of(UpdateKind.REMINDER_EMITTED)
        if update.reminder is not None and update.reminder.ttl_turns is None
    }
    policy = [turn for turn, body in shown.items() if body.startswith("This repository blocks")]
    assert policy == [1, compaction.turn + 1]
    gone = [update.reminder_id for update in played.of(UpdateKind.REMINDER_EXPIRED) if update.phase == "compacted_out"]
    bodies = [
        update.reminder.body
        for update in played.of(UpdateKind.REMINDER_INJECTED)
        if update.reminder is not None and update.reminder_id in gone
    ]
    assert bodies[0] == "Nightly runs use Python 3.12."
    (recap,) = played.keyed(UpdateKind.REMINDER_INJECTED, "post_compact_recap")
    assert played.place(recap) > played.place(compaction)


@pytest.mark.requirement("rehearsal:story:interrupt")
def test_the_interrupt_skips_both_calls_and_is_told_next(played: Played) -> None:
    (skipped,) = [
        update for update in played.updates if isinstance(update, CheckpointUpdate) and update.dispatch_skipped
    ]
    statuses = [update.status for update in played.updates if isinstance(update, ResultUpdate)]
    assert statuses.count("interrupted") == 2
    first = next(update for update in played.of(UpdateKind.REMINDER_EMITTED) if update.reminder_id in skipped.ids)
    assert first.turn == skipped.turn + 1
    assert first.provenance == Provenance(trust=Trust.CONTROLLER, principal="editor", via="acp")


@pytest.mark.requirement("rehearsal:story:messages")
def test_a_steer_reaches_the_run_and_a_queued_message_waits_for_its_end(played: Played) -> None:
    told = {
        str(update.content[0]["text"]): update
        for update in played.updates
        if isinstance(update, MessageUpdate) and update.kind is UpdateKind.MESSAGE_ACCEPTED and update.content
    }
    assert [*told] == [TASK, NEXT_TASK, STEER]
    delivered = {
        update.message_id: played.place(update)
        for update in played.updates
        if isinstance(update, MessageUpdate) and update.kind is UpdateKind.MESSAGE_DELIVERED
    }
    idle = next(played.place(update) for update in played.updates if update.kind is UpdateKind.RUN_IDLED)
    assert delivered[told[STEER].message_id] < idle < delivered[told[NEXT_TASK].message_id]


@pytest.mark.requirement("rehearsal:story:every-state")
def test_what_is_only_for_the_record_is_never_shown(played: Played) -> None:
    (recorded,) = played.of(UpdateKind.REMINDER_AUDIT_RECORDED)
    assert recorded.reminder_id not in {update.reminder_id for update in played.of(UpdateKind.REMINDER_EMITTED)}


# Producers.


@pytest.mark.requirement("rehearsal:producers:watcher")
def test_the_file_watcher_tells_of_the_user_and_not_of_the_agent(played: Played) -> None:
    told = played.keyed(UpdateKind.REMINDER_QUEUED, "file_changed:discount.py")
    assert [update.provenance for update in told] == [Provenance(), Provenance()]
    edited = [
        update for update in played.updates if isinstance(update, ResultUpdate) and "edited " in str(update.message)
    ]
    assert len(edited) == 2
    files = {update.dedupe_key for update in played.of(UpdateKind.REMINDER_QUEUED) if update.dedupe_key}
    assert {key for key in files if key.startswith("file_changed:")} == {"file_changed:discount.py"}


@pytest.mark.requirement("rehearsal:producers:providers")
@pytest.mark.parametrize(
    "provider", ["grounded_review", "tool_output_truncated", "token_pressure", "post_compact_recap"]
)
def test_canonical_providers_fire(provider: str, played: Played) -> None:
    told = [
        update.reminder.source
        for update in played.of(UpdateKind.REMINDER_EMITTED)
        if update.provenance is not None and update.provenance.provider_id == provider and update.reminder is not None
    ]
    assert told
    assert set(told) == {Source.STDLIB_PROVIDER}


@pytest.mark.requirement("rehearsal:producers:clamped")
def test_the_build_watcher_is_a_server_and_gets_no_more_than_one(played: Played) -> None:
    told = played.keyed(UpdateKind.REMINDER_QUEUED, "build:status")
    for update in told:
        sender, reminder = update.provenance, update.reminder
        assert sender is not None
        assert reminder is not None
        assert (sender.trust, sender.principal, sender.via) == (Trust.SERVER, "build-watcher", "mcp")
        assert sender.requested == {"role_hint": RoleHint.SYSTEM, "propagate": Propagate.SESSION}
        assert (reminder.role_hint, reminder.propagate) == (RoleHint.USER_BLOCK, Propagate.NONE)
        assert (reminder.ttl_turns, reminder.preserve_on_compact) == (1, False)
    outcomes = ["passed" in update.reminder.body for update in told if update.reminder is not None]
    assert outcomes == [False, False, False, True, True]


@pytest.mark.requirement("rehearsal:producers:clamped")
def test_the_review_agent_is_a_peer_and_gets_no_more_than_one(played: Played) -> None:
    (update,) = played.keyed(UpdateKind.REMINDER_QUEUED, "review:report")
    sender, reminder = update.provenance, update.reminder
    assert sender is not None
    assert reminder is not None
    assert (sender.trust, sender.principal, sender.via) == (Trust.PEER, "review-agent", "a2a")
    assert sender.requested == {
        "role_hint": RoleHint.SYSTEM,
        "ttl_turns": 5,
        "propagate": Propagate.ALL,
        "preserve_on_compact": True,
    }
    assert (reminder.role_hint, reminder.ttl_turns) == (RoleHint.USER_BLOCK, 3)
    assert (reminder.propagate, reminder.preserve_on_compact) == (Propagate.NONE, False)
    assert reminder.body == PEER_SAYS
    shown = [one for one in played.of(UpdateKind.REMINDER_EMITTED) if one.reminder_id == update.reminder_id]
    assert {one.rendered_role for one in shown} == {"user"}


@pytest.mark.requirement("rehearsal:story:sub-agent")
def test_the_sub_agent_inherits_what_propagates_and_ends(played: Played) -> None:
    inherited = [
        update.reminder
        for update in played.of_reviewer
        if isinstance(update, ReminderUpdate) and update.kind is UpdateKind.REMINDER_INHERITED
    ]
    assert [reminder and reminder.dedupe_key for reminder in inherited] == [None, "git:main"]
    assert played.of_reviewer[-1].kind is UpdateKind.SESSION_CLOSED
    answer = _turns(played.of_reviewer)[-1].reply
    assert answer is not None
    assert any(
        isinstance(update, ResultUpdate) and answer["content"] in str(update.message) for update in played.updates
    )


# Nothing is left behind.


@pytest.mark.requirement("rehearsal:end:nothing-left")
def test_after_the_end_processes_and_folders_are_gone(temporary: Path) -> None:
    async def run() -> None:
        before = children()
        async with open_store() as store, Rehearsal(store, fast=True) as played:
            await played.start()
            await in_time(played.wait())
            assert len(folders(temporary)) == 1
            assert len(children() - before) == 1
        assert folders(temporary) == []
        assert children() - before == set()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())


@pytest.mark.requirement("rehearsal:end:nothing-left")
@pytest.mark.parametrize("turn", [0, 1, 3])
def test_it_can_be_closed_in_the_middle(turn: int, temporary: Path) -> None:
    async def run() -> None:
        before = children()
        async with open_store() as store:
            played = Rehearsal(store, fast=turn > 1)
            session = await found(store, await played.start())
            if turn:
                opened = UpdateKind.TURN_OPENED
                await in_time(
                    until(session, lambda one: isinstance(one, TurnUpdate) and (one.turn, one.kind) == (turn, opened))
                )
            await in_time(played.aclose())
            await played.aclose()
            await played.wait()
            assert not session.talk.state.running
            assert not session.talk.state.closed
        assert folders(temporary) == []
        assert children() - before == set()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run())


@pytest.mark.requirement("rehearsal:end:nothing-left")
def test_a_closed_one_cannot_be_started(temporary: Path) -> None:
    async def run() -> None:
        async with open_store() as store:
            async with Rehearsal(store, fast=True) as played:
                pass
            with pytest.raises(InvalidOption, match="closed"):
                await played.start()
        assert folders(temporary) == []

    asyncio.run(run())


# Going on.


@pytest.mark.requirement("rehearsal:end:again")
def test_it_can_be_started_again_and_releases_what_the_first_one_held(temporary: Path) -> None:
    async def run() -> None:
        async with open_store() as store, Rehearsal(store, fast=True) as played:
            first = await played.start()
            await in_time(played.wait())
            second = await played.start()
            assert len(folders(temporary)) == 1
            await in_time(played.wait())
            for session_id in (first, second):
                assert (await found(store, session_id)).talk.state.live.turn == LAST_TURN
            assert await answer(store, played, first) == ["This request tells me one thing on the side."]

    asyncio.run(run())


async def answer(store: Store, played: Rehearsal, session_id: str, *, prompt: str = "And now?") -> list[str]:
    """The first sentence of each reply to another prompt, which is run as the studio would."""
    session, options = await found(store, session_id), played.options_for(session_id)
    assert options is not None
    before = len(_turns(await past(session)))
    async with Runner(session, **options) as runner:
        outcome = await in_time(runner.outcome(await session.prompt(prompt)))
    assert outcome.status is TurnStatus.COMPLETED
    assert not session.talk.state.closed
    replies = [turn.reply for turn in _turns(await past(session))[before:]]
    return [f"{reply['content'].split('. ')[0]}." for reply in replies if reply is not None]


@pytest.mark.requirement("rehearsal:person:joins")
def test_prompts_after_the_end_are_answered() -> None:
    async def run() -> None:
        async with open_store() as store, Rehearsal(store, fast=True) as played:
            session_id = await played.start()
            assert played.options_for("another session") is None
            await in_time(played.wait())
            for _ in range(2):
                assert await answer(store, played, session_id) == [
                    "I am a script, and the rehearsal is over.",
                    "This request tells me one thing on the side.",
                ]

    asyncio.run(run())


class MeddlingPace:
    """Has no pauses. After a word of the reply in a certain turn, it calls a function once."""

    def __init__(self, turn: int, meddle: Callable[[Session], Awaitable[object]]) -> None:
        self.session: Session | None = None
        self._turn = turn
        self._meddle: Callable[[Session], Awaitable[object]] | None = meddle

    async def rest(self, _beats: float = 1.0) -> None:
        await asyncio.sleep(0)

    async def after_word(self) -> None:
        request = None if self.session is None else self.session.talk.state.request
        if self.session is not None and request is not None and request.turn == self._turn and self._meddle is not None:
            meddle, self._meddle = self._meddle, None
            await meddle(self.session)


async def _meddled(
    monkeypatch: pytest.MonkeyPatch, turn: int, meddle: Callable[[Session], Awaitable[object]]
) -> list[str]:
    """The replies of a rehearsal in which a person does something."""
    pace = MeddlingPace(turn, meddle)
    monkeypatch.setattr(rehearsal, "FAST", pace)
    async with open_store() as store, Rehearsal(store, fast=True) as played:
        session = pace.session = await found(store, await played.start())
        await in_time(played.wait())
        replies = [str(turn.reply["content"]) for turn in _turns(await past(session)) if turn.reply is not None]
        if len(replies) < LAST_TURN:
            replies += await answer(store, played, session.id)
        return replies


@pytest.mark.requirement("rehearsal:person:joins")
def test_calls_that_a_person_interrupts_are_made_again(monkeypatch: pytest.MonkeyPatch, played: Played) -> None:
    def interrupt(session: Session) -> Awaitable[object]:
        return session.remind("Wait a moment.", mode="interrupt_immediate", ttl_turns=1)

    replies = asyncio.run(_meddled(monkeypatch, 1, interrupt))
    assert replies[1] == "I was interrupted, and have read why. I call it again."
    assert [replies[0], *replies[2:]] == played.replies()


@pytest.mark.requirement("rehearsal:person:joins")
def test_a_message_of_a_person_is_acknowledged(monkeypatch: pytest.MonkeyPatch, played: Played) -> None:
    replies = asyncio.run(_meddled(monkeypatch, 2, lambda session: session.inject("Use fewer words.")))
    aside = "I have read your message, but I only follow a script. "
    assert replies[2] == f"{aside}{played.replies()[2]}"
    assert len(replies) == LAST_TURN


@pytest.mark.requirement("rehearsal:person:joins")
def test_a_cancelled_turn_ends_the_script_and_prompts_are_answered(
    monkeypatch: pytest.MonkeyPatch, played: Played
) -> None:
    replies = asyncio.run(_meddled(monkeypatch, 3, lambda session: session.cancel()))
    assert replies == [*played.replies()[:2], "I am a script, and the rehearsal is over.", replies[-1]]


@pytest.mark.requirement("rehearsal:person:joins")
def test_a_closed_session_ends_the_script() -> None:
    async def run() -> None:
        async with open_store() as store, Rehearsal(store, fast=True) as played:
            session = await found(store, await played.start())
            await session.close()
            await in_time(played.wait())
            updates = await past(session)
            assert _turns(updates) == []
            assert updates[-1].kind is UpdateKind.SESSION_CLOSED

    asyncio.run(run())


# What is not installed.


@pytest.mark.requirement("rehearsal:extras:left-out")
def test_without_the_extras_it_plays_without_those_producers(monkeypatch: pytest.MonkeyPatch, temporary: Path) -> None:
    missing = {"files": "watchfiles", "build": "mcp.types", "peer": "a2a"}

    def refuse(name: str) -> object:
        package = missing[name.rpartition(".")[2]]
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)

    async def run() -> tuple[list[str], int]:
        async with open_store() as store, Rehearsal(store, fast=True) as played:
            session = await found(store, await played.start())
            await in_time(played.wait())
            return sorted(played.left_out), session.talk.state.live.turn

    monkeypatch.setattr(play, "import_module", refuse)
    left_out, turns = asyncio.run(run())
    assert left_out == [
        "the build watcher over MCP: mcp is not installed: pip install 'sideband[mcp,watch]'",
        "the file watcher: watchfiles is not installed: pip install 'sideband[watch]'",
        "the review agent over A2A: a2a is not installed: pip install 'sideband[a2a,serve]'",
    ]
    # Without the build watcher, nothing arrives after the last call.
    assert turns == LAST_TURN - 1
    assert folders(temporary) == []


@pytest.mark.requirement("rehearsal:extras:left-out")
def test_the_package_itself_needs_no_extra() -> None:
    # The modules that need one are imported when a rehearsal begins. None in `sys.modules` is a package that is missing.
    extras = ["a2a", "mcp", "watchfiles", "uvicorn", "starlette"]
    script = f"import sys; sys.modules.update(dict.fromkeys({extras})); import sideband.rehearsal"
    assert run_python("-c", script).stderr == ""
