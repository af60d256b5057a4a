"""A host reminds an agent that was idle, with `session/remind` because the user did not say it."""

import json
from pathlib import Path
from typing import Any

from sideband.core.parse import parse
from sideband.core.reminder import Draft
from sideband.core.seams import DRAINS
from sideband.core.surfaces import Surface

FRAME = Path(__file__).parents[1] / "payloads" / "acp" / "remind.recipe.json"


def frame() -> dict[str, Any]:
    """The notification as it is sent over the wire."""
    notification: dict[str, Any] = json.loads(FRAME.read_text(encoding="utf-8"))
    return notification


def read(notification: dict[str, Any]) -> Draft:
    """Parse the notification as the agent does; an unknown field would be an error."""
    return parse(notification["params"], Surface.ACP_LEGACY)


def main() -> None:
    draft = read(frame())
    print(draft.body)
    ttl = "no TTL" if draft.ttl_turns is None else f"TTL {draft.ttl_turns}"
    print(f"{draft.mode.value}, {ttl}, propagate {draft.propagate.value}")
    print(f"delivered at {', '.join(seam.value for seam, modes in DRAINS.items() if draft.mode in modes)}")


if __name__ == "__main__":
    main()
