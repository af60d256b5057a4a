"""A request that is sent again as it was, though no plan would make it so today."""

import json

from sideband.core.ledger import Form, Fragment, Scope
from sideband.render.profile import Placement
from sideband.render.renderer import Renderer
from tests.talks import CLAUDE, Talk, a_profile

FOLDING = a_profile(CLAUDE, user_text_resets_reasoning=True, fold_into_tool_result=True)


def test_a_result_with_text_in_it_that_does_not_stay_is_not_marked() -> None:
    talk = Talk(FOLDING, Placement.TAIL)
    talk.asked_and_answered(then="tool")
    passing = Fragment(
        anchor=len(talk.messages), form=Form.RESULT, role="user", scope=Scope.VOLATILE, text="note", reminders=("r",)
    )
    renderer = Renderer(FOLDING, model="claude", placement=Placement.TAIL)
    body = json.loads(renderer.render(talk.view(again=(passing,))).body)
    (result,) = body["messages"][-1]["content"]
    assert [block["text"] for block in result["content"]][-1] == "note"
    assert "cache_control" not in result
    assert "cache_control" in json.dumps(body["messages"][:-1])
