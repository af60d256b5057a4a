"""How many events per second a client can be told of: the updates of a session in memory, replayed and followed.

The session is that of an agent at work: each of its turns is opened by a message, shows a peer's reminder and gets a
reply. A turn has ten events.
"""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from statistics import median
from time import perf_counter_ns
from typing import Final

from benchmarks.effort import Effort, Progress
from benchmarks.report import Figure, Report, Table, Target
from sideband.core.events import (
    Checkpoint,
    Event,
    Expired,
    ExpiryReason,
    Fired,
    InjectAccepted,
    InjectDelivered,
    Injected,
    Queued,
    QueuedMessage,
    QueuedReminder,
    RequestCommitted,
    Started,
    TurnCommitted,
)
from sideband.core.reminder import Reminder, ReminderId
from sideband.core.seams import InjectMode, Mode, Seam
from sideband.core.state import Decided, Decision
from sideband.core.trust import Provenance, Trust
from sideband.core.updates import OPERATOR, Viewer
from sideband.runtime.session import Session
from sideband.runtime.store import open_store

PART: Final = "updates"
BODY: Final = "src/auth.py changed on disk since it was read. Read it again before editing."
PEER: Final = Provenance(trust=Trust.PEER, principal="planner", via="a2a", meta={"correlation": "c1"})
EDITOR: Final = Provenance(trust=Trust.CONTROLLER, principal="editor", via="acp")
TURN_EVENTS: Final = 10
LEAST: Final = 50_000.0

VIEWERS: Final = {"operator": OPERATOR, "peer": Viewer(provenance=PEER)}


def measure(effort: Effort, progress: Progress) -> Report:
    turns = effort.calls
    rates: dict[str, list[float]] = {f"{how}, {who}": [] for how in ("replayed", "followed") for who in VIEWERS}
    for done in range(1, effort.rounds + 1):
        for who, viewer in VIEWERS.items():
            replayed, followed = asyncio.run(_rates(viewer, turns))
            rates[f"replayed, {who}"].append(replayed)
            rates[f"followed, {who}"].append(followed)
        progress.step(PART, done, effort.rounds)
    return Report(
        part=PART,
        tables=(
            Table(
                title="Updates",
                note=f"Events per second that a client was told of, or that it may not see; {turns * TURN_EVENTS:,} "
                f"events, {effort.rounds} rounds.",
                columns=("", "best", "median"),
                rows=tuple((name, f"{max(found):,.0f}", f"{median(found):,.0f}") for name, found in rates.items()),
            ),
        ),
        targets=(
            Target(
                name="updates replayed to the operator",
                limit=LEAST,
                measured=median(rates["replayed, operator"]),
                unit="/s",
                at_least=True,
            ),
        ),
        figures=tuple(Figure(name=name, value=median(found), unit="/s") for name, found in rates.items()),
    )


def committing(events: Sequence[Event]) -> Decision[None]:
    return lambda _state: Decided(events, None)


async def _rates(viewer: Viewer, turns: int) -> tuple[float, float]:
    """Events per second of a client that comes late, and of one that follows while they are committed."""
    session = await open_store().session("s")
    events = [turn_events(number) for number in range(1, turns + 1)]
    start = perf_counter_ns()
    following = asyncio.ensure_future(_read(session, viewer, turns))
    for commit in events:
        await session.talk.write(committing(commit))
        await asyncio.sleep(0)
    await following
    followed = _rate(turns, start)
    start = perf_counter_ns()
    await _read(session, viewer, turns)
    return _rate(turns, start), followed


def _rate(turns: int, start: int) -> float:
    return turns * TURN_EVENTS / ((perf_counter_ns() - start) / 1e9)


async def _read(session: Session, viewer: Viewer, turns: int) -> None:
    """Read to the end of the last turn; every viewer sees the end of the peer's reminder, which is its last event."""
    async with aclosing(session.updates(viewer)) as updates:
        async for update in updates:
            if update.cursor == turns * TURN_EVENTS:
                break


def turn_events(number: int) -> tuple[Event, ...]:
    theirs = Reminder(id=ReminderId(f"r{number}"), body=BODY, ttl_turns=1)
    content = ({"type": "text", "text": BODY},)
    message = QueuedMessage(message_id=f"m{number}", content=content, mode=InjectMode.QUEUE, provenance=EDITOR)
    return (
        Queued(item=QueuedReminder(reminder=theirs, mode=Mode.FINISH_STEP, provenance=PEER)),
        InjectAccepted(item=message),
        Started(),
        InjectDelivered(message_id=message.id, content=content, provenance=EDITOR),
        Injected(reminder=theirs, provenance=PEER, seam=Seam.ITERATION_START),
        Checkpoint(turn=number, seam=Seam.ITERATION_START, ids=(theirs.id,)),
        RequestCommitted(turn=number, reply_id=f"a{number}"),
        Fired(reminder_id=theirs.id, turn=number, rendered_role="user", reminder=theirs, provenance=PEER),
        TurnCommitted(turn=number, reply={"role": "assistant", "id": f"a{number}", "content": BODY}),
        Expired(reminder_id=theirs.id, reason=ExpiryReason.TTL, turn=number, provenance=PEER),
    )
