"""langchain: `create_agent` as it comes."""

from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool

from benchmarks.laps import Watch


class Adder(BaseChatModel):
    """The model: it wants to add in so many turns."""

    turns: int
    watch: Any
    answered: int = 0

    @property
    def _llm_type(self) -> str:
        return "adder"

    def bind_tools(self, *_tools: object, **_options: object) -> "Adder":
        return self

    def _generate(self, messages: list[BaseMessage], *_args: object, **_options: object) -> ChatResult:
        raise NotImplementedError("the loop that is measured asks asynchronously")

    async def _agenerate(self, messages: list[BaseMessage], *_args: object, **_options: object) -> ChatResult:  # noqa: ARG002 - a model's
        self.watch.asked()
        self.answered += 1
        calls = [{"name": "add", "args": {"a": 1, "b": 2}, "id": f"c{self.answered}"}]
        reply = AIMessage(content="", tool_calls=calls if self.answered <= self.turns else [])
        result = ChatResult(generations=[ChatGeneration(message=reply)])
        self.watch.resume()
        return result


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def run(turns: int, watch: Watch) -> int:
    agent = create_agent(Adder(turns=turns, watch=watch), [add])
    end = await agent.ainvoke({"messages": [("user", "Add.")]}, {"recursion_limit": 3 * turns + 10})
    return sum(isinstance(message, ToolMessage) for message in end["messages"])
