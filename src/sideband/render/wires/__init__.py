"""One module for each request format."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from sideband.render.escape import Escape
from sideband.render.profiles import Profile, Wire
from sideband.render.wires.anthropic import Anthropic
from sideband.render.wires.dialect import Dialect
from sideband.render.wires.gemini import Gemini
from sideband.render.wires.generic import GenericChat
from sideband.render.wires.openai_chat import OpenAiChat
from sideband.render.wires.openai_responses import OpenAiResponses

DIALECTS: Final[Mapping[Wire, type[Dialect]]] = MappingProxyType(
    {dialect.wire: dialect for dialect in (Anthropic, OpenAiChat, OpenAiResponses, Gemini, GenericChat)}
)


def dialect_for(profile: Profile, shield: Escape | None = None) -> Dialect:
    """The dialect for this profile. OpenAI Chat without support for content parts uses the generic wire."""
    strings = profile.wire is Wire.OPENAI_CHAT and not profile.content_parts
    return DIALECTS[Wire.GENERIC if strings else profile.wire](profile, shield)
