"""The commands in groups: the function of each, its line in the overview, and examples for its help."""

from typing import Final, NamedTuple


class Command(NamedTuple):
    """A command; `target` is the module and the function, and `examples` are shown at the end of its help.

    The function of a command that `has_subcommands` is a parser of its own.
    """

    target: str
    about: str
    examples: tuple[str, ...] = ()
    has_subcommands: bool = False

    @property
    def epilogue(self) -> str | None:
        """The end of its help, in Markdown; None if it has no examples."""
        lines = "\n".join(f"    {example}" for example in self.examples)
        return f"Examples:\n\n{lines}" if lines else None


GROUPS: Final = {
    "Tell a session something": {
        "remind": Command(
            "sideband.cli.remind:remind",
            "send a reminder to a session",
            (
                'sideband remind "The build is red." --key build --ttl 2',
                'sideband remind "Stop editing." --to fix-login --mode interrupt_immediate',
                "git status --short | sideband remind - --key git",
                'sideband remind "Deploy 7 has finished." --id deploy-7   # safe to repeat',
                'sideband remind "The build is red." --to http://127.0.0.1:8640#ID',
                'sideband remind "The build is red." --to "acp:sideband acp#ID"',
                'sideband remind "The build is red." --to a2a+http://127.0.0.1:8642#TASK',
            ),
        ),
        "inject": Command(
            "sideband.cli.inject:inject",
            "send a user message to a session",
            (
                'sideband inject "Use the new API instead."             # the running turn',
                'sideband inject "Then write the tests." --mode queue   # the next turn',
            ),
        ),
        "revoke": Command(
            "sideband.cli.revoke:revoke",
            "withdraw a queued reminder or message",
            ("sideband revoke deploy-7", "sideband revoke deploy-7 --to fix-login"),
        ),
        "clear": Command(
            "sideband.cli.clear:clear",
            "end queued and live reminders by key, tag or id",
            ("sideband clear --key build", "sideband clear --tag workspace --to fix-login"),
        ),
        "watch": Command(
            "sideband.cli.watch:watch",
            "tell a session what changes: files, tests, commands and Git",
            (
                "sideband watch --files . --git",
                'sideband watch --tests "pytest -q" --to fix-login',
                'sideband watch --command "cargo check" --transitions-only',
                'sideband watch --tests "npx jest" --junit junit.xml',
            ),
        ),
    },
    "Look into a session": {
        "pending": Command(
            "sideband.cli.pending:pending",
            "list what is queued for a session, and its live reminders",
            ("sideband pending", "sideband pending --to sqlite:///sideband.db#fix-login --json"),
        ),
        "transcript": Command(
            "sideband.cli.transcript:transcript",
            "print the conversation of a session, and what it was told on the side in each turn",
            ("sideband transcript | less", "sideband transcript --to fix-login --json"),
        ),
        "timeline": Command(
            "sideband.cli.timeline:timeline",
            "draw the turns of a session, and when each reminder was queued, shown and ended",
            ("sideband timeline", "sideband timeline --to http://127.0.0.1:8640#fix-login --width 160"),
        ),
        "render": Command(
            "sideband.cli.render:render",
            "show the exact request that a session sent or a model would get, part by part",
            (
                "sideband render --to fix-login --turn 3",
                "sideband render --to fix-login --next",
                "sideband render examples/render/tool_loop.json --wire gemini",
            ),
        ),
        "events": Command(
            "sideband.cli.events:events",
            "show, follow or export the events of a session or a store",
            (
                "sideband events --to fix-login --kind transcript.reminder.fired",
                "sideband events --all --follow --json",
                "sideband events --all --export events.jsonl",
            ),
        ),
    },
    "Serve": {
        "serve": Command(
            "sideband.cli.serve:serve",
            "show sessions on a page, and serve them over HTTP, ACP and A2A",
            (
                "sideband serve --rehearsal",
                "sideband serve --model anthropic:claude-opus-5-5 --workspace .",
                "sideband serve --store postgresql://host/name --port 0 --no-open",
            ),
        ),
        "open": Command(
            "sideband.cli.open:open_page",
            "open the page of a running server in a browser",
            ("sideband open", "sideband open http://127.0.0.1:8641 --print"),
        ),
        "acp": Command(
            "sideband.cli.acp:acp",
            "be an agent that an editor talks to, over ACP",
            ("sideband acp --model anthropic:claude-opus-5-5", "SIDEBAND_MODEL=local: sideband acp"),
        ),
        "acp-proxy": Command(
            "sideband.cli.acp_proxy:acp_proxy",
            "stand between an editor and an ACP agent, and hand reminders to it",
            (
                "sideband acp-proxy -- claude-agent-acp",
                "sideband acp-proxy --name codex -- npx @agentclientprotocol/codex-acp",
            ),
        ),
        "a2a": Command(
            "sideband.cli.a2a:a2a",
            "be an agent that other agents give tasks to, over A2A",
            (
                "sideband a2a --model anthropic:claude-opus-5-5 --workspace .",
                "sideband a2a --model local: --port 0",
                "sideband a2a --host 192.0.2.7 --peers peers.toml --model openai:gpt-5.6",
            ),
        ),
        "mcp": Command(
            "sideband.cli.mcp:mcp",
            "be an MCP server that tells its clients about files, commands, tests or a Git repository",
            (
                "sideband mcp watch-files src",
                "sideband mcp watch-command --name build -- make build",
                "sideband mcp watch-tests -- pytest -q",
                "sideband mcp watch-git --http 127.0.0.1:8931",
            ),
            has_subcommands=True,
        ),
    },
    "Look after a store": {
        "sessions": Command(
            "sideband.cli.sessions:sessions",
            "list the sessions of a store",
            (
                "sideband sessions",
                "sideband sessions --store sqlite:///sideband.db --json",
                "sideband sessions --to http://127.0.0.1:8640",
            ),
        ),
        "facts": Command(
            "sideband.cli.facts:facts",
            "list, add and remove the facts of a store, which agents recall",
            (
                "sideband facts",
                'sideband facts --query "login"',
                'sideband facts add decision "Releases are cut on Tuesdays." --confidence 0.9',
                "sideband facts remove fact_a9a7fb5e4222fabd348c64058d6b2fb7",
            ),
            has_subcommands=True,
        ),
        "doctor": Command(
            "sideband.cli.doctor:doctor",
            "check this installation, or with --verify a store",
            ("sideband doctor", "sideband doctor --verify --store sqlite:///sideband.db"),
        ),
    },
    "Develop": {
        "demo": Command("sideband.cli.demo:demo", "demonstrate the lifecycle of reminders in a scripted session"),
        "explain": Command(
            "sideband.cli.explain:explain",
            "explain a diagnostic code, or list them all",
            ("sideband explain HARN-RMD-004", "sideband explain too_many_pending"),
        ),
        "lint": Command(
            "sideband.cli.lint:lint",
            "find mistakes in reminders in Python, JSON and TOML files",
            ("sideband lint src", "sideband lint --format sarif src > findings.sarif"),
        ),
        "profiles": Command(
            "sideband.cli.profiles:profiles",
            "show the profiles of models, and how reminders are placed for each",
            ("sideband profiles anthropic:claude-opus-5-5",),
        ),
        "schema": Command(
            "sideband.cli.schema:schema",
            "print or write the JSON Schemas and TypeScript types of all protocol messages",
            ("sideband schema mcp/reminder", "sideband schema --out spec/protocol-artifacts --check"),
        ),
    },
}

COMMANDS: Final = {name: command for group in GROUPS.values() for name, command in group.items()}
