"""How fast a rehearsal is played: the only place that it takes its pauses from."""

import asyncio
from typing import Final, NamedTuple


class Pace(NamedTuple):
    """The pauses of a rehearsal in seconds: one `beat`, and what follows each word of a reply."""

    beat: float
    word: float

    async def rest(self, beats: float = 1.0) -> None:
        """Wait for so many beats."""
        await asyncio.sleep(self.beat * beats)

    async def after_word(self) -> None:
        await asyncio.sleep(self.word)


# A person can follow it: about 90 seconds for the whole rehearsal.
NORMAL: Final = Pace(beat=2.0, word=0.07)
# For tests.
FAST: Final = Pace(beat=0.0, word=0.0)
