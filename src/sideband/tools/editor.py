"""What an editor offers to the workspace tools: its text of files, and its terminals.

The text of an open file may be newer than the file on the disk, and an editor must learn of what the agent writes. An
editor is connected to a session, not to the tools, so each call gets it with its context.
"""

from typing import TYPE_CHECKING, Final, Protocol

from sideband.ports import ToolContext
from sideband.tools.root import Content, Root, WorkspacePath
from sideband.tools.text import HeadTail, decoded, is_binary
from sideband.tools.tool import Halt, Refused

if TYPE_CHECKING:
    from sideband.tools.run import CommandEnd, ShellCommand

# Longer files are read and written on the disk, because an editor takes and gives a whole file in one message.
MAX_EDITOR_BYTES: Final = 1024 * 1024


class Editor(Protocol):
    """An editor that a session is connected to. `read` and `write` block, and are called in a thread."""

    def read(self, place: WorkspacePath, halt: Halt) -> str | None:
        """The text of a file, saved or not; None if the editor cannot give it. Raises `Refused`."""

    def write(self, place: WorkspacePath, text: str) -> bool:
        """Replace the text of a file; False if the editor cannot do that and has not. Raises `Refused`."""

    async def run(self, command: "ShellCommand", output: HeadTail, context: ToolContext) -> "CommandEnd | None":
        """Run a command in a terminal of the editor; None if it has none, and the command was not started."""


class EditorContext:
    """The context of a call in a session that an editor is connected to."""

    def __init__(self, context: ToolContext, editor: Editor) -> None:
        self.call_id = context.call_id
        self.applied = context.applied
        self.editor = editor


def editor_of(context: ToolContext) -> Editor | None:
    """The editor of the session that a call belongs to; None if it has none."""
    return context.editor if isinstance(context, EditorContext) else None


def current(root: Root, place: WorkspacePath, editor: Editor | None, halt: Halt) -> Content:
    """The content of a file: the text of the editor if it gives one, else that of the disk.

    The disk is asked first in any case, so that what it refuses (folders, devices, large files) is refused here, too.
    """
    saved = _saved(root, place)
    if editor is not None and (isinstance(saved, Refused) or text_for_editor(saved.data) is not None):
        text = editor.read(place, halt)
        # Some editors have an empty text for every file that does not exist.
        if isinstance(saved, Refused) and text:
            return Content(text.encode("utf-8"), None)
        if isinstance(saved, Content) and text is not None and (data := text.encode("utf-8")) != saved.data:
            return Content(data, saved.status, is_unsaved=True)
    if isinstance(saved, Refused):
        raise saved
    return saved


def _saved(root: Root, place: WorkspacePath) -> Content | Refused:
    """The file on the disk, or the refusal if it does not exist."""
    try:
        return root.read(place)
    except Refused as refusal:
        if isinstance(refusal.__cause__, FileNotFoundError):
            return refusal
        raise


def text_for_editor(data: bytes) -> str | None:
    """The data as an editor takes it; None if it is too long or no text."""
    if len(data) > MAX_EDITOR_BYTES or is_binary(data):
        return None
    text, valid = decoded(data)
    return text if valid else None
