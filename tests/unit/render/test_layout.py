"""Joining a body from buffers and inserting cache markers."""

from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from sideband.core.ledger import Form, Fragment, Lifetime
from sideband.render.layout import Layout, Part, PartKind, spliced


@given(st.binary(max_size=8), st.data())
def test_a_marker_stands_at_every_mark_and_nothing_else_changes(whole: bytes, data: st.DataObject) -> None:
    marks = sorted(data.draw(st.sets(st.integers(0, len(whole) - 1)))) if whole else []
    cut = [whole[start:end] for start, end in pairwise([0, *marks, len(whole)])]
    assert b"".join(spliced(bytearray(whole), marks, b"<mark>")) == b"<mark>".join(cut)


def a_fragment(scope: Lifetime) -> Fragment:
    return Fragment(anchor=0, form=Form.TEXT, role="user", scope=scope, text="")


@given(scopes=st.lists(st.sampled_from(Lifetime), max_size=4), data=st.data())
def test_the_parts_of_a_body_add_up_to_the_whole_in_order(scopes: list[Lifetime], data: st.DataObject) -> None:
    lengths = data.draw(st.lists(st.integers(0, 5), min_size=len(scopes) + 4, max_size=len(scopes) + 4))
    ends = list(accumulate(lengths))
    inside = [place for place in range(1, ends[-1]) if place not in ends]
    marks = sorted(data.draw(st.sets(st.sampled_from(inside)))) if inside else []
    ahead = ends[0]
    head_marks = [mark for mark in marks if mark < ahead]
    others = [mark - ahead for mark in marks if mark > ahead]
    fork = data.draw(st.integers(0, ends[1] - ahead))
    fragments = [a_fragment(scope) for scope in scopes]
    layout = Layout(
        head=ahead,
        answered=ends[1] - ahead,
        fork=fork,
        ends=[end - ahead - fork for end in ends[2:]],
        fragments=fragments,
        head_marks=head_marks,
        marks=others,
        marker=10,
    )
    parts = list(layout.parts())
    assert all(one.end == other.start for one, other in pairwise(parts))
    assert (parts[0].start, parts[-1].end) == (0, ends[-1] + 10 * len(marks)) if ends[-1] else parts == []
    kinds = [
        PartKind.HEAD,
        PartKind.STABLE,
        PartKind.NEW,
        *(PartKind(scope.value) for scope in scopes),
        PartKind.CLOSING,
    ]
    for kind in set(kinds):
        length = sum(part.end - part.start for part in parts if part.kind is kind)
        assert length == sum(count for of, count in zip(kinds, lengths, strict=True) if of is kind)
    assert [part.end - part.start for part in parts if part.kind is PartKind.MARKER] == [10] * len(marks)


def test_a_marker_splits_the_buffer_it_stands_in() -> None:
    layout = Layout(head=4, answered=0, fork=0, ends=[0, 2], fragments=[], head_marks=[1], marks=[1], marker=2)
    assert list(layout.parts()) == [
        Part(PartKind.HEAD, 0, 1),
        Part(PartKind.MARKER, 1, 3),
        Part(PartKind.HEAD, 3, 6),
        Part(PartKind.CLOSING, 6, 7),
        Part(PartKind.MARKER, 7, 9),
        Part(PartKind.CLOSING, 9, 10),
    ]
