"""Which files a watcher ignores: what Git ignores, version control itself, and the usual caches and swap files."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from sideband.logs import LOG

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
# A pattern with more `**` is not used: the time to match a path can grow with a power of its length.
MAX_DOUBLE_STARS: Final = 3

# What pathspec makes of `*` and of `?`.
_STAR: Final = "[^/]*"
_ONE: Final = "[^/]"
_NEGATED: Final = re.compile(r"(?<!\\)\[\^(?!/\])")
_REPEATED: Final = re.compile(r"(?:(?<=/)|^)(?:\*\*/){2,}")


class _Pattern(NamedTuple):
    """A line of an ignore file; `ignores` is False for one that begins with `!`."""

    regex: re.Pattern[str]
    ignores: bool

    def matches(self, path: str) -> bool:
        """Whether it matches the path itself, and not only a directory above it."""
        if _BELOW not in self.regex.groupindex:
            # `*` matches all paths, and `a/**` what is in `a`, but not `a/` itself.
            found = self.regex.match(path)
            return found is not None and not (found.end() == len(path) and path.endswith("/"))
        # `*/` becomes an expression without a beginning.
        return any(found.end(_BELOW) in {-1, len(path)} for found in self.regex.finditer(path))


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
        self._patterns: dict[str, Sequence[_Pattern]] = {}
        # The patterns of directories above the root, the strongest first, with the path of the root in each directory.
        self._outer: list[tuple[Sequence[_Pattern], str]] = []
        self._base = _patterns_of(DEFAULTS, "the defaults")
        folders = (self._root, *self._root.parents)
        top = next((folder for folder in folders if os.path.lexists(folder / ".git")), self._root)
        files = [(folder, folder / GITIGNORE) for folder in folders[1 : folders.index(top) + 1]]
        for folder, file in (*files, (top, _git_folder(top) / "info" / "exclude")):
            below = self._root.relative_to(folder).as_posix()
            self._outer.append((_patterns_in(file), "" if below == "." else f"{below}/"))
        if top != self._root and self._ignores_root(self._root.relative_to(top).parts):
            self._outer = []

    def _ignores_root(self, parts: Sequence[str]) -> bool:
        """Whether the repository ignores the root itself, or a directory between its top and the root."""
        for depth in range(1, len(parts) + 1):
            # What follows this directory in the path of the root.
            rest = len("".join(f"{part}/" for part in parts[depth:]))
            places = [(patterns, place[: len(place) - rest]) for patterns, place in self._outer]
            decisions = (_decision(patterns, place) for patterns, place in places if place)
            if next((decision for decision in decisions if decision is not None), False):
                return True
        return False

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
            if folder not in self._patterns:
                self._patterns[folder] = _patterns_in(self._root / folder / GITIGNORE)
            yield _decision(self._patterns[folder], path[len(folder) + 1 :] if folder else path)
        for outer, place in self._outer:
            yield _decision(outer, place + path)
        yield _decision(self._base, path)


def _patterns_in(file: Path) -> Sequence[_Pattern]:
    return _patterns_of(_lines(file), str(file))


def _patterns_of(lines: Sequence[str], source: str) -> Sequence[_Pattern]:
    patterns = []
    for line in lines:
        # `a/**/` are the directories below `a`; pathspec takes it for `a/`.
        short = _REPEATED.sub("**/", line)
        short = f"{short}*/" if short.endswith("/**/") else short
        if short.count("**") > MAX_DOUBLE_STARS:
            LOG.warning("a pattern with more than %d ** is not used: %.100r in %s", MAX_DOUBLE_STARS, line, source)
            continue
        try:
            (pattern,) = GitIgnoreSpec.from_lines([short]).patterns
        except ValueError:
            # Git skips a line that is not a pattern.
            continue
        if pattern.regex is not None and pattern.include is not None:
            patterns.append(_Pattern(re.compile(_linear(pattern.regex.pattern)), pattern.include))
    return patterns


def _linear(expression: str) -> str:
    """The expression with each `*` but the last of a segment matched once, as short as possible.

    The shortest match leaves the most for what follows, so another one need not be tried. Without this, a name that
    does not match costs a time that is a power of its length, for example with `a*a*a*a*b`. `[!x]` never matches `/`.
    """
    first, *pieces = _NEGATED.sub("[^/", expression).split(_STAR)
    parts = [first]
    for left, piece in zip(reversed(range(len(pieces))), pieces, strict=True):
        ends_segment = not left or "/" in piece.replace(_ONE, "")
        parts.append(f"{_STAR}{piece}" if ends_segment else f"(?>{_STAR}?{piece})")
    return "".join(parts)


def _decision(patterns: Sequence[_Pattern], path: str) -> bool | None:
    """Whether the last pattern that matches the path itself ignores it; None if none does.

    `GitIgnoreSpec.check_file` also counts patterns that match a directory above the path, and then lets `!d/` take back
    what `d/*` ignores. The rules of directories have been applied before.
    """
    return next((pattern.ignores for pattern in reversed(patterns) if pattern.matches(path)), None)


def _lines(file: Path) -> list[str]:
    try:
        with file.open("rb") as stream:
            text = stream.read(MAX_PATTERN_BYTES).decode(errors="replace")
    except OSError:
        return []
    # As Git reads it: other characters that Python takes for the end of a line may be part of a name.
    return [line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n")]


def _git_folder(top: Path) -> Path:
    """The directory with the settings of the repository, which a worktree shares with the main working tree."""
    entry = top / ".git"
    pointer = "".join(_lines(entry)[:1]).removeprefix("gitdir: ")
    if not pointer:
        return entry
    folder = top / pointer
    common = "".join(_lines(folder / "commondir")[:1])
    return Path(os.path.normpath(folder / common))
