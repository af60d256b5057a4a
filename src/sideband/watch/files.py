"""Watches files and reports which of them have changed on disk."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from types import MappingProxyType
from typing import Final

from sideband.core.masking import mask_text
from sideband.watch import text
from sideband.watch.contents import ChangedFile, ChangeKind
from sideband.watch.notice import MAX_SEPARATE, Notice
from sideband.watch.tree import DEBOUNCE_SECONDS, Tree

TTL_TURNS: Final = 2
TAGS: Final = ("workspace", "file_changed")
# At most this many files are named in a notice about a directory.
NAMED: Final = 5
# A path that is reported alone may be long, because the agent reads the file by it.
PATH_BYTES: Final = 900

_FACTS: Final[Mapping[ChangeKind, str]] = MappingProxyType(
    {
        ChangeKind.CHANGED: "changed on disk; re-read it before editing.",
        ChangeKind.CREATED: "was created on disk; read it before editing.",
        ChangeKind.DELETED: "was deleted on disk; do not expect it to exist.",
    }
)


class FileWatcher:
    """Reports which files below `root` have changed; `root` may also be a single file.

    Changes are reported when nothing has changed for `debounce_seconds`. Saves that change no bytes and ignored files
    are not reported, nor are the files `without`. `ready` is set when changes are noticed.
    """

    def __init__(
        self, root: Path, *, debounce_seconds: float = DEBOUNCE_SECONDS, without: Collection[Path] = ()
    ) -> None:
        self._tree = Tree(root, debounce_seconds=debounce_seconds, without=without)
        self.ready = asyncio.Event()

    async def notices(self) -> AsyncGenerator[Notice, None]:
        """The notices from now on; the generator ends when the directory no longer exists."""
        async with aclosing(self._tree.batches()) as batches:
            async for batch in batches:
                self.ready.set()
                for notice in file_notices(self._tree.folder, batch.changes):
                    yield notice


def file_notices(folder: Path, changes: Sequence[ChangedFile]) -> Iterator[Notice]:
    """A notice for each changed file; for more than `MAX_SEPARATE` of them, one for each top directory."""
    if len(changes) <= MAX_SEPARATE:
        for change in changes:
            yield _notice(
                folder,
                change.path,
                [change],
                f"{text.bounded(text.printable(mask_text(change.path)), PATH_BYTES)} {_FACTS[change.kind]}",
            )
        return
    tops: dict[str, list[ChangedFile]] = {}
    for change in changes:
        top, below, _ = change.path.partition("/")
        tops.setdefault(top if below else ".", []).append(change)
    for top, together in tops.items():
        names = text.listed([change.path for change in together], NAMED)
        count = text.counted(len(together), "file")
        where = "directly in the watched directory" if top == "." else f"in {text.name(top)}/"
        yield _notice(folder, f"{top}/", together, f"{count} {where} {_fact_of_many(together)}: {names}.")


def _fact_of_many(changes: Sequence[ChangedFile]) -> str:
    kinds = Counter(change.kind for change in changes)
    is_one = len(changes) == 1
    if len(kinds) == 1:
        was, them = ("was", "it") if is_one else ("were", "them")
        match changes[0].kind:
            case ChangeKind.CHANGED:
                return f"changed on disk; re-read {them} before editing"
            case ChangeKind.CREATED:
                return f"{was} created on disk; read {them} before editing"
            case ChangeKind.DELETED:
                return f"{was} deleted on disk; do not expect {them} to exist"
    by_kind = ", ".join(f"{kinds[kind]:,} {kind.value}" for kind in ChangeKind if kinds[kind])
    return f"changed on disk ({by_kind}); re-read those that exist before editing"


def _notice(folder: Path, subject: str, changes: Sequence[ChangedFile], fact: str) -> Notice:
    return Notice(
        body=text.body(fact),
        dedupe_key=text.key("file_changed", subject),
        ttl_turns=TTL_TURNS,
        tags=TAGS,
        uris=tuple((folder / change.path).as_uri() for change in changes),
    )
