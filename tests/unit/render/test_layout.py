"""Bodies put together from buffers, with markers spliced in."""

from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from sideband.core.ledger import Form, Fragment, Scope
from sideband.render.layout import Kind, Layout, Part, marked_at, spliced


@given(st.data())
def test_a_marker_stands_at_every_mark_and_nothing_else_changes(data: st.DataObject) -> None:
    before, behind = data.draw(st.binary(max_size=8)), data.draw(st.binary(max_size=8))
    begin, whole = data.draw(st.integers(0, 3)), before + behind
    marks = sorted(data.draw(st.sets(st.integers(0, len(whole) - 1)))) if whole else []
    cut = [whole[start:end] for start, end in pairwise([0, *marks, len(whole)])]
    chunks = spliced(bytearray(before), bytearray(behind), [begin + mark for mark in marks], b"<mark>", begin)
    assert b"".join(chunks) == marked_at(whole, marks, b"<mark>") == b"<mark>".join(cut)


def a_fragment(scope: Scope) -> Fragment:
    return Fragment(anchor=0, form=Form.TEXT, role="user", scope=scope, text="")


@given(scopes=st.lists(st.sampled_from(Scope), max_size=4), data=st.data())
def test_the_parts_of_a_body_are_all_of_it_in_order(scopes: list[Scope], data: st.DataObject) -> None:
    lengths = data.draw(st.lists(st.integers(0, 5), min_size=len(scopes) + 4, max_size=len(scopes) + 4))
    ends = list(accumulate(lengths))
    inside = [place for place in range(1, ends[-1]) if place not in ends]
    marks = sorted(data.draw(st.sets(st.sampled_from(inside)))) if inside else []
    ahead = ends[0]
    head_marks = [mark for mark in marks if mark < ahead]
    others = [mark - ahead for mark in marks if mark > ahead]
    behind = data.draw(st.integers(0, ends[1] - ahead))
    rest = [end - ahead - behind for end in ends[2:]]
    fragments = [a_fragment(scope) for scope in scopes]
    parts = list(Layout(ahead, ends[1] - ahead, behind, rest, fragments, head_marks, others, 10).parts())
    assert all(one.end == other.start for one, other in pairwise(parts))
    assert (parts[0].start, parts[-1].end) == (0, ends[-1] + 10 * len(marks)) if ends[-1] else parts == []
    kinds = [Kind.HEAD, Kind.STABLE, Kind.NEW, *(Kind(scope.value) for scope in scopes), Kind.CLOSING]
    for kind in set(kinds):
        length = sum(part.end - part.start for part in parts if part.kind is kind)
        assert length == sum(count for of, count in zip(kinds, lengths, strict=True) if of is kind)
    assert [part.end - part.start for part in parts if part.kind is Kind.MARKER] == [10] * len(marks)


def test_a_marker_parts_the_run_it_stands_in() -> None:
    layout = Layout(4, 0, 0, [0, 2], [], [1], [1], 2)
    assert list(layout.parts()) == [
        Part(Kind.HEAD, 0, 1),
        Part(Kind.MARKER, 1, 3),
        Part(Kind.HEAD, 3, 6),
        Part(Kind.CLOSING, 6, 7),
        Part(Kind.MARKER, 7, 9),
        Part(Kind.CLOSING, 9, 10),
    ]
