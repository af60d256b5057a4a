"""The page on events and updates lists every kind, and no other."""

import re
from typing import Final

from sideband.core.topic import KINDS, TOPIC, TopicRecord
from sideband.core.updates import UpdateKind
from tests.programs import ROOT

PAGE: Final = (ROOT / "docs" / "events.md").read_text(encoding="utf-8")


def first_cells(heading: str) -> list[str]:
    """The words in backticks of the first column of a table."""
    table = PAGE.partition(heading)[2].partition("\n\n")[0]
    return [word for line in table.splitlines()[2:] for word in re.findall(r"`([\w.]+)`", line.split(" | ")[0])]


def test_the_page_has_every_kind_of_update() -> None:
    assert sorted(first_cells("| kind | when |")) == sorted(UpdateKind)


def test_the_page_has_every_kind_and_field_of_the_topic() -> None:
    of_reminders = first_cells("| `transcript.reminder.` | payload |")
    of_messages = re.findall(r"`(\w+)`", PAGE.partition("`transcript.inject.")[2].partition(", with")[0])
    assert sorted(f"transcript.reminder.{word}" for word in of_reminders) == sorted(
        kind for kind in KINDS.values() if kind.startswith("transcript.reminder.")
    )
    assert sorted(["accepted", *of_messages]) == sorted(
        kind.rpartition(".")[2] for kind in KINDS.values() if kind.startswith("transcript.inject.")
    )
    assert first_cells("| field | |") == [*TopicRecord.__struct_fields__]
    assert f"`{TOPIC}`" in PAGE
