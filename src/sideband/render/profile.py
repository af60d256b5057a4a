"""What a model, reached over a certain transport, really honours: plain data that the renderer looks up."""

from enum import StrEnum
from typing import Final

import msgspec

MOST_MARKERS: Final = 4
"""So many cache markers a request may have where the profile knows no other number."""


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
    `call_signature` stands where a call has no signature, since another model made it (None: none is asked for), and
    `call_id_length` is how many letters and digits the id of a call must have (0: whatever it has). `cache_markers` 0 and `context_window` None: they are not known.
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
    encrypted_reasoning: bool = False
    call_signature: str | None = None
    call_id_length: int = 0
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

    @property
    def heeds_inline(self) -> bool:
        """Whether a system message may stand inside the conversation, and the model is known to heed it there."""
        return self.inline_verified and self.inline_system is not InlineSystem.NONE
