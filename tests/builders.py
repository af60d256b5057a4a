"""What tests are made of: each builder gives one valid thing, of which a test changes what it is about."""

from collections.abc import Callable
from itertools import count
from typing import Any

import msgspec

from sideband.core.draft import Draft
from sideband.core.reminder import Reminder, ReminderId


def a_reminder(reminder_id: str = "r1", **fields: object) -> Reminder:
    """A reminder with only what it must have, and `fields`."""
    return msgspec.structs.replace(Reminder(id=ReminderId(reminder_id), body="The build is red."), **fields)


def a_draft(**fields: object) -> Draft:
    """What a producer asked for, with only what it must say, and `fields`."""
    return msgspec.structs.replace(Draft(body="The build is red."), **fields)


def a_text(text: str = "Stop at the next test.") -> list[dict[str, Any]]:
    """The content of a user message that is one piece of text."""
    return [{"type": "text", "text": text}]


def counting_ids(prefix: str = "id-") -> Callable[[], str]:
    """Ids that tell how many came before: `id-1`, `id-2` and so on."""
    numbers = count(1)
    return lambda: f"{prefix}{next(numbers)}"
