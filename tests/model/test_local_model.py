"""A real model behind each of the wires it speaks: what it is shown, what it does with it, and what it has to read again."""

from typing import Any, Final

import httpx2
import msgspec
import pytest

import sideband as sb
from sideband.core.events import TurnCommitted, Usage
from sideband.core.live import LiveIndex
from sideband.core.trust import Provenance
from sideband.models.anthropic import AnthropicModel
from sideband.models.local import LocalModel, LocalServer
from sideband.models.openai import NO_KEY, ChatModel, ResponsesModel
from sideband.models.rendered import RenderedModel
from sideband.ports import ModelError
from sideband.render.profiles import Placement, Profile, Wire
from sideband.render.view import RequestView
from sideband.runtime.models import read_model
from sideband.runtime.profiles import load_profiles
from tests.builders import a_reminder
from tests.loop_builders import AScene
from tests.loopback import within

WORDS: Final = ("banana", "tiger", "violin")
QUESTION: Final = "Tell me something nice in one sentence."
HISTORY: Final = "The repository has a module that reads events and a module that writes them. " * 12

LOCAL: Final = load_profiles().of("local:smollm2")
# The same model, by the wire it is spoken to.
WIRES: Final[dict[str, tuple[Any, str, Profile]]] = {
    "chat": (ChatModel, "/v1", LOCAL),
    "responses": (ResponsesModel, "/v1", msgspec.structs.replace(LOCAL, wire=Wire.OPENAI_RESPONSES)),
    "anthropic": (AnthropicModel, "", msgspec.structs.replace(LOCAL, wire=Wire.ANTHROPIC)),
}
# A model thinks as fast as its machine does, and that may have other things to do.
PATIENCE: Final = 600.0
patiently = within(PATIENCE)
EVERY_WIRE = pytest.mark.parametrize("wire", WIRES)


def a_model(wire: str, address: str, *, tokens: int, placement: Placement | None = None) -> RenderedModel[Any]:
    kind, path, profile = WIRES[wire]
    model: RenderedModel[Any] = kind(
        profile,
        model="smollm2",
        api_key=NO_KEY,
        base_url=address + path,
        placement=placement,
        max_output_tokens=tokens,
        parameters={"temperature": 0},
    )
    return model


def rendered_prompt(address: str, messages: list[dict[str, Any]]) -> str:
    """What the model reads, as its own template puts it."""
    answer = httpx2.post(f"{address}/apply-template", json={"messages": messages}, timeout=PATIENCE)
    return str(answer.json()["prompt"])


def test_the_template_of_the_model_shows_a_reminder_at_the_end_of_what_the_user_says(address: str) -> None:
    live = LiveIndex()
    live.add(a_reminder(body="The build is red.", ttl_turns=1), Provenance())
    messages = [{"role": "user", "content": QUESTION}]
    view = RequestView(turn=1, system="Be kind.", messages=messages, tools=[], live=live)
    body = msgspec.json.decode(a_model("chat", address, tokens=1).plan(view).request.body)
    prompt = rendered_prompt(address, body["messages"])
    assert prompt.index("Be kind.") < prompt.index(QUESTION) < prompt.index("The build is red.")
    assert "The build is red.<|im_end|>\n<|im_start|>assistant" in prompt


@EVERY_WIRE
@patiently
async def test_what_a_reminder_says_reaches_the_model(wire: str, address: str) -> None:
    model = a_model(wire, address, tokens=40)
    with_it, without = 0, 0
    for word in WORDS:
        scene = AScene()
        await scene.session.remind(f"include the word {word} in your answer.", ttl_turns=1)
        with_it += word in (await scene.play(QUESTION, model=model, tools=())).text.lower()
        without += word in (await AScene().play(QUESTION, model=model, tools=())).text.lower()
    assert (with_it, without) == (len(WORDS), 0)


async def three_turns(wire: str, address: str, placement: Placement | None) -> list[Usage]:
    """What each turn of a conversation took in which every turn has a reminder of its own."""
    scene = AScene()
    model = a_model(wire, address, tokens=8, placement=placement)
    for turn in range(3):
        await scene.session.remind(f"File number {turn} was changed on disk.", ttl_turns=1)
        said = f"Step {turn}, please." if turn else HISTORY
        result = await scene.play(said, model=model, tools=(), system=f"You help over {wire}, {placement}.")
        assert result.error is None
    return [event.usage for event in scene.events(TurnCommitted) if event.usage is not None]


@pytest.mark.requirement("render:kept:local-servers", "render:ledger:stable-part-is-a-prefix")
@EVERY_WIRE
@patiently
async def test_a_turn_reads_only_what_is_new_since_the_last(wire: str, address: str) -> None:
    first, second, third = await three_turns(wire, address, None)
    assert second.cached_tokens >= first.prompt_tokens > 150
    assert third.cached_tokens >= second.prompt_tokens


@EVERY_WIRE
@patiently
async def test_reminders_in_the_system_text_make_the_model_read_everything_again(wire: str, address: str) -> None:
    first, *later = await three_turns(wire, address, Placement.SEED)
    assert all(usage.cached_tokens < first.prompt_tokens / 4 for usage in later)


@EVERY_WIRE
@patiently
async def test_a_request_the_server_refuses_fails_for_good(wire: str, address: str) -> None:
    model = a_model(wire, address, tokens=1)
    with pytest.raises(ModelError, match="answered 400") as failed:
        await sb.llm_call("word " * 20_000, model=model)
    assert not failed.value.retryable


@patiently
async def test_local_starts_the_model_by_itself_and_text_is_heard_as_it_comes() -> None:
    heard: list[str] = []
    model = read_model("local:")
    assert isinstance(model, LocalModel)
    result = await AScene().play(QUESTION, model=model, tools=(), on_text=heard.append)
    await model.aclose()
    assert result.error is None
    assert len(heard) > 3
    assert result.text == "".join(heard)
    assert result.usage.prompt_tokens > 0


@patiently
async def test_the_server_is_gone_behind_its_block() -> None:
    async with LocalServer() as address:
        assert "Hello." in rendered_prompt(address, [{"role": "user", "content": "Hello."}])
    with pytest.raises(httpx2.ConnectError):
        rendered_prompt(address, [])
