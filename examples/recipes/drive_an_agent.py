"""A host in Python: start an ACP agent, tell it a reminder, send a prompt, and follow what happens to the reminder."""

import asyncio
import sys

from sideband.protocols.acp.client import connect

# In a host of yours, the command of any agent, for example "claude-agent-acp".
AGENT = [sys.executable, "-m", "sideband.cli", "acp", "--model", "scripted:The tests are fixed.", "--store", "memory:"]


async def main() -> None:
    async with connect(AGENT) as agent:
        session = await agent.new_session()
        lifecycle = session.reminder_updates()
        reminded = await session.remind("Three tests fail since the last save.", dedupe_key="tests", ttl_turns=1)
        print(f"the reminder: {reminded.route}")
        turn = session.prompt("Fix the tests.")
        async for update in turn:
            if update["sessionUpdate"] == "agent_message_chunk":
                print(f"the agent says: {update['content']['text']}")
        print(f"the turn has ended: {turn.stop_reason}")
        async for reminder in lifecycle:
            if reminder.reminder_id == reminded.reminder_id:
                print(type(reminder).__name__)
                if type(reminder).__name__ == "ReminderExpired":
                    break


asyncio.run(main())
