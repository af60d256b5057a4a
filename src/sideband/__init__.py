"""Sideband: the ambient-context layer for AI agents.

Typed, short-lived facts for a running agent, which the user did not type: a file changed, the build is red, the
context is nearly full. Names are loaded when first used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from sideband.core.errors import CursorExpired as CursorExpired
    from sideband.core.errors import CursorLost as CursorLost
    from sideband.core.errors import InvalidOption as InvalidOption
    from sideband.core.errors import LeaseLost as LeaseLost
    from sideband.core.errors import OutcomeUnknown as OutcomeUnknown
    from sideband.core.errors import ReminderError as ReminderError
    from sideband.core.errors import SessionBusy as SessionBusy
    from sideband.core.errors import StoreClosed as StoreClosed
    from sideband.core.errors import StoreDamaged as StoreDamaged
    from sideband.core.errors import StoreError as StoreError
    from sideband.core.errors import StoreNewer as StoreNewer
    from sideband.core.errors import StoreUnavailable as StoreUnavailable
    from sideband.core.events import Closing as Closing
    from sideband.core.events import Usage as Usage
    from sideband.core.limits import Limits as Limits
    from sideband.core.limits import Rate as Rate
    from sideband.core.messages import Reply as Reply
    from sideband.core.messages import ToolCall as ToolCall
    from sideband.core.messages import ToolStatus as ToolStatus
    from sideband.core.propagation import Handoff as Handoff
    from sideband.core.reminder import Propagate as Propagate
    from sideband.core.reminder import Reminder as Reminder
    from sideband.core.reminder import ReminderSpec as ReminderSpec
    from sideband.core.reminder import RemindOptions as RemindOptions
    from sideband.core.reminder import RoleHint as RoleHint
    from sideband.core.reminder import Source as Source
    from sideband.core.seams import Mode as Mode
    from sideband.core.seams import Seam as Seam
    from sideband.core.surfaces import Surface as Surface
    from sideband.core.topic import TopicRecord as TopicRecord
    from sideband.core.transcript import Transcript as Transcript
    from sideband.core.transcript import TranscriptEvent as TranscriptEvent
    from sideband.core.trust import Provenance as Provenance
    from sideband.core.trust import Trust as Trust
    from sideband.core.updates import Update as Update
    from sideband.core.updates import UpdateKind as UpdateKind
    from sideband.core.updates import Viewer as Viewer
    from sideband.loop.agent import AgentRun as AgentRun
    from sideband.loop.guard import Problem as Problem
    from sideband.loop.receipts import ToolCallReceipt as ToolCallReceipt
    from sideband.loop.receipts import with_audit_log as with_audit_log
    from sideband.loop.run import LoopEvent as LoopEvent
    from sideband.loop.run import LoopResult as LoopResult
    from sideband.loop.run import LoopStatus as LoopStatus
    from sideband.ports import Model as Model
    from sideband.ports import ModelError as ModelError
    from sideband.ports import Permission as Permission
    from sideband.ports import SessionEntry as SessionEntry
    from sideband.ports import Tool as Tool
    from sideband.ports import ToolContext as ToolContext
    from sideband.ports import ToolOutput as ToolOutput
    from sideband.providers.context import MountedRoot as MountedRoot
    from sideband.providers.context import ProviderContext as ProviderContext
    from sideband.providers.context import WorkspaceAnchor as WorkspaceAnchor
    from sideband.recall.facts import Fact as Fact
    from sideband.recall.facts import FactBook as FactBook
    from sideband.recall.facts import FactError as FactError
    from sideband.runtime.agents import agent_loop as agent_loop
    from sideband.runtime.agents import agent_run as agent_run
    from sideband.runtime.agents import llm_call as llm_call
    from sideband.runtime.chat import Chat as Chat
    from sideband.runtime.chat import ChatReply as ChatReply
    from sideband.runtime.eventlog import EventLog as EventLog
    from sideband.runtime.facts import recall_facts as recall_facts
    from sideband.runtime.facts import store_fact as store_fact
    from sideband.runtime.options import AgentOptions as AgentOptions
    from sideband.runtime.options import RemindersOption as RemindersOption
    from sideband.runtime.producer import Accepted as Accepted
    from sideband.runtime.producer import Producer as Producer
    from sideband.runtime.registries import clear_hooks as clear_hooks
    from sideband.runtime.registries import clear_reminder_providers as clear_reminder_providers
    from sideband.runtime.registries import register_persona_hook as register_persona_hook
    from sideband.runtime.registries import register_reminder_provider as register_reminder_provider
    from sideband.runtime.registries import register_session_hook as register_session_hook
    from sideband.runtime.registries import register_step_hook as register_step_hook
    from sideband.runtime.registries import register_tool_hook as register_tool_hook
    from sideband.runtime.requests import render_request as render_request
    from sideband.runtime.runner import Outcome as Outcome
    from sideband.runtime.runner import Runner as Runner
    from sideband.runtime.runner import TurnStatus as TurnStatus
    from sideband.runtime.session import Session as Session
    from sideband.runtime.store import SessionPage as SessionPage
    from sideband.runtime.store import Store as Store
    from sideband.runtime.store import open_store as open_store
    from sideband.runtime.transcripts import clear_reminders as clear_reminders
    from sideband.runtime.transcripts import end_turn as end_turn
    from sideband.runtime.transcripts import inject_reminder as inject_reminder
    from sideband.runtime.transcripts import propagate as propagate
    from sideband.runtime.transcripts import transcript_compact as transcript_compact
    from sideband.runtime.transcripts import transcript_reminder_event as transcript_reminder_event
    from sideband.runtime.workers import ResumeCause as ResumeCause
    from sideband.runtime.workers import Resumption as Resumption
    from sideband.runtime.workers import Worker as Worker
    from sideband.runtime.workers import WorkerPhase as WorkerPhase
    from sideband.runtime.workers import WrongPhase as WrongPhase
    from sideband.runtime.workers import find_worker as find_worker
    from sideband.runtime.workers import spawn as spawn
    from sideband.tools.function import tool as tool
    from sideband.tools.workspace import workspace_tools as workspace_tools

_HOMES = {
    "Accepted": "sideband.runtime.producer",
    "AgentOptions": "sideband.runtime.options",
    "AgentRun": "sideband.loop.agent",
    "Chat": "sideband.runtime.chat",
    "ChatReply": "sideband.runtime.chat",
    "Closing": "sideband.core.events",
    "CursorExpired": "sideband.core.errors",
    "CursorLost": "sideband.core.errors",
    "EventLog": "sideband.runtime.eventlog",
    "Fact": "sideband.recall.facts",
    "FactBook": "sideband.recall.facts",
    "FactError": "sideband.recall.facts",
    "Handoff": "sideband.core.propagation",
    "InvalidOption": "sideband.core.errors",
    "LeaseLost": "sideband.core.errors",
    "Limits": "sideband.core.limits",
    "LoopEvent": "sideband.loop.run",
    "LoopResult": "sideband.loop.run",
    "LoopStatus": "sideband.loop.run",
    "Mode": "sideband.core.seams",
    "Model": "sideband.ports",
    "ModelError": "sideband.ports",
    "MountedRoot": "sideband.providers.context",
    "Outcome": "sideband.runtime.runner",
    "OutcomeUnknown": "sideband.core.errors",
    "Permission": "sideband.ports",
    "Problem": "sideband.loop.guard",
    "Producer": "sideband.runtime.producer",
    "Propagate": "sideband.core.reminder",
    "Provenance": "sideband.core.trust",
    "ProviderContext": "sideband.providers.context",
    "Rate": "sideband.core.limits",
    "RemindOptions": "sideband.core.reminder",
    "Reminder": "sideband.core.reminder",
    "ReminderError": "sideband.core.errors",
    "ReminderSpec": "sideband.core.reminder",
    "RemindersOption": "sideband.runtime.options",
    "Reply": "sideband.core.messages",
    "ResumeCause": "sideband.runtime.workers",
    "Resumption": "sideband.runtime.workers",
    "RoleHint": "sideband.core.reminder",
    "Runner": "sideband.runtime.runner",
    "Seam": "sideband.core.seams",
    "Session": "sideband.runtime.session",
    "SessionBusy": "sideband.core.errors",
    "SessionEntry": "sideband.ports",
    "SessionPage": "sideband.runtime.store",
    "Source": "sideband.core.reminder",
    "Store": "sideband.runtime.store",
    "StoreClosed": "sideband.core.errors",
    "StoreDamaged": "sideband.core.errors",
    "StoreError": "sideband.core.errors",
    "StoreNewer": "sideband.core.errors",
    "StoreUnavailable": "sideband.core.errors",
    "Surface": "sideband.core.surfaces",
    "Tool": "sideband.ports",
    "ToolCall": "sideband.core.messages",
    "ToolCallReceipt": "sideband.loop.receipts",
    "ToolContext": "sideband.ports",
    "ToolOutput": "sideband.ports",
    "ToolStatus": "sideband.core.messages",
    "TopicRecord": "sideband.core.topic",
    "Transcript": "sideband.core.transcript",
    "TranscriptEvent": "sideband.core.transcript",
    "Trust": "sideband.core.trust",
    "TurnStatus": "sideband.runtime.runner",
    "Update": "sideband.core.updates",
    "UpdateKind": "sideband.core.updates",
    "Usage": "sideband.core.events",
    "Viewer": "sideband.core.updates",
    "Worker": "sideband.runtime.workers",
    "WorkerPhase": "sideband.runtime.workers",
    "WorkspaceAnchor": "sideband.providers.context",
    "WrongPhase": "sideband.runtime.workers",
    "agent_loop": "sideband.runtime.agents",
    "agent_run": "sideband.runtime.agents",
    "clear_hooks": "sideband.runtime.registries",
    "clear_reminder_providers": "sideband.runtime.registries",
    "clear_reminders": "sideband.runtime.transcripts",
    "end_turn": "sideband.runtime.transcripts",
    "find_worker": "sideband.runtime.workers",
    "inject_reminder": "sideband.runtime.transcripts",
    "llm_call": "sideband.runtime.agents",
    "open_store": "sideband.runtime.store",
    "propagate": "sideband.runtime.transcripts",
    "recall_facts": "sideband.runtime.facts",
    "register_persona_hook": "sideband.runtime.registries",
    "register_reminder_provider": "sideband.runtime.registries",
    "register_session_hook": "sideband.runtime.registries",
    "register_step_hook": "sideband.runtime.registries",
    "register_tool_hook": "sideband.runtime.registries",
    "render_request": "sideband.runtime.requests",
    "spawn": "sideband.runtime.workers",
    "store_fact": "sideband.runtime.facts",
    "tool": "sideband.tools.function",
    "transcript_compact": "sideband.runtime.transcripts",
    "transcript_reminder_event": "sideband.runtime.transcripts",
    "with_audit_log": "sideband.loop.receipts",
    "workspace_tools": "sideband.tools.workspace",
}

__all__ = [*_HOMES]  # noqa: PLE0604 - the names are the table's


if not TYPE_CHECKING:
    # A type checker that saw this function would accept every name.
    def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(home), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
