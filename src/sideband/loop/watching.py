"""What a watcher has noticed, read beside the loop: it may have files of any size to look at."""

from collections.abc import Iterable

from sideband.core.errors import shown
from sideband.loop.foreign import Failed, ask, read
from sideband.loop.problems import Problem
from sideband.loop.telling import Teller
from sideband.ports import FileChange, Watcher


async def noticed(watcher: Watcher, teller: Teller, *, seconds: float) -> tuple[FileChange, ...]:
    """The changes that it tells; none where it fails, which is reported and stops nothing."""
    try:
        return read(_read, await ask(watcher.changes, scope=teller.scope, seconds=seconds))
    except Failed as error:
        teller.report(Problem("watcher", str(error)))
        return ()


def _read(changes: object) -> tuple[FileChange, ...]:
    if not isinstance(changes, Iterable) or isinstance(changes, str | bytes):
        raise Failed(f"a watcher must tell changes of files, not {shown(changes)}")
    found = tuple(changes)
    for change in found:
        if not isinstance(change, FileChange) or not all(isinstance(part, str) for part in (change.path, change.kind)):
            raise Failed(f"a watcher must tell changes of files, not {shown(change)}")
    return found
