"""pydantic-ai: an `Agent` whose model is a function."""

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import UsageLimits

from benchmarks.laps import Watch


async def run(turns: int, watch: Watch) -> int:
    answered = 0

    async def model(_messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        nonlocal answered
        watch.asked()
        answered += 1
        call = ToolCallPart("add", {"a": 1, "b": 2}, tool_call_id=f"c{answered}")
        reply = ModelResponse(parts=[call if answered <= turns else TextPart("Done.")])
        watch.resume()
        return reply

    agent = Agent(FunctionModel(model))

    @agent.tool_plain
    async def add(a: int, b: int) -> int:
        return a + b

    end = await agent.run("Add.", usage_limits=UsageLimits(request_limit=None))
    return sum(isinstance(part, ToolReturnPart) for message in end.all_messages() for part in message.parts)
