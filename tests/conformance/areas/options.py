"""The options of the public functions: visible, typed, and checked before anything happens."""

from typing import Final

from tests.conformance.entry import Rules, Source, rules

OPTIONS: Final[Rules] = rules(
    Source.OURS,
    {
        "options:signature:every-parameter-is-typed": "Every parameter of a public function has a name and a type; none is hidden in `**options` of any type.",
        "options:signature:one-list-for-all-runs": "`agent_run`, `spawn`, `Session.chat` and `Runner` take the options of `agent_loop`, with the same names and types.",
        "options:run:wrong-value-is-refused-at-the-start": "A wrong value of an option of a run is refused before the run begins, with the field, the value and what is allowed.",
        "options:run:unknown-name-is-refused": "An unknown option of a run is refused with the nearest known name.",
        "options:session:name-is-not-a-session": "The name of a session in place of a session is refused with the call that gets the session.",
        "options:session:belongs-to-one-event-loop": "A store and its sessions belong to the event loop in which the store was opened, and use from another one is refused with what to do; a store in memory goes on in the next event loop.",
        "options:model:address-and-key": "`base_url` and `api_key` of `agent_loop` and `llm_call` are the ones that the request is sent with.",
        "options:model:placement": "`placement` of `agent_loop` and `llm_call` decides where reminders stand in a request.",
        "options:model:object-has-its-own": "`placement`, `base_url` and `api_key` beside a model object are refused, because the object has its own.",
        "options:task:blocks-of-content": "A task or a prompt may be a list of blocks of content.",
    },
)
