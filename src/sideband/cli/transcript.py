"""`sideband transcript`: the conversation of a session, with its live reminders."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
from rich.console import Console
from rich.text import Text

from sideband.cli.app import OK, REFUSALS, refuse
from sideband.cli.target import JsonOption, StoreOption, ToOption, address
from sideband.inspect.report import printable

if TYPE_CHECKING:
    from sideband.core.reminder import Reminder

STYLES: Final[Mapping[str, str]] = {"user": "bold", "assistant": "green", "tool": "dim", "reminder": "cyan"}


def transcript(*, to: ToOption = None, store: StoreOption = None, json: JsonOption = False) -> int:
    """Print the conversation of a session as it stands now, with its live reminders after it.

    Bodies are shown in full, and secrets are not masked. The store is only read. With `--json`, the object has
    `messages`, and `events` with the live reminders (`visibility` public) and the audit records (internal). Exits with 2
    if the session cannot be read.
    """
    from sideband.core.transcript import transcript_of  # noqa: PLC0415 - the help does not need it
    from sideband.inspect.conversation import session_content  # noqa: PLC0415 - the same

    try:
        content = session_content(*address(to, store))
    except REFUSALS as error:
        return refuse(error)
    found = transcript_of(content.state)
    if json:
        print(found.to_json())
        return OK
    console = Console(highlight=False)
    turn = content.state.live.turn
    console.print(Text(printable(f"session {content.session_id}: {content.word}, turn {turn}"), style="bold underline"))
    for message in found.messages:
        _print(console, *_message(message))
    for reminder in found.reminders:
        _print(console, "reminder", _about(reminder), reminder.body)
    return OK


def _print(console: Console, kind: str, label: str, text: str) -> None:
    """Print a label and the lines of the text below it, with control characters escaped."""
    style = STYLES.get(kind, "default")
    console.print(Text(printable(label), style=f"{style} underline"), soft_wrap=True)
    for line in text.splitlines():
        console.print(Text(f"  {printable(line)}", style=style), soft_wrap=True)


def _message(message: Mapping[str, Any]) -> tuple[str, str, str]:
    from sideband.inspect.conversation import message_text  # noqa: PLC0415 - the help does not need it

    role = message["role"]
    label = f"tool {message.get('name', '')}: {message.get('status', '')}" if role == "tool" else role
    return role, label, "\n".join([*filter(None, [message_text(message)]), *_calls(message)])


def _calls(message: Mapping[str, Any]) -> Iterator[str]:
    for call in message.get("tool_calls", ()):
        yield f"calls {call['name']} {msgspec.json.encode(call['args']).decode()}"


def _about(reminder: "Reminder") -> str:
    ttl = "" if reminder.ttl_turns is None else f", TTL {reminder.ttl_turns}"
    key = "" if reminder.dedupe_key is None else f", key {reminder.dedupe_key}"
    return f"reminder {reminder.id}{key}{ttl}"
