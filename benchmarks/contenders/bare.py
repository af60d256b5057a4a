"""The least a loop can do: a list of dicts, and a tool looked up by its name. Nothing is checked, kept or told."""

import json
from typing import Any

from benchmarks.laps import Watch


async def add(a: int, b: int) -> int:
    return a + b


async def run(turns: int, watch: Watch) -> int:
    tools = {"add": add}
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Add."}]

    async def ask() -> dict[str, Any]:
        watch.asked()
        answered = len(messages) // 2
        reply: dict[str, Any] = {"role": "assistant", "content": ""}
        if answered < turns:
            reply["tool_calls"] = [{"id": f"c{answered}", "name": "add", "arguments": '{"a": 1, "b": 2}'}]
        watch.resume()
        return reply

    while True:
        reply = await ask()
        messages.append(reply)
        if "tool_calls" not in reply:
            return sum(message["role"] == "tool" for message in messages)
        for call in reply["tool_calls"]:
            result = await tools[call["name"]](**json.loads(call["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": str(result)})
