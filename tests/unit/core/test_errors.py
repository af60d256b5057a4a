"""Errors: how a value is quoted, and that every error has its own reason and survives copying and pickling."""

import copy
import pickle
from collections import OrderedDict
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core import errors
from sideband.core.errors import (
    SHOWN_CHARACTERS,
    CursorExpired,
    CursorLost,
    LeaseLost,
    ReminderError,
    StoreError,
    shown,
)


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("never")


class Loud:
    def __repr__(self) -> str:
        return "first line\nsecond line\x1b[31m\ud800"


class Stubborn(str):
    """A `str` subclass whose own methods raise."""

    __slots__ = ()

    def __getitem__(self, key: object) -> str:
        raise RuntimeError("never")

    __repr__ = __str__ = Unprintable.__repr__


class StubbornBytes(bytes):
    __slots__ = ()

    __getitem__ = Stubborn.__getitem__  # type: ignore[assignment]  # it fails before the type matters
    __repr__ = Unprintable.__repr__


class Shade(StrEnum):
    RED = "red"


def a_list_of_itself() -> list[object]:
    endless: list[object] = []
    endless.extend([endless] * 50)
    return endless


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("x" * 10**6, id="a-long-text"),
        pytest.param(b"x" * 10**6, id="many-bytes"),
        pytest.param(bytearray(b"x" * 10**6), id="many-bytes-that-can-change"),
        pytest.param(10**5000, id="an-integer-python-will-not-print"),
        pytest.param(-(10**5000), id="a-negative-one"),
        pytest.param([[10**5000]], id="the-same-inside-lists"),
        pytest.param({10**5000: 1}, id="the-same-as-a-key"),
        pytest.param(list(range(10**5)), id="a-long-list"),
        pytest.param({f"key-{index}" * 20: "v" * 200 for index in range(10**5)}, id="a-large-mapping"),
        pytest.param(OrderedDict.fromkeys(range(1000)), id="a-mapping-of-another-type"),
        pytest.param(a_list_of_itself(), id="a-list-of-itself"),
        pytest.param("\ud800", id="a-lone-surrogate"),
        pytest.param("two\nlines\x1b[31m", id="controls"),
        pytest.param("🦀" * 80, id="letters-that-are-escaped"),
        pytest.param(object(), id="any-object"),
        pytest.param(Unprintable(), id="an-object-that-cannot-be-printed"),
        pytest.param({"a": [Unprintable()]}, id="the-same-inside"),
        pytest.param(Loud(), id="an-object-that-prints-controls"),
        pytest.param(Stubborn("x" * 10**6), id="text-that-cannot-be-cut"),
    ],
)
def test_a_value_is_shown_short_and_on_one_line_of_ascii(value: object) -> None:
    text = shown(value)
    assert len(text) <= SHOWN_CHARACTERS
    assert text.isascii()
    assert text.isprintable()


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
        lambda inner: (
            st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner) | st.frozensets(st.integers())
        ),
    )
)
def test_every_value_can_be_shown(value: object) -> None:
    text = shown(value)
    assert 0 < len(text) <= SHOWN_CHARACTERS
    assert text.isascii()
    assert text.isprintable()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        (True, "True"),
        (0.25, "0.25"),
        (2**80, str(2**80)),
        ("no", "'no'"),
        ("é", r"'\xe9'"),
        (b"no", "b'no'"),
        (Shade.RED, "'red'"),
        (Stubborn("no"), "'no'"),
        (StubbornBytes(b"no"), "b'no'"),
        ([], "[]"),
        ({"a": [1, 2]}, "{'a': [1, 2]}"),
        ([[[1]], {2}], "[[[...]], {2}]"),
        ((1,), "(1,)"),
        ("x" * 78, f"'{'x' * 78}'"),
        ("x" * 79, f"'{'x' * 76}..."),
        (10**100, "<integer of 333 bits>"),
    ],
)
def test_a_value_is_shown_as(value: object, text: str) -> None:
    assert shown(value) == text


# The family.

SAMPLES: Final[dict[type[ReminderError], Callable[[], ReminderError]]] = {
    errors.UnknownOption: lambda: errors.UnknownOption("no such option", field="typo", value=1),
    errors.InvalidOption: lambda: errors.InvalidOption("no", field="body"),
    errors.InvalidReminder: lambda: errors.InvalidReminder("no"),
    errors.UnknownPropagate: lambda: errors.UnknownPropagate("workspace"),
    errors.MalformedProviderResult: lambda: errors.MalformedProviderResult("no"),
    errors.TooManyProviders: lambda: errors.TooManyProviders(("a", "b"), 1),
    errors.UnsupportedHookEvent: lambda: errors.UnsupportedHookEvent("worker_failed"),
    errors.UnsupportedMode: lambda: errors.UnsupportedMode("no"),
    errors.IdempotencyConflict: lambda: errors.IdempotencyConflict("a"),
    errors.BodyTooLarge: lambda: errors.BodyTooLarge(1025, 1024),
    errors.NotPermitted: lambda: errors.NotPermitted("no"),
    errors.NotInjectable: lambda: errors.NotInjectable("no"),
    errors.UnknownSession: lambda: errors.UnknownSession("no"),
    errors.TaskFinished: lambda: errors.TaskFinished("no"),
    errors.UnknownReminder: lambda: errors.UnknownReminder("a"),
    errors.UnknownMessage: lambda: errors.UnknownMessage("a"),
    errors.AlreadyDelivered: lambda: errors.AlreadyDelivered("a"),
    errors.AlreadyRevoked: lambda: errors.AlreadyRevoked("a"),
    errors.NothingToAnswer: lambda: errors.NothingToAnswer((("r1", "too_large"),)),
    errors.WrongEventLoop: lambda: errors.WrongEventLoop(closed=False),
    errors.NoRunningTurn: lambda: errors.NoRunningTurn("steer"),
    errors.ReplaceNotSupported: lambda: errors.ReplaceNotSupported("no"),
    errors.SessionBusy: lambda: errors.SessionBusy("no"),
    errors.TooManyPending: lambda: errors.TooManyPending(64, 64, scope="source"),
    errors.TooManyFacts: lambda: errors.TooManyFacts(10_000),
    errors.RateLimited: lambda: errors.RateLimited(100),
}


def test_there_is_a_sample_of_every_error() -> None:
    here = {kind for kind in ReminderError.__subclasses__() if kind.__module__ == errors.__name__}
    assert here == SAMPLES.keys()


def test_every_error_has_its_own_reason() -> None:
    words = [kind.reason for kind in SAMPLES]
    assert len(set(words)) == len(words)
    assert all(word.isidentifier() and word.islower() for word in words)


@pytest.mark.parametrize("kind", SAMPLES)
def test_an_error_begins_with_its_code_unless_that_is_our_own(kind: type[ReminderError]) -> None:
    error = SAMPLES[kind]()
    assert str(error).startswith(f"{kind.code}: ") is kind.code.startswith("HARN-")


@pytest.mark.parametrize("kind", SAMPLES)
@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(copy.copy, id="copied"),
        pytest.param(copy.deepcopy, id="copied-deeply"),
        pytest.param(lambda error: pickle.loads(pickle.dumps(error)), id="pickled"),  # noqa: S301 - made on this line
    ],
)
def test_an_error_is_the_same_after_being(sent: Callable[[Any], Any], kind: type[ReminderError]) -> None:
    error = SAMPLES[kind]()
    again = sent(error)
    assert type(again) is kind
    assert (str(again), vars(again)) == (str(error), vars(error))


def test_an_error_carries_what_a_caller_needs_to_continue() -> None:
    assert errors.BodyTooLarge(1025, 1024).limit == 1024
    assert errors.TooManyPending(64, 64, scope="source").limit == 64
    assert errors.RateLimited(100).retry_after_ms == 100


# Store errors.


def family(kind: type[StoreError]) -> list[type[StoreError]]:
    return [kind, *(member for child in kind.__subclasses__() for member in family(child))]


def a_failure(kind: type[StoreError]) -> StoreError:
    made: dict[type[StoreError], Callable[[], StoreError]] = {
        CursorLost: lambda: CursorLost(7),
        CursorExpired: lambda: CursorExpired(3, 9),
        LeaseLost: lambda: LeaseLost("s"),
        errors.StoreClosed: errors.StoreClosed,
        errors.OutcomeUnknown: lambda: errors.OutcomeUnknown("postgresql://here/db"),
    }
    return made[kind]() if kind in made else kind("something is wrong")


# Stores subclass these, with the same reasons.
KINDS = [kind for kind in family(StoreError)[1:] if kind.__module__ == errors.__name__]


def test_every_store_error_has_its_own_reason() -> None:
    words = [kind.reason for kind in KINDS]
    assert len(set(words)) == len(words)
    assert all(word.isidentifier() and word.islower() for word in words)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(copy.copy, id="copied"),
        pytest.param(lambda error: pickle.loads(pickle.dumps(error)), id="pickled"),  # noqa: S301 - made on this line
    ],
)
def test_a_store_error_is_the_same_after_being(sent: Callable[[Any], Any], kind: type[StoreError]) -> None:
    error = a_failure(kind)
    again = sent(error)
    assert type(again) is kind
    assert (str(again), vars(again)) == (str(error), vars(error))


def test_a_store_error_carries_what_a_caller_needs_to_continue() -> None:
    assert CursorLost(7).seen == 7
    assert (CursorExpired(3, 9).after, CursorExpired(3, 9).oldest) == (3, 9)
    assert LeaseLost("s").session_id == "s"
    assert "is run by another process" in str(LeaseLost("s"))
    assert str(LeaseLost("s", why="the disk is full")).endswith("another process may run it now: the disk is full")
