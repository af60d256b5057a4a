"""Lanes: which reminders share one, what they are called, and how bars are laid out on lines."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.inspect.lanes import END_WORDS, lane_state, lanes_of, name_of, packed, sender_of, state_text
from sideband.inspect.timeline import PENDING, AxisPlace, ReminderRow, ReminderState, RowSender, empty_timeline

HASH = "0123456789abcdef"
PROVIDER = RowSender(trust="operator", provider_id="grounded_review")
EDITOR = RowSender(trust="controller", principal="editor")
PEER = RowSender(trust="peer", principal="ann")


def a_row(row_id: str = "r1", **fields: Any) -> ReminderRow:  # noqa: ANN401 - those of a row
    given: dict[str, Any] = {"state": ReminderState.LIVE, "body": "The build is red.", "sender": EDITOR}
    return ReminderRow(
        id=row_id, cursor=1, tags=(), shown=[], left_out=[], **({"preserve_on_compact": False} | given | fields)
    )


@pytest.mark.parametrize(
    ("row", "name"),
    [
        pytest.param(a_row(dedupe_key="ci"), "ci", id="its-key"),
        pytest.param(a_row(), '"The build is red."', id="without-a-key-its-text"),
        pytest.param(a_row(body="a\n\tb " + "c" * 60), f'"a b {"c" * 36}..."', id="the-start-of-a-long-text"),
        pytest.param(a_row(body="", sender=None), "r1", id="without-a-text-its-id"),
        pytest.param(a_row(dedupe_key=f"g:x:{HASH}", sender=PROVIDER), "grounded_review", id="the-provider-of-a-hash"),
        pytest.param(a_row(dedupe_key=f"g:x:{HASH}"), "g:x:*", id="a-hash-without-a-provider"),
        pytest.param(a_row(dedupe_key="decade:1990"), "decade:1990", id="a-number-is-no-hash"),
        pytest.param(a_row(dedupe_key="\x1b[31m"), "\\x1b[31m", id="control-characters-are-escaped"),
        pytest.param(a_row(at_the_door=True, body=""), "refused", id="a-refusal"),
    ],
)
def test_a_reminder_is_called_by_its_key_its_provider_or_its_text(row: ReminderRow, name: str) -> None:
    assert name_of(row) == name


@pytest.mark.parametrize(
    ("sender", "said"),
    [
        (EDITOR, "T1 editor"),
        (PROVIDER, "T0 grounded_review"),
        (RowSender(trust="operator"), "T0 operator"),
        (RowSender(trust="server", principal="\x07"), "T3 \\x07"),
        (RowSender(trust="stranger"), "stranger"),
        (None, "unknown"),
    ],
)
def test_a_sender_has_a_level_and_a_name(sender: RowSender | None, said: str) -> None:
    assert str(sender_of(sender)) == said


def test_reminders_that_may_replace_each_other_share_a_lane() -> None:
    timeline = empty_timeline("s")
    timeline.reminders = [
        a_row("r1", dedupe_key="ci"),
        a_row("r2"),
        a_row("r3", dedupe_key="ci", sender=RowSender(trust="operator")),
        a_row("r4", dedupe_key="ci", sender=PEER),
        a_row("r5"),
        a_row("r6", dedupe_key=f"g:a:{HASH}", sender=PROVIDER),
        a_row("r7", dedupe_key=f"g:b:{HASH}", sender=PROVIDER),
        a_row("r8", at_the_door=True, sender=PEER),
        a_row("r9", at_the_door=True, sender=PEER, dedupe_key=None),
    ]
    lanes = lanes_of(timeline)
    assert [[row.id for row in lane.rows] for lane in lanes] == [
        *(["r1", "r3"], ["r2"], ["r4"], ["r5"], ["r6", "r7"], ["r8", "r9"]),
    ]
    # The label names the newest sender, and a name that is the sender's only once.
    assert [lane.label for lane in lanes][::4] == ["T0 operator: ci", "T0 grounded_review"]
    assert lanes[0].shortened(10, mark="..") == "T0 operator: ci"
    long = a_row(dedupe_key="k", sender=RowSender(trust="server", principal="build-watcher"))
    timeline.reminders = [long]
    assert lanes_of(timeline)[0].shortened(10, mark="…") == "T3 build-w…: k"
    assert lanes_of(timeline)[0].shortened(40, mark="…") == "T3 build-watcher: k"


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (a_row(), "until compaction"),
        (a_row(preserve_on_compact=True), "until cleared"),
        (a_row(ttl_left=1), "1 turn left"),
        (a_row(ttl_left=3, inherited=True), "3 turns left, inherited"),
        (a_row(state=ReminderState.QUEUED, mode="finish_step"), "queued"),
        (a_row(state=ReminderState.QUEUED, mode="interrupt_immediate"), "queued, interrupts"),
        (a_row(state=ReminderState.QUEUED, mode="audit_only"), "queued, audit only"),
        (a_row(state=ReminderState.DROPPED, reason="too_large", count=2), "dropped, too_large, 2 times"),
        (a_row(state=ReminderState.COMPACTED_OUT), "compacted out"),
    ],
)
def test_the_state_of_a_reminder_in_words(row: ReminderRow, said: str) -> None:
    assert state_text(row) == said


def test_the_state_of_a_lane_is_that_of_what_is_pending() -> None:
    ended = a_row(state=ReminderState.EXPIRED, ended=AxisPlace(at=1.6, turn=1))
    queued = a_row(state=ReminderState.QUEUED)
    assert lane_state([a_row(ttl_left=2), queued, ended]) == "2 turns left; queued"
    assert lane_state([ended]) == "expired"


def test_every_end_has_a_word() -> None:
    assert END_WORDS.keys() == {*ReminderState} - PENDING


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 10)).map(lambda span: (span[0], span[0] + span[1]))))
def test_bars_of_one_line_do_not_overlap(spans: list[tuple[int, int]]) -> None:
    lines = packed(spans)
    for line in {*lines}:
        mine = sorted(span for span, number in zip(spans, lines, strict=True) if number == line)
        assert all(before[1] < after[0] for before, after in pairwise(mine))
