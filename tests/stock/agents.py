"""The stock agents: how each is started on the model of the test, and how its requests are told apart."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.programs import ROOT
from tests.stock.model import Purpose, Request
from tests.stock.wires import ANTHROPIC, CHAT, GEMINI, RESPONSES, Kind, Wire

# Where `make test-stock` installs them.
BIN: Final = ROOT / "build" / "stock" / "node_modules" / ".bin"

# How the last texts of requests begin that have the whole conversation and are not part of it.
_ASIDES: Final = ("[SUGGESTION MODE", "Managed memory has")
_SUMMARIES: Final = ("CRITICAL: Respond with TEXT ONLY", "You are performing a CONTEXT CHECKPOINT COMPACTION")


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where an agent runs: a home directory and a working directory of its own, and the address of its model."""

    home: Path
    directory: Path
    model_url: str


@dataclass(frozen=True, kw_only=True)
class Agent:
    """A stock agent.

    `environment` and `files` connect it to the model; files are relative to the home directory. `auth_method` is the
    method that it has to be authenticated with (None: it needs none). `shell_tool` is its tool that runs a command, and
    `shell_arguments` makes the arguments of that tool. `steers` says whether it takes `_session/steering`.
    `before_load` prepares the home directory for a new process that loads a session of an earlier one.
    """

    name: str
    command: tuple[str, ...]
    wire: Wire
    shell_tool: str
    shell_arguments: Callable[[str], Mapping[str, Any]]
    environment: Callable[[Place], Mapping[str, str]]
    files: Callable[[Place], Mapping[str, str]] = field(default=lambda _place: {})
    auth_method: str | None = None
    steers: bool = False
    before_load: Callable[[Path], None] = field(default=lambda _home: None)

    def purpose_of(self, request: Request) -> Purpose:
        """What a request is for. Requests of the conversation have the shell tool, but some others have it too."""
        said = [part.text for part in request.parts if part.role == "user" and part.kind is Kind.TEXT]
        if said[-1].startswith(_SUMMARIES):
            return Purpose.SUMMARY
        if self.shell_tool not in request.wire.tools(request.body) or said[-1].startswith(_ASIDES):
            return Purpose.ASIDE
        return Purpose.CONVERSATION

    def call(self, command: str) -> tuple[str, Mapping[str, Any]]:
        """The tool call that runs a command."""
        return self.shell_tool, self.shell_arguments(command)


def _described(command: str) -> Mapping[str, Any]:
    return {"command": command, "description": "Runs the command of the test"}


def _codex_config(place: Place) -> Mapping[str, str]:
    config = f"""
model = "gpt-5.1-codex"
model_provider = "fake"
approval_policy = "never"
sandbox_mode = "danger-full-access"

[model_providers.fake]
name = "fake"
base_url = "{place.model_url}/v1"
wire_api = "responses"
env_key = "FAKE_KEY"
supports_websockets = false

[projects."{place.directory}"]
trust_level = "trusted"
"""
    return {".codex/config.toml": config}


def _gemini_settings(_place: Place) -> Mapping[str, str]:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "telemetry": {"enabled": False},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False},
    }
    return {".gemini/settings.json": json.dumps(settings)}


def _age_gemini_sessions(home: Path) -> None:
    """Gemini names the file of a session by the minute, and a process that loads it in the same minute overwrites it."""
    for file in home.glob(".gemini/tmp/*/chats/session-*.jsonl"):
        file.rename(file.with_name(f"session-2026-01-01T00-00-{file.stem.rpartition('-')[2]}{file.suffix}"))


def _qwen_settings(_place: Place) -> Mapping[str, str]:
    # Otherwise it asks the model whether a command is safe.
    return {".qwen/settings.json": json.dumps({"tools": {"approvalMode": "default"}})}


def _opencode_config(place: Place) -> Mapping[str, str]:
    config = {
        "model": "fake/model",
        "small_model": "fake/model",
        "autoupdate": False,
        "share": "disabled",
        "provider": {
            "fake": {
                "npm": "@ai-sdk/openai-compatible",
                "options": {"baseURL": f"{place.model_url}/v1", "apiKey": "fake"},
                "models": {"model": {"limit": {"context": 200_000, "output": 8_192}}},
            }
        },
    }
    return {".config/opencode/opencode.json": json.dumps(config)}


AGENTS: Final = (
    Agent(
        name="claude",
        command=("claude-agent-acp",),
        wire=ANTHROPIC,
        shell_tool="Bash",
        shell_arguments=_described,
        environment=lambda place: {
            "ANTHROPIC_BASE_URL": place.model_url,
            "ANTHROPIC_AUTH_TOKEN": "fake",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
        steers=True,
    ),
    Agent(
        name="codex",
        command=("codex-acp",),
        wire=RESPONSES,
        shell_tool="exec_command",
        shell_arguments=lambda command: {"cmd": command},
        environment=lambda _place: {"FAKE_KEY": "fake"},
        files=_codex_config,
        steers=True,
    ),
    Agent(
        name="opencode",
        command=("opencode", "acp"),
        wire=CHAT,
        shell_tool="bash",
        shell_arguments=_described,
        environment=lambda _place: {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"},
        files=_opencode_config,
    ),
    Agent(
        name="gemini",
        command=("gemini", "--acp"),
        wire=GEMINI,
        shell_tool="run_shell_command",
        shell_arguments=_described,
        environment=lambda place: {
            "GEMINI_API_KEY": "fake",
            "GOOGLE_GEMINI_BASE_URL": place.model_url,
            "GEMINI_MODEL": "gemini-2.5-flash",
        },
        files=_gemini_settings,
        auth_method="gemini-api-key",
        before_load=_age_gemini_sessions,
    ),
    Agent(
        name="qwen",
        command=("qwen", "--acp"),
        wire=CHAT,
        shell_tool="run_shell_command",
        shell_arguments=_described,
        environment=lambda place: {
            "OPENAI_API_KEY": "fake",
            "OPENAI_BASE_URL": f"{place.model_url}/v1",
            "OPENAI_MODEL": "model",
        },
        files=_qwen_settings,
        auth_method="openai",
    ),
)
