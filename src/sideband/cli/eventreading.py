"""The events of a store, read from its journal and put where they are wanted."""

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Final, NamedTuple

from sideband.cli.eventlines import HEADING, PREFIX, Line, as_json, as_row, line_of
from sideband.cli.exporting import private_file
from sideband.cli.shelves import shelf_of
from sideband.core.errors import InvalidOption, shown
from sideband.core.failures import CursorExpired, CursorLost
from sideband.core.topic import KINDS
from sideband.ports import Journal, Logged
from sideband.runtime.inspecting import inspect_store
from sideband.runtime.store import open_store, sqlite_path
from sideband.store.inspection import Inspector

# After so many events an export says how far it is.
PROGRESS_EVENTS: Final = 10_000
# What stands beside a store file belongs to it.
_BESIDE: Final = ("", "-wal", "-shm", "-journal")


class Wanted(NamedTuple):
    """Which events; `after` None: from the first one that is still kept."""

    session: str | None = None
    kind: str = ""
    after: int | None = None
    follow: bool = False


def check(wanted: Wanted) -> None:
    """Refuse what would find nothing, whatever happened."""
    if not any(name.startswith(wanted.kind) for name in KINDS.values()):
        near = [name for name in KINDS.values() if wanted.kind in name] or sorted(KINDS.values())
        raise InvalidOption(f"no kind begins with {shown(wanted.kind)}; there is {', '.join(near)}", field="kind")
    if wanted.after is not None and wanted.after < 0:
        raise InvalidOption(f"after must be a sequence number, not {wanted.after}", field="after", value=wanted.after)


async def show(store_url: str, wanted: Wanted, *, json: bool) -> None:
    """Print them, as they come."""
    shape: Callable[[Line], str] = as_json if json else as_row
    async with aclosing(_lines(store_url, wanted)) as lines:
        is_first = True
        async for line in lines:
            if is_first and not json:
                print(HEADING)
            is_first = False
            print(shape(line), flush=wanted.follow)
    if is_first and wanted.after:
        is_all = wanted.session is None and not wanted.kind
        _say(f"{'there is nothing' if is_all else 'nothing that is asked for is'} behind {wanted.after} yet")


async def export(store_url: str, wanted: Wanted, path: Path) -> None:
    """Write them to a file, which appears when it is complete."""
    _refuse_store(path, store_url)
    count = 0
    async with aclosing(_lines(store_url, wanted)) as lines:
        with private_file(path) as file:
            async for line in lines:
                file.write(f"{as_json(line)}\n")
                count += 1
                if count % PROGRESS_EVENTS == 0:
                    _say(f"{count:,} events ...")
    _say(f"{count:,} events are in {path}")


def _refuse_store(path: Path, store_url: str) -> None:
    if not store_url.startswith("sqlite:"):
        return
    store = Path(sqlite_path(store_url)).expanduser().resolve()
    if path.expanduser().resolve() in [store.with_name(store.name + suffix) for suffix in _BESIDE]:
        raise InvalidOption(f"{path} belongs to the store; export to another file", field="export", value=str(path))


async def _lines(store_url: str, wanted: Wanted) -> AsyncGenerator[Line, None]:
    # Opening would make a store where there is none.
    with inspect_store(store_url) as found:
        if wanted.session is not None:
            _find(found, wanted.session, follow=wanted.follow)
    async with open_store(store_url) as store, aclosing(_entries(store.journal, wanted)) as entries:
        async for logged in entries:
            line = line_of(logged)
            if line is not None:
                yield line


def _find(store: Inspector, session: str, *, follow: bool) -> None:
    """Refuse a session that there is not; whoever follows may have to wait until it begins."""
    # Most often there is one, and its first row is found without going through all the others.
    if next(store.entries(session), None) is not None:
        return
    try:
        shelf_of(store, session)
    except InvalidOption:
        if not follow:
            raise
        _say(f"there is no session {shown(session)} yet")


async def _entries(journal: Journal, wanted: Wanted) -> AsyncGenerator[Logged, None]:
    read = journal.subscribe if wanted.follow else journal.history
    kind_prefix, after = wanted.kind or PREFIX, wanted.after
    while True:
        try:
            async with aclosing(read(session_id=wanted.session, kind_prefix=kind_prefix, after=after or 0)) as source:
                async for logged in source:
                    after = logged.sequence
                    yield logged
        except CursorLost as lost:
            # Who reads is slower than those who write. The journal has it all.
            after = lost.seen
        except CursorExpired as expired:
            if after is not None:
                raise
            after = expired.oldest
            _say(f"events up to {after} are no longer all kept; what follows begins behind it")
        else:
            return


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
