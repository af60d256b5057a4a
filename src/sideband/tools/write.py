"""The tools that change files, `write_file` and `edit_file`; both replace a file in one step."""

import errno
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from sideband.ports import ToolContext, ToolOutput
from sideband.tools.editor import Editor, current, editor_of, text_for_editor
from sideband.tools.root import Content, Root, WorkspacePath, digest, refuse_irregular
from sideband.tools.seen import Seen, signature
from sideband.tools.text import (
    LINE_END,
    cut,
    is_binary,
    line_end,
    lines_in,
)
from sideband.tools.tool import EditFile, Halt, Refused, WorkspaceTool, WriteFile, explained, offload


class _Written(NamedTuple):
    place: WorkspacePath
    size: int
    created: bool


def write_file(root: Root, seen: Seen) -> WorkspaceTool[WriteFile]:
    def write(arguments: WriteFile, editor: Editor | None, halt: Halt) -> _Written:
        place = root.resolve(arguments.path)
        data = arguments.content.encode("utf-8")
        with seen.writing:
            before = existing(root, place, editor, halt)
            refuse_unwritable(place, before)
            if before is not None:
                _refuse_unread(seen, place, before)
            put(root, seen, place, data, over=before, halt=halt, editor=editor)
        return _Written(place, len(data), created=before is None)

    async def perform(arguments: WriteFile, context: ToolContext) -> ToolOutput:
        editor = editor_of(context)
        written = await offload(
            partial(write, arguments, editor),
            landed=lambda done: context.applied(f"{'created' if done.created else 'wrote'} {done.place}"),
            waits=editor is not None,
        )
        verb = "created" if written.created else "wrote"
        return ToolOutput(
            text=f"{verb} {written.place}, {written.size} bytes",
            data={"path": str(written.place), "bytes": written.size, "created": written.created},
        )

    return WorkspaceTool(
        name="write_file",
        description=(
            "Write a whole file of the workspace in one step, making missing folders. A file that is there already is "
            "only replaced when it was read before and has not changed since. To change a part of it use edit_file."
        ),
        arguments=WriteFile,
        idempotent=False,
        perform=perform,
        watcher=seen,
    )


def _refuse_unread(seen: Seen, place: WorkspacePath, before: Content) -> None:
    if not seen.knows(place) and is_binary(before.data):
        raise Refused(f"{place} is a binary file, which cannot be read first; move it away with run to replace it")
    seen.refuse_unknown(place, before)


# Comparing lines is slow, so the hint for a failed edit is limited.
MAX_COMPARED_LINES: Final = 2000
MAX_COMPARED_CHARACTERS: Final = 200
MAX_LISTED_LINES: Final = 5


class _Edited(NamedTuple):
    place: WorkspacePath
    replacements: int
    at: str

    @property
    def report(self) -> str:
        plural = "" if self.replacements == 1 else "s"
        return f"edited {self.place}, {self.replacements} replacement{plural} at {self.at}"


def edit_file(root: Root, seen: Seen) -> WorkspaceTool[EditFile]:
    def edit(arguments: EditFile, editor: Editor | None, halt: Halt) -> _Edited:
        place = root.resolve(arguments.path)
        with seen.writing:
            content = current(root, place, editor, halt)
            refuse_unwritable(place, content)
            seen.refuse_unknown(place, content)
            old, new = arguments.old_string.encode("utf-8"), arguments.new_string.encode("utf-8")
            found = _occurrences(content.data, old)
            _refuse_unless_clear(place, content.data, arguments, found)
            edited = _Edited(place, content.data.count(old), found.at(content.data))
            put(root, seen, place, content.data.replace(old, new), over=content, halt=halt, editor=editor)
        return edited

    async def perform(arguments: EditFile, context: ToolContext) -> ToolOutput:
        editor = editor_of(context)
        edited = await offload(
            partial(edit, arguments, editor),
            landed=lambda done: context.applied(done.report),
            waits=editor is not None,
        )
        return ToolOutput(text=edited.report, data={"path": str(edited.place), "replacements": edited.replacements})

    return WorkspaceTool(
        name="edit_file",
        description=(
            "Replace an exact piece of text in a file of the workspace that was read before and has not changed since. "
            "The text to replace must be there exactly once, unless replace_all is set."
        ),
        arguments=EditFile,
        idempotent=False,
        perform=perform,
        watcher=seen,
    )


class _Occurrences(NamedTuple):
    """The number of occurrences, and the offsets of the first ones."""

    times: int
    first: Sequence[int]

    def at(self, data: bytes) -> str:
        numbers = dict.fromkeys(data.count(LINE_END, 0, offset) + 1 for offset in self.first)
        more = " and more" if self.times > len(self.first) else ""
        return f"line{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}{more}"


def _occurrences(data: bytes, old: bytes) -> _Occurrences:
    """Find `old`, counting overlapping matches; in UTF-8 a match of bytes is a match of whole characters."""
    first: list[int] = []
    offset = data.find(old)
    while offset >= 0 and len(first) < MAX_LISTED_LINES:
        first.append(offset)
        offset = data.find(old, offset + 1)
    return _Occurrences(max(data.count(old), len(first)), first)


def _refuse_unless_clear(place: WorkspacePath, data: bytes, arguments: EditFile, found: _Occurrences) -> None:
    if arguments.old_string == arguments.new_string:
        raise Refused("old_string and new_string are the same; there is nothing to change")
    if not found.times:
        raise Refused(f"old_string is not in {place}{_near(data, arguments.old_string)}")
    if found.times > 1 and not arguments.replace_all:
        raise Refused(
            f"old_string is {found.times} times in {place}, at {found.at(data)}; "
            "add lines around it until it is there once, or set replace_all"
        )


def _near(data: bytes, old: str) -> str:
    if b"\r\n" in data and "\n" in old and old.replace("\r\n", "\n").replace("\n", "\r\n").encode("utf-8") in data:
        return "; the lines of the file end in \\r\\n, those of old_string in \\n"
    wanted = next((line for line in map(str.strip, old.split("\n")) if line), "")
    if wanted and (number := _line_like(data, wanted)):
        return f"; {_line_hint(number, wanted)} is like its first line, so white space or the following lines differ"
    compared = [
        data[start:end].decode("utf-8", "replace").strip()[:MAX_COMPARED_CHARACTERS]
        for start, end in islice(lines_in(data), MAX_COMPARED_LINES)
    ]
    nearest = get_close_matches(wanted[:MAX_COMPARED_CHARACTERS], compared, n=1)
    if not nearest:
        return "; no line of it is like its first line"
    return f"; nearest is {_line_hint(compared.index(nearest[0]) + 1, nearest[0])}"


def _line_like(data: bytes, wanted: str) -> int | None:
    """The number of the first line that equals `wanted`, ignoring white space around it."""
    needle = wanted.encode("utf-8")
    found = data.find(needle)
    while found >= 0:
        start, end = data.rfind(LINE_END, 0, found) + 1, line_end(data, found)
        if data[start:end].decode("utf-8", "replace").strip() == wanted:
            return data.count(LINE_END, 0, start) + 1
        found = data.find(needle, end)
    return None


def _line_hint(number: int, line: str) -> str:
    return f"line {number}, {cut(line, MAX_COMPARED_CHARACTERS)!r},"


WRITE_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
# The errors of file systems without hard links.
NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


class Staged(NamedTuple):
    """A complete temporary file in the folder of its destination."""

    folder: int
    name: str
    descriptor: int


def put(
    root: Root,
    seen: Seen,
    place: WorkspacePath,
    data: bytes,
    *,
    over: Content | None,
    halt: Halt,
    editor: Editor | None = None,
) -> None:
    """Replace `over` by `data`, or create the file if `over` is None; `editor` writes the file if it can.

    The caller must hold `seen.writing` since before it read `over`. The file is written to a temporary name and then
    renamed, so that readers see the old content or the new, never a part.
    """
    *parents, name = place.parts
    status = over.status if over else None
    halt.check()
    if editor is not None and _put_in_editor(editor, root, seen, place, data, before=status):
        return
    with (
        explained(place),
        root.folder(parents, create=status is None) as folder,
        _staged(folder, data, like=status) as staged,
    ):
        halt.check()
        with seen.noting:
            _move(staged, place, name, status)
            seen.wrote(place, digest(data), os.fstat(staged.descriptor))


def _put_in_editor(
    editor: Editor, root: Root, seen: Seen, place: WorkspacePath, data: bytes, *, before: os.stat_result | None
) -> bool:
    """Let the editor write the file; False if it cannot."""
    text = text_for_editor(data)
    if text is None:
        return False
    # Not every editor makes missing folders.
    with explained(place), root.folder(place.parts[:-1], create=before is None):
        pass
    # Not under `seen.noting`, which must not be held while another program takes its time.
    if not editor.write(place, text):
        return False
    seen.wrote_in_editor(place, data, before=before)
    return True


def existing(root: Root, place: WorkspacePath, editor: Editor | None, halt: Halt) -> Content | None:
    """The file that a write would replace; None if it does not exist."""
    try:
        return current(root, place, editor, halt)
    except Refused as refusal:
        if isinstance(refusal.__cause__, FileNotFoundError):
            return None
        raise


def refuse_unwritable(place: WorkspacePath, content: Content | None) -> None:
    """Refuse to change git's own data and read-only files."""
    if place.in_git:
        raise Refused(f"{place} belongs to git; change it by running git")
    status = None if content is None else content.status
    if status is not None and not status.st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
        raise Refused(f"{place} is read-only")


@contextmanager
def _staged(folder: int, data: bytes, *, like: os.stat_result | None) -> Iterator[Staged]:
    name = f".sideband-{secrets.token_hex(8)}.tmp"
    # The copy of a private file is private from the start, before its mode is set.
    descriptor = os.open(name, WRITE_NEW, 0o666 if like is None else 0o600, dir_fd=folder)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
        if like is not None:
            # Only the super-user can keep another owner; other users keep at least the mode.
            with suppress(PermissionError):
                os.fchown(descriptor, like.st_uid, like.st_gid)
            # Clear set-user-ID and set-group-ID, as the kernel does when a file is written.
            os.fchmod(descriptor, stat.S_IMODE(like.st_mode) & ~(stat.S_ISUID | stat.S_ISGID))
        os.fsync(descriptor)
        yield Staged(folder, name, descriptor)
    finally:
        os.close(descriptor)
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)


def _move(staged: Staged, place: WorkspacePath, name: str, over: os.stat_result | None) -> None:
    if over is None:
        _move_new(staged, place, name)
        return
    now = os.stat(name, dir_fd=staged.folder, follow_symlinks=False)
    refuse_irregular(place, now)
    if signature(now) != signature(over):
        raise Refused(f"{place} was changed by another process just now; read_file it again")
    os.rename(staged.name, name, src_dir_fd=staged.folder, dst_dir_fd=staged.folder)


def _move_new(staged: Staged, place: WorkspacePath, name: str) -> None:
    """Link instead of renaming: a rename would replace a file that another process creates at the same time."""
    try:
        os.link(staged.name, name, src_dir_fd=staged.folder, dst_dir_fd=staged.folder)
    except FileExistsError:
        raise Refused(f"{place} was created by another process just now; read_file it first") from None
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        os.rename(staged.name, name, src_dir_fd=staged.folder, dst_dir_fd=staged.folder)
    else:
        os.unlink(staged.name, dir_fd=staged.folder)
