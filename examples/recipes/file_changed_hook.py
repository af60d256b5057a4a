"""Another program saves files while an agent works on them; a hook adds one reminder per file, not per save."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import sideband as sb
from sideband.testing import ScriptedModel

FILES = ("auth.py", "app.py")


def file_changed(event: Mapping[str, Any]) -> dict[str, Any]:
    """The key names the file, so that the reminder of a later save replaces that of an earlier one."""
    return {
        "reminder": {
            "body": f"{event['path']} was changed by another program. Read it again before you edit it.",
            "tags": ["workspace", "file_changed"],
            "dedupe_key": f"file_changed:{event['path']}",
            "ttl_turns": 2,
            "propagate": "session",
        }
    }


def reading(*names: str) -> sb.Reply:
    """A reply that asks for these files."""
    return sb.Reply(tool_calls=tuple(sb.ToolCall(id=name, name="read_file", args={"path": name}) for name in names))


def meanwhile(save: Callable[[], None], then: sb.Reply) -> Callable[[object], sb.Reply]:
    """A line of the script that saves files before the model replies."""

    def answer(_request: object) -> sb.Reply:
        save()
        return then

    return answer


async def requests(folder: Path) -> list[tuple[str, ...]]:
    """The reminders in each request of an agent that reads two files and then lists a folder."""

    def save(*names: str) -> None:
        for name in names:
            with (folder / name).open("a", encoding="utf-8") as file:
                file.write("# another line\n")

    for name in FILES:
        (folder / name).write_text("print('hello')\n", encoding="utf-8")
    listing = sb.Reply(tool_calls=(sb.ToolCall(id="list", name="list_dir", args={"path": "."}),))
    model = ScriptedModel(
        [
            reading(*FILES),
            meanwhile(lambda: save("auth.py", "auth.py", "app.py"), listing),
            meanwhile(lambda: save("auth.py"), listing),
        ]
    )
    sb.register_session_hook("file_edited", file_changed)
    try:
        # The tools remember which files the agent has read, and notice when another program writes them.
        await sb.agent_loop("Rename the login function.", model=model, tools=sb.workspace_tools(folder))
    finally:
        sb.clear_hooks()
    return [request.reminders for request in model.requests]


async def main() -> None:
    with TemporaryDirectory() as folder:
        for number, reminders in enumerate(await requests(Path(folder)), 1):
            print(f"request {number}: {len(reminders)} reminders")
            for reminder in reminders:
                print(f"  {reminder.split(chr(10))[1]}")


if __name__ == "__main__":
    asyncio.run(main())
