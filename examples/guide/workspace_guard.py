"""A custom provider that fires when a daemon has been idle, unless its settings turn it off."""

import asyncio
from typing import Any

import sideband as sb
from sideband.testing import FakeClock, ScriptedModel


def evaluate(ctx: sb.ProviderContext) -> dict[str, Any] | None:
    """Return a reminder that files may have changed while the session was idle."""
    if ctx.config.get("enabled") is False:
        return None
    return {
        "reminder": {
            "body": "The workspace may have changed while this session was idle; check the files you touched.",
            "tags": ["workspace"],
            "dedupe_key": "workspace:idled",
            "ttl_turns": 1,
            "propagate": "session",
        }
    }


async def after_idling(config: dict[str, Any]) -> tuple[str, ...]:
    """The reminders in the last request of a daemon that was idle once; a reminder makes it send a second request."""
    session = await sb.open_store().session("daemon")

    def stop_it(_context: object) -> None:
        if session.run is not None:
            session.run.stop()

    model = ScriptedModel(["Done.", "Nothing has changed."])
    sb.register_session_hook("session_idle", stop_it)
    sb.register_reminder_provider(id="workspace_guard", subscribes_to=["session_idle"], evaluate=evaluate)
    try:
        await sb.agent_loop(
            "Watch the workspace.",
            session=session,
            model=model,
            daemon=True,
            wake_seconds=30,
            # A sleep on this clock returns at once.
            clock=FakeClock(),
            reminders={"config": {"workspace_guard": config}},
        )
    finally:
        sb.clear_reminder_providers()
        sb.clear_hooks()
    return model.requests[-1].reminders


async def main() -> None:
    for enabled in (True, False):
        reminders = await after_idling({"enabled": enabled})
        print(f"enabled: {enabled}, reminders: {len(reminders)}")
        for reminder in reminders:
            print(reminder)


if __name__ == "__main__":
    asyncio.run(main())
