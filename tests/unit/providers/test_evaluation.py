"""One pass over the providers of an event."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.errors import InvalidOption
from sideband.core.events import ProviderEvaluated
from sideband.core.hookevents import SessionEvent, WorkerEvent
from sideband.providers.context import Provider, ProviderContext
from sideband.providers.evaluation import BUDGET_BYTES, Evaluation, evaluate_one, failure, read_result, within_budget
from tests.unit.providers.contexts import a_context


def a_provider(name: str, answer: object = None, *events: SessionEvent | WorkerEvent) -> Provider:
    """A provider that gives the same answer to everything; an exception is raised."""

    def answers(_ctx: ProviderContext) -> object:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return Provider(id=name, subscribes_to=events or (SessionEvent.SESSION_IDLE,), evaluate=answers)


def on_idle(provider_id: str) -> ProviderContext:
    return a_context("session_idle", config={"id": provider_id})


def a_pass(*providers: Provider, budget_bytes: int = BUDGET_BYTES) -> tuple[Evaluation, ...]:
    """What becomes of these providers when the session is idle."""
    evaluations = [evaluate_one(provider, on_idle(provider.id)) for provider in providers]
    return within_budget(evaluations, budget_bytes=budget_bytes)


def bodies(evaluations: tuple[Evaluation, ...]) -> list[list[str]]:
    return [[draft.body for draft in evaluation.drafts] for evaluation in evaluations]


def a_body(size: int) -> dict[str, str]:
    return {"body": "x" * size}


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        pytest.param(None, [], id="nothing"),
        pytest.param({"body": "a"}, ["a"], id="a-bare-spec"),
        pytest.param({"reminder": {"body": "a"}}, ["a"], id="an-effect"),
        pytest.param([{"body": "a"}, {"reminder": {"body": "b"}}], ["a", "b"], id="a-list"),
        pytest.param([], [], id="an-empty-list"),
    ],
)
def test_what_a_provider_may_return(returned: object, expected: list[str]) -> None:
    (evaluation,) = a_pass(a_provider("mine", returned))
    assert bodies((evaluation,)) == [expected]
    assert evaluation.provider_id == "mine"
    assert evaluation.event == ProviderEvaluated(
        provider_id="mine", event_name="session_idle", fired=bool(expected), error=None, skipped=None
    )


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        pytest.param({"reminder": {}}, "HARN-RMD-006", id="a-reminder-without-a-body"),
        pytest.param([42], "HARN-RMD-006", id="a-list-of-something-else"),
        pytest.param({"effects": [{"body": "a"}]}, "HARN-RMD-006", id="the-form-of-a-hook"),
        pytest.param({"body": "a", "then": {}}, "HARN-RMD-001", id="an-action-which-only-hooks-have"),
        pytest.param({"body": " "}, "HARN-RMD-006", id="a-blank-body"),
        pytest.param({"body": "a", "ttl_turns": 0}, "HARN-RMD-006", id="no-turns"),
        pytest.param({"body": "a", "colour": "red"}, "HARN-RMD-001", id="an-unknown-key"),
        pytest.param({"body": "a", "propagate": "far"}, "HARN-RMD-005", id="an-unknown-reach"),
        pytest.param(InvalidOption("no such setting"), "HARN-RMD-001: no such setting", id="a-wrong-setting"),
        pytest.param(KeyError("x"), "the provider raised KeyError('x')", id="any-exception"),
        pytest.param(RecursionError(), "the provider raised RecursionError()", id="an-exception-without-words"),
    ],
)
def test_a_provider_that_fails_is_reported_and_the_others_still_run(answer: object, error: str) -> None:
    providers = [a_provider("first", {"body": "a"}), a_provider("broken", answer), a_provider("last", {"body": "b"})]
    evaluations = a_pass(*providers)
    assert bodies(evaluations) == [["a"], [], ["b"]]
    assert evaluations[1].event.error is not None
    assert evaluations[1].event.error.startswith(error)
    assert not evaluations[1].event.fired
    assert [evaluation.event.error for evaluation in evaluations[::2]] == [None, None]


def test_a_resumed_worker_may_be_reminded() -> None:
    provider = a_provider("mine", {"body": "a"}, WorkerEvent.WORKER_RESUMED)
    evaluation = evaluate_one(provider, a_context("worker_resumed"))
    assert bodies((evaluation,)) == [["a"]]
    assert evaluation.event.event_name == "worker_resumed"


def test_the_event_is_written_as_its_plain_word() -> None:
    evaluation = read_result("mine", SessionEvent.SESSION_IDLE, None)
    assert type(evaluation.event.event_name) is str
    assert type(failure("mine", SessionEvent.SESSION_IDLE, "x").event.event_name) is str


class TestWaiting:
    def test_a_coroutine_is_refused_and_closed(self) -> None:
        ran: list[int] = []

        async def later(_ctx: ProviderContext) -> None:
            ran.append(1)

        provider = Provider(id="mine", subscribes_to=(SessionEvent.SESSION_IDLE,), evaluate=later)
        (evaluation,) = a_pass(provider)
        assert evaluation.event.error is not None
        assert evaluation.event.error.startswith("HARN-RMD-006: a provider that has to be awaited")
        assert ran == []

    def test_any_other_awaitable_is_refused(self) -> None:
        class Promise:
            def __await__(self) -> Any:  # noqa: ANN401 - never awaited
                raise NotImplementedError

        assert read_result("mine", "session_idle", Promise()).event.error is not None


class TestBudget:
    def test_two_bodies_of_240_do_not_fit_into_300_bytes(self) -> None:
        providers = [a_provider("first", a_body(240)), a_provider("second", a_body(240))]
        first, second = a_pass(*providers, budget_bytes=300)
        assert (first.event.fired, first.event.skipped) == (True, None)
        assert (second.event.fired, second.event.skipped, second.drafts) == (False, "budget", ())

    def test_a_later_smaller_one_may_still_fit(self) -> None:
        providers = [a_provider(f"p{size}", a_body(size)) for size in (240, 240, 60)]
        assert [bool(found) for found in bodies(a_pass(*providers, budget_bytes=300))] == [True, False, True]

    def test_what_fits_of_a_list_is_kept_and_the_rest_reported(self) -> None:
        (evaluation,) = a_pass(a_provider("p", [a_body(200), a_body(200), a_body(100)]), budget_bytes=300)
        assert [len(draft.body) for draft in evaluation.drafts] == [200, 100]
        assert (evaluation.event.fired, evaluation.event.skipped) == (True, "budget")

    def test_a_body_may_take_all_there_is(self) -> None:
        (evaluation,) = a_pass(a_provider("p", a_body(BUDGET_BYTES)))
        assert evaluation.event.skipped is None
        (evaluation,) = a_pass(a_provider("p", a_body(BUDGET_BYTES + 1)))
        assert evaluation.event.skipped == "budget"

    def test_bytes_are_counted_and_not_characters(self) -> None:
        (evaluation,) = a_pass(a_provider("p", {"body": "日本"}), budget_bytes=5)
        assert evaluation.event.skipped == "budget"

    def test_a_failure_stays_a_failure(self) -> None:
        broken = failure("p", "session_idle", "broken")
        assert within_budget([broken], budget_bytes=0) == (broken,)

    @given(st.lists(st.lists(st.integers(1, 50), max_size=4), max_size=6), st.integers(0, 200))
    def test_the_bodies_of_a_pass_never_exceed_the_budget(self, sizes: list[list[int]], budget: int) -> None:
        providers = [a_provider(f"p{index}", [a_body(size) for size in row]) for index, row in enumerate(sizes)]
        evaluations = a_pass(*providers, budget_bytes=budget)
        assert sum(len(body) for found in bodies(evaluations) for body in found) <= budget
        for row, evaluation in zip(sizes, evaluations, strict=True):
            assert (evaluation.event.skipped == "budget") is (len(evaluation.drafts) < len(row))
            assert evaluation.event.fired is bool(evaluation.drafts)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["body", "reminder", "effects", "tags", "ttl_turns", "x"]), inner, max_size=3
            )
        ),
        max_leaves=8,
    )
)
def test_whatever_a_provider_returns_it_is_read_or_reported(returned: object) -> None:
    evaluation = read_result("mine", "session_idle", returned)
    assert not (evaluation.drafts and evaluation.event.error)
    assert evaluation.event.fired is bool(evaluation.drafts)
