"""Where the loop takes items from the inbox: modes, seams, interrupts, the closing drain, checkpoints."""

from collections.abc import Callable

import pytest

from sideband.core.drain import wake, wakes_daemon
from sideband.core.errors import NoRunningTurn, UnsupportedMode
from sideband.core.events import Cancelled, Checkpoint, Idled, InjectDelivered, Injected, ResultRecorded, Started
from sideband.core.parse import parse
from sideband.core.seams import InjectMode, Mode, Seam
from sideband.core.surfaces import RULES, Surface
from tests.builders import a_draft, a_reminder
from tests.sessions import Session

INTERRUPT, FINISH, AUDIT = Mode.INTERRUPT_IMMEDIATE, Mode.FINISH_STEP, Mode.AUDIT_ONLY
SURFACES_WITH_MODES = [surface for surface, rules in RULES.items() if "mode" in rules.fields]

A_RESULT = ResultRecorded(call_id="call", status="ok", message={"role": "tool", "content": ""})


def a_running_session() -> Session:
    session = Session()
    session.commit([Started()])
    return session


def interrupt(session: Session) -> str:
    return session.accept(a_draft(mode=INTERRUPT)).reminder_id


# Modes.


@pytest.mark.requirement("inbox:mode:words")
@pytest.mark.parametrize("surface", SURFACES_WITH_MODES)
def test_the_modes_of_a_reminder_are_three_words(surface: Surface) -> None:
    words = ["interrupt_immediate", "finish_step", "audit_only"]
    assert [parse({"body": "x", "mode": word}, surface).mode for word in words] == list(Mode) == words


@pytest.mark.requirement("inbox:mode:default-is-finish-step")
@pytest.mark.parametrize("surface", SURFACES_WITH_MODES)
@pytest.mark.parametrize("payload", [{"body": "x"}, {"body": "x", "mode": None}], ids=["absent", "null"])
def test_a_reminder_without_a_mode_waits_as_finish_step(surface: Surface, payload: dict[str, object]) -> None:
    session = Session()
    session.accept(parse(payload, surface))
    assert [item.mode for item in session.state.inbox.items()] == [FINISH]


@pytest.mark.requirement("inbox:mode:unknown-word-is-refused")
@pytest.mark.parametrize("surface", SURFACES_WITH_MODES)
@pytest.mark.parametrize("word", ["steer", "queue", "INTERRUPT_IMMEDIATE", "finish step", ""])
def test_a_mode_of_any_other_word_is_refused(surface: Surface, word: str) -> None:
    with pytest.raises(UnsupportedMode) as refused:
        parse({"body": "x", "mode": word}, surface)
    assert (refused.value.reason, refused.value.field, refused.value.value) == ("unsupported_mode", "mode", word)


@pytest.mark.requirement("inbox:mode:unknown-word-is-refused")
@pytest.mark.parametrize("surface", SURFACES_WITH_MODES)
@pytest.mark.parametrize("value", [1, True, ["audit_only"]])
def test_a_mode_that_is_no_word_is_a_value_of_the_wrong_type(surface: Surface, value: object) -> None:
    with pytest.raises(RULES[surface].invalid) as refused:
        parse({"body": "x", "mode": value}, surface)
    assert (refused.value.field, refused.value.value) == ("mode", value)


@pytest.mark.requirement("inbox:mode:wait-for-completion-has-a-hint")
def test_the_older_name_of_a_mode_is_refused_with_its_name_of_today() -> None:
    with pytest.raises(UnsupportedMode, match="it was renamed to 'audit_only'"):
        parse({"body": "x", "mode": "wait_for_completion"}, Surface.ACP)
    with pytest.raises(UnsupportedMode) as refused:
        parse({"body": "x", "mode": "wait_for_nothing"}, Surface.ACP)
    assert "renamed" not in str(refused.value)


# Seams.


@pytest.mark.parametrize(
    ("seam", "taken"),
    [
        pytest.param(
            Seam.ITERATION_START, [INTERRUPT, FINISH], marks=pytest.mark.requirement("inbox:seam:iteration-start")
        ),
        pytest.param(
            Seam.PRE_TOOL_DISPATCH, [INTERRUPT], marks=pytest.mark.requirement("inbox:seam:pre-tool-dispatch")
        ),
        pytest.param(
            Seam.POST_TOOL_DISPATCH, [INTERRUPT, FINISH], marks=pytest.mark.requirement("inbox:seam:post-tool-dispatch")
        ),
        pytest.param(
            Seam.ITERATION_END, [INTERRUPT, FINISH], marks=pytest.mark.requirement("inbox:seam:iteration-end")
        ),
        pytest.param(Seam.DAEMON_IDLE_PRE, [INTERRUPT], marks=pytest.mark.requirement("inbox:seam:daemon-idle-pre")),
        pytest.param(Seam.DAEMON_IDLE_POST, [INTERRUPT], marks=pytest.mark.requirement("inbox:seam:daemon-idle-post")),
        pytest.param(Seam.PRE_COMPACT, [], marks=pytest.mark.requirement("inbox:seam:pre-compact")),
        pytest.param(Seam.POST_COMPACT, [], marks=pytest.mark.requirement("inbox:seam:post-compact")),
        pytest.param(Seam.LOOP_EXIT, [AUDIT], marks=pytest.mark.requirement("inbox:seam:loop-exit")),
    ],
)
def test_a_seam_drains_its_modes_in_their_order(seam: Seam, taken: list[Mode]) -> None:
    session = Session()
    for mode in (AUDIT, FINISH, INTERRUPT):
        session.accept(a_draft(mode=mode))
    assert [item.mode for item in session.drain(seam).taken] == taken


@pytest.mark.requirement("inbox:drain:acceptance-order")
@pytest.mark.parametrize(
    ("mode", "seam"), [(INTERRUPT, Seam.PRE_TOOL_DISPATCH), (FINISH, Seam.ITERATION_START), (AUDIT, Seam.LOOP_EXIT)]
)
def test_items_of_one_mode_are_drained_in_the_order_of_acceptance(mode: Mode, seam: Seam) -> None:
    session = Session()
    accepted = [session.accept(a_draft(mode=mode)).reminder_id for _ in range(5)]
    assert [item.id for item in session.drain(seam).taken] == accepted


@pytest.mark.requirement("inbox:drain:acceptance-order")
def test_a_reminder_that_takes_the_place_of_another_stands_at_the_end() -> None:
    session = Session()
    for body in ("first", "other", "second"):
        session.accept(a_draft(body=body, dedupe_key=None if body == "other" else "k"))
    session.drain()
    assert [item.reminder.body for item in session.state.live] == ["other", "second"]


@pytest.mark.requirement("inbox:drain:others-keep-their-place")
def test_what_a_drain_leaves_keeps_its_place() -> None:
    session = Session()
    modes = [FINISH, AUDIT, INTERRUPT, FINISH, INTERRUPT, AUDIT]
    ids = [session.accept(a_draft(mode=mode)).reminder_id for mode in modes]
    session.drain(Seam.PRE_TOOL_DISPATCH)
    assert session.queued_ids == [ids[0], ids[1], ids[3], ids[5]]


@pytest.mark.requirement("inbox:drain:user-text-follows-reminders")
def test_what_a_person_wrote_stands_behind_the_reminders_of_the_same_drain() -> None:
    session = a_running_session()
    early = session.say("also rename the module", InjectMode.INTERRUPT_IMMEDIATE)
    steer = session.say("and run the tests")
    late = session.accept(a_draft()).reminder_id
    drained = session.drain(Seam.ITERATION_START)
    assert [item.id for item in drained.taken] == [late, early, steer]
    assert [type(event) for event in drained.events] == [Injected, InjectDelivered, InjectDelivered, Checkpoint]


@pytest.mark.requirement("inbox:drain:exactly-once")
def test_an_item_is_taken_by_one_drain_only() -> None:
    session = a_running_session()
    for mode in Mode:
        session.accept(a_draft(mode=mode))
        session.say("a word", InjectMode(mode.value))
    taken = [item.id for _ in range(2) for seam in Seam for item in session.drain(seam).taken]
    assert sorted(taken) == sorted(set(taken))
    assert len(taken) == 2 * len(Mode)
    assert session.queued_ids == []


# Interrupts.


@pytest.mark.requirement("inbox:interrupt:skips-the-tool-batch")
def test_an_interrupt_between_reply_and_tools_skips_the_batch() -> None:
    session = a_running_session()
    reminder_id = interrupt(session)
    assert session.drain(Seam.PRE_TOOL_DISPATCH).dispatch_skipped
    assert session.live_ids == [reminder_id]


@pytest.mark.requirement("inbox:interrupt:skips-the-tool-batch")
@pytest.mark.parametrize("seam", [seam for seam in Seam if seam is not Seam.PRE_TOOL_DISPATCH])
def test_an_interrupt_at_any_other_seam_skips_nothing(seam: Seam) -> None:
    session = a_running_session()
    interrupt(session)
    assert not session.drain(seam).dispatch_skipped


@pytest.mark.requirement("inbox:interrupt:finish-step-never-skips")
def test_a_finish_step_reminder_lets_the_tools_run() -> None:
    session = a_running_session()
    reminder_id = session.accept(a_draft()).reminder_id
    before = session.drain(Seam.PRE_TOOL_DISPATCH)
    after = session.drain(Seam.POST_TOOL_DISPATCH)
    assert (before.taken, before.dispatch_skipped) == ((), False)
    assert ([item.id for item in after.taken], after.dispatch_skipped) == ([reminder_id], False)


@pytest.mark.requirement("inbox:interrupt:at-most-three-skips-in-a-row")
def test_after_three_skipped_batches_in_a_row_interrupts_wait_like_finish_step() -> None:
    session = a_running_session()
    for _ in range(3):
        interrupt(session)
        assert session.drain(Seam.PRE_TOOL_DISPATCH).dispatch_skipped
    fourth = interrupt(session)
    held = session.drain(Seam.PRE_TOOL_DISPATCH)
    assert (held.taken, held.dispatch_skipped, held.events) == ((), False, ())
    session.commit([A_RESULT])
    assert [item.id for item in session.drain(Seam.POST_TOOL_DISPATCH).taken] == [fourth]
    interrupt(session)
    assert session.drain(Seam.PRE_TOOL_DISPATCH).dispatch_skipped


@pytest.mark.requirement("inbox:interrupt:at-most-three-skips-in-a-row")
def test_a_batch_that_ran_begins_a_new_row() -> None:
    session = a_running_session()
    for ran in (False, False, True, False, False, False):
        if ran:
            session.commit([A_RESULT])
            continue
        interrupt(session)
        assert session.drain(Seam.PRE_TOOL_DISPATCH).dispatch_skipped
    interrupt(session)
    assert not session.drain(Seam.PRE_TOOL_DISPATCH).dispatch_skipped


# The closing drain.


@pytest.mark.requirement("inbox:closing:something-taken-keeps-the-turn-open")
def test_a_closing_drain_that_takes_something_leaves_the_session_running() -> None:
    session = a_running_session()
    session.accept(a_draft())
    drained = session.drain(Seam.ITERATION_END, closing=True)
    assert Idled() not in drained.events
    assert session.state.running


@pytest.mark.requirement("inbox:closing:nothing-taken-makes-the-session-idle")
def test_a_closing_drain_that_takes_nothing_makes_the_session_idle_in_the_same_decision() -> None:
    session = a_running_session()
    session.accept(a_draft(mode=AUDIT))
    session.say("when you are done", InjectMode.QUEUE)
    assert session.drain(Seam.ITERATION_END, closing=True).events == (Idled(status="completed"),)
    assert not session.state.running


@pytest.mark.requirement("inbox:closing:nothing-taken-makes-the-session-idle")
def test_a_drain_that_does_not_close_leaves_the_session_running() -> None:
    session = a_running_session()
    assert session.drain(Seam.ITERATION_END).events == ()
    assert session.state.running


@pytest.mark.requirement("inbox:closing:no-accept-falls-between")
def test_a_message_before_the_closing_drain_is_taken_by_it_and_one_after_it_is_told() -> None:
    before = a_running_session()
    steer = before.say("one more thing")
    assert [item.id for item in before.drain(Seam.ITERATION_END, closing=True).taken] == [steer]
    after = a_running_session()
    after.drain(Seam.ITERATION_END, closing=True)
    with pytest.raises(NoRunningTurn):
        after.say("one more thing")
    assert after.queued_ids == []


@pytest.mark.requirement("inbox:closing:no-accept-falls-between")
def test_a_reminder_after_the_closing_drain_waits_for_the_next_turn() -> None:
    session = a_running_session()
    session.drain(Seam.ITERATION_END, closing=True)
    reminder_id = session.accept(a_draft()).reminder_id
    assert not session.state.running
    session.commit([Started()])
    assert [item.id for item in session.drain(Seam.ITERATION_START).taken] == [reminder_id]


# Idle daemons.


IDLE_SEAMS = [Seam.DAEMON_IDLE_PRE, Seam.DAEMON_IDLE_POST]


@pytest.mark.requirement("inbox:daemon:interrupt-wakes")
@pytest.mark.parametrize("seam", IDLE_SEAMS)
def test_an_interrupt_wakes_an_idle_daemon_and_is_taken_there(seam: Seam) -> None:
    session = Session()
    reminder_id = interrupt(session)
    assert [wakes_daemon(item) for item in session.state.inbox.items()] == [True]
    assert [item.id for item in session.drain(seam).taken] == [reminder_id]


@pytest.mark.requirement("inbox:daemon:others-do-not-wake")
@pytest.mark.parametrize("seam", IDLE_SEAMS)
@pytest.mark.parametrize("mode", [FINISH, AUDIT])
def test_any_other_reminder_lets_an_idle_daemon_sleep(mode: Mode, seam: Seam) -> None:
    session = Session()
    session.accept(a_draft(mode=mode))
    assert [wakes_daemon(item) for item in session.state.inbox.items()] == [False]
    assert session.drain(seam).taken == ()


def said(*roles: str) -> Callable[[Session], object]:
    return lambda session: session.state.messages.extend({"role": role, "content": "…"} for role in roles)


def told_and_shown(session: Session) -> None:
    session.inject(a_reminder())
    session.turn()


def held_after_a_cancel(session: Session) -> None:
    session.say("later", InjectMode.QUEUE)
    session.commit([Started(), Cancelled(hold_queue=True)])


@pytest.mark.requirement("inbox:daemon:time-alone-asks-nothing")
@pytest.mark.parametrize(
    ("has", "wakes"),
    [
        pytest.param(said(), False, id="nothing"),
        pytest.param(said("user", "assistant"), False, id="an-answered-message"),
        pytest.param(told_and_shown, False, id="a-reminder-that-was-shown"),
        pytest.param(lambda session: session.accept(a_draft(mode=AUDIT)), False, id="an-audit-record"),
        pytest.param(held_after_a_cancel, False, id="a-message-that-is-held"),
        pytest.param(lambda session: session.say("first", InjectMode.QUEUE), False, id="a-message-that-starts-a-turn"),
        pytest.param(said("user"), True, id="a-message-without-a-reply"),
        pytest.param(said("user", "assistant", "tool"), True, id="a-tool-result"),
        pytest.param(lambda session: session.inject(a_reminder()), True, id="a-reminder-that-no-turn-has-shown"),
        pytest.param(lambda session: session.accept(a_draft(mode=FINISH)), True, id="a-queued-reminder"),
        pytest.param(interrupt, True, id="a-queued-interrupt"),
    ],
)
def test_an_idle_session_goes_on_by_itself_only_if_there_is_something_to_answer(
    has: Callable[[Session], object],
    wakes: bool,  # noqa: FBT001 - a column
) -> None:
    session = Session()
    has(session)
    assert session.commit(wake(session.state).events) == ((Started(),) if wakes else ())


# Checkpoints.


@pytest.mark.requirement("inbox:checkpoint:written-when-something-happened")
@pytest.mark.parametrize("seam", [seam for seam in Seam if seam not in {Seam.PRE_COMPACT, Seam.POST_COMPACT}])
def test_a_drain_that_took_something_writes_a_checkpoint(seam: Seam) -> None:
    session = a_running_session()
    for mode in Mode:
        session.accept(a_draft(mode=mode))
    assert isinstance(session.drain(seam).events[-1], Checkpoint)


@pytest.mark.requirement("inbox:checkpoint:fields")
def test_a_checkpoint_names_turn_seam_ids_and_whether_a_batch_was_skipped() -> None:
    session = a_running_session()
    session.turn()
    session.turn()
    first, second = interrupt(session), session.say("stop", InjectMode.INTERRUPT_IMMEDIATE)
    assert session.drain(Seam.PRE_TOOL_DISPATCH).events[-1] == Checkpoint(
        turn=2, seam=Seam.PRE_TOOL_DISPATCH, ids=(first, second), dispatch_skipped=True
    )
    third = interrupt(session)
    assert session.drain(Seam.ITERATION_END).events[-1] == Checkpoint(
        turn=2, seam=Seam.ITERATION_END, ids=(third,), dispatch_skipped=False
    )


@pytest.mark.requirement("inbox:checkpoint:empty-drain-writes-none")
@pytest.mark.parametrize("seam", Seam)
def test_a_drain_that_took_nothing_writes_nothing(seam: Seam) -> None:
    session = a_running_session()
    session.say("later", InjectMode.QUEUE)
    assert session.drain(seam).events == ()
