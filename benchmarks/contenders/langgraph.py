"""langgraph: a graph of two nodes, made by hand."""

from typing import Any

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.graph import END, START, MessagesState, StateGraph

from benchmarks.laps import Watch


async def run(turns: int, watch: Watch) -> int:
    answered = 0

    async def model(_state: MessagesState) -> dict[str, Any]:
        nonlocal answered
        watch.asked()
        answered += 1
        calls = [{"name": "add", "args": {"a": 1, "b": 2}, "id": f"c{answered}"}] if answered <= turns else []
        reply = AIMessage(content="", tool_calls=calls)
        watch.resume()
        return {"messages": [reply]}

    async def tools(state: MessagesState) -> dict[str, Any]:
        calls = state["messages"][-1].tool_calls
        return {
            "messages": [
                ToolMessage(str(call["args"]["a"] + call["args"]["b"]), tool_call_id=call["id"]) for call in calls
            ]
        }

    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", tools)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].tool_calls else END)
    graph.add_edge("tools", "model")
    end = await graph.compile().ainvoke({"messages": [("user", "Add.")]}, {"recursion_limit": 3 * turns + 10})
    return sum(isinstance(message, ToolMessage) for message in end["messages"])
