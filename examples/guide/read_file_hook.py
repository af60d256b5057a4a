"""What a hook after a tool returns to add a reminder; here, only if the file was truncated."""

from collections.abc import Mapping
from typing import Any

from sideband.core.effects import read_effects
from sideband.core.surfaces import Surface


def after_read_file(ctx: Mapping[str, Any]) -> dict[str, Any] | None:
    """Remind the model that it saw only the beginning of the file."""
    if not ctx["result"].get("truncated"):
        return None
    return {
        "reminder": {
            "body": "Only the beginning of the file was shown; read the lines you mean to change.",
            "tags": ["truncation"],
            "dedupe_key": "read_file:truncated",
            "ttl_turns": 1,
            "propagate": "none",
        }
    }


def main() -> None:
    for truncated in (False, True):
        returned = after_read_file(
            {"tool": "read_file", "result": {"text": "def login() -> None:", "truncated": truncated}}
        )
        effects = read_effects(returned, Surface.HOOK)
        print(f"truncated: {truncated}, reminders: {[draft.body for draft in effects.reminders]}")


if __name__ == "__main__":
    main()
