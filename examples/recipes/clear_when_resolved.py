"""Two conditions, each with its own reminder; when a condition is over, its reminder is cleared."""

import sideband as sb

WORKSPACE = "workspace-change"
BUILD = "build:status"


def tell(transcript: sb.Transcript) -> sb.Transcript:
    """Add the reminders for a workspace that is being rebased and for a red build."""
    changed = sb.inject_reminder(
        transcript, body="A rebase is under way; files may change under you.", dedupe_key=WORKSPACE, ttl_turns=10
    )
    return sb.inject_reminder(changed.transcript, body="The build is red.", dedupe_key=BUILD, ttl_turns=10).transcript


def resolve(transcript: sb.Transcript, condition: str) -> sb.Transcript:
    """Clear one reminder by its key. To clear a group, use a tag."""
    return sb.clear_reminders(transcript, dedupe_key=condition).transcript


def main() -> None:
    transcript = tell(sb.Transcript())
    print(f"pending: {[reminder.dedupe_key for reminder in transcript.reminders]}")
    transcript = resolve(transcript, WORKSPACE)
    print(f"after the rebase: {[reminder.dedupe_key for reminder in transcript.reminders]}")
    print(f"cleared again: {sb.clear_reminders(transcript, dedupe_key=WORKSPACE).removed_count}")


if __name__ == "__main__":
    main()
