"""How a client sees a tool call: its title, kind, files, and the change that it makes to a file."""

import difflib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec

from sideband.core.messages import ToolCall, ToolStatus
from sideband.tools.editor import Editor, current
from sideband.tools.root import Root, WorkspacePath
from sideband.tools.tool import Halt, Refused

KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "read_file": "read",
        "list_dir": "read",
        "search": "search",
        "write_file": "edit",
        "edit_file": "edit",
        "run": "execute",
    }
)
"""The kinds of the workspace tools; every other tool is `other`."""

_TITLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "read_file": "Read {path}",
        "list_dir": "List {path}",
        "search": "Search for {pattern}",
        "write_file": "Write {path}",
        "edit_file": "Edit {path}",
        "run": "Run {command}",
    }
)
_TITLE_CHARACTERS: Final = 120
# A longer text is not sent as a diff: an editor would have to compare it line by line.
MAX_DIFF_CHARACTERS: Final = 1_000_000

_FAILED: Final = frozenset(
    {
        ToolStatus.ERROR,
        ToolStatus.TIMED_OUT,
        ToolStatus.DENIED,
        ToolStatus.INTERRUPTED,
        ToolStatus.CANCELLED,
        ToolStatus.UNKNOWN,
    }
)
_STOPPED: Final = frozenset({ToolStatus.INTERRUPTED, ToolStatus.CANCELLED})


class Change(msgspec.Struct, frozen=True):
    """What a call does to a file; `old` is None if the file is new."""

    path: str
    old: str | None
    new: str


def announced(call: ToolCall, cwd: str) -> dict[str, Any]:
    """The fields that describe a call before it has run."""
    told: dict[str, Any] = {
        "toolCallId": call.id,
        "title": title_of(call),
        "kind": KINDS.get(call.name, "other"),
        "rawInput": call.args,
    }
    if locations := _locations(call, cwd):
        told["locations"] = locations
    return told


def title_of(call: ToolCall) -> str:
    """One line that says what the call does."""
    title = call.name
    if call.name in _TITLES:
        values = {"path": ".", "pattern": "", "command": "", **call.args}
        if isinstance(values["command"], list):
            values["command"] = " ".join(map(str, values["command"]))
        title = _TITLES[call.name].format_map({name: str(value) for name, value in values.items()})
    title = " ".join(title.split())
    return title if len(title) <= _TITLE_CHARACTERS else f"{title[: _TITLE_CHARACTERS - 3]}..."


def planned_change(call: ToolCall, cwd: str, editor: Editor | None, halt: Halt) -> Change | None:
    """The change that a call will make, with the file as it is now; None if it changes no file of `cwd`. Blocking."""
    if call.name == "write_file":
        path = call.args.get("path")
        content = call.args.get("content")
        if not isinstance(path, str) or not isinstance(content, str):
            return None
        try:
            root = Root(cwd)
            place = root.resolve(path)
        except (Refused, OSError):
            return None
        return Change(_absolute(path, cwd), _text(root, place, editor, halt), content)
    return _edited(call, cwd)


def recorded_change(call: ToolCall, cwd: str, result: str) -> Change | None:
    """The change that a call has made, as far as the call and its result tell."""
    if call.name == "write_file" and result.startswith("created "):
        return Change(_absolute(str(call.args.get("path", "")), cwd), None, str(call.args.get("content", "")))
    return _edited(call, cwd)


def _edited(call: ToolCall, cwd: str) -> Change | None:
    match call.name, call.args:
        case "edit_file", {"path": str(path), "old_string": str(old), "new_string": str(new)}:
            return Change(_absolute(path, cwd), old, new)
        case _:
            return None


def status_of(status: str, *, version: int) -> str:
    """The word of the protocol for how a call ended."""
    if version > 1 and status in _STOPPED:
        return "cancelled"
    return "failed" if status in _FAILED else "completed"


def text_content(text: str) -> dict[str, Any]:
    return {"type": "content", "content": {"type": "text", "text": text}}


def terminal_content(terminal_id: str) -> dict[str, Any]:
    return {"type": "terminal", "terminalId": terminal_id}


def diff_content(change: Change, *, version: int) -> dict[str, Any] | None:
    """The change as the protocol shows it; None if it is too large."""
    if len(change.new) + len(change.old or "") > MAX_DIFF_CHARACTERS:
        return None
    if version == 1:
        return {"type": "diff", "path": change.path, "oldText": change.old, "newText": change.new}
    is_new = change.old is None
    entry = {"operation": "add" if is_new else "modify", "path": change.path, "fileType": "text"}
    return {"type": "diff", "changes": [entry], "patch": {"format": "git_patch", "text": _patch(change)}}


def _patch(change: Change) -> str:
    name = change.path.lstrip("/")
    old = [] if change.old is None else change.old.splitlines(keepends=True)
    before = "/dev/null" if change.old is None else f"a/{name}"
    lines = difflib.unified_diff(old, change.new.splitlines(keepends=True), before, f"b/{name}")
    whole = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    new_file = "new file mode 100644\n" if change.old is None else ""
    return f"diff --git a/{name} b/{name}\n{new_file}{whole}"


def _locations(call: ToolCall, cwd: str) -> list[dict[str, Any]]:
    path = call.args.get("path")
    if call.name not in KINDS or not isinstance(path, str):
        return []
    location: dict[str, Any] = {"path": _absolute(path, cwd)}
    start = call.args.get("start")
    if isinstance(start, int) and start > 0:
        location["line"] = start
    return [location]


def _absolute(path: str, cwd: str) -> str:
    return str(Path(cwd) / path)


def _text(root: Root, place: WorkspacePath, editor: Editor | None, halt: Halt) -> str | None:
    """The text of a file; None if there is none, or if it is no text."""
    try:
        return current(root, place, editor, halt).data.decode("utf-8")
    except (Refused, UnicodeDecodeError):
        return None
