"""What failed without stopping the run, told in a length that can be read."""

from sideband.loop.problems import MAX_PROBLEMS, Problem, Problems


def test_what_is_the_same_is_told_once_with_how_often_it_was() -> None:
    problems = Problems()
    for where, message in [("a", "x"), ("b", "x"), ("a", "x"), ("a", "y")]:
        problems.report(Problem(where, message))
    assert problems.told() == (Problem("a", "x", 2), Problem("b", "x"), Problem("a", "y"))


def test_of_too_many_different_ones_the_first_are_kept_and_the_rest_are_counted() -> None:
    problems = Problems()
    for number in range(MAX_PROBLEMS + 5):
        problems.report(Problem("a", str(number)))
    problems.report(Problem("a", "0"))
    told = problems.told()
    assert len(told) == MAX_PROBLEMS + 1
    assert (told[0].times, told[-1].where, told[-1].times) == (2, "problems", 5)


def test_where_nothing_failed_there_is_nothing_to_tell() -> None:
    assert Problems().told() == ()
