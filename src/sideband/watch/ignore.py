"""Which files a watcher ignores: what Git ignores, version control itself, and the usual caches and swap files."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

try:
    from pathspec import GitIgnoreSpec
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "a watcher needs pathspec, which is not installed: pip install 'sideband[watch]'", name=missing.name
    ) from missing

GITIGNORE: Final = ".gitignore"
# Never watched, whatever a .gitignore says.
VERSION_CONTROL: Final = frozenset({".git", ".hg", ".svn", ".jj"})
# Before the patterns of the user, so that a .gitignore can take one back.
DEFAULTS: Final = (
    "node_modules/",
    "__pycache__/",
    "*.py[co]",
    ".venv/",
    ".tox/",
    ".nox/",
    ".mypy_cache/",
    ".pytest_cache/",
    ".ruff_cache/",
    ".hypothesis/",
    "*.sw[nopx]",
    "*~",
    ".#*",
    "\\#*#",
    ".DS_Store",
    "*.db-journal",
    "*.db-shm",
    "*.db-wal",
)
# The group in the expressions of pathspec that matches the slash after a directory.
_BELOW: Final = "ps_d"
MAX_PATTERN_BYTES: Final = 1024 * 1024


class IgnoreRules:
    """The rules below one directory; paths are relative to it, with `/` as the separator.

    The rules of the enclosing repository apply as well, unless they ignore the directory itself: a directory that the
    user has named is watched. Directories that are reached through a symbolic link are ignored.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self.reload()

    def reload(self) -> None:
        """Forget the patterns that were read; they are read again when they are needed."""
        self._folders: dict[str, bool] = {}
        self._specs: dict[str, GitIgnoreSpec | None] = {}
        # The directories of the repository above the root, from the nearest to the top, with the path of the root in them.
        self._outer: list[tuple[GitIgnoreSpec, str]] = []
        top = next((folder for folder in (self._root, *self._root.parents) if (folder / ".git").exists()), self._root)
        self._base = _spec_of([*DEFAULTS, *_lines(_git_folder(top) / "info" / "exclude")])
        if top == self._root:
            return
        for folder in self._root.parents:
            spec = _spec_of(_lines(folder / GITIGNORE))
            self._outer.append((spec, f"{self._root.relative_to(folder).as_posix()}/"))
            if folder == top:
                break
        # With a match of any directory above the root.
        if any(spec.check_file(place).include for spec, place in self._outer):
            self._outer = []

    def ignores(self, path: str, *, is_folder: bool = False) -> bool:
        """Whether a file, or with `is_folder` a directory with all that is in it, is ignored."""
        folder, _, _ = path.rpartition("/")
        if folder and self._ignores_folder(folder):
            return True
        return self._ignores_folder(path) if is_folder else self._matches(path)

    def _ignores_folder(self, folder: str) -> bool:
        known = self._folders.get(folder)
        if known is not None:
            return known
        outer, _, _ = folder.rpartition("/")
        if outer and self._ignores_folder(outer):
            # Not remembered: there may be very many directories below an ignored one.
            return True
        ignored = self._matches(f"{folder}/") or (self._root / folder).is_symlink()
        self._folders[folder] = ignored
        return ignored

    def _matches(self, path: str) -> bool:
        if path.rstrip("/").rpartition("/")[2] in VERSION_CONTROL:
            return True
        return next((decision for decision in self._decisions(path) if decision is not None), False)

    def _decisions(self, path: str) -> Iterator[bool | None]:
        """What each set of patterns says, the strongest first; None if no pattern matches."""
        folder = path.rstrip("/")
        while folder:
            folder, _, _ = folder.rpartition("/")
            spec = self._spec(folder)
            if spec is not None:
                yield _decision(spec, path[len(folder) + 1 :] if folder else path)
        for outer, place in self._outer:
            yield _decision(outer, place + path)
        yield _decision(self._base, path)

    def _spec(self, folder: str) -> GitIgnoreSpec | None:
        if folder not in self._specs:
            lines = _lines(self._root / folder / GITIGNORE)
            self._specs[folder] = _spec_of(lines) if lines else None
        return self._specs[folder]


def _spec_of(lines: list[str]) -> GitIgnoreSpec:
    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError:
        # Git skips a line that is not a pattern.
        return GitIgnoreSpec.from_lines([line for line in lines if _is_pattern(line)])


def _decision(spec: GitIgnoreSpec, path: str) -> bool | None:
    """Whether the last pattern that matches the path itself ignores it; None if none does.

    `GitIgnoreSpec.check_file` also counts patterns that match a directory above the path, and then lets `!d/` take back
    what `d/*` ignores. The rules of directories have been applied before.
    """
    for pattern in reversed(spec.patterns):
        regex = pattern.regex
        found = None if regex is None else regex.match(path)
        if found is not None and pattern.include is not None:
            below = found.end(_BELOW) if _BELOW in found.re.groupindex else -1
            if below in {-1, len(path)}:
                return pattern.include
    return None


def _is_pattern(line: str) -> bool:
    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True


def _lines(file: Path) -> list[str]:
    try:
        with file.open("rb") as stream:
            return stream.read(MAX_PATTERN_BYTES).decode(errors="replace").splitlines()
    except OSError:
        return []


def _git_folder(top: Path) -> Path:
    """The directory with the settings of the repository, which a worktree shares with the main working tree."""
    entry = top / ".git"
    pointer = "".join(_lines(entry)[:1]).removeprefix("gitdir: ")
    if not pointer:
        return entry
    folder = top / pointer
    common = "".join(_lines(folder / "commondir")[:1])
    return Path(os.path.normpath(folder / common))
