"""`sideband remind`: send a reminder to a session."""

from typing import Annotated

from cyclopts import Parameter

from sideband.cli.app import OK, REFUSALS, refuse_request
from sideband.cli.request import BodyArgument, Surplus, print_reply, read_body, tell
from sideband.cli.target import AgentToOption, Flag, Integer, JsonOption, StoreOption


def remind(
    body: BodyArgument,
    /,
    *surplus: Surplus,
    to: AgentToOption = None,
    store: StoreOption = None,
    key: str | None = None,
    ttl: Integer = None,
    tag: Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)] = (),
    mode: str | None = None,
    role_hint: Annotated[str | None, Parameter(name="--hint")] = None,
    propagate: str | None = None,
    preserve: Flag = False,
    id: str | None = None,
    json: JsonOption = False,
) -> int:
    """Send a reminder to a session, which may be running in another process.

    The reminder is durable when the command ends. A running agent takes it at its next seam; an idle one shows it in its
    next turn. You are the operator of a store that you can write: your reminders are trusted like those of the agent's
    own code.

    Exits with 1 if the session refuses the reminder, because it is closed or full or the id is taken, and with 2 if the
    command is wrong or the session cannot be reached. A session is never created.

    Parameters
    ----------
    key
        The dedupe key: the reminder replaces an earlier one with the same key.
    ttl
        In how many turns it is shown; without it, until it is cleared or compacted away.
    tag
        A tag to select it by; may be given several times.
    mode
        When it is delivered: `finish_step` (the default) at the end of the current step, `interrupt_immediate` before the
        next tools run, which are skipped; with `audit_only` it is not delivered, and goes on record when the run ends.
    role_hint
        The role that it is shown in, if the model allows it: `system` (the default), `developer`, `user_block` or
        `ephemeral_cache`.
    propagate
        Which sub-agents inherit it: `session` (the default) only those that are started by this agent, `all` also those
        that they start, `none` no sub-agent.
    preserve
        Keep it when the conversation is compacted.
    id
        An id of your choice, with which the command can be repeated safely: a repeat with the same options changes
        nothing and prints the same answer.
    """
    from sideband.runtime.system import moment  # noqa: PLC0415 - the help does not need it

    payload = {
        "dedupe_key": key,
        "ttl_turns": ttl,
        "tags": tag or None,
        "mode": mode,
        "role_hint": role_hint,
        "propagate": propagate,
        "preserve_on_compact": preserve or None,
        "id": id,
    }
    try:
        given = {"body": read_body(body, surplus, "remind")} | {
            name: value for name, value in payload.items() if value is not None
        }
        session_id, accepted = tell(to, store, lambda producer: producer.remind(given))
    except REFUSALS as error:
        return refuse_request(error)
    replaced = f", which replaces {accepted.deduped_count} that waited" if accepted.deduped_count else ""
    lowered = "".join(f", with {name} {value}" for name, value in accepted.effective.items())
    # An agent over ACP does not say when it accepted the reminder.
    at = {"accepted_at": moment(accepted.accepted_at)} if accepted.accepted_at else {}
    print_reply(
        f"accepted {accepted.reminder_id} for session {session_id}{replaced}{lowered}",
        json=json,
        session=session_id,
        reminder_id=accepted.reminder_id,
        deduped_count=accepted.deduped_count,
        **at,
        **({"requested": accepted.requested, "effective": accepted.effective} if lowered else {}),
    )
    return OK
