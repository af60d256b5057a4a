"""A hook and a provider that each return what they may not."""

import sideband as sb


def greet(event):  # noqa: ANN001, ANN201 - a hook is given a mapping and returns one of several forms
    if event["result"] is None:
        return None
    return {"reminder": {"body": "A worker has finished; read its report.", "ttl_turns": 1}}  # HARN-RMD-008: see below


def evaluate(ctx):  # noqa: ANN001, ANN201 - the same for a provider
    return {
        "body": f"{ctx['payload']['count']} files changed while the session was idle.",
        "ttl_turns": 0,  # HARN-RMD-006: a TTL is at least 1
    }


def install() -> None:
    sb.register_session_hook("worker_completed", greet)  # hooks on this event can only observe
    sb.register_reminder_provider(id="workspace_guard", subscribes_to=["session_idle"], evaluate=evaluate)
