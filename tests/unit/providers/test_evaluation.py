"""One pass over the providers of an event."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.errors import InvalidOption
from sideband.core.events import ProviderEvaluated
from sideband.core.hookevents import SessionEvent, WorkerEvent
from sideband.providers.context import Provider, ProviderContext
from sideband.providers.evaluation import BUDGET_BYTES, Evaluation, evaluate, failure, read_result, within_budget
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
        pytest.param({"effects": [{"body": "a"}]}, ["a"], id="effects"),
        pytest.param([], [], id="an-empty-list"),
        pytest.param(42, [], id="a-number-is-no-effect"),
        pytest.param({"foo": 1}, [], id="some-mapping-is-no-effect"),
    ],
)
def test_what_a_provider_may_return(returned: object, expected: list[str]) -> None:
    (evaluation,) = evaluate([a_provider("mine", returned)], on_idle)
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
    evaluations = evaluate(providers, on_idle)
    assert bodies(evaluations) == [["a"], [], ["b"]]
    assert evaluations[1].event.error is not None
    assert evaluations[1].event.error.startswith(error)
    assert not evaluations[1].event.fired
    assert [evaluation.event.error for evaluation in evaluations[::2]] == [None, None]


def test_only_the_subscribers_of_the_event_are_evaluated_and_each_exactly_once() -> None:
    seen: list[str] = []

    def noting(ctx: ProviderContext) -> None:
        seen.append(ctx.config["id"])

    providers = [
        Provider(id="idle", subscribes_to=(SessionEvent.SESSION_IDLE, SessionEvent.POST_TURN), evaluate=noting),
        Provider(id="turn", subscribes_to=(SessionEvent.POST_TURN,), evaluate=noting),
        Provider(id="also", subscribes_to=(SessionEvent.SESSION_IDLE,), evaluate=noting),
    ]
    assert [evaluation.provider_id for evaluation in evaluate(providers, on_idle)] == ["idle", "also"]
    assert seen == ["idle", "also"]


def test_a_resumed_worker_may_be_reminded() -> None:
    provider = a_provider("mine", {"body": "a"}, WorkerEvent.WORKER_RESUMED)
    (evaluation,) = evaluate([provider], lambda _: a_context("worker_resumed"))
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
        (evaluation,) = evaluate([provider], on_idle)
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
        first, second = evaluate(providers, on_idle, budget_bytes=300)
        assert (first.event.fired, first.event.skipped) == (True, None)
        assert (second.event.fired, second.event.skipped, second.drafts) == (False, "budget", ())

    def test_a_later_smaller_one_may_still_fit(self) -> None:
        providers = [a_provider(f"p{size}", a_body(size)) for size in (240, 240, 60)]
        assert [bool(found) for found in bodies(evaluate(providers, on_idle, budget_bytes=300))] == [True, False, True]

    def test_what_fits_of_a_list_is_kept_and_the_rest_reported(self) -> None:
        (evaluation,) = evaluate([a_provider("p", [a_body(200), a_body(200), a_body(100)])], on_idle, budget_bytes=300)
        assert [len(draft.body) for draft in evaluation.drafts] == [200, 100]
        assert (evaluation.event.fired, evaluation.event.skipped) == (True, "budget")

    def test_a_body_may_take_all_there_is(self) -> None:
        (evaluation,) = evaluate([a_provider("p", a_body(BUDGET_BYTES))], on_idle)
        assert evaluation.event.skipped is None
        (evaluation,) = evaluate([a_provider("p", a_body(BUDGET_BYTES + 1))], on_idle)
        assert evaluation.event.skipped == "budget"

    def test_bytes_are_counted_and_not_characters(self) -> None:
        (evaluation,) = evaluate([a_provider("p", {"body": "日本"})], on_idle, budget_bytes=5)
        assert evaluation.event.skipped == "budget"

    def test_a_failure_stays_a_failure(self) -> None:
        broken = failure("p", "session_idle", "broken")
        assert within_budget([broken], budget_bytes=0) == (broken,)

    @given(st.lists(st.lists(st.integers(1, 50), max_size=4), max_size=6), st.integers(0, 200))
    def test_the_bodies_of_a_pass_never_exceed_the_budget(self, sizes: list[list[int]], budget: int) -> None:
        providers = [a_provider(f"p{index}", [a_body(size) for size in row]) for index, row in enumerate(sizes)]
        evaluations = evaluate(providers, on_idle, budget_bytes=budget)
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


def test_the_context_is_asked_for_by_the_id_of_the_provider() -> None:
    asked: list[str] = []

    def noting(provider_id: str) -> ProviderContext:
        asked.append(provider_id)
        return on_idle(provider_id)

    evaluate([a_provider("first"), a_provider("second")], noting)
    assert asked == ["first", "second"]
