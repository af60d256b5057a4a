"""The search finds a sequential order exactly if there is one."""

import pytest

from tests.faults.racing.history import Call, is_linearisable


def a_call(began: int, ended: int, asked: str, answer: object, who: str = "p") -> Call:
    verb, _, about = asked.partition(" ")
    return Call(began, ended, who, verb, about, answer)


SENT = a_call(0, 1, "send p1.a", 0)


@pytest.mark.parametrize(
    ("calls", "has_an_order"),
    [
        pytest.param([], True, id="nothing-happened"),
        pytest.param(
            [SENT, a_call(2, 5, "drain", ["p1.a"]), a_call(3, 4, "revoke p1.a", "already_delivered", "q")],
            True,
            id="a-drain-that-ended-later-came-first",
        ),
        pytest.param(
            [SENT, a_call(2, 5, "drain", ["p1.a"]), a_call(3, 4, "revoke p1.a", "revoked", "q")],
            False,
            id="two-have-the-same-item",
        ),
        pytest.param(
            [SENT, a_call(2, 3, "drain", []), a_call(4, 5, "drain", ["p1.a"], "q")],
            False,
            id="what-was-answered-before-is-not-seen",
        ),
        pytest.param(
            [a_call(0, 9, "send p1.a", 0), a_call(2, 3, "drain", []), a_call(4, 5, "drain", ["p1.a"], "q")],
            True,
            id="what-is-not-answered-yet-may-be-seen-late",
        ),
        pytest.param(
            [SENT, a_call(2, 5, "send q1.a", 1, "q"), a_call(3, 4, "send p2.a", 1)],
            True,
            id="each-displaces-the-one-before",
        ),
        pytest.param(
            [SENT, a_call(2, 5, "send q1.a", 1, "q"), a_call(3, 4, "send p2.a", 0)],
            False,
            id="two-of-a-key-wait",
        ),
        pytest.param([a_call(0, 1, "acquire", 1), a_call(0, 1, "acquire", 2, "q")], False, id="two-have-the-session"),
        pytest.param(
            [
                a_call(0, 1, "acquire", 1),
                a_call(2, 3, "release 1", "released"),
                a_call(4, 5, "run 1", "committed"),
            ],
            False,
            id="a-lease-that-was-given-back-is-good",
        ),
    ],
)
def test_an_order_is_found_where_there_is_one(calls: list[Call], has_an_order: bool) -> None:  # noqa: FBT001 - a row
    assert is_linearisable(calls) is has_an_order
