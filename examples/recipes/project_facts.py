"""Facts of one session are shown at the start of the next, filtered by confidence and kind."""

import asyncio

import sideband as sb
from sideband.testing import ScriptedModel

TASK = "Make the build stop at Ctrl-C."


def learned() -> sb.FactBook:
    """The facts of an earlier session. A book is immutable: storing a fact returns a new book."""
    book = sb.FactBook()
    for kind, claim, confidence, place in (
        ("decision", "The build ends its running calls before it clears its state.", 0.92, "src/cancel.py:1"),
        ("constraint", "Signals reach the main thread only.", 0.8, "src/signals.py:40"),
        ("decision", "The cache may be renamed one day.", 0.4, "notes.md:7"),
        ("hypothesis", "The build is slow on Mondays.", 0.9, "notes.md:9"),
    ):
        book = sb.store_fact(
            book, kind=kind, claim=claim, confidence=confidence, evidence=[{"kind": "file_range", "ref": place}]
        ).book
    return book


async def told(book: sb.FactBook) -> list[str]:
    """The lines about facts in the first request of a new session."""
    model = ScriptedModel()
    await sb.agent_loop(
        TASK,
        model=model,
        facts=book,
        reminders={
            "config": {
                "project_facts": {"max_facts": 8, "min_confidence": 0.6, "kind_filter": ["decision", "constraint"]}
            }
        },
    )
    return [line for reminder in model.requests[0].reminders for line in reminder.split("\n")]


async def main() -> None:
    book = learned()
    print(f"{len(book.facts())} facts stored")
    for line in await told(book):
        print(line)


if __name__ == "__main__":
    asyncio.run(main())
