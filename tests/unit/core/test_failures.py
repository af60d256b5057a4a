"""What stores raise: each can be told from the others, and sent elsewhere."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from sideband.core import failures
from sideband.core.failures import CursorExpired, CursorLost, LeaseLost, StoreError


def family(kind: type[StoreError]) -> list[type[StoreError]]:
    return [kind, *(member for child in kind.__subclasses__() for member in family(child))]


def a_failure(kind: type[StoreError]) -> StoreError:
    made: dict[type[StoreError], Callable[[], StoreError]] = {
        CursorLost: lambda: CursorLost(7),
        CursorExpired: lambda: CursorExpired(3, 9),
        LeaseLost: lambda: LeaseLost("s"),
        failures.StoreClosed: failures.StoreClosed,
        failures.OutcomeUnknown: lambda: failures.OutcomeUnknown("postgresql://here/db"),
    }
    return made[kind]() if kind in made else kind("something is wrong")


# A store may have its own finer kinds of these, under the same words.
KINDS = [kind for kind in family(StoreError)[1:] if kind.__module__ == failures.__name__]


def test_every_failure_has_a_word_of_its_own() -> None:
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
def test_a_failure_is_the_same_after_being(sent: Callable[[Any], Any], kind: type[StoreError]) -> None:
    error = a_failure(kind)
    again = sent(error)
    assert type(again) is kind
    assert (str(again), vars(again)) == (str(error), vars(error))


def test_a_cursor_that_was_lost_says_where_to_go_on() -> None:
    assert CursorLost(7).seen == 7
    assert (CursorExpired(3, 9).after, CursorExpired(3, 9).oldest) == (3, 9)
    assert LeaseLost("s").session_id == "s"
    assert "is run by another process" in str(LeaseLost("s"))
    assert str(LeaseLost("s", why="the disk is full")).endswith("another process may run it now: the disk is full")
