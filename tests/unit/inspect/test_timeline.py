"""The timeline of a session: it agrees with the journal on what was shown, and with the view on what is pending."""

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.accept import accept
from sideband.core.apply import apply as change
from sideband.core.errors import InvalidOption
from sideband.core.events import Begun, Dropped, DropReason, Event, Fired, TurnVoided
from sideband.core.handover import VIA, close_prompt, compact_given, open_prompt
from sideband.core.limits import DEFAULT_LIMITS
from sideband.core.messages import Reply
from sideband.core.seams import InjectMode, Seam
from sideband.core.state import SessionState
from sideband.core.trust import Provenance, Trust
from sideband.core.turn import PlannedRequest, Shown, open_request
from sideband.core.updates import OPERATOR, Update, UpdateKind, View, Viewer, joined, update_of, view
from sideband.inspect.history import read_timeline, stored_timeline, timeline_of
from sideband.inspect.sessions import inspect_store, stored_session
from sideband.inspect.timeline import (
    AxisPlace,
    MessageState,
    ReminderRow,
    ReminderState,
    Showing,
    Timeline,
    ToldRow,
    TurnState,
    empty_timeline,
    keep_last,
)
from sideband.inspect.timeline_fold import TimelineFold
from sideband.loop.run import Step
from sideband.ports import ModelError
from sideband.render.plan import Plan
from sideband.render.view import RequestView
from sideband.runtime.session import Session
from sideband.runtime.store import open_store
from sideband.store.inspector import UnreadableSession, restored
from sideband.testing import MemoryStore, ScriptedModel
from tests.builders import a_draft
from tests.loop_builders import AScene, ATool, a_call, a_reply, a_session, until
from tests.viewed_histories import TOUR, Happening, committed, happenings, reply, say, start, take, tell

ANN = Provenance(trust=Trust.PEER, principal="ann", via="a2a")
EDITOR = Provenance(trust=Trust.CONTROLLER, principal="editor", via="acp")
SESSION = "main"


# Laws: any history of a session.


def keep(state: SessionState, new_id: str, *, left_out: int = 0) -> Sequence[Event]:
    """A request of a model that reads in earlier messages what an earlier request has shown."""
    live = [*state.live]
    planned = PlannedRequest(
        shown=tuple(Shown(item.id, "user", carried=item.first_turn is not None) for item in live[left_out:]),
        left_out=tuple(item.id for item in live[:left_out]),
    )
    return open_request(state, state.basis, planned, repeats=False, reply_id=new_id).events


A_KEPT_TURN: tuple[Happening, ...] = (
    partial(tell, who=EDITOR),
    partial(say, mode=InjectMode.QUEUE),
    start,
    partial(take, seam=Seam.ITERATION_START),
    keep,
    partial(reply, calls=1),
)
_segments = st.sampled_from([True] + [False] * 6).flatmap(
    lambda whole: (
        st.just(A_KEPT_TURN)
        if whole
        else st.tuples(st.one_of(happenings, st.builds(partial, st.just(keep), left_out=st.integers(0, 1))))
    )
)
long_histories = st.lists(_segments, min_size=8, max_size=30).map(lambda parts: [*chain.from_iterable(parts)])


class Told:
    """A history, with the updates that tell of each commit and the view after each."""

    def __init__(self, history: Sequence[Happening]) -> None:
        state, ids, cursors = SessionState(), count(1), count(1)
        state.attended = True
        self.journal: list[tuple[int, Event]] = []
        self.commits: list[list[Update]] = []
        self.views: list[View] = [view(state, OPERATOR)]
        self.cursors = [0]
        for happens in history:
            updates: list[Update] = []
            for event in committed(state, happens, f"id{next(ids)}"):
                change(state, event)
                cursor = next(cursors)
                self.journal.append((cursor, event))
                update = update_of(event, OPERATOR, cursor=cursor, time=cursor * 1_000)
                together = joined(updates[-1], update) if updates else None
                if together is not None:
                    updates[-1] = together
                elif update is not None:
                    updates.append(update)
            self.commits.append(updates)
            self.views.append(view(state, OPERATOR))
            self.cursors.append(self.journal[-1][0] if self.journal else 0)

    @property
    def updates(self) -> list[Update]:
        return [*chain.from_iterable(self.commits)]

    def since(self, commits: int) -> list[Update]:
        return [*chain.from_iterable(self.commits[commits:])]

    def timeline(self) -> Timeline:
        return timeline_of(SESSION, self.views[-1], self.updates, cursor=self.cursors[-1])


def folded(updates: Sequence[Update], timeline: Timeline | None = None) -> Timeline:
    timeline = empty_timeline(SESSION) if timeline is None else timeline
    fold = TimelineFold(timeline)
    for update in updates:
        fold.apply(update)
    return timeline


def copied(timeline: Timeline) -> Timeline:
    return Timeline.from_json(timeline.to_json())


def pending_of(timeline: Timeline) -> dict[str, tuple[str, int | None, str]]:
    return {row.id: (row.state, row.ttl_left, row.body) for row in timeline.reminders if row.is_pending}


def check_view(timeline: Timeline, seen: View) -> None:
    """The timeline says of what is pending, and of the session, what the view says."""
    assert pending_of(timeline) == {
        entry.reminder.id: (entry.state, entry.reminder.ttl_turns, entry.reminder.body) for entry in seen.reminders
    }
    session = seen.session
    assert session is not None
    waiting = [row.id for row in timeline.messages if row.state is MessageState.WAITING]
    assert sorted(waiting) == sorted(item.id for item in session.waiting)
    assert (timeline.turn, timeline.running) == (session.turn, session.running)
    assert timeline.open_turn == (None if session.reply_id is None else session.turn + 1)
    assert (timeline.permissions, timeline.records) == ([*session.permissions], session.records)
    assert timeline.closed is (session.closed_reason is not None)


def showings(journal: Sequence[tuple[int, Event]]) -> set[tuple[str, int, bool]]:
    """What the journal says was shown: reminder, turn and whether it was carried; without what is void."""
    shown: set[tuple[str, int, bool]] = set()
    for _cursor, event in journal:
        match event:
            case Fired(reminder_id=reminder_id, turn=turn, carried=carried):
                shown.add((reminder_id, turn, carried))
            case TurnVoided(turn=turn):
                shown = {entry for entry in shown if entry[1] != turn}
            case Begun():
                shown.clear()
            case _:
                pass
    return shown


@given(long_histories)
def test_the_timeline_agrees_with_every_view_and_with_the_journal(history: list[Happening]) -> None:
    told = Told(history)
    fold = TimelineFold(empty_timeline(SESSION))
    for updates, seen in zip(told.commits, told.views[1:], strict=True):
        for update in updates:
            fold.apply(update)
        check_view(fold.timeline, seen)
    timeline = fold.timeline
    if not told.journal or any(update.kind is UpdateKind.SESSION_DELETED for update in told.updates):
        return
    found = {(row.id, entry.turn, entry.carried) for row in timeline.reminders for entry in row.shown}
    assert found == showings(told.journal)
    check_rows(timeline)


def check_rows(timeline: Timeline) -> None:
    """Turns and reminders say the same of each other, and the places lie in order."""
    by_turn: dict[tuple[str, int], Showing] = {
        (row.id, showing.turn): showing for row in timeline.reminders for showing in row.shown
    }
    for turn in timeline.turns:
        if turn.state is TurnState.VOID:
            continue
        for told in turn.told:
            assert by_turn.pop((told.id, turn.turn)) == Showing(turn=turn.turn, role=told.role, via=told.via)
        for reminder_id in turn.still:
            assert by_turn.pop((reminder_id, turn.turn)).carried
    assert not by_turn
    for row in timeline.reminders:
        assert (row.ended is None) is row.is_pending
        places = [place.at for place in (row.queued, row.live, row.ended) if place is not None]
        assert all(0.9 <= at < timeline.turn + 2 for at in places)
        assert len(row.shown) == len({showing.turn for showing in row.shown})
        if row.ttl_turns is not None:
            assert len(row.shown) <= row.ttl_turns


@given(long_histories, st.data())
def test_folding_a_prefix_and_then_the_rest_is_folding_all(history: list[Happening], data: st.DataObject) -> None:
    updates = Told(history).updates
    until_here = data.draw(st.integers(0, len(updates)))
    # What was written and read again is all that the rest needs.
    first = copied(folded(updates[:until_here]))
    assert folded(updates[until_here:], first) == folded(updates)
    one_by_one = empty_timeline(SESSION)
    for update in updates:
        TimelineFold(one_by_one).apply(update)
    assert one_by_one == folded(updates)


@given(long_histories, st.data())
def test_what_is_pending_is_complete_after_a_pruning(history: list[Happening], data: st.DataObject) -> None:
    told = Told(history)
    pruned = data.draw(st.integers(0, len(history)))
    since = told.cursors[pruned]
    timeline = timeline_of(SESSION, told.views[-1], told.since(pruned), cursor=told.cursors[-1], since=since)
    check_view(timeline, told.views[-1])
    # The updates after it continue it.
    assert timeline.cursor == told.cursors[-1]
    assert copied(timeline) == timeline


@given(long_histories, st.integers(1, 4))
def test_the_last_turns_have_everything_that_belongs_to_them(history: list[Happening], turns: int) -> None:
    whole, told = Told(history).timeline(), Told(history)
    window = timeline_of(SESSION, told.views[-1], told.updates, cursor=told.cursors[-1], turns=turns)
    assert window.turns == whole.turns[-turns:]
    assert window.earlier_turns == max(0, len(whole.turns) - turns)
    check_view(window, told.views[-1])
    known = {row.id for row in window.reminders}
    for turn in window.turns:
        assert {told.id for told in turn.told} | {*turn.still} | {*turn.left_out} <= known


def test_the_tour_visits_every_kind_of_update_that_a_timeline_tells() -> None:
    told = Told(TOUR)
    kinds = {update.kind for update in told.updates}
    assert {*UpdateKind} - kinds <= {
        UpdateKind.PROVIDER_EVALUATED,
        UpdateKind.REMINDER_DEFERRED,
        UpdateKind.CHECKPOINT,
        UpdateKind.REMINDER_EXPIRED,
    }
    for end, seen in enumerate(told.views):
        check_view(folded([*chain.from_iterable(told.commits[:end])]), seen)


# Sessions of a running agent.


class KeepingModel(ScriptedModel):
    """A model whose wire keeps the text of a reminder: a later request carries it."""

    def plan(self, view: RequestView) -> Plan:
        plan = super().plan(view)
        shown = tuple(Shown(item.id, "user", carried=item.first_turn is not None) for item in view.live)
        return msgspec.structs.replace(plan, shown=shown)


def timeline_after(scene: AScene, **options: Any) -> Timeline:  # noqa: ANN401 - those of agent_run
    async def main() -> Timeline:
        await scene.play(**options)
        return await read_timeline(scene.session)

    return asyncio.run(main())


def row_of(timeline: Timeline, body: str) -> ReminderRow:
    (row,) = [row for row in timeline.reminders if row.body == body]
    return row


async def sent(session: Session, sender: Provenance, body: str, *, new_id: str = "", **fields: object) -> str:
    """Accept a reminder of another sender."""
    draft = a_draft(body=body, **fields)
    await session.talk.commit(lambda state: accept(state, draft, sender, new_id=new_id or body, limits=DEFAULT_LIMITS))
    return new_id or body


def test_a_reminder_is_queued_then_live_then_shown_then_expired() -> None:
    scene = AScene()
    scene.says(a_reply("work", text="I look."), "Done.")

    async def main() -> Timeline:
        await scene.session.remind("The build is red.", dedupe_key="build", ttl_turns=2, tags=["ci"])
        await scene.play()
        return await read_timeline(scene.session)

    timeline = asyncio.run(main())
    row = row_of(timeline, "The build is red.")
    assert (row.state, row.ttl_turns, row.ttl_left, row.dedupe_key) == (ReminderState.EXPIRED, 2, 0, "build")
    assert row.queued is not None
    assert row.live is not None
    assert row.ended is not None
    assert (row.queued.at, row.live.at, row.ended.at) == (0.9, 0.9, 2.6)
    assert row.live.seam == "iteration_start"
    assert row.shown == [Showing(turn=1, role="user"), Showing(turn=2, role="user")]
    first, second = timeline.turns
    assert (first.turn, first.state, first.text) == (1, TurnState.COMMITTED, "I look.")
    assert first.told == second.told == [ToldRow(id=row.id, role="user")]
    (call,) = first.calls
    assert (call.id, call.name, call.status, call.text, call.bytes) == ("c1", "work", "ok", "done", 4)
    assert first.usage is not None
    assert {*first.usage} == {"promptTokens", "outputTokens"}
    (message,) = timeline.messages
    assert (message.state, message.delivered_at, message.text) == (MessageState.DELIVERED, 0.9, "Mend the build.")
    assert (timeline.turn, timeline.running, timeline.open_turn) == (2, False, None)


def test_kept_text_is_told_once_and_then_carried() -> None:
    scene = AScene()
    scene.model = KeepingModel([a_reply("work"), a_reply("work"), "Done."])

    async def main() -> Timeline:
        await scene.session.remind("Use tabs.")
        await scene.play()
        return await read_timeline(scene.session)

    timeline = asyncio.run(main())
    row = row_of(timeline, "Use tabs.")
    assert [(entry.turn, entry.carried) for entry in row.shown] == [(1, False), (2, True), (3, True)]
    assert [[told.id for told in turn.told] for turn in timeline.turns] == [[row.id], [], []]
    assert [turn.still for turn in timeline.turns] == [[], [row.id], [row.id]]
    assert row.is_pending


def test_a_finite_reminder_that_is_carried_loses_a_turn_of_its_ttl_each_time() -> None:
    scene = AScene()
    scene.model = KeepingModel([a_reply("work"), "Done."])

    async def main() -> Timeline:
        await scene.session.remind("Mind the tests.", ttl_turns=5)
        await scene.play()
        return await read_timeline(scene.session)

    row = row_of(asyncio.run(main()), "Mind the tests.")
    assert (row.state, row.ttl_turns, row.ttl_left) == (ReminderState.LIVE, 5, 3)


def test_another_attempt_is_the_same_turn_and_a_void_one_stays_with_its_number() -> None:
    scene = AScene()
    scene.says(ModelError("lost", retryable=True), a_reply("work"), ModelError("no", status=400), the_last := "Done.")

    async def main() -> Timeline:
        await scene.session.remind("The build is red.", ttl_turns=2)
        await scene.play()
        await scene.play("Again.")
        return await read_timeline(scene.session)

    timeline = asyncio.run(main())
    assert [(turn.turn, turn.state, turn.attempt) for turn in timeline.turns] == [
        (1, TurnState.COMMITTED, 2),
        (2, TurnState.VOID, 1),
        (2, TurnState.COMMITTED, 1),
    ]
    row = row_of(timeline, "The build is red.")
    assert [entry.turn for entry in row.shown] == [1, 2]
    # The void turn still says what it would have told.
    assert [[told.id for told in turn.told] for turn in timeline.turns] == [[row.id]] * 3
    assert timeline.turns[-1].text == the_last
    # What is said after a void is said before the number is used again.
    assert [message.delivered_at for message in timeline.messages] == [0.9, 1.8]


def test_an_open_turn_and_what_waits_meanwhile() -> None:
    scene = AScene()

    async def main() -> tuple[Timeline, Timeline]:
        seen: list[Timeline] = []

        async def line(_view: RequestView) -> Reply:
            await scene.session.remind("Late.")
            await scene.session.inject("Use the new API.", mode="steer")
            seen.append(await read_timeline(scene.session))
            return a_reply("work")

        scene.says(line, "Done.")
        await scene.play()
        return seen[0], await read_timeline(scene.session)

    during, after = asyncio.run(main())
    assert (during.running, during.turn, during.open_turn) == (True, 0, 1)
    assert during.turns[-1].state is TurnState.OPEN
    row = row_of(during, "Late.")
    assert row.state is ReminderState.QUEUED
    assert row.queued == AxisPlace(at=1.4, turn=1, time=row.queued.time if row.queued else None)
    assert [(message.text, message.state, message.at) for message in during.messages][1:] == [
        ("Use the new API.", MessageState.WAITING, 1.4)
    ]
    assert after.messages[1].delivered_at == 1.8
    assert after.messages[1].mode == "steer"


def test_an_interrupt_skips_the_batch_of_its_turn() -> None:
    scene = AScene()

    async def line(_view: RequestView) -> Reply:
        await scene.session.remind("Stop.", mode="interrupt_immediate")
        return a_reply("work", "work")

    scene.says(line, "Stopped.")
    timeline = timeline_after(scene)
    row = row_of(timeline, "Stop.")
    assert timeline.turns[0].skipped_by == [row.id]
    assert [call.status for call in timeline.turns[0].calls] == ["interrupted", "interrupted"]
    assert timeline.turns[1].skipped_by is None
    assert row.mode == "interrupt_immediate"
    assert row.live is not None
    assert row.live.seam == "pre_tool_dispatch"


def test_a_compaction_ends_what_is_not_preserved_and_takes_a_turn_from_the_rest() -> None:
    scene = AScene()
    scene.says(a_reply("work"), "Done.")

    async def main() -> Timeline:
        await scene.session.remind("Goes.")
        await scene.session.remind("Stays.", preserve_on_compact=True, ttl_turns=4)
        run = await scene.begin(compactor=lambda messages, _reminders: [*messages[1:]])
        await until(run, Step.TOOLS)
        assert await run.compact()
        during = await read_timeline(scene.session)
        await run.finish()
        return during

    timeline = asyncio.run(main())
    gone, kept = row_of(timeline, "Goes."), row_of(timeline, "Stays.")
    assert (gone.state, gone.ended and gone.ended.boundary) == (ReminderState.COMPACTED_OUT, "pre_compact")
    assert (kept.state, kept.ttl_left) == (ReminderState.LIVE, 2)
    (compaction,) = timeline.compactions
    assert (compaction.turn, compaction.archived_messages, compaction.at) == (1, 1, 1.8)


def test_replacing_clearing_revoking_and_deduping() -> None:
    scene = AScene()

    async def main() -> Timeline:
        session = scene.session
        older = await session.remind("The build is red.", dedupe_key="build")
        newer = await session.remind("The build is green.", dedupe_key="build")
        await session.replace_reminder(newer.reminder_id, "The build is blue.")
        gone = await session.remind("Never mind.")
        await session.revoke(gone.reminder_id)
        await session.remind("Cleared.", tags=["t"])
        await session.clear(tag="t")
        await sent(session, ANN, "From outside.", ttl_turns=None, role_hint="system")
        await session.remind("On record.", mode="audit_only")
        await scene.play()
        assert older.reminder_id
        return await read_timeline(session)

    timeline = asyncio.run(main())
    newer = row_of(timeline, "The build is blue.")
    older = row_of(timeline, "The build is red.")
    assert (older.state, older.replaced_by, older.live) == (ReminderState.DEDUPED, newer.id, None)
    assert newer.state is ReminderState.LIVE
    assert row_of(timeline, "Never mind.").state is ReminderState.REVOKED
    assert row_of(timeline, "Cleared.").state is ReminderState.CLEARED
    audited = row_of(timeline, "On record.")
    assert (audited.state, audited.shown, audited.mode) == (ReminderState.AUDIT_RECORDED, [], "audit_only")
    outside = row_of(timeline, "From outside.")
    assert outside.sender is not None
    assert (outside.sender.trust, outside.sender.principal, outside.sender.via) == ("peer", "ann", "a2a")
    assert outside.sender.requested == {"roleHint": "system", "ttlTurns": None, "propagate": "session"}


def test_a_refusal_is_a_row_of_its_own_even_with_the_id_of_an_accepted_reminder() -> None:
    dropped = Dropped(
        reminder_id="r1", reason=DropReason.RATE_LIMITED, at_the_door=True, count=3, dedupe_key="k", provenance=ANN
    )
    told = Told([partial(tell, who=ANN), lambda _state, _new_id: [msgspec.structs.replace(dropped, reminder_id="id1")]])
    accepted, refused = told.timeline().reminders
    assert accepted.is_pending
    assert (refused.id, refused.state, refused.at_the_door) == ("id1", ReminderState.DROPPED, True)
    assert (refused.reason, refused.count, refused.dedupe_key) == ("rate_limited", 3, "k")
    assert refused.ended is not None
    # What happens to the accepted one afterwards is told of it alone.
    assert folded([*told.updates]).reminders == told.timeline().reminders


def test_an_inherited_reminder_is_live_from_the_start() -> None:
    told = Told(TOUR[:14])
    (row,) = [row for row in told.timeline().reminders if row.inherited]
    assert (row.state, row.queued, row.originating_agent_id) == (ReminderState.LIVE, None, "parent")


def test_what_is_handed_to_another_agent_says_so() -> None:
    scene = a_session()

    async def main() -> Timeline:
        await scene.remind("The build is red.", ttl_turns=3)
        await scene.remind("Use tabs.", preserve_on_compact=True)
        await scene.talk.commit(open_prompt)
        await scene.talk.commit(lambda state: close_prompt(state, handed=(), status="completed"))
        await scene.talk.commit(open_prompt)
        await scene.talk.commit(compact_given)
        return await read_timeline(scene)

    timeline = asyncio.run(main())
    kept = row_of(timeline, "Use tabs.")
    assert kept.shown == [Showing(turn=1, role="user", via=VIA), Showing(turn=2, role="user", carried=True)]
    assert row_of(timeline, "The build is red.").state is ReminderState.COMPACTED_OUT


def test_a_session_begun_with_messages_shows_them_first() -> None:
    messages = ({"role": "user", "content": "Hello"}, {"role": "assistant", "id": "m2", "content": "Hi."})
    told = Told([lambda _state, _new_id: [Begun(attributes={"title": "A"}, messages=messages)]])
    timeline = told.timeline()
    assert [(row.id, row.role, row.text, row.state) for row in timeline.messages] == [
        ("1.0", "user", "Hello", MessageState.DELIVERED),
        ("m2", "assistant", "Hi.", MessageState.DELIVERED),
    ]
    assert timeline.records == {"title": "A"}


def test_long_output_and_arguments_are_shortened() -> None:
    scene = AScene(ATool(do=lambda _args, _context: "ä" * 5_000))
    scene.says(a_reply(a_call(text="x" * 5_000, inner=[{"y": "z" * 5_000}])), "Done.")
    (call,) = timeline_after(scene).turns[0].calls
    assert call.text == "ä" * 4_096
    assert call.bytes == 10_000
    assert call.args == {"text": "x" * 4_096 + "…", "inner": [{"y": "z" * 4_096 + "…"}]}


def test_a_call_id_that_is_used_again_belongs_to_the_last_turn() -> None:
    scene = AScene()
    scene.says(a_reply("work"), a_reply("work"), "Done.")
    timeline = timeline_after(scene)
    assert [[call.status for call in turn.calls] for turn in timeline.turns] == [["ok"], ["ok"], []]


# Reading.


def a_long_session(kept_events: int | None) -> AScene:
    store = MemoryStore(kept_events=kept_events, snapshot_events=1)
    scene = AScene(store=store)
    scene.model = KeepingModel([a_reply("work")] * 12)
    return scene


def test_a_pruned_session_says_since_when_and_has_all_that_is_pending() -> None:
    scene = a_long_session(kept_events=10)

    async def main() -> tuple[Timeline, View]:
        await scene.session.remind("Old and live.", dedupe_key="old")
        await scene.play()
        await scene.session.remind("Waits.", ttl_turns=2)
        await scene.session.inject("Later.", mode="queue")
        return await read_timeline(scene.session), (await scene.session.view()).view

    timeline, seen = asyncio.run(main())
    assert timeline.since > 0
    check_view(timeline, seen)
    old = row_of(timeline, "Old and live.")
    assert (old.cursor, old.queued, old.live) == (0, None, None)
    # It is carried in every request that is kept, though the request that told it is not.
    kept = [turn for turn in timeline.turns if turn.cursor]
    assert kept
    assert [turn.still for turn in kept] == [[old.id]] * len(kept)
    assert timeline.turns[-1].turn == timeline.turn == 13
    assert row_of(timeline, "Waits.").queued is not None


def test_a_session_of_which_nothing_is_kept_shows_what_is_pending_and_open() -> None:
    scene = a_long_session(kept_events=0)

    async def main() -> tuple[Timeline, View]:
        seen: list[tuple[Timeline, View]] = []

        async def line(_view: RequestView) -> str:
            seen.append((await read_timeline(scene.session), (await scene.session.view()).view))
            return "Done."

        scene.model = KeepingModel([line])
        await scene.session.remind("Old and live.")
        await scene.play()
        return seen[0]

    timeline, seen = asyncio.run(main())
    check_view(timeline, seen)
    assert [(turn.turn, turn.state, turn.cursor) for turn in timeline.turns] == [(1, TurnState.OPEN, 0)]
    assert timeline.turns[0].reply_id is not None


def test_the_last_turns_keep_the_message_that_they_answer() -> None:
    scene = AScene()

    async def main() -> Timeline:
        for number in range(1, 6):
            await scene.session.remind(f"Only in {number}.", ttl_turns=1)
            await scene.play(f"Task {number}.")
        return await read_timeline(scene.session, turns=2)

    timeline = asyncio.run(main())
    assert ([turn.turn for turn in timeline.turns], timeline.earlier_turns) == ([4, 5], 3)
    assert [message.text for message in timeline.messages] == ["Task 4.", "Task 5."]
    assert [row.body for row in timeline.reminders] == ["Only in 4.", "Only in 5."]
    with pytest.raises(InvalidOption, match="turns must be a whole number of at least 1, not 0"):
        keep_last(timeline, 0)


def test_a_peer_sees_its_own_reminders_only() -> None:
    scene = AScene()

    async def main() -> Timeline:
        await sent(scene.session, ANN, "Mine.")
        await scene.session.remind("Not mine.")
        await scene.play()
        return await read_timeline(scene.session, viewer=Viewer(provenance=ANN))

    timeline = asyncio.run(main())
    assert [row.body for row in timeline.reminders] == ["Mine."]
    assert (timeline.turns, timeline.messages) == ([], [])
    assert [entry.turn for entry in timeline.reminders[0].shown] == [1]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"sessionId": 1}', "nul", "\ud800"])
def test_what_is_no_timeline_is_refused(text: str) -> None:
    with pytest.raises(InvalidOption, match="this is not a timeline"):
        Timeline.from_json(text)


def test_the_json_has_the_names_of_the_api_and_no_defaults() -> None:
    scene = AScene()

    async def main() -> Timeline:
        await scene.session.remind("The build is red.", ttl_turns=1)
        await scene.play()
        return await read_timeline(scene.session)

    document = msgspec.json.decode(asyncio.run(main()).to_json())
    assert {*document} == {
        *("sessionId", "cursor", "since", "earlierTurns", "running", "closed", "turn", "openTurn", "turns"),
        *("messages", "reminders", "compactions", "permissions", "records"),
    }
    (reminder,) = document["reminders"]
    assert {*reminder} == {
        *("id", "cursor", "state", "body", "tags", "preserveOnCompact", "shown", "leftOut", "ttlTurns", "ttlLeft"),
        *("propagate", "roleHint", "source", "sender", "mode", "queued", "live", "ended"),
    }
    assert document["turns"][0]["leftOut"] == []


def stored_timelines(folder: Path, *, kept_events: int | None) -> Iterator[tuple[Timeline, Timeline]]:
    """The timeline as an open store tells it, and as it is read from the file."""
    url = f"sqlite:///{folder / 's.db'}"

    async def main() -> Timeline:
        async with open_store(url, kept_events=kept_events, snapshot_events=1) as store:
            session = await store.session("main")
            scene = AScene()
            scene.session = session
            scene.model = KeepingModel([a_reply("work")] * 4)
            for key in ("a", "a", "b"):
                await session.remind(f"About {key}.", dedupe_key=key)
            await scene.play()
            return await read_timeline(session)

    opened = asyncio.run(main())
    with inspect_store(url) as found:
        stored = stored_session(found, "main")
        yield opened, stored_timeline(found, stored, restored(found, stored))


@pytest.mark.parametrize("kept_events", [None, 6])
def test_a_stored_session_is_read_without_opening_its_store(tmp_path: Path, kept_events: int | None) -> None:
    for opened, read in stored_timelines(tmp_path, kept_events=kept_events):
        assert read == opened
        assert bool(read.since) is (kept_events is not None)


def test_a_changed_row_is_reported(tmp_path: Path) -> None:
    for _opened, _read in stored_timelines(tmp_path, kept_events=None):
        pass
    with inspect_store(f"sqlite:///{tmp_path / 's.db'}") as found:
        stored = stored_session(found, "main")
        entries = [entry._replace(is_whole=entry.sequence != 2) for entry in found.entries("main")]

        class Changed:
            def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the inspector has
                return getattr(found, name)

            def entries(self, _session_id: str, *, after: int = 0) -> Iterator[Any]:
                return (entry for entry in entries if entry.sequence > after)

        with pytest.raises(UnreadableSession, match="row 2 was changed"):
            stored_timeline(Changed(), stored, restored(found, stored))
