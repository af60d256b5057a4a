"""What leaves is what was rendered, byte for byte, and what the clients' own types say a request is."""

import asyncio
from typing import Any

import pytest

from sideband.core.events import RequestCommitted
from sideband.core.messages import Reply, ToolCall
from sideband.models.rendered import RenderedModel
from sideband.ports import OnText
from sideband.render.plan import Plan
from sideband.render.profiles import Placement
from sideband.render.view import RequestView
from sideband.runtime.profiles import load_profiles
from sideband.testing.oracle import violations
from tests.loop_builders import AScene, ATool
from tests.loopback import Loopback, a_loopback, over_sockets
from tests.model_kinds import ANTHROPIC, GOOGLE, MODEL_KINDS, ModelKind, thoughts

CALLS = (ToolCall(id="c1", name="work", args={"path": "ä.py"}), ToolCall(id="c2", name="work"))
EVERY_MODEL = [
    pytest.param(kind, name, placement, id=f"{transport}-{name}-{placement.value}")
    for transport, kind in MODEL_KINDS.items()
    for name in kind.models
    for placement in Placement
]
EVERY_MODEL_KIND = pytest.mark.parametrize("kind", MODEL_KINDS.values(), ids=MODEL_KINDS)


class Noting:
    """A model that keeps the bytes of all its plans."""

    def __init__(self, model: RenderedModel[Any]) -> None:
        self.context_window = model.context_window
        self.rendered: list[bytes] = []
        self._model = model

    def plan(self, view: RequestView) -> Plan:
        plan = self._model.plan(view)
        self.rendered.append(plan.request.body)
        return plan

    async def complete(self, plan: Plan, on_text: OnText | None = None) -> Reply:
        return await self._model.complete(plan, on_text)


def without_signatures(body: dict[str, Any]) -> dict[str, Any]:
    """The body without the parts of Gemini that are nothing but a signature: they have no text, and go back like that."""
    contents = body.get("contents")
    if contents is None:
        return body
    kept = [
        {
            **content,
            "parts": [part for part in content["parts"] if part.get("text") != "" or "thoughtSignature" not in part],
        }
        for content in contents
    ]
    return {**body, "contents": kept}


async def two_runs(service: Loopback, scene: AScene, kind: ModelKind, name: str, placement: Placement) -> None:
    """A run with tools, thinking and reminders of every kind, and another after it."""
    service.will_answer(
        kind.says("I'll look.", CALLS, **thoughts(kind)),
        kind.says("Done.", (), **thoughts(kind)),
        kind.says("Yes."),
    )
    model = kind.model(service, name, placement=placement)
    session = scene.session
    await session.remind("The build is <red> & “broken”.", ttl_turns=1)
    await session.remind("Mind the tests.", ttl_turns=3)
    kept = await session.remind("Use tabs.")
    assert (await scene.play(model=model, system="Be brief.")).error is None
    await session.clear(id=kept.reminder_id)
    await session.remind("Look out.", ttl_turns=1)
    assert (await scene.play("Again?", model=model, system="Be brief.")).error is None


@pytest.mark.requirement(
    "render:wire:anthropic",
    "render:wire:openai-responses",
    "render:wire:openai-chat",
    "render:wire:generic",
    "render:wire:gemini",
)
@pytest.mark.parametrize(("kind", "name", "placement"), EVERY_MODEL)
@over_sockets
async def test_a_whole_session_passes_the_types_of_the_official_client_and_the_rules_of_its_service(
    kind: ModelKind, name: str, placement: Placement
) -> None:
    async with a_loopback() as service:
        await two_runs(service, AScene(ATool()), kind, name, placement)
    assert len(service.requests) == 3
    profile = load_profiles().of(f"{kind.transport}:{name}")
    for request in service.requests:
        assert kind.faults(request) == []
        betas = list(filter(None, request.headers.get("anthropic-beta", "").split(",")))
        assert violations(profile, without_signatures(request.json), betas) == []
        assert (request.method, request.path) == ("POST", kind.path.format(model=name))
        assert request.headers["content-type"] == "application/json"
        assert request.headers["content-length"] == str(len(request.body))


@EVERY_MODEL_KIND
@over_sockets
async def test_the_bytes_that_arrive_are_those_that_were_rendered(kind: ModelKind) -> None:
    async with a_loopback() as service:
        model = Noting(kind.model(service))
        scene = AScene(ATool())
        service.will_answer(kind.says("I'll look.", CALLS), kind.says("Done."))
        await scene.session.remind("Ünïcödé & <tags> “quoted” \\ /slash/ \u2028 😀", ttl_turns=2)
        await scene.play(model=model, system="Be brief.")
    assert len(service.requests) == 2
    assert service.bodies == model.rendered


@pytest.mark.requirement("render:ledger:committed-with-the-request")
@EVERY_MODEL_KIND
@over_sockets
async def test_the_route_and_the_fragments_of_a_request_are_on_record_before_it_leaves(kind: ModelKind) -> None:
    async with a_loopback() as service:
        scene = AScene(ATool())
        service.will_answer(kind.says("Done."))
        await scene.session.remind("Use tabs.")
        await scene.play(model=kind.model(service))
    (committed,) = scene.events(RequestCommitted)
    assert committed.route
    assert [fragment.text for fragment in committed.fragments if "Use tabs." in fragment.text]


@pytest.mark.parametrize(
    "kind", [kind for kind in MODEL_KINDS.values() if thoughts(kind)], ids=lambda each: each.transport
)
@over_sockets
async def test_what_a_model_thought_is_sent_back_as_it_came(kind: ModelKind) -> None:
    async with a_loopback() as service:
        service.will_answer(kind.says("I'll look.", CALLS, **thoughts(kind)), kind.says("Done."))
        await AScene(ATool()).play(model=kind.model(service))
    assert all(thought.encode() in service.bodies[1] for thought in thoughts(kind).values())


@pytest.mark.requirement("render:native:anthropic-beta-header")
@over_sockets
async def test_a_clearing_entry_and_its_beta_go_together() -> None:
    async with a_loopback() as service:
        scene = AScene()
        service.will_answer(ANTHROPIC.says("One."), ANTHROPIC.says("Two."))
        model = ANTHROPIC.model(service, "claude-opus-5-5")
        await scene.play(model=model)
        await scene.session.remind("Look out.", ttl_turns=1)
        await scene.play("Go on.", model=model)
    without, clearing = service.requests
    assert ("anthropic-beta" in without.headers, b"clear_at" in without.body) == (False, False)
    assert clearing.headers["anthropic-beta"] == model.profile.self_clearing
    assert b"clear_at" in clearing.body


@over_sockets
async def test_two_requests_at_once_do_not_swap_their_bytes() -> None:
    # The body of a Gemini request is substituted inside the client, separately for each task.
    scenes = [AScene(name=f"session-{number}") for number in range(8)]
    async with a_loopback() as service:
        service.will_answer(*[GOOGLE.says("Done.")] * len(scenes))
        model = GOOGLE.model(service)

        async def ask(scene: AScene) -> None:
            await scene.play(f"I am {scene.session.id}.", model=model)

        await asyncio.gather(*map(ask, scenes))
    said = sorted(request.json["contents"][0]["parts"][0]["text"] for request in service.requests)
    assert said == [f"I am session-{number}." for number in range(8)]
