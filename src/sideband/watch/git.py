"""Watches a Git repository: its branch, its upstream branch and its conflicts."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from pathlib import Path
from typing import Final

from sideband.core.errors import InvalidOption, shown
from sideband.watch import text
from sideband.watch.contents import ChangedFile, ChangeKind, Contents
from sideband.watch.ignore import IgnoreRules
from sideband.watch.notice import Notice
from sideband.watch.repository import Repository, RepositoryState, short
from sideband.watch.tree import DEBOUNCE_SECONDS, Tree

TTL_TURNS: Final = 2
TAGS: Final = ("git",)
NAMED: Final = 10
RE_READ: Final = "Re-read files before editing them."

# The files whose changes are of interest; the objects of a repository are not read.
_FILES: Final = frozenset(
    {
        "HEAD",
        "ORIG_HEAD",
        "FETCH_HEAD",
        "MERGE_HEAD",
        "CHERRY_PICK_HEAD",
        "REVERT_HEAD",
        "index",
        "packed-refs",
        "config",
        "rebase-merge",
        "rebase-apply",
    }
)
_FOLDERS: Final = ("refs/", "reftable/")


class _GitContents(Contents):
    """The files of a repository that say where it stands. Their contents are not compared: git is asked instead."""

    def __init__(self, repository: Repository) -> None:
        super().__init__(repository.folder, IgnoreRules(repository.folder))
        self.hashed = True
        own = repository.own_folder.relative_to(repository.folder).as_posix()
        self._own = "" if own == "." else f"{own}/"

    def wants(self, path: str) -> bool:
        name = path.removeprefix(self._own)
        return not name.endswith(".lock") and (name in _FILES or name.startswith(_FOLDERS))

    def record(self, start_ns: int) -> None:
        """Nothing is recorded."""

    def differing(self) -> set[str]:
        return {"HEAD"}

    def compare(self, paths: Iterable[str]) -> tuple[ChangedFile, ...]:
        return tuple(ChangedFile(path, ChangeKind.CHANGED) for path in paths)


class _GitTree(Tree):
    def __init__(self, repository: Repository, *, debounce_seconds: float) -> None:
        super().__init__(repository.folder, debounce_seconds=debounce_seconds)
        self._repository = repository

    def _contents(self) -> Contents:
        return _GitContents(self._repository)


class GitWatcher:
    """Reports moves and switches of the branch, moves of its upstream branch, and the start and end of conflicts.

    `root` is a directory of the working tree. `latest` says where the repository stands, and `ready` is set when
    changes are noticed. While git cannot read the repository, nothing is reported.
    """

    def __init__(self, root: Path, *, debounce_seconds: float = DEBOUNCE_SECONDS) -> None:
        if not root.is_dir():
            raise InvalidOption(
                f"root must be a directory in a Git repository, not {shown(str(root))}", field="root", value=str(root)
            )
        self._root = root.resolve()
        self._debounce_seconds = debounce_seconds
        self.uri = "watch://git"
        self.title = f"Git repository {text.name(self._root.name)}"
        self.latest = "The repository has not been read yet."
        self.ready = asyncio.Event()

    async def notices(self) -> AsyncGenerator[Notice, None]:
        """The notices from now on; the generator ends when the repository no longer exists."""
        repository = await Repository.find(self._root)
        tree = _GitTree(repository, debounce_seconds=self._debounce_seconds)
        async with aclosing(tree.batches()) as batches:
            # What the branch is compared with; it stays the same during a rebase, which moves HEAD many times.
            reported: RepositoryState | None = None
            conflicts: tuple[str, ...] = ()
            async for _ in batches:
                state = await repository.state()
                if state is None:
                    self.ready.set()
                    if not repository.exists:
                        return
                    continue
                self.latest = status(state)
                if reported is not None:
                    if not state.is_rebasing:
                        for subject, fact in await changes(repository, reported, state):
                            yield self._notice(subject, fact)
                    if state.conflicts != conflicts:
                        yield self._notice("conflicts", conflict_fact(state.conflicts))
                conflicts = state.conflicts
                reported = reported if reported is not None and state.is_rebasing else state
                self.ready.set()

    def _notice(self, subject: str, fact: str) -> Notice:
        return Notice(
            body=text.body(fact), dedupe_key=f"git:{subject}", ttl_turns=TTL_TURNS, tags=TAGS, uris=(self.uri,)
        )


async def changes(repository: Repository, old: RepositoryState, new: RepositoryState) -> list[tuple[str, str]]:
    """What has happened to the branch and its upstream branch: the subject of each notice, and the fact."""
    facts = []
    if old.branch != new.branch:
        facts.append(("branch", _switched(old, new)))
    elif old.commit != new.commit:
        facts.append(("branch", await _moved(repository, old, new)))
    if (old.branch, old.upstream) == (new.branch, new.upstream) and new.upstream:
        upstream = text.name(new.upstream)
        if old.upstream_commit != new.upstream_commit and old.upstream_commit:
            between = await repository.movement(old.upstream_commit, new.upstream_commit)
            moved = f"{upstream} moved from {short(old.upstream_commit)} to {short(new.upstream_commit)}{between}."
            facts.append(("upstream", f"{moved} {_position(new)}"))
        elif old.behind and not new.behind:
            facts.append(("upstream", f"{upstream} was merged: {new.head} now has all of its commits."))
    return facts


def _switched(old: RepositoryState, new: RepositoryState) -> str:
    before = old.head if old.branch else f"the detached commit {short(old.commit)}"
    if not new.branch:
        return f"HEAD was detached from {before} and is now at commit {short(new.commit)}. {RE_READ}"
    at = f" (at {short(new.commit)})" if new.commit else ", which has no commits yet"
    return f"The branch was switched from {before} to {new.head}{at}. {RE_READ}"


async def _moved(repository: Repository, old: RepositoryState, new: RepositoryState) -> str:
    if not old.commit:
        return f"{new.head} has its first commit: {short(new.commit)} ({await repository.subject(new.commit)})."
    if not new.commit:
        return f"{new.head} has no commits any more. {RE_READ}"
    between = await repository.movement(old.commit, new.commit)
    return f"{new.head} moved from {short(old.commit)} to {short(new.commit)}{between}. {RE_READ}"


def _position(state: RepositoryState) -> str:
    upstream = text.name(state.upstream)
    ahead, behind = text.counted(state.ahead, "commit"), text.counted(state.behind, "commit")
    if state.ahead and state.behind:
        return f"{state.head} and {upstream} have diverged: {ahead} only in {state.head}, {behind} only in {upstream}."
    if state.behind:
        return f"{upstream} is now {behind} ahead of {state.head}."
    if state.ahead:
        return f"{state.head} is {ahead} ahead of it."
    return f"{state.head} is up to date with it."


def conflict_fact(conflicts: tuple[str, ...]) -> str:
    if not conflicts:
        return "No file has merge conflicts any more."
    count = f"{text.counted(len(conflicts), 'file')} {'has' if len(conflicts) == 1 else 'have'} merge conflicts"
    return f"{count}: {text.listed(conflicts, NAMED)}. Resolve them before other edits in these files."


def status(state: RepositoryState) -> str:
    """Where a repository stands, in lines."""
    at = f"at {short(state.commit)}" if state.commit else "without commits"
    lines = [f"{state.head if state.branch else 'Detached HEAD'} {at}."]
    if state.is_rebasing:
        lines.append("A rebase is under way.")
    if state.upstream:
        lines.append(f"Upstream: {text.name(state.upstream)} at {short(state.upstream_commit)}. {_position(state)}")
    if state.conflicts:
        lines.append(conflict_fact(state.conflicts))
    return "\n".join(lines)
