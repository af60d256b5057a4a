"""Hostile values for every field of a payload."""

from collections.abc import Iterator
from typing import Final

NAN, INFINITE = float("nan"), float("inf")
# Python prints no integer of so many digits.
HUGE: Final = 10**5000
LONE_SURROGATES: Final = ("\ud800", "\udbff", "\udc00", "\udfff")
REORDERING: Final = tuple(map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A))))
CONTROLS: Final = tuple(chr(code) for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\r\t")
UNREADABLE: Final = (*CONTROLS, *LONE_SURROGATES, *REORDERING)


class Opaque:
    """An object of an unknown class whose `repr` and comparison fail."""

    def __repr__(self) -> str:
        raise RuntimeError("not now")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not with you")

    __hash__ = object.__hash__


def nested(depth: int) -> list[object]:
    """Lists in lists; built and, in the end, taken apart without recursion."""
    inner: list[object] = []
    for _ in range(depth):
        inner = [inner]
    return inner


def nested_objects(depth: int) -> dict[str, object]:
    inner: dict[str, object] = {}
    for _ in range(depth):
        inner = {"a": inner}
    return inner


DEEP: Final = nested(100_000)
NO_TEXT: Final[dict[str, object]] = {
    "number": 5,
    "true": True,
    "fraction": 1.5,
    "nan": NAN,
    "huge": HUGE,
    "bytes": b"x",
    "list": ["x"],
    "object": {"x": 1},
    "set": {"x"},
    "deep": DEEP,
    "opaque": Opaque(),
}
NO_WORD: Final = {
    **NO_TEXT,
    "empty": "",
    "in-capitals": "ALL",
    "padded": " all",
    "surrogate": "\ud800",
    "long": "x" * 10**6,
}
NO_INTEGER: Final[dict[str, object]] = {
    "true": True,
    "false": False,
    "text": "2",
    "bytes": b"2",
    "fraction": 2.5,
    "nan": NAN,
    "infinite": INFINITE,
    "list": [2],
    "object": {},
    "deep": DEEP,
    "opaque": Opaque(),
    "huge": HUGE,
    "beyond-64-bits": 2**64,
}

WRONG: Final[dict[str, dict[str, object]]] = {
    "body": {**NO_TEXT, "empty": "", "blank": " \n\t"},
    "tags": {
        **{name: value for name, value in NO_TEXT.items() if name != "list"},
        "text": "a,b",
        "range": range(10**12),
        "10000-tags": [f"t{number}" for number in range(10_000)],
        "one-too-many": [f"t{number}" for number in range(17)],
        "blank-tag": ["a", " "],
        "number-as-tag": ["a", 5],
        "null-as-tag": [None],
        "list-as-tag": [["a"]],
        "deep-tag": [DEEP],
        "long-tag": ["x" * 65],
        "long-tag-in-bytes": ["é" * 33],
        "surrogate": ["\ud800"],
        "escape": ["\x1b[31m"],
    },
    "dedupe_key": {**NO_TEXT, "long": "k" * 257, "long-in-bytes": "é" * 129, "megabyte": "k" * 10**6},
    "ttl_turns": {**NO_INTEGER, "zero": 0, "negative": -1, "a-million-and-one": 1_000_001},
    "preserve_on_compact": {
        **{name: value for name, value in NO_INTEGER.items() if name not in ("true", "false")},
        "one": 1,
        "zero": 0,
        "word": "true",
    },
    "propagate": NO_WORD,
    "role_hint": NO_WORD,
    "mode": {**NO_WORD, "old-word": "wait_for_completion", "word-of-injects": "steer"},
    "id": {
        **NO_TEXT,
        "empty": "",
        "space": "a b",
        "slash": "../a",
        "newline": "a\n",
        "accent": "é",
        "foreign-digit": "٣",
        "long": "x" * 129,
        "surrogate": "\ud800",
    },
    "source": {**NO_TEXT, "long": "x" * 257},
    "originating_agent_id": {**NO_TEXT, "long": "x" * 257},
    "fired_at_turn": {**NO_INTEGER, "too-large": 2**63, "too-small": -(2**63) - 1},
    "_meta": {
        "text": "x",
        "number": 5,
        "list": [],
        "deep": {"a": DEEP},
        "deep-objects": nested_objects(100_000),
        "one-too-deep": nested_objects(9),
        "too-large": {"a": "x" * 5_000},
        "number-as-key": {1: 2},
        "null-as-key": {None: 1},
        "mixed-keys": {"a": 1, 2: 3},
        "tuple-as-key": {(1,): 1},
        "opaque": {"a": Opaque()},
        "mixed-set": {"a": {1, "b"}},
        "huge": {"a": HUGE},
        "surrogate": {"a": "\ud800"},
        "surrogate-as-key": {"\ud800": 1},
    },
}


def wrong_texts(text: str) -> Iterator[str]:
    """`text` with something unreadable at its beginning, in its middle and at its end."""
    for letter in UNREADABLE:
        yield f"{letter}{text}"
        yield f"{text}{letter}{text}"
        yield f"{text}{letter}"


# What is no object at all.
NO_OBJECT: Final[dict[str, object]] = {
    **{name: value for name, value in NO_TEXT.items() if name != "object"},
    "null": None,
    "text": '{"body": "x"}',
    "list-of-objects": [{"body": "x"}],
}
# Names that no field has.
NO_KEY: Final[dict[str, object]] = {
    "number": 5,
    "huge": HUGE,
    "null": None,
    "true": True,
    "nan": NAN,
    "bytes": b"body",
    "tuple": ("body",),
    "surrogate": "\ud800",
    "escape": "\x1b[2J",
    "megabyte": "x" * 10**6,
    "content": "content",
}
# Blocks of a message that no journal could hold.
CONTENTS: Final[dict[str, object]] = {
    "null": None,
    "number": 5,
    "text": "x",
    "one-block": {"type": "text", "text": "x"},
    "list-of-texts": ["x"],
    "surrogate": [{"type": "text", "text": "\ud800"}],
    "surrogate-as-key": [{"\ud800": "x"}],
    "opaque": [{"type": "text", "text": Opaque()}],
    "huge": [{"type": "text", "text": HUGE}],
    "deep": [{"type": "text", "text": DEEP}],
    "tuple-as-key": [{("a",): 1}],
    "too-large": [{"type": "text", "text": "x" * 2**23}],
}


# Text that is not JSON, or is JSON that no payload may be.
TEXTS: Final[dict[str, bytes]] = {
    "nothing": b"",
    "nul": b"\x00",
    "spaces": b"   ",
    "array": b'["body"]',
    "string": b'"body"',
    "null": b"null",
    "cut-off-in-a-string": b'{"body": "x',
    "cut-off-in-a-key": b'{"bo',
    "cut-off-in-an-escape": b'{"body": "\\u00',
    "not-closed": b'{"body": "x"',
    "closed-twice": b'{"body": "x"}}',
    "two-objects": b'{"body": "x"} {"body": "y"}',
    "trailing-comma": b'{"body": "x",}',
    "single-quotes": b"{'body': 'x'}",
    "comment": b'{"body": "x" /* no */}',
    "byte-order-mark": b'\xef\xbb\xbf{"body": "x"}',
    "utf-16": '{"body": "x"}'.encode("utf-16"),
    "latin-1": '{"body": "é"}'.encode("latin-1"),
    "overlong-utf-8": b'{"body": "\xc0\xaf"}',
    "surrogate-in-utf-8": b'{"body": "\xed\xa0\x80"}',
    "lone-surrogate": b'{"body": "\\ud800"}',
    "lone-surrogate-in-a-key": b'{"body": "x", "\\udc00": 1}',
    "raw-control-character": b'{"body": "a\x01b"}',
    "nan": b'{"body": "x", "ttl_turns": NaN, "ttlTurns": NaN}',
    "infinity": b'{"body": "x", "ttl_turns": Infinity}',
    "1e400": b'{"body": "x", "ttl_turns": 1e400, "ttlTurns": 1e400}',
    "5000-digits": b'{"body": "x", "ttl_turns": ' + b"1" * 5_000 + b"}",
    "key-twice": b'{"body": "x", "body": "x"}',
    "key-twice-by-escape": b'{"body": "x", "b\\u006fdy": "y"}',
    "key-twice-inside": b'{"body": "x", "_meta": {"a": 1, "a": 1}}',
    "key-twice-deep-inside": b'{"body": "x", "_meta": {"a": [[{"b": {"c": 1, "c": null}}]]}}',
    "deep": b'{"body": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep-and-cut-off": b'{"body": ' + b"[" * 100_000,
    "deep-objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "too-large": b'{"body": "' + b"x" * 2**20 + b'"}',
}
