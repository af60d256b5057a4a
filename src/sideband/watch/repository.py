"""Asks the program `git` about a repository: it changes nothing, runs no hooks and asks for no passwords."""

import asyncio
import os
from pathlib import Path
from typing import Final, NamedTuple

from sideband.core.errors import InvalidOption, shown
from sideband.watch import text
from sideband.watch.process import ProcessEnd, run

TIMEOUT_SECONDS: Final = 30.0
SUBJECTS: Final = 3
# Of the environment of a hook; they would name another repository.
_DROPPED: Final = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR")
_READ_ONLY: Final = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_SHORT: Final = 7


class RepositoryState(NamedTuple):
    """Where a repository stands; `branch` is empty if HEAD is detached, `commit` if there is no commit yet.

    `upstream` is empty if the branch has none. `ahead` and `behind` count commits of the branch and of its upstream
    branch that the other one does not have. `is_rebasing` if a rebase is under way.
    """

    branch: str
    commit: str
    upstream: str
    upstream_commit: str
    ahead: int
    behind: int
    conflicts: tuple[str, ...]
    is_rebasing: bool

    @property
    def head(self) -> str:
        return text.name(self.branch) if self.branch else "HEAD"


def short(commit: str) -> str:
    return commit[:_SHORT]


class Repository:
    """A repository with a working tree; `folder` is where its references are, and `own_folder` where its HEAD is.

    The two differ in a worktree.
    """

    def __init__(self, root: Path, folder: Path, own_folder: Path) -> None:
        self.root = root
        self.folder = folder.resolve()
        self.own_folder = own_folder.resolve()

    @classmethod
    async def find(cls, root: Path) -> "Repository":
        """The repository that `root` is in; `InvalidOption` if there is none or git cannot be used."""
        outcome = await _git(root, "rev-parse", "--git-common-dir", "--absolute-git-dir", with_errors=True)
        if not outcome.passed:
            reason = next((line for line in outcome.output.splitlines() if line.strip()), outcome.fault)
            reason = reason if outcome.started else f"git {outcome.fault}"
            raise InvalidOption(
                f"root must be in a Git repository, not {shown(str(root))} ({text.name(reason)})",
                field="root",
                value=str(root),
            )
        common, own = outcome.output.splitlines()[-2:]
        return cls(root, root / common, Path(own))

    async def state(self) -> RepositoryState:
        branch, commit, upstream, upstream_commit, counts, unmerged = await asyncio.gather(
            self._read("symbolic-ref", "-q", "--short", "HEAD"),
            self._read("rev-parse", "-q", "--verify", "HEAD^{commit}"),
            self._read("rev-parse", "-q", "--abbrev-ref", "--verify", "@{upstream}"),
            self._read("rev-parse", "-q", "--verify", "@{upstream}^{commit}"),
            self._read("rev-list", "--left-right", "--count", "HEAD...@{upstream}"),
            self._read("ls-files", "--unmerged", "-z", "--full-name", ":/"),
        )
        ahead, behind = map(int, counts.split() or (0, 0))
        conflicts = sorted({record.partition("\t")[2] for record in unmerged.split("\0") if "\t" in record})
        is_rebasing = any((self.own_folder / name).exists() for name in ("rebase-merge", "rebase-apply"))
        return RepositoryState(branch, commit, upstream, upstream_commit, ahead, behind, tuple(conflicts), is_rebasing)

    async def movement(self, old: str, new: str) -> str:
        """What lies between two commits: how many, and the first subjects; empty if git cannot say."""
        counts, log = await asyncio.gather(
            self._read("rev-list", "--left-right", "--count", f"{old}...{new}"),
            self._read("log", "--format=%s", f"--max-count={SUBJECTS}", f"{old}..{new}"),
        )
        if not counts:
            return ""
        gone, added = map(int, counts.split())
        subjects = text.listed(log.splitlines(), SUBJECTS)
        more = f", and {added - SUBJECTS:,} more" if added > SUBJECTS else ""
        new_commits = f"{text.counted(added, 'commit')}: {subjects}{more}"
        if not gone:
            return f" ({new_commits})"
        lost = text.counted(gone, "commit")
        return f" ({lost} no longer in it; {new_commits})" if added else f" ({lost} no longer in it)"

    async def subject(self, commit: str) -> str:
        return text.name((await self._read("log", "--format=%s", "--max-count=1", commit)).strip())

    async def _read(self, *arguments: str) -> str:
        """The output of a command; empty if it failed, because there is no such thing in the repository."""
        outcome = await _git(self.root, *arguments)
        return outcome.output.rstrip("\n") if outcome.passed else ""


async def _git(root: Path, *arguments: str, with_errors: bool = False) -> ProcessEnd:
    environment = {name: value for name, value in os.environ.items() if name not in _DROPPED}
    return await run(
        (*_READ_ONLY, *arguments),
        folder=root,
        seconds=TIMEOUT_SECONDS,
        environment={**environment, "LC_ALL": "C"},
        with_errors=with_errors,
    )
