"""openai-agents: `Runner.run`, tracing off."""

from collections.abc import AsyncIterator

from agents.items import ModelResponse
from agents.models.interface import Model
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from agents import Agent, Runner, ToolCallOutputItem, Usage, function_tool, set_tracing_disabled
from benchmarks.laps import Watch


class Adder(Model):
    """The model: it wants to add in so many turns."""

    def __init__(self, turns: int, watch: Watch) -> None:
        self._turns = turns
        self._watch = watch
        self._answered = 0

    async def get_response(self, *_args: object, **_options: object) -> ModelResponse:
        self._watch.asked()
        self._answered += 1
        output = self._call() if self._answered <= self._turns else self._end()
        reply = ModelResponse(output=[output], usage=Usage(), response_id=None)
        self._watch.resume()
        return reply

    def stream_response(self, *_args: object, **_options: object) -> AsyncIterator[object]:
        raise NotImplementedError("the loop that is measured does not stream")

    def _call(self) -> ResponseFunctionToolCall:
        return ResponseFunctionToolCall(
            call_id=f"c{self._answered}", name="add", arguments='{"a": 1, "b": 2}', type="function_call"
        )

    def _end(self) -> ResponseOutputMessage:
        text = ResponseOutputText(text="Done.", type="output_text", annotations=[])
        return ResponseOutputMessage(id="m", role="assistant", status="completed", type="message", content=[text])


@function_tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def run(turns: int, watch: Watch) -> int:
    set_tracing_disabled(disabled=True)
    agent = Agent(name="adder", tools=[add], model=Adder(turns, watch))
    end = await Runner.run(agent, "Add.", max_turns=turns + 1)
    return sum(isinstance(item, ToolCallOutputItem) for item in end.new_items)
