"""A caution from memory, for an agent and for every agent that it delegates to."""

import sideband as sb
from sideband.core.apply import fold
from sideband.core.limits import DEFAULT_LIMITS
from sideband.core.propagation import propagate, seed_child
from sideband.core.state import SessionState
from sideband.core.trust import Trust


def caution(transcript: sb.Transcript) -> sb.Transcript:
    """`propagate="all"` reaches every generation of sub-agents."""
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
    """The number of turns for which a transcript has reminders."""
    turn = 0
    while transcript.reminders:
        turn += 1
        transcript = sb.end_turn(transcript, turn).transcript
    return turn


def descendants_told(transcript: sb.Transcript, names: tuple[str, ...]) -> list[str]:
    """The names of the agents, each started by the one before, that have inherited a reminder."""
    told: list[str] = []
    handoff = sb.propagate(transcript, agent_id="coordinator")
    for name in names:
        session = SessionState()
        fold(seed_child(session, handoff.reminder_propagation, sub_agent_id=name, hop=Trust.OPERATOR).events, session)
        if len(session.live):
            told.append(name)
        handoff = propagate(session, agent_id=name, limits=DEFAULT_LIMITS)
    return told


def main() -> None:
    transcript = caution(sb.Transcript(messages=({"role": "user", "content": "Fix the login bug"},)))
    print(f"shown for {turns_shown(transcript)} turns")
    compacted = sb.transcript_compact(transcript, strategy="keep_last", keep_last=0).transcript
    print(f"after a compaction: {len(compacted.messages)} messages, {len(compacted.reminders)} reminder")
    print(f"inherited by {', '.join(descendants_told(transcript, ('worker', 'helper', 'helper of the helper')))}")


if __name__ == "__main__":
    main()
