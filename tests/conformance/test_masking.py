"""Secrets reach the model that needs them, and no observer."""

from typing import Final

import pytest

from sideband import with_audit_log
from sideband.core.masking import MASK
from sideband.core.topic import Correlation, publish
from tests.agents import AnAgent, awaited
from tests.loop_builders import ATool, a_call, a_reply

# Put together here, so that no scanner takes this file for a leak.
SECRET: Final = "ghp_" + "a1B2" * 8


@pytest.mark.requirement("events:masking:secrets", "events:masking:never-in-the-prompt")
@awaited
async def test_a_secret_is_shown_to_the_model_and_to_nobody_else() -> None:
    async def work(*_: object) -> str:
        return "done"

    secrets: dict[str, object] = {"password": "x", "note": SECRET}
    agent = AnAgent(a_reply(a_call("work", "c1", **secrets)), tools=[ATool(do=work)])
    await agent.session.remind(f"The token is {SECRET}.", dedupe_key=f"token:{SECRET}", tags=[SECRET], ttl_turns=3)
    with with_audit_log() as log:
        await agent.play()
    assert SECRET in agent.shown(0)[0]
    (receipt,) = log.receipts
    assert receipt.args == {"password": MASK, "note": MASK}
    published = [publish(event, Correlation()) for event in agent.journal]
    assert any(record is not None for record in published)
    assert SECRET not in str(published)
