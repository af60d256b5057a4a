"""An agent whose model does not say how large its context window is: that one number is all there is to set."""

import asyncio

import sideband as sb
from sideband.testing import ScriptedModel

WINDOW = 128_000
# How long the prompt has become, question by question.
PROMPTS = (60_000, 89_600, 108_800, 121_600)


async def warnings(window: int, prompts: tuple[int, ...]) -> list[sb.Reminder | None]:
    """What the agent is told of its context after each prompt; None is nothing."""
    model = ScriptedModel([sb.Reply(text="Done.", usage=sb.Usage(prompt_tokens=tokens)) for tokens in prompts])
    session = await sb.open_store().session("long-talk")
    told: list[sb.Reminder | None] = []
    for tokens in prompts:
        await sb.agent_loop(
            f"Question after {tokens:,} tokens",
            session=session,
            model=model,
            reminders={"config": {"token_pressure": {"context_window": window}}},
        )
        pending = [row.reminder for row in await session.pending()]
        told.append(next(iter(pending), None))
    return told


async def main() -> None:
    for tokens, warning in zip(PROMPTS, await warnings(WINDOW, PROMPTS), strict=True):
        if warning is None:
            print(f"{tokens:>7,} tokens: nothing to say")
        else:
            print(f"{tokens:>7,} tokens: {warning.body}")
            print(f"         for {warning.ttl_turns} turns, outlives compaction: {warning.preserve_on_compact}")


if __name__ == "__main__":
    asyncio.run(main())
