"""A process that runs a session: it continues where its predecessor was killed, until it is killed itself."""

import asyncio
import sys
from typing import Final

import msgspec

from sideband.core.errors import SessionBusy
from sideband.runtime.agents import agent_loop
from sideband.runtime.session import Session
from sideband.runtime.store import Store
from tests.faults.killing.keeping import keep_sessions
from tests.faults.killing.moments import HaltingDisk, HaltingWire, Moment, Stop, StoppingJournal
from tests.faults.killing.old_stores import move_rows
from tests.faults.scripted_agent import RehearsedModel, Talker, WatchedCompactor, WorkTool
from tests.faults.shared_stores import opened

SESSION: Final = "s"
# The pause between two attempts to take over the lease of a killed process.
PAUSE: Final = 0.02


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What a process is to do: `saying` are the numbers of what it says while it works; the `last` one ends the session.

    A `quiet` one says nothing before it has gone on with the request that was left open, if there is one. One that does
    not `live` only opens the store. A `hasty` process acknowledges before the commit, or moves the rows of a store. One
    that `keeps` sessions begins, changes and deletes one for each number, and runs none.
    """

    address: str
    seed: int
    saying: tuple[int, int] = (0, 0)
    moment: Moment | None = None
    count: int = 1
    operations: int = 0
    lives: bool = True
    keeps: bool = False
    quiet: bool = False
    hasty: bool = False
    last: bool = False


def say(word: str, *what: object) -> None:
    """Write a line at once, so that no reader gets half of it."""
    sys.stdout.write(msgspec.json.encode([word, *what]).decode() + "\n")
    sys.stdout.flush()


async def live(order: Order) -> None:
    """Do all of it, unless killed."""
    if order.moment is Moment.ANYWHERE:
        say("now")
    if order.address.startswith("postgresql:"):
        wire = HaltingWire(say)
        with wire.watching():
            await _open(order, wire)
        return
    disk = HaltingDisk(say)
    if not order.lives:
        disk.left = order.operations
    await _open(order, disk, vfs=disk.name)


async def _open(order: Order, halting: HaltingDisk | HaltingWire, *, vfs: str = "") -> None:
    stop = Stop(order.moment, order.count, order.operations, say, halting)
    if not order.lives and order.hasty:
        move_rows(order.address, vfs)
    async with opened(order.address, vfs=vfs) as journal:
        say("opened")
        store = Store(StoppingJournal(journal, stop))
        if order.keeps:
            await keep_sessions(store, say, order.saying)
        elif order.lives:
            await _live(await store.session(SESSION), order, stop)


async def _live(session: Session, order: Order, stop: Stop) -> None:
    if order.quiet and session.talk.state.request is not None:
        await _work(session, stop)
    await asyncio.gather(_talk(session, order), _prompt(session, stop))
    if order.last:
        await session.close()
        say("closed")


async def _prompt(session: Session, stop: Stop) -> None:
    text = "Go on."
    say("accepted", await session.prompt(text), text)
    await _work(session, stop)


async def _talk(session: Session, order: Order) -> None:
    talker = Talker(session, say, order.seed, hasty=order.hasty)
    for number in range(*order.saying):
        await talker.say_something(number)


async def _work(session: Session, stop: Stop) -> None:
    while True:
        try:
            await agent_loop(
                None,
                session=session,
                model=RehearsedModel(session, say, stop.at),
                tools=[WorkTool(session, say, stop.at)],
                compactor=WatchedCompactor(stop.at),
                reminders=False,
            )
        except SessionBusy:
            await asyncio.sleep(PAUSE)
        else:
            return
