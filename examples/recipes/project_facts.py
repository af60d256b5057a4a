"""Facts of one process are shown at the start of the next, filtered by confidence and kind."""

import asyncio
import tempfile
from pathlib import Path

import sideband as sb
from sideband.testing import ScriptedModel

TASK = "Make the build stop at Ctrl-C."


async def learn(url: str) -> tuple[sb.Fact, ...]:
    """Store the facts of an earlier process; they are durable when `store_fact` returns."""
    async with sb.open_store(url) as store:
        for kind, claim, confidence, place in (
            ("decision", "The build ends its running calls before it clears its state.", 0.92, "src/cancel.py:1"),
            ("constraint", "Signals reach the main thread only.", 0.8, "src/signals.py:40"),
            ("decision", "The cache may be renamed one day.", 0.4, "notes.md:7"),
            ("hypothesis", "The build is slow on Mondays.", 0.9, "notes.md:9"),
        ):
            evidence = [{"kind": "file_range", "ref": place}]
            await sb.store_fact(store=store, kind=kind, claim=claim, confidence=confidence, evidence=evidence)
        return await store.facts()


async def told(url: str) -> list[str]:
    """The lines about facts in the first request of a new session."""
    model = ScriptedModel()
    async with sb.open_store(url) as store:
        await sb.agent_loop(
            TASK,
            session=await store.session("next"),
            model=model,
            reminders={
                "config": {
                    "project_facts": {"max_facts": 8, "min_confidence": 0.6, "kind_filter": ["decision", "constraint"]}
                }
            },
        )
    return [line for reminder in model.requests[0].reminders for line in reminder.split("\n")]


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'sideband.db'}"
        print(f"{len(await learn(url))} facts stored")
        for line in await told(url):
            print(line)


if __name__ == "__main__":
    asyncio.run(main())
