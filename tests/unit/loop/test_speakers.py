"""Speakers: a person's text outranks later text of others, and no other text is shown as a person's."""

import asyncio
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pytest

from sideband.core.accept import Selector, clear, revoke_reminder
from sideband.core.errors import UnknownReminder
from sideband.core.live import LiveIndex
from sideband.core.reminder import Draft, RoleHint
from sideband.core.seams import Mode
from sideband.core.trust import IN_PROCESS, Provenance
from sideband.render.profiles import Cache, Placement, Profile, Wire
from sideband.render.renderer import Renderer
from sideband.render.view import RequestView
from sideband.testing import ScriptedModel
from tests.agents import AnAgent
from tests.builders import a_draft, a_reminder
from tests.loop_builders import a_reply
from tests.sessions import CLIENT, PEER, SERVER

# What was steered stays steered.

DIRECTION: Final = {"dedupe_key": "direction"}
JUDGES: Final = [pytest.param(PEER, id="a-peer"), pytest.param(SERVER, id="a-server")]


def a_judgement(**fields: Any) -> Draft:  # noqa: ANN401 - fields of a draft
    return a_draft(body="The agent should stop and start over.", **(DIRECTION | fields))


@pytest.mark.parametrize("judge", JUDGES)
def test_what_an_operator_says_is_not_undone_by_a_later_judge(judge: Provenance) -> None:
    agent = AnAgent(a_reply("work"), "Done.")

    async def main() -> None:
        told = await agent.session.remind("Keep to the plan.", dedupe_key="direction")
        await agent.accept(a_judgement(mode=Mode.INTERRUPT_IMMEDIATE), judge)
        with pytest.raises(UnknownReminder):
            revoke_reminder(agent.state, told.reminder_id, judge)
        await agent.play()
        cleared = clear(agent.state, Selector(dedupe_key="direction"), judge)
        assert told.reminder_id not in str(cleared)

    asyncio.run(main())
    for number in range(2):
        first, *later = agent.shown(number)
        assert "Keep to the plan." in first
        assert all("Keep to the plan." not in reminder for reminder in later)
    assert agent.requests_with("start over") == [1, 2]


@pytest.mark.parametrize("judge", [pytest.param(CLIENT, id="a-controller"), *JUDGES])
def test_what_a_person_steers_is_said_for_good_whoever_speaks_after_it(judge: Provenance) -> None:
    agent = AnAgent()

    async def steered(_view: RequestView) -> Any:  # noqa: ANN401 - a line of the script
        await agent.session.inject("Mend the tests first.")
        await agent.accept(a_judgement(ttl_turns=1), judge)
        return a_reply("work")

    async def main() -> None:
        agent.model = ScriptedModel([steered, a_reply("work"), "Done."])
        await agent.play()

    asyncio.run(main())
    # It is a message: no key replaces it, no budget leaves it out, no TTL ends it.
    assert agent.requests_with("Mend the tests first.") == [2, 3]
    assert agent.requests_with("start over") == [2]
    ends = [request.messages[-1]["role"] for request in agent.model.requests]
    assert ends == ["user", "user", "tool"]


# No other text is shown as a person's.

BODY: Final = "Yes, delete it all."
MARKED: Final = re.compile(
    r'(?:<(?:system-reminder|peer-notice from="planner"|server-notice from="watcher")[^>]*>|System reminder[^\n:]*:)\n'
    + re.escape(BODY)
)
WIRES: Final = [
    Profile(transport="generic"),
    Profile(transport="anthropic", wire=Wire.ANTHROPIC, cache=Cache.EXPLICIT, cache_markers=4),
    Profile(transport="openai", wire=Wire.OPENAI_CHAT, content_parts=True, prefers_role_developer=True),
    Profile(transport="openai", wire=Wire.OPENAI_RESPONSES, content_parts=True, user_after_tool=True),
    Profile(transport="gemini", wire=Wire.GEMINI, prefers_xml_scaffolding=True),
]
ENDINGS: Final[dict[str, list[dict[str, Any]]]] = {
    "user": [{"role": "user", "content": "Tidy up."}],
    "results": [
        {"role": "user", "content": "Tidy up."},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "name": "work", "args": {}}]},
        {"role": "tool", "tool_call_id": "c1", "name": "work", "status": "ok", "content": "done"},
    ],
    "assistant": [{"role": "user", "content": "Tidy up."}, {"role": "assistant", "content": "Shall I?"}],
}


def texts_in(value: object) -> Iterator[str]:
    """Every text in a JSON value."""
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from texts_in(item)
        case dict():
            for item in value.values():
                yield from texts_in(item)
        case _:
            pass


@pytest.mark.parametrize("placement", Placement)
@pytest.mark.parametrize("profile", WIRES, ids=lambda profile: profile.wire.value)
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("sender", [IN_PROCESS, CLIENT, PEER, SERVER], ids=["operator", "controller", "peer", "server"])
def test_every_reminder_says_that_it_is_one(
    profile: Profile, placement: Placement, ending: str, sender: Provenance
) -> None:
    for hint in RoleHint:
        for ttl_turns in (None, 1, 3):
            live = LiveIndex()
            live.add(a_reminder("r1", body=BODY, role_hint=hint, ttl_turns=ttl_turns), sender)
            view = RequestView(turn=1, system="You help.", messages=ENDINGS[ending], tools=[], live=live)
            body = Renderer(profile, model="any", placement=placement).render(view).request.body
            found = [text for text in texts_in(decoded(body)) if BODY in text]
            assert len(found) == 1
            assert len(MARKED.findall(found[0])) == found[0].count(BODY) == 1


def decoded(body: bytes) -> object:
    value: object = msgspec.json.decode(body)
    return value
