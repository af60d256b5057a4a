"""Reminders from code: two mistakes that are refused when the line runs, and one that never is."""

import sideband as sb


def warn_of_pressure(transcript: sb.Transcript) -> sb.Transcript:
    injected = sb.inject_reminder(
        transcript,
        body="The context window is nearly full.",
        dedup_key="token_pressure",  # HARN-RMD-001: the option is called dedupe_key
        ttl_turns=2,
    )
    return injected.transcript


def pass_on_a_caution(transcript: sb.Transcript) -> sb.Transcript:
    injected = sb.inject_reminder(
        transcript,
        body="The customer prefers small patches.",
        ttl_turns=4,
        propagate="children",  # HARN-RMD-005: "session" is the word for direct sub-agents
    )
    return injected.transcript


async def announce_change(session, path: str) -> None:  # noqa: ANN001 - any session will do
    await session.remind(f"{path} changed on disk.", dedupe_key=f"file_changed:{path}")  # HARN-RMD-004: no ttl_turns
    await session.remind("The branch is protected.", preserve_on_compact=True)  # lasting, and says so: no finding
    await session.remind("The test database is up.")  # sideband: ignore[HARN-RMD-004] - cleared when it goes down
