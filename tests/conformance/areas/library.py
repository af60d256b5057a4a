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
        "library:tool:explained-refusal": "Arguments that do not fit are an error result that names the argument, its value and what is allowed; unknown fields of nested records are refused too, and the function is not called.",
        "library:tool:null-is-absent": "Null for an optional parameter that cannot be None means that the argument is left out.",
        "library:tool:context": "A parameter with the type `ToolContext` gets the context of the call and is not shown to the model.",
        "library:tool:result-text": "A string is the result as it is, None is a plain text, a `ToolOutput` is kept, other values are JSON, or `str()` of the value if JSON cannot hold it; an iterator is an error.",
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

CHAT: Final[Rules] = rules(
    Source.OURS,
    {
        "library:chat:send": "`send` returns the reply to its prompt: text, ids of reply and prompt, status, turns and usage.",
        "library:chat:others-in-order": "Iterating over a chat yields the replies to the prompts that others have queued, in order, and not those that `send` returns.",
        "library:chat:any-process": "`send` returns the reply to its prompt whichever process answers it.",
        "library:chat:budget-per-prompt": "The budget of turns applies to each prompt of a chat.",
        "library:chat:reminders-meanwhile": "A reminder that arrives while a chat waits is shown in the next request.",
        "library:chat:failure-is-a-reply": "A failing model is a reply with the status `failed` and the error, and the chat answers the next prompt.",
        "library:chat:problems": "A reply lists the problems of hooks and other user code.",
        "library:chat:streams": "Text is passed to `on_text` as it arrives.",
        "library:chat:cancel": "Cancelling the turn, the prompt or the task that waits for the reply ends the turn as cancelled, and the chat goes on with the prompts that wait, unless `queue_after_cancel` is `hold`.",
        "library:chat:withdrawn": "The reply to a prompt that is withdrawn before its turn is cancelled, and iterating does not yield it.",
        "library:chat:close": "Closing a chat cancels its turn and leaves the other prompts queued, and says so to those who wait for them.",
        "library:chat:ends-with-the-session": "A chat yields nothing more when its session or its store is closed.",
        "library:chat:iterated-directly": "A chat can be iterated over without `async with`.",
        "library:chat:misuse": "A chat on a closed session, a second entry and a prompt outside of the block are refused with what to do.",
    },
)

JSON: Final[Rules] = rules(
    Source.OURS,
    {
        "library:json:round-trip": "A transcript, an event, a reminder, a receipt, a topic record and an update are the same after `to_json` and `from_json`.",
        "library:json:shape": "The JSON of a transcript event is the event as observers read it, and the parts that repeat others must agree with them.",
        "library:json:refusal": "`from_json` refuses text that is not JSON, a missing, unknown or repeated field and a wrong value, with a code, the path of the field and the value.",
        "library:json:null-is-absent": "Null for an optional field of a reminder reads as absent.",
        "library:json:not-json": "`to_json` refuses a record that holds something that JSON does not have.",
    },
)

TRANSCRIPT: Final[Rules] = rules(
    Source.OURS,
    {
        "library:transcript:request": "`render_request` returns the body that the model would get for a transcript, as a session with this transcript would send it.",
        "library:transcript:request-is-only-shown": "`render_request` needs no key, sends nothing and changes nothing.",
        "library:transcript:session": "A session that begins with a transcript has its messages, its live reminders and its audit records, in one commit.",
        "library:transcript:round-trip": "The transcript of a session, and of a session that begins with it, have the same messages and reminders.",
        "library:transcript:trust": "The transcript of a session says where a reminder came from, and a session that begins with it trusts the reminder no more.",
        "library:transcript:newest-of-a-key": "Of two reminders with the same key in a transcript, a session begins with the newer one.",
        "library:transcript:refusal": "A transcript that cannot be a session or a request is refused with what is wrong, and nothing is written.",
    },
)

TYPES: Final[Rules] = rules(
    Source.OURS,
    {
        "library:types:wrong-uses-are-found": "mypy and pyright accept right uses of the public functions, and report misspelt names, unknown options, words that are not allowed and wrong types.",
    },
)
