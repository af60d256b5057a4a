"""Reminders about a full context, for a model whose context window is unknown: set only its size."""

import asyncio

import sideband as sb
from sideband.testing import ScriptedModel

WINDOW = 128_000
# The length of the prompt at each question.
PROMPTS = (60_000, 89_600, 108_800, 121_600)


async def warnings(window: int, prompts: tuple[int, ...]) -> list[sb.Reminder | None]:
    """The reminder about the context after each prompt; None if there is none."""
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
