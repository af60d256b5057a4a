"""What one line of the requirements manifest is: a rule, where it comes from, and what it waits for."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

import msgspec

# The five documents the product implements, by the short names the entries use.
DOCUMENTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "guide": "System reminders, the user guide",
        "acp-rfc": "ACP RFC: session/inject_reminder and SessionUpdate::ReminderEmitted",
        "a2a-rfc": "A2A RFC: ambient reminder injection for peer agents",
        "mcp-rfc": "MCP RFC: notifications/reminder, ambient context from server to host",
        "inject-rfd": "ACP RFD: mid-turn input via session/inject (queue and steer)",
        "ours": "no document says it: decided by this project",
    }
)


class Source(StrEnum):
    """The document and the section or topic a rule is taken from."""

    GUIDE_SPEC = "guide: ReminderSpec shape"
    GUIDE_PIPELINE = "guide: From a pipeline"
    GUIDE_HOOK = "guide: From a hook"
    GUIDE_PROVIDER = "guide: From a provider"
    GUIDE_BRIDGE = "guide: From a host bridge"
    GUIDE_CANONICAL = "guide: Canonical stdlib providers"
    GUIDE_RENDERING = "guide: Capability-aware rendering"
    GUIDE_COMPACTION = "guide: Compaction interaction"
    GUIDE_PROPAGATION = "guide: Sub-agent propagation"
    GUIDE_DIAGNOSTICS = "guide: Diagnostic codes"
    GUIDE_EVENTS = "guide: EventLog events"
    GUIDE_COOKBOOK = "guide: Cookbook"
    ACP_INJECT = "acp-rfc: session/inject_reminder"
    ACP_UPDATES = "acp-rfc: SessionUpdate::ReminderEmitted"
    ACP_CAPABILITY = "acp-rfc: Capability negotiation"
    ACP_MIGRATION = "acp-rfc: Compatibility and migration"
    ACP_QUESTIONS = "acp-rfc: Open questions"
    A2A_INJECT = "a2a-rfc: tasks/inject_reminder"
    A2A_STREAM = "a2a-rfc: Streaming notification"
    A2A_CARD = "a2a-rfc: Agent card capability"
    A2A_MIGRATION = "a2a-rfc: Compatibility and migration"
    A2A_REFERENCE = "a2a-rfc: Reference implementation status"
    MCP_NOTIFICATION = "mcp-rfc: notifications/reminder"
    MCP_CAPABILITY = "mcp-rfc: Server capability advertisement"
    MCP_WATCHERS = "mcp-rfc: Positioning vs file-watcher / build-watcher use cases"
    MCP_MIGRATION = "mcp-rfc: Compatibility and migration"
    RFD_SUMMARY = "inject-rfd: Summary"
    RFD_SEMANTICS = "inject-rfd: Semantics"
    RFD_PENDING = "inject-rfd: Pending injects"
    RFD_IN_FLIGHT = "inject-rfd: Interaction with other in-flight requests"
    RFD_CAPABILITY = "inject-rfd: Capability shape"
    RFD_ERRORS = "inject-rfd: Error codes"
    OURS = "ours"


class Part(StrEnum):
    """A part of the system that rules wait for until it is built."""

    GUEST = "the guest"


class Requirement(msgspec.Struct, frozen=True, kw_only=True):
    """One behaviour.

    `divergence` is the reason for departing from the document named in `source`; None means that we follow it.
    `deferred` names the part of the system the rule waits for; None means that a test proves it today.
    """

    id: str
    source: Source
    text: str
    divergence: str | None = None
    deferred: Part | None = None

    @property
    def area(self) -> str:
        return self.id.partition(":")[0]


Rules = tuple[Requirement, ...]


def rules(source: Source, texts: Mapping[str, str]) -> Rules:
    """One requirement per row of `texts`, which maps ids to sentences."""
    return tuple(Requirement(id=identifier, source=source, text=text) for identifier, text in texts.items())


def divergence(source: Source, identifier: str, text: str, *, reason: str) -> Rules:
    """The rule we follow instead of what `source` says there."""
    return (Requirement(id=identifier, source=source, text=text, divergence=reason),)


def waiting(*groups: Rules, deferred: Part) -> Rules:
    """The same rules, put off until `deferred` is built."""
    return tuple(msgspec.structs.replace(rule, deferred=deferred) for group in groups for rule in group)
