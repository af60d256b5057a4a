"""Bodies that begin alike: each is a value of its own, whatever is written after it."""

from hypothesis import given
from hypothesis import strategies as st

from sideband.render.page import Page

FRONT = b"front "
OTHER_FRONT = b"another front "

ends = st.binary(max_size=20) | st.sampled_from([b"3 tests fail.", b"4 tests fail."])
steps = st.lists(st.tuples(st.sampled_from([FRONT, OTHER_FRONT]), ends, st.booleans(), st.booleans()))


def test_what_is_kept_is_not_given_again() -> None:
    page = Page()
    assert page.finish(FRONT, [b"one,", b"two]"]) == b"front one,two]"
    page.keep(len(b"one,"))
    assert page.finish(FRONT, [b"three]"]) == b"front one,three]"


def test_a_body_that_is_shorter_than_the_one_before_has_nothing_of_its_end() -> None:
    page = Page()
    page.finish(FRONT, [b"a long end"])
    assert page.finish(FRONT, [b"an end"]) == b"front an end"


def test_another_front_moves_what_is_kept() -> None:
    page = Page()
    page.finish(FRONT, [b"one,", b"two]"])
    page.keep(len(b"one,"))
    assert page.finish(OTHER_FRONT, [b"three]"]) == b"another front one,three]"
    assert page.finish(FRONT, [b"four]"]) == b"front one,four]"


@given(steps)
def test_a_body_stays_what_it_was_as_long_as_somebody_holds_it(
    drawn: list[tuple[bytes, bytes, bool, bool]],
) -> None:
    page, kept = Page(), b""
    held: list[tuple[bytes, bytes]] = []
    for front, end, keeps, holds in drawn:
        body = page.finish(front, [end])
        assert body == front + kept + end
        # Bytes remember their hash, and whoever keeps bodies by it has to find them.
        assert hash(body) == hash(bytes(bytearray(body)))
        if holds:
            held.append((body, bytes(bytearray(body))))
        if keeps:
            page.keep(len(end))
            kept += end
        # Only what nobody holds is written on.
        del body
    assert all(body == copy for body, copy in held)
