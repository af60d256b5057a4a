"""A pipeline tells its agent that the context is nearly full, and takes that back when it no longer is."""

import sideband as sb
from sideband.runtime.transcripts import Clearing, Injection


def warn(transcript: sb.Transcript) -> Injection:
    """The transcript with the reminder in it; the one that was given stays as it is."""
    return sb.inject_reminder(
        transcript,
        body="Little of the context window is left.",
        tags=["token_pressure"],
        dedupe_key="token_pressure",
        ttl_turns=3,
        preserve_on_compact=True,
        propagate="session",
        role_hint="developer",
    )


def relax(transcript: sb.Transcript) -> Clearing:
    """Without whatever speaks of token pressure."""
    return sb.clear_reminders(transcript, tag="token_pressure")


def main() -> None:
    transcript = sb.Transcript(messages=({"role": "user", "content": "Fix the login bug"},))
    warned = warn(transcript)
    print(f"injected {warned.reminder_id}, which replaced {warned.deduped_count}")
    print(f"{len(warned.transcript.reminders)} reminder beside {len(warned.transcript.messages)} message")
    relaxed = relax(warned.transcript)
    print(f"cleared {relaxed.removed_count}, {len(relaxed.transcript.reminders)} left")


if __name__ == "__main__":
    main()
