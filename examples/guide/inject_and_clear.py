"""A pipeline reminds its agent that the context is nearly full, and clears the reminder when it is not."""

import sideband as sb
from sideband.core.transcript import ClearedReminders, InjectedReminder


def warn(transcript: sb.Transcript) -> InjectedReminder:
    """Return a new transcript with the reminder; the given transcript is not changed."""
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


def relax(transcript: sb.Transcript) -> ClearedReminders:
    """Return a new transcript without the reminders about token pressure."""
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
