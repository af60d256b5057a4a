"""Two conditions, each with a reminder of its own; when one of them has gone, so has its reminder."""

import sideband as sb

WORKSPACE = "workspace-change"
BUILD = "build:status"


def tell(transcript: sb.Transcript) -> sb.Transcript:
    """What the agent is told while the workspace is in flux and the build is red."""
    changed = sb.inject_reminder(
        transcript, body="A rebase is under way; files may change under you.", dedupe_key=WORKSPACE, ttl_turns=10
    )
    return sb.inject_reminder(changed.transcript, body="The build is red.", dedupe_key=BUILD, ttl_turns=10).transcript


def resolve(transcript: sb.Transcript, condition: str) -> sb.Transcript:
    """A singleton is cleared by its key; a group of them would be by its tag."""
    return sb.clear_reminders(transcript, dedupe_key=condition).transcript


def main() -> None:
    transcript = tell(sb.Transcript())
    print(f"pending: {[reminder.dedupe_key for reminder in transcript.reminders]}")
    transcript = resolve(transcript, WORKSPACE)
    print(f"after the rebase: {[reminder.dedupe_key for reminder in transcript.reminders]}")
    print(f"cleared again: {sb.clear_reminders(transcript, dedupe_key=WORKSPACE).removed_count}")


if __name__ == "__main__":
    main()
