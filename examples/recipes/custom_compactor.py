"""A custom compactor that reads the reminders; which of them are kept is decided before it is called."""

from collections.abc import Sequence
from typing import Any

import sideband as sb


def a_transcript() -> sb.Transcript:
    """A transcript with three reminders; the TTL of one of them ends at the compaction."""
    transcript = sb.Transcript(messages=({"role": "user", "content": "Fix the login bug"},))
    for body, ttl_turns in (("The build is red.", 3), ("Lunch is at noon.", 1), ("Tests need the database.", 5)):
        transcript = sb.inject_reminder(transcript, body=body, ttl_turns=ttl_turns).transcript
    return transcript


class Compactor:
    """Keeps every message, and records the reminders that it was given."""

    def __init__(self) -> None:
        self.bodies: list[str] = []

    def __call__(self, messages: Sequence[dict[str, Any]], reminders: Sequence[sb.Reminder]) -> sb.Transcript:
        self.bodies += [reminder.body for reminder in reminders]
        return sb.Transcript(messages=tuple(messages))


def main() -> None:
    compactor, transcript = Compactor(), a_transcript()
    compacted = sb.transcript_compact(transcript, strategy="custom", custom_compactor=compactor)
    for body in compactor.bodies:
        print(f"still to be said: {body}")
    print(f"messages unchanged: {compacted.transcript.messages == transcript.messages}")


if __name__ == "__main__":
    main()
