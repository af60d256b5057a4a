"""A policy for one turn, in a block that the provider may cache: only where the route has such blocks."""

import asyncio
from collections.abc import Sequence
from typing import Any

import sideband as sb
from sideband.ports import Advice, OnText, Plan
from sideband.render.profile import Cache, Placement, Profile, Wire
from sideband.render.renderer import Renderer
from sideband.render.view import RequestView
from sideband.testing import WireRecorder

CACHING = Profile(transport="anthropic", wire=Wire.ANTHROPIC, cache=Cache.EXPLICIT, cache_markers=4)
NOT_CACHING = Profile(transport="anthropic", wire=Wire.ANTHROPIC)
ANY_CHAT_MODEL = Profile(transport="openai-compatible")


class Rehearsal:
    """Builds each request as it would leave over a route, and sends it nowhere."""

    context_window = None

    def __init__(self, profile: Profile) -> None:
        self._renderer = Renderer(profile, model="rehearsed", placement=Placement.SEED)

    def plan(self, view: RequestView) -> Plan:
        rendered = self._renderer.render(view)
        advice = tuple(Advice(*entry) for entry in rendered.advice)
        return Plan(shown=rendered.shown, route=rendered.route, advice=advice, request=rendered)

    async def complete(self, plan: Plan, on_text: OnText | None = None) -> sb.Reply:  # noqa: ARG002 - nothing arrives
        return sb.Reply(text=f"Here {len(plan.request.body)} bytes would have left.")


async def requests(profile: Profile, prompts: Sequence[str]) -> tuple[list[dict[str, Any]], list[str]]:
    """The bodies of the requests, one for each prompt; the policy is for the first. Then what its sender is advised of."""
    recorder = WireRecorder(Rehearsal(profile))
    session = await sb.open_store().session()
    await session.remind(
        "Large policy excerpt applies for this turn only.",
        tags=["policy"],
        dedupe_key="policy:turn",
        ttl_turns=1,
        role_hint="ephemeral_cache",
        propagate="none",
    )
    results = [await sb.agent_loop(prompt, session=session, model=recorder) for prompt in prompts]
    return recorder.bodies, [problem.where for result in results for problem in result.problems]


def policy_in(body: dict[str, Any]) -> str:
    """Where the policy stands in a request, and whether it is marked for caching."""
    first = next(message for message in body["messages"] if message["role"] == "user")
    blocks = first["content"] if isinstance(first["content"], list) else []
    for block in blocks:
        if "Large policy excerpt" in block["text"]:
            return "a block to be cached" if "cache_control" in block else "a block"
    return "text" if "Large policy excerpt" in str(body) else "gone"


async def main() -> None:
    for name, profile in (("caching", CACHING), ("not caching", NOT_CACHING), ("any chat model", ANY_CHAT_MODEL)):
        bodies, advised = await requests(profile, ("Refund order 7.", "And order 8."))
        print(f"{name}: {', then '.join(map(policy_in, bodies))}; advised of: {', '.join(advised) or 'nothing'}")


if __name__ == "__main__":
    asyncio.run(main())
