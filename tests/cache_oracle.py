"""What providers' prompt caches would do with a run of requests, by their published rules.

The caches read finished request bodies: what is in them, block by block, and which blocks carry a marker. Every tool
call and every tool result is a block. None of them knows of reminders or of how a body was made. Tokens are counted as
bytes of text by four, without rounding, so that two runs can be told apart to the last digit; every entry lives on.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b
from typing import Any, ClassVar, Final, NamedTuple

import msgspec

from sideband.core.ledger import Lifetime
from sideband.render.plan import Plan
from sideband.render.profiles import Wire

READ: Final = 0.1
WRITE: Final = 1.25
BYTES_PER_TOKEN: Final = 4
_KEY_BYTES: Final = 16

MARKERS: Final = frozenset({"cache_control", "prompt_cache_breakpoint"})
# Names and numbers of the wire, which differ from run to run and say nothing.
_IDS: Final = frozenset({"id", "tool_use_id", "tool_call_id", "call_id"})
_FRAMING: Final = frozenset({"type", "role", *_IDS, *MARKERS})
# What a model calls a tool with: an object on some wires, and JSON in a string on others.
_ARGUMENTS: Final = frozenset({"input", "args"})


class Block(NamedTuple):
    """The smallest thing that a cache entry can end with; `ends`: the last of its message."""

    role: str
    text: bytes
    key: bytes
    marked: bool
    ends: bool

    @property
    def tokens(self) -> float:
        return len(self.text) / BYTES_PER_TOKEN


class Usage(NamedTuple):
    """The tokens of one request, or of several: read from the cache, written to it, and neither."""

    read: float = 0.0
    written: float = 0.0
    plain: float = 0.0

    @property
    def cost(self) -> float:
        """In plain tokens of input."""
        return READ * self.read + WRITE * self.written + self.plain

    @property
    def tokens(self) -> float:
        return sum(self)


def total(usages: Sequence[Usage]) -> Usage:
    """What several requests take together."""
    return Usage(*map(sum, zip(*usages, strict=True))) if usages else Usage()


# What reminders should cost.


def cost_of_fragments(requests: Iterable[Plan]) -> float:
    """What the law says of the requests of one window, in the order in which they left.

    A fragment that passes costs itself in each request; one that stays a quarter more in its first, and then a tenth.
    """
    cost = kept = 0.0
    last = None
    for rendered in requests:
        cost += READ * kept
        for fragment in rendered.fragments:
            tokens = len(fragment.text.encode()) / BYTES_PER_TOKEN
            if fragment.scope is not Lifetime.KEPT:
                cost += tokens
            # Sent once more, it is not new.
            elif rendered.request.body != last:
                cost += WRITE * tokens
                kept += tokens
        last = rendered.request.body
    return cost


# Reading a body.


def blocks(wire: Wire, body: bytes | Mapping[str, Any]) -> list[Block]:
    """All that a request says, in the order in which a provider reads it: tools, system text, messages."""
    request = msgspec.json.decode(body) if isinstance(body, bytes) else body
    found = [block for message in _messages(wire, request) for block in _blocks(msgspec.json.encode(message))]
    if "cache_control" in request:
        # Asked for on the request as a whole, a breakpoint stands at its end.
        found[-1] = found[-1]._replace(marked=True)
    return found


def _messages(wire: Wire, request: Mapping[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    yield "tools", request.get("tools", [])
    match wire:
        case Wire.ANTHROPIC:
            yield "system", request.get("system", [])
            yield from _anthropic(request["messages"])
        case Wire.OPENAI_RESPONSES:
            yield from _items(request["input"])
        case Wire.GEMINI:
            yield "system", request.get("systemInstruction", {}).get("parts", [])
            yield from ((content["role"], content["parts"]) for content in request["contents"])
        case _:
            yield from _chat(request["messages"])


def _anthropic(messages: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, list[Any]]]:
    """An entry that clears itself is shown until the user speaks again."""
    last_user = max((place for place, message in enumerate(messages) if message["role"] == "user"), default=-1)
    for place, message in enumerate(messages):
        if "clear_at" not in message or place > last_user:
            yield message["role"], message["content"]


def _chat(messages: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, list[Any]]]:
    for message in messages:
        content = message.get("content") or []
        named = {key: message[key] for key in _IDS & message.keys()}
        parts = [{"text": content}] if isinstance(content, str) else content
        yield message["role"], [*({**named, **part} for part in parts), *message.get("tool_calls", [])]


def _items(items: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, list[Any]]]:
    for item in items:
        match item["type"]:
            case "message" if isinstance(item["content"], list):
                yield item["role"], item["content"]
            case "function_call_output":
                yield "tool", [{"call_id": item["call_id"], **part} for part in item["output"]]
            case _:
                yield "assistant", [item]


# A session says the same again in each of its requests.
@lru_cache(maxsize=4_096)
def _blocks(encoded: bytes) -> tuple[Block, ...]:
    """The blocks of a message, given as its role and its pieces."""
    role, pieces = msgspec.json.decode(encoded)
    return tuple(_block(role, piece, ends=place == len(pieces)) for place, piece in enumerate(pieces, start=1))


def _block(role: str, piece: Any, *, ends: bool) -> Block:  # noqa: ANN401 - a JSON value
    bare = _bare(piece)
    key = blake2b(msgspec.json.encode([role, bare]), digest_size=_KEY_BYTES).digest()
    return Block(role, "".join(_said(bare)).encode(), key, marked=bare != piece, ends=ends)


def _bare(value: Any) -> Any:  # noqa: ANN401 - a JSON value
    """The value without markers: they are no part of what is cached."""
    if isinstance(value, dict):
        return {key: _bare(inner) for key, inner in value.items() if key not in MARKERS}
    return [_bare(inner) for inner in value] if isinstance(value, list) else value


def _said(value: object) -> Iterator[str]:
    """The texts in a JSON value."""
    match value:
        case str():
            yield value
        case dict():
            for key, inner in value.items():
                if key in _ARGUMENTS:
                    yield msgspec.json.encode(inner).decode()
                elif key not in _FRAMING:
                    yield from _said(inner)
        case list():
            for inner in value:
                yield from _said(inner)


class Prefixes(NamedTuple):
    """A request up to the end of each of its blocks; equal keys mean equal beginnings."""

    keys: list[bytes]
    tokens: list[float]


def prefixes(found: Sequence[Block]) -> Prefixes:
    """One for each block."""
    key, size = b"", 0
    keys, tokens = [], []
    for block in found:
        key = _chained(key, block.key)
        size += len(block.text)
        keys.append(key)
        tokens.append(size / BYTES_PER_TOKEN)
    return Prefixes(keys, tokens)


@lru_cache(maxsize=65_536)
def _chained(before: bytes, key: bytes) -> bytes:
    return blake2b(before + key, digest_size=_KEY_BYTES).digest()


# Caches. Each is asked with the requests of one conversation, one after the other.


class CacheOracle(ABC):
    """The cache of one provider."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire

    def ask(self, body: bytes | Mapping[str, Any]) -> Usage:
        """What this request reads and writes."""
        return self.take(blocks(self.wire, body))

    @abstractmethod
    def take(self, found: Sequence[Block]) -> Usage:
        """The same, for blocks."""


class _Breakpoints(CacheOracle):
    """Entries exist only where a breakpoint was: what is read ends at one, what is written at the last of these."""

    def __init__(self, wire: Wire) -> None:
        super().__init__(wire)
        self.entries: set[bytes] = set()

    def settle(self, found: Sequence[Block], marks: Sequence[int], candidates: Iterator[int]) -> Usage:
        """The longest candidate that is an entry is read; from there to the last mark all is written."""
        keys, tokens = prefixes(found)
        read = max((tokens[place] for place in candidates if keys[place] in self.entries), default=0.0)
        covered = tokens[marks[-1]] if marks else 0.0
        self.entries.update(keys[place] for place in marks)
        return Usage(read, max(covered - read, 0.0), tokens[-1] - max(covered, read))


class AnthropicCache(_Breakpoints):
    """From each of the few breakpoints of a request, entries are looked for so many blocks back."""

    LOOK_BACK: ClassVar[int] = 20
    MOST_MARKERS: ClassVar[int] = 4

    def take(self, found: Sequence[Block]) -> Usage:
        marks = [place for place, block in enumerate(found) if block.marked]
        if len(marks) > self.MOST_MARKERS:
            raise ValueError(f"a request has at most {self.MOST_MARKERS} breakpoints, not {len(marks)}")
        near = (place for mark in marks for place in range(max(0, mark - self.LOOK_BACK + 1), mark + 1))
        return self.settle(found, marks, near)


class Reading(StrEnum):
    """How the guide to the cache of GPT-5.6 and later can be read."""

    MARKED = "marked"
    """Only what is marked in the request at hand is looked up."""
    WRITTEN = "written"
    """Whatever ends where an earlier request had a breakpoint is found."""
    LENIENT = "lenient"
    """So is whatever ends where a message of an earlier request ended."""


class OpenAiBreakpointCache(_Breakpoints):
    """GPT-5.6 and later. Where a request does not place its breakpoints, one is at the newest user or tool message."""

    LATEST: ClassVar[int] = 80
    NEWEST: ClassVar[frozenset[str]] = frozenset({"user", "tool"})

    def __init__(self, wire: Wire, reading: Reading) -> None:
        super().__init__(wire)
        self.reading = reading

    def ask(self, body: bytes | Mapping[str, Any]) -> Usage:
        request = msgspec.json.decode(body) if isinstance(body, bytes) else body
        explicit = request.get("prompt_cache_options", {}).get("mode") == "explicit"
        found = blocks(self.wire, request)
        return self.take(found) if explicit else self.take_implicit(found)

    def take(self, found: Sequence[Block]) -> Usage:
        return self._matched(found, [place for place, block in enumerate(found) if block.marked])

    def take_implicit(self, found: Sequence[Block]) -> Usage:
        """A request that has a breakpoint of the provider's own, beside those that are marked."""
        newest = [place for place, block in enumerate(found) if block.ends and block.role in self.NEWEST][-1:]
        marked = [place for place, block in enumerate(found) if block.marked]
        return self._matched(found, sorted({*marked, *newest}))

    def _matched(self, found: Sequence[Block], marks: Sequence[int]) -> Usage:
        last = marks[-1] if marks else -1
        endings = [place for place in range(last + 1) if found[place].ends and found[place].role != "assistant"]
        near = marks if self.reading is Reading.MARKED else sorted({*endings[-self.LATEST :], *marks})
        used = self.settle(found, marks, iter(near))
        if self.reading is Reading.LENIENT:
            keys = prefixes(found).keys
            self.entries.update(keys[place] for place in endings)
        return used


class OpenAiPrefixCache(CacheOracle):
    """Before GPT-5.6: what a request begins with in common with an earlier one is read, in steps; writing is free."""

    STEP: ClassVar[float] = 128
    LEAST: ClassVar[float] = 1024

    def __init__(self, wire: Wire) -> None:
        super().__init__(wire)
        # The blocks that came next, by the prefix before them.
        self._next: dict[bytes, dict[bytes, Block]] = {}

    def take(self, found: Sequence[Block]) -> Usage:
        keys, tokens = prefixes(found)
        befores = [b"", *keys[:-1]]
        shared = self._shared(found, befores, tokens)
        read = shared // self.STEP * self.STEP if shared >= self.LEAST else 0.0
        for before, block in zip(befores, found, strict=True):
            self._next.setdefault(before, {})[block.key] = block
        return Usage(read=read, plain=tokens[-1] - read)

    def _shared(self, found: Sequence[Block], befores: Sequence[bytes], tokens: Sequence[float]) -> float:
        for before, block, until in zip(befores, found, tokens, strict=True):
            known = self._next.get(before, {})
            if block.key not in known:
                alike = (common(block.text, other.text) for other in known.values() if other.role == block.role)
                return until - block.tokens + max(alike, default=0) / BYTES_PER_TOKEN
        return tokens[-1]


class KvCache(CacheOracle):
    """A local server: it has computed the last request and its own reply, and goes on from where the next one parts.

    Without `rollback` its memory cannot forget its end: then everything is computed again. What counts is `plain`, the
    tokens that are computed. Each request is the answered one before it, with one reply and what followed that.
    """

    def __init__(self, wire: Wire, *, rollback: bool = True) -> None:
        super().__init__(wire)
        self.rollback = rollback
        self._computed = b""
        self._replies = 0

    def take(self, found: Sequence[Block]) -> Usage:
        said = [b"\x02%b\x03%b" % (block.role.encode(), block.text) for block in found]
        replies = [text for text, block in zip(said, found, strict=True) if block.role in ("assistant", "model")]
        # The server holds its last reply after the last request; the current request contains that reply.
        held = self._computed + b"".join(replies[self._replies :])
        prompt = b"".join(said)
        shared = common(held, prompt)
        if shared < len(held) and not self.rollback:
            shared = 0
        self._computed, self._replies = prompt, len(replies)
        return Usage(read=shared / BYTES_PER_TOKEN, plain=(len(prompt) - shared) / BYTES_PER_TOKEN)


def common(one: bytes, other: bytes) -> int:
    """How many bytes both begin with."""
    least, most = 0, min(len(one), len(other))
    while least < most:
        middle = (least + most + 1) // 2
        if one[least:middle] == other[least:middle]:
            least = middle
        else:
            most = middle - 1
    return least
