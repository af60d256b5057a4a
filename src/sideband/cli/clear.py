"""`sideband clear`: end queued and live reminders."""

from sideband.cli.app import OK, REFUSALS, refuse, refuse_request
from sideband.cli.request import print_reply, tell
from sideband.cli.target import AgentToOption, JsonOption, StoreOption
from sideband.core.errors import InvalidOption


def clear(
    *,
    key: str | None = None,
    tag: str | None = None,
    id: str | None = None,
    to: AgentToOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """End every queued and every live reminder that matches; with several selectors, those that match all of them.

    It is not an error if none matches. Exits with 2 if no selector is given or the session cannot be reached.

    Parameters
    ----------
    key
        Reminders with this dedupe key.
    tag
        Reminders with this tag.
    id
        The reminder with this id. Only this selects an `audit_only` reminder.
    """
    if key is None and tag is None and id is None:
        return refuse(InvalidOption("name the reminders to clear with --key, --tag or --id", field="selector"))
    try:
        session_id, count = tell(to, store, lambda producer: producer.clear(id=id, tag=tag, dedupe_key=key))
    except REFUSALS as error:
        return refuse_request(error)
    what = "1 reminder" if count == 1 else f"{count:,} reminders"
    print_reply(f"cleared {what} of session {session_id}", json=json, session=session_id, removed_count=count)
    return OK
