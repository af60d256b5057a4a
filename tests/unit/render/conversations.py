"""Requests built from a conversation without a session."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from sideband.core.ledger import Ledger
from sideband.core.live import LiveIndex
from sideband.core.reminder import Reminder
from sideband.core.trust import IN_PROCESS
from sideband.render.plan import Plan
from sideband.render.profiles import Placement
from sideband.render.renderer import Renderer
from sideband.render.view import RequestView
from tests.rendering_sessions import PROFILES

Message = Mapping[str, Any]


def a_user(content: Any = "Mend it.") -> dict[str, Any]:  # noqa: ANN401 - text or blocks
    return {"role": "user", "content": content}


def an_answer(text: str = "Done.", *calls: str, **more: object) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text, **more}
    if calls:
        message["tool_calls"] = [{"id": call_id, "name": "look", "args": {}} for call_id in calls]
    return message


def a_result(call_id: str = "c1", text: str = "x = 1", status: str = "ok") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "name": "look", "status": status, "content": text}


def a_summary(text: str = "They began.") -> dict[str, Any]:
    return {"role": "system", "content": text}


def a_view(messages: Sequence[Message], /, *reminders: Reminder, **fields: object) -> RequestView:
    """The view that a request is built from; without system text, tools and session unless given in `fields`."""
    live = LiveIndex()
    for reminder in reminders:
        live.add(reminder, IN_PROCESS)
    view = RequestView(turn=1, system="", messages=list(map(dict, messages)), tools=(), live=live, ledger=Ledger())
    return msgspec.structs.replace(view, **fields)


def rendered(
    profile: str,
    messages: Sequence[Message],
    /,
    *reminders: Reminder,
    placement: Placement = Placement.TAIL,
    **fields: object,
) -> Plan:
    """The request of a new renderer."""
    renderer = Renderer(PROFILES[profile], model="model-1", placement=placement)
    return renderer.render(a_view(messages, *reminders, **fields))


def body_of(profile: str, messages: Sequence[Message], *reminders: Reminder, **options: Any) -> dict[str, Any]:  # noqa: ANN401 - those of `rendered`
    body: dict[str, Any] = json.loads(rendered(profile, messages, *reminders, **options).request.body)
    return body


def conversation_of(profile: str, messages: Sequence[Message], *reminders: Reminder, **options: Any) -> list[Any]:  # noqa: ANN401 - those of `rendered`
    """The last field of a body: its messages, without cache markers."""
    conversation: list[Any] = _unmarked(list(body_of(profile, messages, *reminders, **options).values())[-1])
    return conversation


def _unmarked(value: Any) -> Any:  # noqa: ANN401 - any JSON
    match value:
        case list():
            return [_unmarked(item) for item in value]
        case dict():
            markers = ("cache_control", "prompt_cache_breakpoint")
            return {name: _unmarked(item) for name, item in value.items() if name not in markers}
        case _:
            return value
