"""A caution from memory that the agent and everybody it delegates to should have for a while."""

import sideband as sb
from sideband.core.propagation import propagate, seed_child
from sideband.core.state import SessionState, apply


def caution(transcript: sb.Transcript) -> sb.Transcript:
    """`all` reaches every generation of sub-agents, so it is for what they all have to know."""
    return sb.inject_reminder(
        transcript,
        body="This customer merges small patches only, each with the run of its tests.",
        tags=["memory"],
        dedupe_key="memory:patch-size",
        ttl_turns=4,
        preserve_on_compact=True,
        propagate="all",
        role_hint="developer",
    ).transcript


def turns_shown(transcript: sb.Transcript) -> int:
    """For how many turns the reminders of a transcript are there."""
    turn = 0
    while transcript.reminders:
        turn += 1
        transcript = sb.end_turn(transcript, turn).transcript
    return turn


def descendants_told(transcript: sb.Transcript, names: tuple[str, ...]) -> list[str]:
    """Which of the agents, each started by the one before, have inherited a reminder."""
    told: list[str] = []
    handoff = sb.propagate(transcript, agent_id="coordinator")
    for name in names:
        session = SessionState()
        for event in seed_child(session.live, handoff.reminder_propagation, sub_agent_id=name):
            apply(session, event)
        if len(session.live):
            told.append(name)
        handoff = propagate(session.live, agent_id=name)
    return told


def main() -> None:
    transcript = caution(sb.Transcript(messages=({"role": "user", "content": "Fix the login bug"},)))
    print(f"shown for {turns_shown(transcript)} turns")
    compacted = sb.transcript_compact(transcript, strategy="keep_last", keep_last=0).transcript
    print(f"after a compaction: {len(compacted.messages)} messages, {len(compacted.reminders)} reminder")
    print(f"inherited by {', '.join(descendants_told(transcript, ('worker', 'helper', 'helper of the helper')))}")


if __name__ == "__main__":
    main()
