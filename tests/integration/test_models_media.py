"""Images, documents and audio, over the official clients to a service on this machine."""

import base64
from typing import Any

import pytest

from sideband.runtime.profiles import load_profiles
from sideband.testing.oracle import violations
from tests.loop_builders import AScene
from tests.loopback import a_loopback, over_sockets
from tests.model_kinds import ANTHROPIC, GOOGLE, OPENAI, OPENAI_CHAT, ModelKind

# The smallest picture there is.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PDF = base64.b64encode(b"%PDF-1.4\n%%EOF\n").decode()
WAV = base64.b64encode(b"RIFF\x24\x00\x00\x00WAVEfmt ").decode()
CONTENT: list[dict[str, Any]] = [
    {"type": "text", "text": "What is this?"},
    {"type": "image", "media_type": "image/png", "data": PNG},
    {"type": "image", "mimeType": "image/png", "data": PNG},
    {"type": "image", "url": "https://example.com/a.png"},
    {"type": "document", "media_type": "application/pdf", "data": PDF, "title": "report.pdf"},
    {"type": "document", "url": "https://example.com/a.pdf"},
    {"type": "audio", "media_type": "audio/wav", "data": WAV},
]


@pytest.mark.requirement("render:content:in-the-form-of-the-provider")
@pytest.mark.parametrize(
    ("kind", "name", "missing"),
    [
        pytest.param(ANTHROPIC, "claude-opus-5-5", 1, id="anthropic"),
        pytest.param(OPENAI, "gpt-6", 1, id="responses"),
        pytest.param(OPENAI_CHAT, "gpt-6", 2, id="chat"),
        pytest.param(OPENAI_CHAT, "gpt-audio", 5, id="chat-audio"),
        pytest.param(GOOGLE, "gemini-3.8-flash", 0, id="gemini"),
    ],
)
@over_sockets
async def test_content_arrives_as_the_types_of_the_client_say(kind: ModelKind, name: str, missing: int) -> None:
    async with a_loopback() as service:
        service.will_answer(kind.says("A dot."), kind.says("Yes."))
        scene, model = AScene(), kind.model(service, name)
        await scene.session.prompt(CONTENT)
        first = await scene.play(None, model=model, system="Be brief.")
        second = await scene.play("Are you sure?", model=model, system="Be brief.")
    assert (first.text, second.text) == ("A dot.", "Yes.")
    assert [len(result.problems) for result in (first, second)] == [missing, missing]
    for request in service.requests:
        assert kind.faults(request) == []
        assert violations(load_profiles().of(f"{kind.transport}:{name}"), request.json) == []
        assert request.body.count(b" left out: ") == missing
