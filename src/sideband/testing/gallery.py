"""A gallery: every shape of a reminder, in a request for each wire and placement."""

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from sideband.core.live import LiveIndex
from sideband.core.reminder import Reminder, ReminderId, RoleHint
from sideband.core.trust import IN_PROCESS, Provenance, Trust
from sideband.render.plan import Plan
from sideband.render.profiles import Cache, InlineSystem, LeadingRole, Placement, Profile, Wire
from sideband.render.renderer import Renderer
from sideband.render.view import RequestView

_OPENAI: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "leading_role": LeadingRole.DEVELOPER,
        "developer_role": True,
        "prefers_role_developer": True,
        "inline_system": InlineSystem.ANYWHERE,
        "inline_verified": True,
        "consecutive_assistant": True,
    }
)

_FIELDS: Final[Mapping[Wire, Mapping[str, Any]]] = MappingProxyType(
    {
        Wire.ANTHROPIC: {
            "prefers_xml_scaffolding": True,
            "inline_system": InlineSystem.AFTER_USER,
            "inline_verified": True,
            "self_clearing": "mid-conversation-system-clear-at-2026-08-21",
        },
        Wire.OPENAI_CHAT: _OPENAI,
        Wire.OPENAI_RESPONSES: {**_OPENAI, "encrypted_reasoning": True},
        Wire.GEMINI: {"cache": Cache.IMPLICIT},
        Wire.GENERIC: {"content_parts": False, "user_after_tool": False, "cache": Cache.NONE},
    }
)

_COMMON: Final = Profile(
    transport="example", content_parts=True, user_after_tool=True, cache=Cache.EXPLICIT, strict_alternation=False
)

EXAMPLES: Final[Mapping[Wire, Profile]] = MappingProxyType(
    {wire: msgspec.structs.replace(_COMMON, wire=wire, **fields) for wire, fields in _FIELDS.items()}
)

_SAID: Final = (
    ("The build is red.", RoleHint.SYSTEM, 1, IN_PROCESS),
    ("src/auth.py changed on disk.", RoleHint.USER_BLOCK, 3, IN_PROCESS),
    ("Commit messages are in English.", RoleHint.EPHEMERAL_CACHE, None, IN_PROCESS),
    ("The plan has a new step.", RoleHint.USER_BLOCK, 2, Provenance(trust=Trust.PEER, principal="planner")),
    ("3 tests fail.", RoleHint.USER_BLOCK, 2, Provenance(trust=Trust.SERVER, principal="watcher")),
)


def gallery() -> Iterator[str]:
    """One page of text for each wire and placement."""
    for wire, profile in EXAMPLES.items():
        for placement in Placement:
            plan = Renderer(profile, model="example", placement=placement).render(_view())
            yield "\n".join((f"== {wire.value}, {placement.value} ==", *_page(plan)))


def _page(plan: Plan) -> Iterator[str]:
    """The role of each reminder, the system text, and the messages, one per line."""
    yield f"betas: {', '.join(plan.request.betas) or 'none'}"
    for entry in plan.shown:
        yield f"{entry.reminder_id}: role {entry.rendered_role}"
    # The conversation is the last field of a body.
    *head, conversation = json.loads(plan.request.body).items()
    for name, value in head:
        if name in ("system", "systemInstruction"):
            yield f"{name}: {json.dumps(value)}"
    for message in conversation[1]:
        yield f"- {json.dumps(message)}"


def _view() -> RequestView:
    live = LiveIndex()
    for number, (body, hint, ttl, provenance) in enumerate(_SAID, start=1):
        reminder = Reminder(id=ReminderId(f"reminder {number}"), body=body, role_hint=hint, ttl_turns=ttl)
        live.add(reminder, provenance)
    call = {"id": "call_1", "name": "look", "args": {"path": "src/auth.py"}}
    return RequestView(
        turn=2,
        system="You mend code.",
        system_after="Answer briefly.",
        messages=[
            {"role": "user", "content": "Mend the login."},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "name": "look", "status": "ok", "content": "def login(): ..."},
        ],
        tools=[{"name": "look", "description": "Read a file.", "parameters": {"type": "object"}}],
        live=live,
        session_id="example",
    )
