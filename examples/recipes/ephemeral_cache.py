"""A policy for one turn, in a block that the provider may cache, on routes that have such blocks."""

import asyncio
from collections.abc import Sequence
from typing import Any

import sideband as sb
from sideband.ports import OnText
from sideband.render.plan import Plan
from sideband.render.profiles import Cache, Placement, Profile, Wire
from sideband.render.renderer import Renderer
from sideband.render.view import RequestView
from sideband.testing import WireRecorder

CACHING = Profile(transport="anthropic", wire=Wire.ANTHROPIC, cache=Cache.EXPLICIT, cache_markers=4)
NOT_CACHING = Profile(transport="anthropic", wire=Wire.ANTHROPIC)
ANY_CHAT_MODEL = Profile(transport="openai-compatible")


class Rehearsal:
    """Builds each request as a route would send it, and does not send it."""

    context_window = None

    def __init__(self, profile: Profile) -> None:
        self._renderer = Renderer(profile, model="rehearsed", placement=Placement.SEED)

    def plan(self, view: RequestView) -> Plan:
        return self._renderer.render(view)

    async def complete(self, plan: Plan, on_text: OnText | None = None) -> sb.Reply:  # noqa: ARG002 - there is no stream
        return sb.Reply(text=f"Here {len(plan.request.body)} bytes would have left.")


async def requests(profile: Profile, prompts: Sequence[str]) -> tuple[list[dict[str, Any]], list[str]]:
    """The body of the request for each prompt, and the codes of the advice; the policy applies to the first prompt."""
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
    return recorder.bodies, [problem.message.partition(":")[0] for result in results for problem in result.problems]


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
