"""Bodies put together from buffers, with markers spliced in."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sideband.render.layout import Kind, Layout, Part, spliced


@given(st.data())
def test_a_marker_stands_at_every_mark_and_nothing_else_changes(data: st.DataObject) -> None:
    buffers = data.draw(st.lists(st.binary(max_size=8), min_size=1, max_size=4))
    whole = b"".join(buffers)
    marks = sorted(data.draw(st.sets(st.integers(0, len(whole) - 1)))) if whole else []
    cut = [whole[start:end] for start, end in pairwise([0, *marks, len(whole)])]
    assert spliced([bytearray(buffer) for buffer in buffers], marks, b"<mark>") == b"<mark>".join(cut)


@given(
    lengths=st.lists(st.tuples(st.sampled_from([Kind.HEAD, Kind.NEW, Kind.KEPT]), st.integers(0, 5)), max_size=6),
    data=st.data(),
)
def test_the_parts_of_a_body_are_all_of_it_in_order(lengths: list[tuple[Kind, int]], data: st.DataObject) -> None:
    runs, end = [], 0
    for kind, length in lengths:
        end += length
        runs.append((kind, end))
    inside = [place for place in range(1, end) if place not in {stop for _, stop in runs}]
    marks = sorted(data.draw(st.sets(st.sampled_from(inside)))) if inside else []
    parts = list(Layout(runs, marks, 10).parts())
    assert all(one.end == other.start for one, other in pairwise(parts))
    assert (parts[0].start, parts[-1].end) == (0, end + 10 * len(marks)) if end else parts == []
    for kind in (Kind.HEAD, Kind.NEW, Kind.KEPT):
        length = sum(part.end - part.start for part in parts if part.kind is kind)
        assert length == sum(count for of, count in lengths if of is kind)
    assert [part.end - part.start for part in parts if part.kind is Kind.MARKER] == [10] * len(marks)


def test_a_marker_parts_the_run_it_stands_in() -> None:
    layout = Layout([(Kind.HEAD, 4), (Kind.NEW, 4), (Kind.CLOSING, 6)], [1, 5], 2)
    assert list(layout.parts()) == [
        Part(Kind.HEAD, 0, 1),
        Part(Kind.MARKER, 1, 3),
        Part(Kind.HEAD, 3, 6),
        Part(Kind.CLOSING, 6, 7),
        Part(Kind.MARKER, 7, 9),
        Part(Kind.CLOSING, 9, 10),
    ]
