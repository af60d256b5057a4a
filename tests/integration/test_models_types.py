"""Requests of random sessions, looked through with the types of the official clients, to the last key."""

import json
from collections.abc import Mapping
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.render.plan import Plan
from sideband.render.profiles import Wire
from tests.loopback import Captured
from tests.model_kinds import ANTHROPIC, COMPATIBLE, GOOGLE, OPENAI, OPENAI_CHAT, ModelKind
from tests.rendering_sessions import ROUTES, STEPS, Step, play

SPEAKING: Final[Mapping[Wire, ModelKind]] = {
    Wire.ANTHROPIC: ANTHROPIC,
    Wire.OPENAI_CHAT: OPENAI_CHAT,
    Wire.OPENAI_RESPONSES: OPENAI,
    Wire.GEMINI: GOOGLE,
    Wire.GENERIC: COMPATIBLE,
}
# Longer lists of the same blocks say nothing more, and take long to look through.
MANY: Final = 12


def shortened(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """The same with the middle of long lists taken out."""
    match value:
        case list():
            kept = value if len(value) <= MANY else [*value[: MANY // 2], *value[-MANY // 2 :]]
            return [shortened(item) for item in kept]
        case dict():
            return {key: shortened(item) for key, item in value.items()}
        case _:
            return value


def sent(kind: ModelKind, rendered: Plan) -> Captured:
    """The request as a client would send it."""
    headers = {"anthropic-beta": ",".join(rendered.request.betas)} if rendered.request.betas else {}
    body = json.dumps(shortened(json.loads(rendered.request.body)), ensure_ascii=False).encode()
    return Captured("POST", kind.path, headers, body)


@pytest.mark.parametrize("wire", Wire, ids=[wire.value for wire in Wire])
@given(data=st.data(), steps=STEPS)
def test_no_request_of_any_session_has_a_key_or_a_word_that_the_client_does_not_know(
    wire: Wire, data: st.DataObject, steps: list[Step]
) -> None:
    names = sorted(name for name, route in ROUTES.items() if route.profile.wire is wire)
    route = ROUTES[data.draw(st.sampled_from(names))]
    requests = play(route, steps)
    # The first request has no history, the last has all of it.
    for request in (requests[0], requests[-1]):
        assert SPEAKING[wire].faults(sent(SPEAKING[wire], request.rendered)) == []
