"""Asks the program `git` about a repository: it changes nothing and asks for no passwords.

The configuration of the repository is not trusted: git runs no hook and no program that it names, and fetches nothing.
"""

import asyncio
import os
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from sideband.core.errors import InvalidOption, shown
from sideband.watch import text
from sideband.watch.process import ProcessEnd, failed, run

TIMEOUT_SECONDS: Final = 30.0
SUBJECTS: Final = 3
# Of the environment of a hook; they would name another repository.
_DROPPED: Final = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR")
# Each setting replaces one of the repository that names a program.
_READ_ONLY: Final = (
    "git",
    "--no-optional-locks",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "log.showSignature=false",
    "-c",
    "gpg.program=false",
)
# A partial clone would fetch missing objects with a program of its configuration. Git knows the first variable since
# 2.45; the second one forbids every transport, and a setting `protocol.*.allow` of the repository does not override it.
_NO_FETCH: Final = MappingProxyType({"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"})
_SHORT: Final = 7
# How a command ends that finds no such reference; git ends with 128 if it cannot read the repository.
NOT_FOUND: Final = failed(1)


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
    """A repository; `folder` is where its references are, and `own_folder` where its HEAD is.

    The two differ in a worktree. `top` is the top directory of the working tree, None for a bare repository.
    """

    def __init__(self, folder: Path, own_folder: Path, top: Path | None) -> None:
        self.folder = folder.resolve()
        self.own_folder = own_folder.resolve()
        self.top = top

    @classmethod
    async def find(cls, root: Path) -> "Repository":
        """The repository that `root` is in; `InvalidOption` if there is none or git cannot be used."""
        outcome = await _git(
            root, "rev-parse", "--git-common-dir", "--absolute-git-dir", "--is-inside-work-tree", with_errors=True
        )
        if not outcome.passed:
            reason = next((line for line in outcome.output.splitlines() if line.strip()), outcome.fault)
            reason = reason if outcome.started else f"git {outcome.fault}"
            raise InvalidOption(
                f"root must be in a Git repository, not {shown(str(root))} ({text.name(reason)})",
                field="root",
                value=str(root),
            )
        common, own, has_tree = outcome.output.splitlines()[-3:]
        top = (await _git(root, "rev-parse", "--show-toplevel")).output.rstrip("\n") if has_tree == "true" else ""
        return cls(root / common, Path(own), Path(top) if top else None)

    @property
    def exists(self) -> bool:
        return self.own_folder.is_dir() and self.folder.is_dir()

    async def state(self) -> RepositoryState | None:
        """Where the repository stands; None if git cannot read it."""
        branch, commit, upstream, upstream_commit, counts, unmerged = await asyncio.gather(
            self._found("symbolic-ref", "-q", "--short", "HEAD"),
            # Not `HEAD^{commit}`: a missing object must not look like a branch without commits.
            self._found("rev-parse", "-q", "--verify", "HEAD"),
            self._read("rev-parse", "-q", "--abbrev-ref", "--verify", "@{upstream}"),
            self._read("rev-parse", "-q", "--verify", "@{upstream}"),
            self._read("rev-list", "--left-right", "--count", "HEAD...@{upstream}"),
            self._unmerged(),
        )
        if branch is None or commit is None or unmerged is None or not (branch or commit):
            return None
        if commit and upstream_commit and not counts:
            return None
        ahead, behind = map(int, counts.split() or (0, 0))
        conflicts = sorted({record.partition("\t")[2] for record in unmerged.split("\0") if "\t" in record})
        is_rebasing = any((self.own_folder / name).exists() for name in ("rebase-merge", "rebase-apply"))
        return RepositoryState(branch, commit, upstream, upstream_commit, ahead, behind, tuple(conflicts), is_rebasing)

    async def movement(self, old: str, new: str) -> str:
        """What lies between two commits: how many, and the first subjects; empty if git cannot say."""
        counts, first = await asyncio.gather(
            self._read("rev-list", "--left-right", "--count", f"{old}...{new}"),
            self._subjects(f"--max-count={SUBJECTS}", f"{old}..{new}"),
        )
        if not counts:
            return ""
        gone, added = map(int, counts.split())
        subjects = text.listed(first, SUBJECTS)
        more = f", and {added - SUBJECTS:,} more" if added > SUBJECTS else ""
        new_commits = f"{text.counted(added, 'commit')}: {subjects}{more}"
        if not gone:
            return f" ({new_commits})"
        lost = text.counted(gone, "commit")
        return f" ({lost} no longer in it; {new_commits})" if added else f" ({lost} no longer in it)"

    async def subject(self, commit: str) -> str:
        return text.name("".join(await self._subjects("--max-count=1", commit)).strip())

    async def _subjects(self, *arguments: str) -> list[str]:
        # Not `git log`, which obeys more settings. Each commit is a line with its name and one with its subject.
        lines = (await self._read("rev-list", "--encoding=UTF-8", "--format=%s", *arguments)).split("\n")
        return lines[1::2]

    async def _unmerged(self) -> str | None:
        """The entries of the index with conflicts; None if it cannot be read."""
        if self.top is None:
            return ""
        outcome = await self._ask("ls-files", "--unmerged", "-z", "--full-name", ":/")
        return outcome.output if outcome.passed else None

    async def _read(self, *arguments: str) -> str:
        """The output of a command; empty if it failed."""
        outcome = await self._ask(*arguments)
        return outcome.output.rstrip("\n") if outcome.passed else ""

    async def _found(self, *arguments: str) -> str | None:
        """The output of a command that looks for a reference; empty if there is none, None if git cannot say."""
        outcome = await self._ask(*arguments)
        if outcome.passed:
            return outcome.output.rstrip("\n")
        return "" if outcome.fault == NOT_FOUND else None

    async def _ask(self, *arguments: str) -> ProcessEnd:
        # The repository is named, because git would look for another one in the directories above a deleted one.
        tree = () if self.top is None else (f"--work-tree={self.top}",)
        return await _git(self.top or self.own_folder, f"--git-dir={self.own_folder}", *tree, *arguments)


async def _git(root: Path, *arguments: str, with_errors: bool = False) -> ProcessEnd:
    environment = {name: value for name, value in os.environ.items() if name not in _DROPPED}
    return await run(
        (*_READ_ONLY, *arguments),
        folder=root,
        seconds=TIMEOUT_SECONDS,
        environment={**environment, **_NO_FETCH, "LC_ALL": "C"},
        with_errors=with_errors,
    )
