"""The texts of the diagnostics of the lifecycle: what each means, why it is one, and how to be rid of it."""

from enum import StrEnum
from textwrap import dedent
from typing import Final

import msgspec


class Severity(StrEnum):
    """An error does not work; a warning works, but hardly as meant; an advice is about a habit worth dropping."""

    ERROR = "error"
    WARNING = "warning"
    ADVICE = "advice"


class Language(StrEnum):
    """What an example is written in."""

    PYTHON = "python"
    JSON = "json"
    TOML = "toml"


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """The mistake, and the same thing mended."""

    language: Language
    wrong: str
    right: str


class Diagnostic(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the catalogue."""

    code: str
    title: str
    severity: Severity
    cause: str
    remedy: str
    example: Example


def in_python(wrong: str, right: str) -> Example:
    return Example(language=Language.PYTHON, wrong=dedent(wrong).strip(), right=dedent(right).strip())


def in_json(wrong: str, right: str) -> Example:
    return Example(language=Language.JSON, wrong=dedent(wrong).strip(), right=dedent(right).strip())


def in_toml(wrong: str, right: str) -> Example:
    return Example(language=Language.TOML, wrong=dedent(wrong).strip(), right=dedent(right).strip())


FAMILY: Final = (
    Diagnostic(
        code="HARN-RMD-001",
        title="Unknown option, or a value it cannot have",
        severity=Severity.ERROR,
        cause="A producer named an option that does not exist on this surface, or gave one of its own a value of the wrong type or range: a blank body, a TTL below 1, an unknown role hint or event, a clear without a selector. Nothing is ignored here, because a misspelt option that is quietly dropped leaves a reminder that lives longer, or elsewhere, than its author believes.",
        remedy="The options are `body`, `tags`, `dedupe_key`, `ttl_turns`, `preserve_on_compact`, `propagate` and `role_hint`; `mode` is for `Session.remind` and for bridges. Python spells them in snake_case, the wires in camelCase. Identity, source and turn belong to the session and cannot be given.",
        example=in_python(
            """
            await session.remind("The build is red.", ttl_turns=2, dedupe="build:status")
            """,
            """
            await session.remind("The build is red.", ttl_turns=2, dedupe_key="build:status")
            """,
        ),
    ),
    Diagnostic(
        code="HARN-RMD-002",
        title="Payload from a bridge that is not a reminder",
        severity=Severity.ERROR,
        cause="A message that came in over ACP, A2A, MCP or HTTP has a field of the wrong type or range, names a key twice, has no body, or says `content`, which belongs to user input. The request is answered with an error and changes nothing; a notification is recorded as dropped.",
        remedy="Send `body` as text that is not blank, `ttlTurns` as a whole number from 1 on, `tags` as a list of strings, and every key once. An MCP notification also needs an `id`. What the protocol does not know goes under `_meta`.",
        example=in_json(
            """
            {"jsonrpc": "2.0", "id": 1, "method": "session/inject_reminder",
             "params": {"sessionId": "s1", "body": "CI failed on main.", "ttlTurns": "2"}}
            """,
            """
            {"jsonrpc": "2.0", "id": 1, "method": "session/inject_reminder",
             "params": {"sessionId": "s1", "body": "CI failed on main.", "ttlTurns": 2}}
            """,
        ),
    ),
    Diagnostic(
        code="HARN-RMD-003",
        title="Role hint that the model route cannot keep",
        severity=Severity.WARNING,
        cause="The reminder asks for `user_block` or `ephemeral_cache`, and the model it will be sent to has no such slot. It is delivered all the same, in the next best shape, so whatever depended on the shape no longer holds.",
        remedy="Leave `role_hint` out, or say `system` or `developer`: those work on every route. Keep `user_block` and `ephemeral_cache` for code that only ever talks to Anthropic models.",
        example=in_python(
            """
            await session.remind("Policy excerpt for this turn.", ttl_turns=1, role_hint="user_block")
            await agent_loop("Fix the login bug", session=session, model="openai:gpt-5.6")
            """,
            """
            await session.remind("Policy excerpt for this turn.", ttl_turns=1, role_hint="developer")
            await agent_loop("Fix the login bug", session=session, model="openai:gpt-5.6")
            """,
        ),
    ),
    Diagnostic(
        code="HARN-RMD-004",
        title="Reminder that only a compaction ends",
        severity=Severity.WARNING,
        cause="Without `ttl_turns` the reminder stays in every request, and without `preserve_on_compact` it disappears when the conversation is compacted. How long it lives then depends on how much the agent happens to say, which is rarely meant.",
        remedy="A passing fact gets `ttl_turns`. A lasting one gets `preserve_on_compact=True`, and is cleared by its key when it no longer holds.",
        example=in_python(
            """
            await session.remind("src/auth.py changed on disk.", dedupe_key="file_changed:src/auth.py")
            """,
            """
            await session.remind("src/auth.py changed on disk.", dedupe_key="file_changed:src/auth.py", ttl_turns=2)
            """,
        ),
    ),
    Diagnostic(
        code="HARN-RMD-005",
        title="Unknown propagate value",
        severity=Severity.ERROR,
        cause="`propagate` says how far a reminder travels when work is handed to sub-agents, and there are three words for it. Any other is refused: guessing could keep a caution from a sub-agent, or hand it something that is none of its business.",
        remedy="Use `session` (the default) for direct sub-agents, `all` for every generation below, `none` to keep it in this session.",
        example=in_python(
            """
            inject_reminder(transcript, body="Tests need the database.", ttl_turns=3, propagate="children")
            """,
            """
            inject_reminder(transcript, body="Tests need the database.", ttl_turns=3, propagate="session")
            """,
        ),
    ),
    Diagnostic(
        code="HARN-RMD-006",
        title="Malformed result of a reminder provider",
        severity=Severity.ERROR,
        cause="A provider returned something that is not a reminder: no body, a blank one, or a field of the wrong type or range. That result is reported and left out; the other providers still run.",
        remedy='Return `None`, a reminder as a dict, `{"reminder": {...}}`, or a list of those. When there is nothing to say, return `None` and not an empty body.',
        example=in_python(
            """
            def evaluate(ctx):
                return {"body": "", "ttl_turns": 1}


            register_reminder_provider(id="workspace_guard", subscribes_to=["session_idle"], evaluate=evaluate)
            """,
            """
            def evaluate(ctx):
                return {"body": "The workspace was idle; files may have changed.", "ttl_turns": 1}


            register_reminder_provider(id="workspace_guard", subscribes_to=["session_idle"], evaluate=evaluate)
            """,
        ),
    ),
    Diagnostic(
        code="HARN-RMD-007",
        title="Too many reminder providers",
        severity=Severity.ERROR,
        cause="More than eight providers beside the canonical ones are enabled for one loop. Each may add text to every request, and a model that is told a dozen things at once follows none of them well.",
        remedy='Merge providers that speak about the same thing, or switch some off for this loop: `reminders={"providers": ["-name"]}`.',
        example=in_python(
            """
            agent_loop(task, reminders={"providers": ["git", "ci", "lint", "types", "tests", "deps", "todo", "db", "logs"]})
            """,
            """
            agent_loop(task, reminders={"providers": ["git", "ci", "checks", "tests", "deps", "todo", "db", "logs"]})
            """,
        ),
    ),
    Diagnostic(
        code="HARN-RMD-008",
        title="Reminder from a hook that may only watch",
        severity=Severity.ERROR,
        cause="Worker events tell what happens to another agent's run. There is no transcript of this session at hand that a reminder could be put into, so a hook on them observes and cannot add one.",
        remedy="Return the reminder from a session, tool, step or persona hook. To greet a worker that was resumed, register a provider for `worker_resumed`.",
        example=in_python(
            """
            def announce(event):
                return {"reminder": {"body": "A worker has finished; read its report.", "ttl_turns": 1}}


            register_session_hook("worker_completed", announce)
            """,
            """
            def announce(event):
                return {"reminder": {"body": "A worker has finished; read its report.", "ttl_turns": 1}}


            register_session_hook("post_agent_turn", announce)
            """,
        ),
    ),
)
