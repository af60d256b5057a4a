"""The library as a program uses it: tools from functions, chats, records as JSON, transcripts that become requests."""

from typing import Final

from tests.conformance.entry import Rules, Source, rules

TOOLS: Final[Rules] = rules(
    Source.OURS,
    {
        "library:tool:from-a-function": "A function in `tools` is a tool: its name, its docstring and its type hints are name, description and JSON Schema.",
        "library:tool:schema-from-hints": "The schema of a parameter follows from its type hint, without references, and with its default.",
        "library:tool:described-parameters": "The description of a parameter comes from `Annotated`, else from a docstring in Google's or Sphinx's style.",
        "library:tool:converted-arguments": "A function gets its arguments in the types of its hints.",
        "library:tool:explained-refusal": "Arguments that do not fit are an error result that names the argument, its value and what is allowed; the function is not called.",
        "library:tool:null-is-absent": "Null for a parameter that cannot be None means that the argument is left out.",
        "library:tool:context": "A parameter with the type `ToolContext` gets the context of the call and is not shown to the model.",
        "library:tool:result-text": "A string is the result as it is, None is a plain text, a `ToolOutput` is kept, other values are JSON, or `str()` of the value if JSON cannot hold it.",
        "library:tool:exception-is-the-result": "An exception of a function is the error result of its call.",
        "library:tool:blocking-runs-in-a-thread": "A function that is not a coroutine function runs in a thread, with the context variables of the run, and the event loop goes on.",
        "library:tool:blocking-cannot-be-stopped": "The result of a blocking function that goes on after its time limit says so.",
        "library:tool:options": "`tool` sets name, description, idempotence and time limit, and the function can still be called.",
        "library:tool:callables": "A bound method, a partial and a named callable object are tools; arguments that a partial has bound are not shown to the model.",
        "library:tool:refused-signature": "A function whose parameters no schema can describe is refused when the tool is made, with the parameter and the remedy.",
        "library:tool:refused-value": "A value in `tools` that is not a tool is refused before the run begins, with its place, the value and what is allowed.",
        "library:tool:spread-workspace": "Workspace tools work as a sequence, inside a list and spread into one, and changes to their files are noticed in each case.",
    },
)
