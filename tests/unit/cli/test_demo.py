"""`sideband demo`: the rehearsal is drawn as it happens, and every reminder in it comes to exactly one end."""

import io
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from importlib import import_module

import pytest
from rich.console import Console

from sideband.cli.demo import Drawing, demo, ranges
from sideband.core.reminder import Propagate, Reminder, ReminderId, RoleHint, Source
from sideband.core.trust import Provenance, Trust
from sideband.core.updates import ReminderUpdate, UpdateKind

# pytest rewrites these modules when they are imported. Python 3.11 cannot do that in threads, in which the rehearsal would
# import them.
for _name in ("build", "files", "peer"):
    import_module(f"sideband.rehearsal.{_name}")

COLUMNS = 80
ENDS = {
    "audit_recorded",
    "cleared",
    "compacted_out",
    "deduped",
    "dropped (too_large)",
    "expired",
    "revoked",
}


@pytest.fixture(name="played", scope="module")
def _played() -> Iterator[str]:
    """What the demonstration prints where there is no terminal."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
            patch.delenv(name, raising=False)
        patch.setenv("COLUMNS", str(COLUMNS))
        out = io.StringIO()
        with redirect_stdout(out):
            assert demo(fast=True) == 0
        yield out.getvalue()


def receipts(played: str) -> list[list[str]]:
    """The rows of the closing table: reminder, sender, turns it was shown in, how it ended."""
    lines = played.splitlines()
    head = next(place for place, line in enumerate(lines) if line.startswith("reminder  "))
    starts = [lines[head].index(name) for name in ("reminder", "from", "turns", "ended as")]
    rows = []
    for line in lines[head + 1 : lines.index("", head)]:
        cuts = zip(starts, [*starts[1:], None], strict=True)
        rows.append([line[start:end].strip() for start, end in cuts])
    return rows


def turns(played: str) -> dict[int, str]:
    """What is printed of each turn of the main session."""
    parts = re.split(r"^-- turn (\d+) -+$", played.partition("-- the session is closed")[0], flags=re.MULTILINE)[1:]
    return {int(number): text for number, text in zip(parts[::2], parts[1::2], strict=True)}


# What is printed.


def test_every_reminder_has_a_receipt_with_exactly_one_end(played: str) -> None:
    rows = receipts(played)
    assert {row[3] for row in rows} == ENDS
    assert played.splitlines()[-1] == f"{len(rows)} reminders, {len(rows)} ended in exactly one way, 0 lost."


def test_every_reminder_that_is_queued_is_in_the_table(played: str) -> None:
    queued = re.findall(r"^ +(?:queued|inherited) +T\d \S+", played, re.MULTILINE)
    # Those of providers are live at once.
    of_providers = [row for row in receipts(played) if row[1] == "T0 provider"]
    assert len(queued) + len(of_providers) == len(receipts(played))


def test_a_receipt_names_the_turns_whose_requests_show_the_reminder(played: str) -> None:
    told = [number for number, text in turns(played).items() if re.search(r"told +T2 review-agent", text)]
    (row,) = (row for row in receipts(played) if row[0] == "review:report")
    # In later turns its text is still in the conversation.
    assert row[2] == f"{told[0]}-{told[0] + 2}"
    assert len(told) == 1


def test_what_is_no_terminal_gets_no_control_characters_and_no_long_lines(played: str) -> None:
    assert [letter for letter in set(played) if letter != "\n" and not letter.isprintable()] == []
    assert [line for line in played.splitlines() if len(line) > COLUMNS] == []


def test_the_hints_of_a_peer_are_lowered_in_sight(played: str) -> None:
    told = " ".join(played.split())
    assert (
        "T2 may have: role_hint system -> user_block, propagate all -> none, preserve_on_compact True -> False, "
        "ttl_turns 5 -> 3"
    ) in told
    assert "T3 may have: role_hint system -> user_block, propagate session -> none" in told


def test_the_tests_fail_before_the_fix_and_pass_after_it(played: str) -> None:
    runs = re.findall(r"^    run (\w+) \(\d+ lines\): (\w+)", played, re.MULTILINE)
    assert [run for run in runs if run[1] in ("FAILED", "OK")] == [("error", "FAILED"), ("ok", "OK")]


def test_the_interrupt_keeps_the_tools_from_running_and_is_told_next(played: str) -> None:
    shown = turns(played)
    (skipped,) = (number for number, text in shown.items() if "interrupted by T1 editor" in text)
    assert re.findall(r"^    \w+ (?:ok|error)", shown[skipped], re.MULTILINE) == []
    assert "The user is editing test_cart.py" in shown[skipped + 1]


def test_a_sub_agent_is_drawn_inside_the_turn_that_asks_it(played: str) -> None:
    (asking,) = (text for text in turns(played).values() if "> ask_reviewer" in text)
    assert "inherited     T0 program" in asking
    assert re.findall(r"-- reviewer, a sub-agent: turn (\d)", asking) == ["1", "2"]
    assert asking.rstrip().splitlines()[-1].startswith("    ask_reviewer ok: Two files call it.")


def test_a_compaction_has_a_heading(played: str) -> None:
    compaction = played.partition("-- compaction ")[2].partition("\n-- turn")[0]
    assert "compacted out T1 editor" in compaction
    assert re.search(r"A summary replaces \d+ messages\.", compaction)


def test_what_is_only_for_the_record_is_never_told(played: str) -> None:
    (row,) = (row for row in receipts(played) if row[0].startswith('"A rehearsal was started'))
    assert row[2:] == ["never", "audit_recorded"]


# Details.


@pytest.mark.parametrize(
    ("numbers", "text"),
    [((), ""), ((3,), "3"), ((1, 2, 3), "1-3"), ((1, 3, 4, 7), "1, 3-4, 7")],
)
def test_turns_are_printed_as_ranges(numbers: tuple[int, ...], text: str) -> None:
    assert ranges(numbers) == text


def a_drawing(columns: int = COLUMNS) -> tuple[Drawing, io.StringIO]:
    out = io.StringIO()
    return Drawing(Console(file=out, force_terminal=False, width=columns, highlight=False)), out


@pytest.mark.parametrize("columns", [40, COLUMNS])
@pytest.mark.parametrize("kind", [UpdateKind.REMINDER_QUEUED, UpdateKind.REMINDER_EMITTED])
def test_hostile_text_is_escaped(kind: UpdateKind, columns: int) -> None:
    drawing, out = a_drawing(columns)
    reminder = Reminder(
        id=ReminderId("r-1"),
        body="[bold]\x1b[2J\r\u202egnp\n-- turn 99 --\n" + "x" * 500,
        tags=(),
        dedupe_key="k\x1b[31m",
        ttl_turns=None,
        preserve_on_compact=False,
        propagate=Propagate.SESSION,
        role_hint=RoleHint.SYSTEM,
        source=Source.BRIDGE,
        fired_at_turn=1,
    )
    sender = Provenance(trust=Trust.SERVER, principal="bad\x1b]0;name\x07")
    update = ReminderUpdate(
        cursor=1,
        time=1,
        kind=kind,
        reminder_id="r-1",
        reminder=reminder,
        provenance=sender,
        dedupe_key=reminder.dedupe_key,
        turn=1,
        rendered_role="user",
    )
    drawing._draw("main", update)
    printed = out.getvalue()
    assert [letter for letter in set(printed) if letter != "\n" and not letter.isprintable()] == []
    assert [line for line in printed.splitlines() if len(line) > columns or line.startswith("--")] == []


def test_text_that_arrives_before_its_turn_is_printed_after_the_heading() -> None:
    drawing, out = a_drawing()
    drawing.take_text("main", "reply-1", 1, "Hello")
    assert out.getvalue() == ""
