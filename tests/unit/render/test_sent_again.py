"""A request that is sent again as it was, though no plan would make it so today."""

import json
from typing import Any

from sideband.core.ledger import Form, Fragment, Scope
from sideband.core.live import LiveIndex
from sideband.render.profile import Placement
from sideband.render.renderer import Renderer
from sideband.render.view import RequestView
from tests.talks import CLAUDE, a_profile

FOLDING = a_profile(CLAUDE, user_text_resets_reasoning=True, fold_into_tool_result=True)
MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "Begin."},
    {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "name": "run", "args": {}}]},
    {"role": "tool", "tool_call_id": "c1", "name": "run", "status": "ok", "content": "x = 1"},
]


def test_a_result_with_text_in_it_that_does_not_stay_is_not_marked() -> None:
    passing = Fragment(
        anchor=len(MESSAGES), form=Form.RESULT, role="user", scope=Scope.VOLATILE, text="note", reminders=("r",)
    )
    view = RequestView(turn=2, system="", messages=MESSAGES, tools=(), live=LiveIndex(), again=(passing,))
    body = json.loads(Renderer(FOLDING, model="claude", placement=Placement.TAIL).render(view).body)
    (result,) = body["messages"][-1]["content"]
    assert [block["text"] for block in result["content"]] == ["x = 1", "note"]
    assert "cache_control" not in result
    assert "cache_control" in json.dumps(body["messages"][:-1])
