"""Ways to place reminders: ours, and what others do; on which route, and paid by which cache."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from sideband.core.reminder import RoleHint
from sideband.render.profiles import Cache, InlineSystem, LeadingRole, Placement, Profile, Wire
from tests.cache_oracle import (
    AnthropicCache,
    Block,
    CacheOracle,
    KvCache,
    OpenAiBreakpointCache,
    OpenAiPrefixCache,
    Reading,
)

# Routes.

CLAUDE: Final = Profile(
    transport="anthropic",
    wire=Wire.ANTHROPIC,
    prefers_xml_scaffolding=True,
    strict_alternation=False,
    user_after_tool=True,
    tool_results_first=True,
    content_parts=True,
    cache=Cache.EXPLICIT,
)
_BOUND: Final = msgspec.structs.replace(CLAUDE, prefix_bound_thinking=True)
_CLEARING: Final = msgspec.structs.replace(
    _BOUND, inline_system=InlineSystem.AFTER_USER, inline_verified=True, self_clearing="clear-at"
)
_GPT: Final = Profile(
    transport="openai",
    leading_role=LeadingRole.DEVELOPER,
    inline_system=InlineSystem.ANYWHERE,
    inline_verified=True,
    developer_role=True,
    prefers_role_developer=True,
    strict_alternation=False,
    consecutive_assistant=True,
    user_after_tool=True,
    content_parts=True,
    cache=Cache.EXPLICIT,
)
_GEMINI: Final = Profile(
    transport="google", wire=Wire.GEMINI, user_after_tool=True, content_parts=True, cache=Cache.IMPLICIT
)
_LOCAL: Final = Profile(transport="local", strict_alternation=False, user_after_tool=True, consecutive_assistant=True)


# What others do with markers: it changes which blocks carry one, and nothing else.

Remark = Callable[[Sequence[Block]], list[Block]]


def _as_they_are(found: Sequence[Block]) -> list[Block]:
    return [*found]


def _marked(found: Sequence[Block], places: Sequence[int]) -> list[Block]:
    return [block._replace(marked=place in places) for place, block in enumerate(found)]


def _first_and_last(found: Sequence[Block]) -> list[Block]:
    marks = [place for place, block in enumerate(found) if block.marked]
    return _marked(found, [marks[0], marks[-1]])


def _at_the_end(found: Sequence[Block]) -> list[Block]:
    return _marked(found, [len(found) - 1])


def _first_and_the_end(found: Sequence[Block]) -> list[Block]:
    first = next(place for place, block in enumerate(found) if block.marked)
    return _marked(found, [first, len(found) - 1])


class Way(NamedTuple):
    """A way to place reminders; `ours` where it is one of ours, and `lawful` where the law of cost holds for it.

    `implicit` requests have no markers: a provider that heeds markers sets one by itself. `heeded` tells whether the way
    is for caches that heed markers, or for those that do not (None: for both).
    """

    name: str
    profile: Profile
    placement: Placement = Placement.TAIL
    hint: RoleHint = RoleHint.SYSTEM
    remark: Remark = _as_they_are
    ours: bool = True
    lawful: bool = False
    implicit: bool = False
    heeded: bool | None = None


_naive: Final = partial(Way, ours=False)
_seed: Final = partial(Way, placement=Placement.SEED, ours=False)

ANTHROPIC: Final = (
    Way("tail", CLAUDE, lawful=True),
    Way("native, clearing", _CLEARING, Placement.NATIVE, lawful=True),
    Way("tail, bound to the prefix", _BOUND, lawful=True),
    Way("tail, into tool results", msgspec.structs.replace(CLAUDE, user_text_resets_reasoning=True)),
    Way("tail, automatic caching", msgspec.structs.replace(CLAUDE, cache=Cache.IMPLICIT)),
    _naive("tail, markers at head and end of history", CLAUDE, remark=_first_and_last),
    _naive("tail, markers at head and reminder", CLAUDE, remark=_first_and_the_end),
    _naive("tail, automatic caching after it", CLAUDE, remark=_at_the_end),
    _seed("seed, user block", CLAUDE, hint=RoleHint.USER_BLOCK),
    _seed("seed, system text", CLAUDE),
)
_UNMARKED: Final = msgspec.structs.replace(_GPT, cache=Cache.IMPLICIT)
_AS_USER: Final = msgspec.structs.replace(_GPT, prefers_role_developer=False, cache=Cache.NONE)
OPENAI: Final = (
    Way("tail", _GPT, lawful=True, heeded=True),
    Way("native, kept", _GPT, Placement.NATIVE, lawful=True, heeded=True),
    Way("tail, no markers", _UNMARKED, implicit=True, heeded=False),
    _naive("tail, no markers", _UNMARKED, implicit=True, heeded=True),
    _naive("tail, markers at head and end of history", _GPT, remark=_first_and_last, heeded=True),
    _naive("tail as user text, no markers", _AS_USER, implicit=True),
    _seed("seed, developer message", _GPT),
)
GEMINI: Final = (Way("tail", _GEMINI), _seed("seed, system text", _GEMINI))
LOCAL: Final = (
    Way("tail, KV prefix", msgspec.structs.replace(_LOCAL, kv_prefix=True)),
    _naive("tail, dropped with the next request", _LOCAL),
    _seed("seed, system text", _LOCAL),
)


class Group(NamedTuple):
    """The ways on one wire, the caches they are paid by, and what is compared: the cost, or the tokens computed."""

    name: str
    wire: Wire
    ways: Sequence[Way]
    caches: Mapping[str, Callable[[Wire], CacheOracle]]
    computed: bool = False


_READINGS: Final[Mapping[str, Callable[[Wire], CacheOracle]]] = MappingProxyType(
    {f"from 5.6, {reading}": partial(OpenAiBreakpointCache, reading=reading) for reading in Reading}
)
_BEFORE: Final = MappingProxyType({"before 5.6": OpenAiPrefixCache})

GROUPS: Final = (
    Group("Anthropic", Wire.ANTHROPIC, ANTHROPIC, {"": AnthropicCache}),
    Group("OpenAI Chat", Wire.OPENAI_CHAT, OPENAI, {**_READINGS, **_BEFORE}),
    Group("OpenAI Responses", Wire.OPENAI_RESPONSES, OPENAI, {**_READINGS, **_BEFORE}),
    Group("Gemini", Wire.GEMINI, GEMINI, {"common prefix": OpenAiPrefixCache}),
    Group(
        "local server",
        Wire.GENERIC,
        LOCAL,
        {"KV": KvCache, "KV without rollback": partial(KvCache, rollback=False)},
        computed=True,
    ),
)
