"""What a store could not do, or no longer has. `ReminderError` is about a request; these are about the place it went to.

Each class carries the word that programs know it by. Whatever is raised at a commit has changed nothing; there is one
that cannot say so, `OutcomeUnknown`.
"""

from typing import ClassVar


class StoreError(Exception):
    """The store, not the request, is to blame."""

    reason: ClassVar[str]

    def __reduce__(self) -> tuple[object, ...]:
        # Copied and pickled as it stands: some make their message themselves, from other arguments.
        return _as_it_was, (type(self), *self.args), self.__dict__


def _as_it_was(kind: type[StoreError], *args: object) -> StoreError:
    return kind.__new__(kind, *args)


# Nothing can be done with the store until somebody mends it.


class StoreRefused(StoreError):
    """This is not a store that can be opened; nothing in it was touched, and no empty one was put in its place."""

    reason = "store_refused"


class StoreDamaged(StoreRefused):
    """What it holds is not what was written."""

    reason = "store_damaged"


class StoreNewer(StoreRefused):
    """A newer version of this program has written it."""

    reason = "store_newer"


# A commit could not be made; the same may work later.


class StoreUnavailable(StoreError):
    """The disk is full or fails, or somebody else has kept the store for too long."""

    reason = "store_unavailable"


class OutcomeUnknown(StoreError):
    """The server or the disk failed while this was being committed, and has not come back in time to look."""

    reason = "outcome_unknown"

    def __init__(self, place: str) -> None:
        super().__init__(
            f"{place} failed during a commit, and whether it was made cannot be found out now; "
            "the journal will tell once the store works again"
        )


class StoreClosed(StoreError):
    """It was closed before this was asked of it."""

    reason = "store_closed"

    def __init__(self) -> None:
        super().__init__("the store is closed; open it again")


class NotStorable(StoreError):
    """What was decided has a value that no journal can hold."""

    reason = "not_storable"


# Somebody else has the session, or the place in the journal is gone.


class LeaseLost(StoreError):
    """Another process has taken the session over, or may have: whoever ran it stops, and writes nothing more.

    `why` is what kept the lease from being renewed before it lapsed (None: somebody else has it).
    """

    reason = "lease_lost"

    def __init__(self, session_id: str, *, why: object = None) -> None:
        super().__init__(
            f"session {session_id!r} is run by another process now"
            if why is None
            else f"the lease on session {session_id!r} has lapsed, so another process may run it now: {why}"
        )
        self.session_id = session_id


class CursorLost(StoreError):
    """A subscriber fell so far behind that it was cut off; it resumes behind the sequence it has seen last."""

    reason = "cursor_lost"

    def __init__(self, seen: int) -> None:
        super().__init__(f"this subscriber was too slow; subscribe again with after={seen}")
        self.seen = seen


class CursorExpired(StoreError):
    """Behind this place something was pruned; `oldest` is the first place behind which all is kept."""

    reason = "cursor_expired"

    def __init__(self, after: int, oldest: int) -> None:
        super().__init__(f"the journal behind {after} is no longer kept whole; subscribe again with after={oldest}")
        self.after = after
        self.oldest = oldest
