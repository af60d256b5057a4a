"""What it takes to build a request: ours, from what is new since the last one, beside encoding all of it."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import perf_counter_ns
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec
import orjson

from benchmarks.effort import Effort
from benchmarks.placements import EVERY, SYSTEM, TOOL, TOOLS, turn_messages
from benchmarks.stopwatch import Call
from benchmarks.ways import CLAUDE
from sideband.core.live import LiveIndex
from sideband.core.reminder import Reminder, ReminderId
from sideband.core.trust import IN_PROCESS
from sideband.render.renderer import Renderer
from sideband.render.view import RequestView

TEN: Final = 10
# So many turns in a row are timed in one session, so that it is not much longer at their end.
ROUND: Final = 10

_Encoder = Callable[[Any], object]


ENCODERS: Final[Mapping[str, _Encoder]] = MappingProxyType(
    {
        "msgspec": msgspec.json.encode,
        "orjson": orjson.dumps,
        "json of the standard library": lambda body: json.dumps(body, ensure_ascii=False).encode(),
    }
)
"""Whatever turns a whole body into bytes."""


class Session:
    """So many turns of the trace, and a renderer that has seen all but the last of them."""

    def __init__(self, turns: int) -> None:
        self.messages: list[dict[str, Any]] = [{"role": "user", "content": "x" * 2_000}]
        self.renderer = Renderer(CLAUDE, model="model")
        self._turns = turns
        tool = {"name": TOOL, "description": "x" * TOOLS * 4, "parameters": {"type": "object"}}
        self._rest: dict[str, Any] = {"system": "x" * SYSTEM * 4, "tools": (tool,), "session_id": "session"}
        for number in range(1, turns):
            self.add_turn(number)
        self.render(a_live(1))

    def add_turn(self, number: int) -> None:
        reply, results = turn_messages(number, 1)
        self.messages += [reply, *results]

    def render(self, live: LiveIndex) -> bytes:
        body: bytes = self.renderer.render(self.view(live)).request.body
        return body

    def view(self, live: LiveIndex) -> RequestView:
        return RequestView(turn=self._turns, messages=self.messages, live=live, **self._rest)

    def timed(self, live: LiveIndex) -> int:
        """Nanoseconds for a request with these reminders."""
        return _timed(partial(self.renderer.render, self.view(live)))


def a_live(count: int, number: int = 0) -> LiveIndex:
    """Live reminders of 60 tokens that no request has shown."""
    live = LiveIndex()
    for place in range(count):
        reminder_id = ReminderId(f"r{number}-{place}")
        live.add(Reminder(id=reminder_id, body=f"{place} ".ljust(240, "x"), ttl_turns=EVERY), IN_PROCESS)
    return live


class Built(NamedTuple):
    """Nanoseconds for one body of so many bytes, by what builds it; `copied` is for putting as many finished bytes together.

    `ten` is what ten reminders add to ours that no request has shown before, and `again` what they add to the next.
    """

    size: int
    ours: float
    copied: float
    whole: Mapping[str, float]
    ten: float
    again: float


def built(turns: int, effort: Effort) -> Built:
    """Building the request of this turn, and of the few after it."""
    ours: list[int] = []
    for _ in range(max(1, effort.calls // ROUND)):
        session = Session(turns)
        ours += _next_turns(session, turns)
    finished = session.render(a_live(1))
    body = msgspec.json.decode(finished)
    whole = {
        name: _least([_timed(partial(encode, body)) for _ in range(max(1, effort.calls // ROUND))])
        for name, encode in ENCODERS.items()
    }
    return Built(len(finished), _least(ours), _copied(finished, effort.calls), whole, *_ten_more(session, effort.calls))


def _next_turns(session: Session, turns: int) -> list[int]:
    spent = []
    for number in range(turns, turns + ROUND):
        session.add_turn(number)
        spent.append(session.timed(a_live(1, number)))
    # The first call runs with a cold cache.
    return spent[1:]


def _copied(body: bytes, calls: int) -> float:
    """What it takes to copy a whole body once."""
    view, middle = memoryview(body), len(body) // 2
    return _least([_timed(partial(b"".join, (view[:middle], view[middle:]))) for _ in range(calls)])


def _ten_more(session: Session, calls: int) -> tuple[float, float]:
    """What ten reminders take beside none: for the first time, and once more."""
    none, ten, again = [], [], []
    for number in range(calls):
        live = a_live(TEN, number)
        none.append(session.timed(a_live(0)))
        ten.append(session.timed(live))
        again.append(session.timed(live))
    return max(_least(ten) - _least(none), 1.0), max(_least(again) - _least(none), 1.0)


def _timed(call: Call) -> int:
    start = perf_counter_ns()
    call()
    return perf_counter_ns() - start


def _least(spent: Sequence[int]) -> float:
    """The least 20th percentile of short rounds: most of what disturbs calls makes them longer, and many of them."""
    rounds = [spent[start : start + ROUND] for start in range(0, len(spent), ROUND)]
    return min(sorted(times)[len(times) // 5] for times in rounds)
