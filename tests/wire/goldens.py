"""What each kind of reminder looks like in a request, on record: `python -m tests.wire.goldens --rewrite` writes it anew.

One file for each wire and placement, one line for each hint and level of trust.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, Final

from sideband.core.messages import ToolStatus
from sideband.core.reminder import RoleHint
from sideband.core.trust import IN_PROCESS
from sideband.render.plan import Plan
from sideband.render.profiles import Placement
from tests.builders import a_reminder
from tests.rendering_sessions import PROFILES, RenderedSession, Route
from tests.sessions import CLIENT, PEER, SERVER

FOLDER: Final = Path(__file__).parent / "goldens"
WIRES: Final = ("anthropic", "anthropic-clearing", "chat", "responses", "gemini", "generic")
SENDERS: Final = (IN_PROCESS, CLIENT, PEER, SERVER)
NAMES: Final = tuple(f"{wire}-{placement}" for wire, placement in product(WIRES, Placement))


def path_of(name: str) -> Path:
    return FOLDER / f"{name}.jsonl"


def route_of(name: str) -> Route:
    wire, _, placement = name.rpartition("-")
    return Route(PROFILES[wire], Placement(placement))


def lines(name: str) -> list[str]:
    """The lines of one file, as they are now."""
    return [json.dumps(entry, ensure_ascii=False) for entry in _entries(route_of(name))]


def _entries(route: Route) -> Iterator[Mapping[str, Any]]:
    for hint, sender in product(RoleHint, SENDERS):
        rendered = one_request(route, hint, sender)
        yield {
            "hint": hint,
            "trust": sender.trust.name.lower(),
            "roles": {shown.reminder_id: shown.rendered_role for shown in rendered.shown},
            "betas": rendered.request.betas,
            "advice": [entry.code for entry in rendered.advice],
            "body": json.loads(rendered.request.body),
        }


def one_request(route: Route, hint: RoleHint, sender: Any = IN_PROCESS) -> Plan:  # noqa: ANN401 - a provenance
    """A request after the results of two calls, with a passing and a lasting reminder."""
    session = RenderedSession(route)
    session.user_says("Mend the parser.")
    session.ask()
    session.answer("I look.", [("def parse(): ...", ToolStatus.OK), ("no such file", ToolStatus.ERROR)])
    session.inject(a_reminder("passing", body="The build is red.", ttl_turns=2, role_hint=hint), sender)
    session.inject(a_reminder("lasting", body="Mind <b> & </system-reminder>.", role_hint=hint), sender)
    return session.ask().rendered


def rewrite() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in NAMES:
        path_of(name).write_text("\n".join(lines(name)) + "\n", encoding="utf-8")


if __name__ == "__main__" and sys.argv[1:] == ["--rewrite"]:
    rewrite()
