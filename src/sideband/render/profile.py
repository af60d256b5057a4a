"""What a model, reached over a certain transport, really honours: plain data that the renderer looks up."""

from enum import StrEnum

import msgspec


class Wire(StrEnum):
    """The shape of a request."""

    ANTHROPIC = "anthropic"
    OPENAI_CHAT = "openai_chat"
    OPENAI_RESPONSES = "openai_responses"
    GEMINI = "gemini"
    GENERIC = "generic"


class Placement(StrEnum):
    """Where reminders stand in a request."""

    SEED = "seed"
    TAIL = "tail"
    NATIVE = "native"


class LeadingRole(StrEnum):
    """The role of the text in front of the conversation."""

    SYSTEM = "system"
    DEVELOPER = "developer"
    USER = "user"


class InlineSystem(StrEnum):
    """Where a system message may stand inside the conversation."""

    NONE = "none"
    AFTER_USER = "after_user"
    ANYWHERE = "anywhere"


class Cache(StrEnum):
    """Who sets the breakpoints of the provider's prompt cache."""

    NONE = "none"
    IMPLICIT = "implicit"
    EXPLICIT = "explicit"


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row: a transport and the beginning of a model's name, with what holds for both.

    The defaults are those of the strictest chat template there is, so that an unknown model never refuses a request and
    never drops a reminder. `self_clearing` is the beta under which an inline entry clears itself (None: it does not).
    `context_window` None: it is not known.
    """

    transport: str
    model: str = ""
    wire: Wire = Wire.GENERIC
    leading_role: LeadingRole = LeadingRole.SYSTEM
    inline_system: InlineSystem = InlineSystem.NONE
    inline_verified: bool = False
    self_clearing: str | None = None
    prefix_bound_thinking: bool = False
    server_side_history: bool = False
    multiple_leading_system: bool = False
    developer_role: bool = False
    prefers_role_developer: bool = False
    prefers_xml_scaffolding: bool = False
    strict_alternation: bool = True
    consecutive_assistant: bool = False
    user_after_tool: bool = False
    tool_results_first: bool = False
    content_parts: bool = False
    fold_into_tool_result: bool = True
    user_text_resets_reasoning: bool = False
    kv_prefix: bool = False
    accepts_notices: bool = True
    cache: Cache = Cache.NONE
    cache_ttls: tuple[str, ...] = ()
    cache_markers: int = 0
    cache_minimum_tokens: int = 0
    steer: str = "none"
    context_window: int | None = None
    placement: Placement | None = None
    source: str = ""
    verified: str = ""
