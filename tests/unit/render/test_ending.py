"""What a conversation ends with, and when the user has to say something first."""

from typing import Any

import pytest

from sideband.core.ledger import Form, Fragment, Scope
from sideband.render.ending import TAILS, Tail, go_on, tail_of
from sideband.render.profile import Profile
from tests.talks import CLAUDE, GEMINI, GPT, UNKNOWN, a_profile


@pytest.mark.parametrize(
    ("messages", "tail"),
    [
        pytest.param([], Tail.EMPTY, id="nothing"),
        pytest.param([{"role": "system", "content": "Summary."}], Tail.EMPTY, id="a-summary-alone"),
        pytest.param([{"role": "assistant"}, {"role": "user"}], Tail.USER, id="user"),
        pytest.param([{"role": "assistant"}, {"role": "tool"}], Tail.RESULTS, id="tool-results"),
        pytest.param([{"role": "user"}, {"role": "assistant"}], Tail.ASSISTANT, id="assistant"),
    ],
)
def test_the_last_message_tells_the_end(messages: list[dict[str, Any]], tail: Tail) -> None:
    assert tail_of(messages) is tail


def test_every_end_has_a_role_that_tells_it() -> None:
    assert set(TAILS.values()) == set(Tail)


@pytest.mark.parametrize(
    ("profile", "tails"),
    [
        pytest.param(CLAUDE, {Tail.EMPTY, Tail.ASSISTANT}, id="anthropic"),
        pytest.param(
            a_profile(CLAUDE, consecutive_assistant=True),
            {Tail.EMPTY, Tail.ASSISTANT},
            id="anthropic-that-joins-answers",
        ),
        pytest.param(a_profile(GEMINI, consecutive_assistant=True), {Tail.EMPTY, Tail.ASSISTANT}, id="gemini"),
        pytest.param(UNKNOWN, {Tail.EMPTY, Tail.ASSISTANT}, id="strict-template"),
        pytest.param(GPT, set(), id="model-that-may-speak-twice"),
    ],
)
def test_the_user_says_to_go_on_where_nobody_else_may_end_a_request(profile: Profile, tails: set[Tail]) -> None:
    said = Fragment(anchor=3, form=Form.MESSAGE, role="user", scope=Scope.KEPT, text="Continue.")
    assert {tail: go_on(profile, tail, 3) for tail in Tail} == {tail: (said,) if tail in tails else () for tail in Tail}
