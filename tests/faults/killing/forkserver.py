"""A process that forks others: all modules are loaded already, so that very many can be started and killed.

It reads an order a line, forks a process that carries it out, and tells how that one ended.
"""

import asyncio
import os
import sys
import traceback

import msgspec

from tests.faults.killing.process import Order, live, say


def carry_out(order: Order) -> None:
    """In a process of its own."""
    status = 1
    try:
        asyncio.run(live(order))
        status = 0
    except BaseException:  # noqa: BLE001 - nothing may get back into the code of the parent
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def give_birth(order: Order) -> None:
    # A pipe without a writer: it is closed when the process has ended, in whatever way.
    end, alive = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(end)
        carry_out(order)
    os.close(alive)
    say("born", pid)
    os.read(end, 1)
    os.close(end)
    say("died")
    # Until it is reaped, its pid is not reused, so that a late kill hits no other process.
    sys.stdin.readline()
    _, status = os.waitpid(pid, 0)
    say("buried", os.waitstatus_to_exitcode(status))


def main() -> None:
    while line := sys.stdin.readline():
        give_birth(msgspec.json.decode(line, type=Order))


if __name__ == "__main__":
    main()
