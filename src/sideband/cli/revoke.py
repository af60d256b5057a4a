"""`sideband revoke`: withdraw a queued reminder or message."""

from shlex import quote

from sideband.cli.app import OK, REFUSALS, REFUSED, refuse, refuse_request
from sideband.cli.request import print_reply, tell
from sideband.cli.target import AgentToOption, JsonOption, StoreOption
from sideband.core.errors import AlreadyDelivered, UnknownReminder, shown
from sideband.inspect.report import CommandError


def revoke(
    id: str,
    /,
    *,
    to: AgentToOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Withdraw a queued reminder or message before it is delivered; to revoke it twice is not an error.

    Exits with 1 if it was delivered, or if nothing with this id was queued, and with 2 if the session cannot be reached.
    `sideband clear --id` ends a reminder that is live.

    Parameters
    ----------
    id
        The id that `remind` or `inject` printed, or that `pending` lists.
    """
    try:
        session_id, status = tell(to, store, lambda producer: producer.revoke(id))
    except UnknownReminder as error:
        text = f"no reminder or message with the id {shown(id)} is queued; `sideband pending` lists those that are"
        refuse(CommandError(text, code=error.code), option="ID")
        return REFUSED
    except AlreadyDelivered as error:
        text = f"{shown(id)} was already delivered; `sideband clear --id {quote(id)}` ends it if it is a live reminder"
        refuse(CommandError(text, code=error.code), option="ID")
        return REFUSED
    except REFUSALS as error:
        return refuse_request(error)
    word = status.value.replace("_", " ")
    print_reply(f"{word}: {id} in session {session_id}", json=json, session=session_id, id=id, status=status)
    return OK
