"""`sideband inject`: send a user message to a session."""

from sideband.cli.app import OK, REFUSALS, refuse_request
from sideband.cli.request import BodyArgument, Surplus, print_reply, read_body, tell
from sideband.cli.target import AgentToOption, JsonOption, StoreOption


def inject(
    body: BodyArgument,
    /,
    *surplus: Surplus,
    mode: str = "steer",
    to: AgentToOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Send a user message to a session, which may be running in another process.

    The message is durable when the command ends, and `sideband revoke` withdraws it until it is delivered. The command
    runs no agent: a queued message waits for a process that runs the session.

    Exits with 1 if the session refuses the message, because it is closed or full or no turn is running, and with 2 if
    the command is wrong or the session cannot be reached. A session is never created.

    Parameters
    ----------
    mode
        When it is delivered: `steer` at the end of the current step of the running turn, `queue` as the beginning of the
        next turn, `interrupt_immediate` before the next tools run, which are skipped, or `finish_step` (the same as
        `steer`); with `audit_only` it is not delivered, and goes on record when the run ends.
    """
    try:
        text = read_body(body, surplus, "inject").rstrip("\r\n")
        session_id, message_id = tell(to, store, lambda producer: producer.inject(text, mode=mode))
    except REFUSALS as error:
        return refuse_request(error)
    print_reply(
        f"accepted {message_id} for session {session_id}"
        if message_id is not None
        else f"session {session_id} has taken the message into its turn; it cannot be revoked",
        json=json,
        session=session_id,
        message_id=message_id,
    )
    return OK
