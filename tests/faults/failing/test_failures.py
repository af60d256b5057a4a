"""Every injected failure is reported, leaves nothing half done, and the session continues."""

import asyncio
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Final

import apsw
import pytest

from tests.faults.failing.failures import (
    AnswerLost,
    Busy,
    Cancelled,
    CancelledOnAFile,
    CancelledOnAServer,
    Disconnected,
    DiskTrouble,
    QuestionLost,
    Trouble,
    Unavailable,
)
from tests.faults.failing.story import Story
from tests.faults.sizes import size

Make = Callable[[Path, int], Trouble]
TROUBLES: Final[Mapping[str, Make]] = {
    "the-disk-is-full": lambda directory, at: DiskTrouble(directory, at, apsw.FullError),
    "the-disk-is-broken": lambda directory, at: DiskTrouble(directory, at, apsw.IOError),
    "the-file-is-taken": Busy,
    "the-store-cannot": Unavailable,
    "cancelled-in-memory": Cancelled,
    "cancelled-on-a-file": CancelledOnAFile,
    "cancelled-on-a-server": CancelledOnAServer,
    "the-connection-is-lost": Disconnected,
    "the-question-is-lost": QuestionLost,
    "the-answer-is-lost": AnswerLost,
}
# Slow stores try only some of the moments in the test suite.
SLOW: Final = frozenset(
    {"cancelled-on-a-server", "the-connection-is-lost", "the-question-is-lost", "the-answer-is-lost"}
)
# A server that is back at once goes unnoticed: the call succeeds.
UNNOTICED: Final = SLOW - {"cancelled-on-a-server"}
STRIDE: Final = size("SIDEBAND_FAULT_STRIDE", small=5, soak=1)
FAR_BEYOND: Final = 2_000


async def played(trouble: Trouble, at: int) -> Story:
    """Play the story with the failure."""
    story = Story(trouble.open)
    try:
        await asyncio.wait_for(story.play(), 60)
    except BaseException as error:
        error.add_note(f"the trouble came at {at}; failures {story.failures}, problems {story.problems}")
        raise
    finally:
        await trouble.end()
    return story


@pytest.mark.parametrize("name", TROUBLES)
def test_a_session_outlives_trouble_at_every_moment(name: str, tmp_path: Path) -> None:
    told = struck = 0
    for at in count(1, STRIDE if name in SLOW else 1):
        assert at < FAR_BEYOND
        trouble = TROUBLES[name](tmp_path, at)
        story = asyncio.run(played(trouble, at))
        if not trouble.came:
            break
        struck += trouble.struck
        told += bool(story.failures or story.problems)
    assert struck > 0
    assert (told > 0) is (name not in UNNOTICED)
