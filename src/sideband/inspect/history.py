"""What happened in one session of a store, and its conversation as it stands now, read without opening the store."""

from typing import NamedTuple

from sideband.core.errors import StoreDamaged, shown
from sideband.core.transcript import Transcript, transcript_of
from sideband.inspect.sessions import inspect_store, state_word, stored_session
from sideband.inspect.timeline import Timeline, keep_last, stored_timeline
from sideband.store.inspector import UnreadableSession, restored


class SessionHistory(NamedTuple):
    """The timeline of a session and its transcript; `word` says whether it is idle, running, left or closed."""

    word: str
    timeline: Timeline
    transcript: Transcript


def session_history(store_url: str, session_id: str | None, *, turns: int | None = None) -> SessionHistory:
    """Read a session (None: the only open one); with `turns`, the timeline has only the last so many turns."""
    with inspect_store(store_url) as store:
        stored = stored_session(store, session_id)
        try:
            state = restored(store, stored)
            timeline = stored_timeline(store, stored, state)
        except UnreadableSession as error:
            raise StoreDamaged(f"session {shown(stored.session_id)} cannot be read: {error}") from error
        if turns is not None:
            keep_last(timeline, turns)
        return SessionHistory(state_word(state, stored), timeline, transcript_of(state))
