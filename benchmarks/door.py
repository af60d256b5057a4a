"""What the door costs: a controller's accept through a `Producer`, beside an accept of the process itself.

Both go into a session in memory with one reminder that waits under the same key, so that neither grows. The controller
has a rate that it never reaches; the process has none.
"""

import asyncio
from collections.abc import Awaitable, Callable
from statistics import median
from time import perf_counter_ns
from typing import Final

from benchmarks.effort import Effort, Progress
from benchmarks.report import Figure, Report, Table, Target, duration, times
from sideband.core.limits import Limits, Rate
from sideband.core.surfaces import Surface
from sideband.core.trust import Provenance, Trust
from sideband.runtime.producer import Producer
from sideband.runtime.store import open_store

PART: Final = "door"
IN_PROCESS: Final = "accept in process"
CONTROLLER: Final = "accept of a controller"
BODY: Final = "src/auth.py changed on disk since it was read. Read it again before editing."
FAST: Final = Limits(accept_rate={Trust.CONTROLLER: Rate(per_second=1e9, burst=10**9)})
MOST: Final = 1.3


def measure(effort: Effort, progress: Progress) -> Report:
    rounds = 10 * effort.rounds
    own, foreign = asyncio.run(_measured(rounds, effort.calls, progress))
    ratio = median(one / other for one, other in zip(foreign, own, strict=True))
    rows = tuple(
        (name, duration(min(spent)), duration(median(spent)))
        for name, spent in ((IN_PROCESS, own), (CONTROLLER, foreign))
    )
    return Report(
        part=PART,
        tables=(
            Table(
                title="The door",
                note=f"Time of one accept into a session in memory, in {rounds} rounds taken in turn; "
                f"the median ratio is {times(ratio)}.",
                columns=("", "best", "median"),
                rows=rows,
            ),
        ),
        targets=(Target(name=f"{CONTROLLER} / {IN_PROCESS}", limit=MOST, measured=ratio),),
        figures=(
            Figure(name=IN_PROCESS, value=median(own)),
            Figure(name=CONTROLLER, value=median(foreign)),
        ),
    )


async def _measured(rounds: int, calls: int, progress: Progress) -> tuple[list[float], list[float]]:
    session = await open_store(limits=FAST).session("s")
    editor = Producer(session, Provenance(trust=Trust.CONTROLLER, principal="editor", via="acp"), surface=Surface.ACP)
    payload = {"body": BODY, "dedupeKey": "k", "ttlTurns": 2}

    async def own() -> None:
        await session.remind(BODY, dedupe_key="k", ttl_turns=2)

    async def foreign() -> None:
        await editor.remind(payload)

    found: tuple[list[float], list[float]] = ([], [])
    for done in range(1, rounds + 1):
        for spent, call in zip(found, (own, foreign), strict=True):
            spent.append(await _timed(call, calls))
        progress.step(PART, done, rounds)
    return found


async def _timed(call: Callable[[], Awaitable[None]], calls: int) -> float:
    start = perf_counter_ns()
    for _ in range(calls):
        await call()
    return (perf_counter_ns() - start) / calls
