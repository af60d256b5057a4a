"""Read what happened in the session that a command is about, from its store or from the server that keeps it."""

from sideband.cli.target import address, server_address
from sideband.inspect.history import SessionHistory, session_history


def history_of(to: str | None, store: str | None, *, turns: int | None = None) -> SessionHistory:
    """The history of the session that is meant; with `turns`, the timeline has only the last so many turns."""
    server = server_address(to, store)
    if server is None:
        return session_history(*address(to, store), turns=turns)
    from sideband.cli.server_session import Server  # noqa: PLC0415 - only needed for a server

    return Server(server.url).history(server.session_id, turns=turns)
