"""The diagnostics: one table of codes, for errors, `sideband explain`, `sideband lint` and the documentation."""

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final

from sideband.core.error_codes import FACTS, RAISED
from sideband.core.explanation import Diagnostic, Severity, in_json, in_python, in_toml

# Mistakes in the use of reminders.
FAMILY: Final = (
    Diagnostic(
        code="HARN-RMD-001",
        names=("UnknownOption", "unknown_option", "InvalidOption", "invalid_option"),
        title="Unknown option, or an invalid value",
        severity=Severity.ERROR,
        cause="The call or payload has an option that does not exist here, or an option has a value of the wrong type or range: a blank body, a TTL below 1, an unknown role hint or event, or a clear without a selector. Unknown options are refused and not ignored: if a misspelt `ttl_turns` were ignored, the reminder would live longer than its author expects.",
        remedy="Use the options `body`, `tags`, `dedupe_key`, `ttl_turns`, `preserve_on_compact`, `propagate` and `role_hint`. `Session.remind` and the protocols (ACP, A2A, HTTP) also have `mode`. Python uses snake_case names, the protocols use camelCase. In Python, `id`, `source` and the turn are set by the session and cannot be passed.",
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
        names=("InvalidReminder", "invalid_reminder"),
        title="Invalid reminder in a protocol message",
        severity=Severity.ERROR,
        cause="A message that came over ACP, A2A, MCP or HTTP has a field of the wrong type or range, repeats a key, has no body, or has `content`, which belongs to user messages. A request gets an error as its response and changes nothing; a notification is recorded as dropped.",
        remedy="Send `body` as a string that is not blank, `ttlTurns` as a whole number of at least 1, `tags` as a list of strings, and every key once. An MCP notification also needs an `id`. Put data of your own under `_meta`.",
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
        title="Role hint that the model does not support",
        severity=Severity.WARNING,
        cause="The reminder has the role hint `user_block` or `ephemeral_cache`, and the model that will get it has no such place in its requests. The reminder is delivered in the next best form, so code or prompts that depend on the requested form do not work.",
        remedy="Leave `role_hint` out, or use `system` or `developer`, which work with every model. Use `user_block` and `ephemeral_cache` only in code that always uses Anthropic models.",
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
        title="Reminder that lives until the next compaction",
        severity=Severity.WARNING,
        cause="Without `ttl_turns` the reminder stays in every request, and without `preserve_on_compact` it disappears when the conversation is compacted. How long it lives then depends on the length of the conversation, which is rarely intended.",
        remedy="Give a temporary fact `ttl_turns`. Give a lasting fact `preserve_on_compact=True` and a `dedupe_key`, and clear it by that key when it is no longer true.",
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
        names=("UnknownPropagate", "unknown_propagate"),
        title="Unknown propagate value",
        severity=Severity.ERROR,
        cause="`propagate` decides which sub-agents get a copy of a reminder, and it has three values. Any other value is refused, because a wrong guess could withhold a warning from a sub-agent, or pass on something that it should not see.",
        remedy="Use `session` (the default) for direct sub-agents, `all` for sub-agents at every level, or `none` to keep the reminder in this session.",
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
        names=("MalformedProviderResult", "malformed_provider_result"),
        title="Invalid result of a reminder provider",
        severity=Severity.ERROR,
        cause="A provider returned something that is not a reminder: the body is missing or blank, or a field has the wrong type or range. The result is reported and ignored; the other providers still run.",
        remedy='Return `None`, a reminder as a dict, `{"reminder": {...}}`, or a list of these. If there is nothing to report, return `None` and not an empty body.',
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
        names=("TooManyProviders", "too_many_providers"),
        title="Too many reminder providers",
        severity=Severity.ERROR,
        cause="More than eight providers are enabled for one loop, not counting the canonical ones. Each provider may add text to every request, and models follow many reminders at once poorly.",
        remedy='Merge providers that report on the same subject, or disable some for this loop: `reminders={"providers": ["-name"]}`.',
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
        names=("UnsupportedHookEvent", "unsupported_hook_event"),
        title="Reminder from a hook on a worker event",
        severity=Severity.ERROR,
        cause="Worker events report on the run of another agent. A hook on such an event only observes it.",
        remedy="Return the reminder from a session, tool, step or persona hook. To add a reminder to a worker that resumes, register a provider for `worker_resumed`.",
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

# What only `sideband lint` reports.
ADVICE: Final = (
    Diagnostic(
        code="SIDEBAND-100",
        title="File that cannot be parsed",
        severity=Severity.ERROR,
        cause="The file mentions reminders, or was named on the command line, but it is not valid Python, JSON or TOML, or it is too large or too deeply nested. It was not checked.",
        remedy="Correct the syntax error at the reported line. If the file is invalid on purpose, leave it out of the paths to check.",
        example=in_json(
            """
            {"reminder": {"body": "The build is red.", "ttl_turns": 1,}}
            """,
            """
            {"reminder": {"body": "The build is red.", "ttl_turns": 1}}
            """,
        ),
    ),
    Diagnostic(
        code="SIDEBAND-101",
        title="Body that asks the model for secrecy",
        severity=Severity.ADVICE,
        cause="The text tells the model to hide something from the user. Models treat such text as an attack and warn about it, and users who find it stop trusting the agent.",
        remedy="State the fact without the instruction. Do not send the model anything that the user must not see.",
        example=in_python(
            """
            await session.remind("The todo list is empty. Never mention this to the user.", ttl_turns=1)
            """,
            """
            await session.remind("The todo list is empty.", ttl_turns=1)
            """,
        ),
    ),
    Diagnostic(
        code="SIDEBAND-102",
        title="Body with a value that changes every time",
        severity=Severity.ADVICE,
        cause="A clock time, a timestamp or a random id makes every body different. Sideband cannot recognise a repetition, and text that stays in the history makes the prompt cache useless.",
        remedy="Say what happened and not when, or relate it to the conversation (since your last edit). A generated id contains the time. Put identifiers into `dedupe_key`.",
        example=in_python(
            """
            await session.remind(f"{datetime.now()}: the build is red.", ttl_turns=1)
            """,
            """
            await session.remind("The build has been red since your last edit.", ttl_turns=1)
            """,
        ),
    ),
    Diagnostic(
        code="SIDEBAND-103",
        title="Body that contains its own framing",
        severity=Severity.ADVICE,
        cause="The body contains a `<system-reminder>` tag or a `System reminder:` line. The renderer adds the frame that the model needs and neutralises frames inside the body, so the model reads a damaged frame inside another one.",
        remedy="Write the sentence without a frame. Use `role_hint` to ask for a certain frame.",
        example=in_toml(
            """
            [[reminder]]
            body = "<system-reminder>Tests need the database.</system-reminder>"
            ttl_turns = 3
            """,
            """
            [[reminder]]
            body = "Tests need the database."
            ttl_turns = 3
            """,
        ),
    ),
    Diagnostic(
        code="SIDEBAND-104",
        title="Reminder for all sub-agents without a TTL",
        severity=Severity.ADVICE,
        cause="`propagate: all` copies the reminder to sub-agents at every level, and without `ttl_turns` the copies never expire. Clearing the reminder in the parent does not clear copies that sub-agents already have.",
        remedy="Add `ttl_turns`, or use `propagate: session` to copy it to direct sub-agents only.",
        example=in_python(
            """
            await session.remind("Patches stay small.", propagate="all", preserve_on_compact=True)
            """,
            """
            await session.remind("Patches stay small.", propagate="all", preserve_on_compact=True, ttl_turns=20)
            """,
        ),
    ),
    Diagnostic(
        code="SIDEBAND-105",
        title="Field that is ignored",
        severity=Severity.ADVICE,
        cause="`transcript_reminder_event` replaces an invalid value by the default, and `notifications/reminder` ignores unknown keys. Neither reports an error, so the mistake is easy to miss.",
        remedy="Correct the name or the value, or remove the field.",
        example=in_json(
            """
            {"jsonrpc": "2.0", "method": "notifications/reminder",
             "params": {"reminder": {"id": "r-1", "body": "cargo check passed.", "ttl_turns": 1}}}
            """,
            """
            {"jsonrpc": "2.0", "method": "notifications/reminder",
             "params": {"reminder": {"id": "r-1", "body": "cargo check passed.", "ttlTurns": 1}}}
            """,
        ),
    ),
    Diagnostic(
        code="SIDEBAND-106",
        names=("BodyTooLarge", "body_too_large"),
        title="Body or message that is too large",
        severity=Severity.ERROR,
        cause="The body of a reminder or the content of a message has more bytes than its sender may send. A body may have 8 KiB of UTF-8 if it comes from this process or the session's client, and 1 KiB if it comes from another agent or an MCP server, unless the operator has raised the limit.",
        remedy="Send a reference instead of the content: name the file or the command, and the agent can read it with its tools. In your own store, raise body_bytes or content_bytes of its Limits.",
        example=in_python(
            """
            await session.remind("error: connection refused; " * 400, ttl_turns=1)
            """,
            """
            await session.remind("The build failed; its log is in build/last.log.", ttl_turns=1)
            """,
        ),
    ),
    Diagnostic(
        code="SIDEBAND-108",
        title="Hook that returns a value without effect",
        severity=Severity.ADVICE,
        cause="The hook returned something that is neither a reminder nor an action. It is ignored and reported once per hook, because the author probably expected an effect.",
        remedy='Return `None`, a reminder as a dict, `{"reminder": {...}, "then": {...}}`, `{"effects": [...]}` or a list of reminders. In a tool hook, write an action as `{"then": {"deny": "reason"}}`.',
        example=in_python(
            """
            def after_edit(event):
                return "Run the tests."


            register_session_hook("file_edited", after_edit)
            """,
            """
            def after_edit(event):
                return {"body": "Run the tests.", "ttl_turns": 1}


            register_session_hook("file_edited", after_edit)
            """,
        ),
    ),
)

# What only a running session reports.
AT_RUN_TIME: Final = (
    Diagnostic(
        code="SIDEBAND-107",
        title="Automatic prompt caching was not used for a request",
        severity=Severity.ADVICE,
        cause="With automatic caching, the provider places the cache breakpoint after the last block and searches only 20 blocks back for the previous one. If the request has text that does not stay in the conversation, or 20 or more new blocks, the provider would write the whole prompt to the cache again in every turn.",
        remedy='Let Sideband place the breakpoints: set `cache = "explicit"` in the profile of the model.',
        example=in_toml(
            """
            [[profile]]
            transport = "anthropic"
            model = "claude"
            cache = "implicit"
            """,
            """
            [[profile]]
            transport = "anthropic"
            model = "claude"
            cache = "explicit"
            """,
        ),
    ),
    Diagnostic(
        code="SIDEBAND-109",
        title="Content that the model does not take",
        severity=Severity.ADVICE,
        cause="A user message has an image, a document or audio, and the profile of the model does not name its media type, or the model cannot take it at this place. The request says in its place that it was left out.",
        remedy="Use a model that takes it. If the server takes it, say so in `media` of a profile row of your own.",
        example=in_toml(
            """
            [[profile]]
            transport = "openai-compatible"
            model = "qwen3-vl"
            """,
            """
            [[profile]]
            transport = "openai-compatible"
            model = "qwen3-vl"
            content_parts = true
            media = ["image/png", "image/jpeg"]
            """,
        ),
    ),
)


DIAGNOSTICS: Final[Mapping[str, Diagnostic]] = MappingProxyType(
    {entry.code: entry for entry in (*FAMILY, *FACTS, *ADVICE, *AT_RUN_TIME, *RAISED)}
)

# The names of errors and the reasons that protocols send, in lower case, with the code that explains them.
NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {name.lower(): entry.code for entry in DIAGNOSTICS.values() for name in entry.names}
)


class UnknownDiagnostic(LookupError):
    """No diagnostic has this code; `near` lists similar codes and may be empty."""

    def __init__(self, code: str, near: tuple[str, ...]) -> None:
        hint = f"did you mean {' or '.join(near)}?" if near else "`sideband explain` lists all of them"
        super().__init__(f"there is no diagnostic {code!a}; {hint}")
        self.code = code
        self.near = near


def diagnostic(code: str) -> Diagnostic:
    """The entry for a code, in upper or lower case, with or without its prefix: `rmd-004`, `004` and `4` are the same.

    An error is also found by the name of its class and by its `reason`.
    """
    wanted = NAMES.get(code.strip().lower(), code.strip().upper())
    wanted = wanted.zfill(3) if wanted.isdecimal() else wanted
    for known, entry in DIAGNOSTICS.items():
        if known == wanted or known.endswith(f"-{wanted}"):
            return entry
    raise UnknownDiagnostic(code, _near(wanted))


def _near(wanted: str) -> tuple[str, ...]:
    titled = tuple(known for known, entry in DIAGNOSTICS.items() if wanted and wanted in entry.title.upper())
    near = titled or tuple(get_close_matches(wanted, DIAGNOSTICS, n=3, cutoff=0.75))
    return near or tuple(get_close_matches(wanted.lower(), NAMES, n=1, cutoff=0.75))
