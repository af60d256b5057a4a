"""Blocks of a user message: what a sender may give, and what is refused before it is accepted."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import sideband as sb
from sideband.core.errors import InvalidOption
from sideband.testing import ScriptedModel

Block = dict[str, Any]

BLOCKS: list[Block] = [
    {"text": "Look:"},
    {"type": "image", "media_type": "image/png", "data": "aGk="},
    {"type": "image", "mimeType": "image/png", "data": "aGk=", "annotations": {"priority": 1}},
    {"type": "image", "url": "https://example.com/a.png"},
    {"type": "document", "media_type": "application/pdf", "data": "aGk=", "title": "Q3 report"},
    {"type": "audio", "media_type": "audio/wav", "data": "aGk="},
    {"type": "resource", "resource": {"uri": "file:///a.py", "text": "x = 1"}},
    {"type": "resource_link", "uri": "file:///a.py", "name": "a.py"},
]


@pytest.mark.requirement("inbox:content:forms")
@pytest.mark.parametrize("way", ["task", "prompt", "inject", "llm_call", "llm_call-with-a-session"])
def test_a_model_gets_the_blocks_as_they_were_given(way: str) -> None:
    model = ScriptedModel(["I see."])

    async def main() -> None:
        session = await sb.open_store().session()
        match way:
            case "task":
                await sb.agent_loop(BLOCKS, session=session, model=model)
            case "prompt":
                await session.prompt(BLOCKS)
                await sb.agent_loop(None, session=session, model=model)
            case "inject":
                await session.inject(BLOCKS, mode="queue")
                await sb.agent_loop(None, session=session, model=model)
            case "llm_call":
                await sb.llm_call(BLOCKS, model=model)
            case _:
                await sb.llm_call(BLOCKS, model=model, session=session)

    asyncio.run(main())
    (request,) = model.requests
    assert list(request.messages[0]["content"]) == BLOCKS


WAYS: dict[str, Callable[[sb.Session, list[Block]], Awaitable[object]]] = {
    "task": lambda session, blocks: sb.agent_loop(blocks, session=session, model=ScriptedModel()),
    "prompt": lambda session, blocks: session.prompt(blocks),
    "inject": lambda session, blocks: session.inject(blocks, mode="queue"),
    "llm_call": lambda session, blocks: sb.llm_call(blocks, session=session, model=ScriptedModel()),
}


@pytest.mark.requirement("inbox:content:refused")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("block", "told"),
    [
        pytest.param(
            {"type": "imgae"}, r"content\[1\].type must be one of .*; did you mean 'image'\?", id="unknown-type"
        ),
        pytest.param({"type": "image", "data": "c2VjcmV0"}, r"content\[1\].media_type is missing", id="no-media-type"),
        pytest.param(
            {"type": "image", "media_type": "image/png", "data": "c2VjcmV0?"},
            r"content\[1\].data is not base64: encode the bytes with base64.b64encode",
            id="not-base64",
        ),
    ],
)
def test_a_block_that_no_request_could_hold_is_refused_and_nothing_changes(way: str, block: Block, told: str) -> None:
    async def main() -> None:
        session = await sb.open_store().session()
        with pytest.raises(InvalidOption, match=told) as refused:
            await WAYS[way](session, [{"type": "text", "text": "Look:"}, block])
        assert "c2VjcmV0" not in str(refused.value)
        assert (await session.waiting(), session.talk.state.messages) == ((), [])

    asyncio.run(main())
