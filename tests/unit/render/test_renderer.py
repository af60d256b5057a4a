"""One renderer for many requests: parameters, heads, its memory, and repeated requests."""

import json
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from sideband.core.errors import InvalidOption
from sideband.core.ledger import Form, Fragment, Ledger, Lifetime
from sideband.core.live import LiveIndex, LiveItem
from sideband.core.trust import IN_PROCESS, Provenance, Trust
from sideband.render.layout import PartKind
from sideband.render.plan import Plan
from sideband.render.profiles import Placement
from sideband.render.renderer import MAX_SESSIONS, NOT_AUTOMATIC, Renderer
from sideband.render.view import RequestView
from tests.builders import a_reminder
from tests.planned_sessions import CLAUDE, a_profile
from tests.rendering_sessions import PROFILES
from tests.unit.render.conversations import a_result, a_user, a_view, an_answer, rendered


def a_renderer(profile: str = "anthropic", **options: Any) -> Renderer:  # noqa: ANN401 - those of a renderer
    return Renderer(PROFILES[profile], model="model-1", **options)


class TestWhatARequestSays:
    @pytest.mark.parametrize(
        ("profile", "field", "without"),
        [
            ("anthropic", "max_tokens", 32_000),
            ("chat", "max_completion_tokens", None),
            ("responses", "max_output_tokens", None),
            ("generic", "max_tokens", None),
        ],
    )
    def test_how_long_a_reply_may_be(self, profile: str, field: str, without: int | None) -> None:
        body = json.loads(a_renderer(profile, max_output_tokens=99).render(a_view([a_user()])).request.body)
        assert body[field] == 99
        assert json.loads(a_renderer(profile).render(a_view([a_user()])).request.body).get(field) == without

    def test_how_long_a_reply_of_gemini_may_be(self) -> None:
        renderer = a_renderer("gemini", max_output_tokens=99, parameters={"generationConfig": {"temperature": 0}})
        body = json.loads(renderer.render(a_view([a_user()])).request.body)
        assert body["generationConfig"] == {"temperature": 0, "maxOutputTokens": 99}

    @pytest.mark.parametrize("profile", ["anthropic", "chat", "responses", "generic"])
    def test_whether_the_reply_is_streamed(self, profile: str) -> None:
        body = json.loads(a_renderer(profile, stream=False).render(a_view([a_user()])).request.body)
        assert body["stream"] is False
        assert "stream_options" not in body

    @pytest.mark.parametrize("profile", ["anthropic", "chat", "responses", "gemini", "generic"])
    def test_further_fields_of_the_body(self, profile: str) -> None:
        body = json.loads(
            a_renderer(profile, parameters={"service_tier": "flex"}).render(a_view([a_user()])).request.body
        )
        assert body["service_tier"] == "flex"

    @pytest.mark.parametrize("name", ["messages", "input", "contents", "tools", "system", "model", "stream"])
    def test_what_the_renderer_writes_is_no_parameter(self, name: str) -> None:
        with pytest.raises(InvalidOption, match=name):
            a_renderer(parameters={name: []})

    def test_the_placement_is_that_of_the_profile_unless_told_otherwise(self) -> None:
        assert a_renderer().placement is Placement.TAIL
        assert a_renderer("anthropic-clearing").placement is Placement.NATIVE
        assert a_renderer(placement=Placement.SEED).placement is Placement.SEED


class TestARoute:
    def test_is_another_where_anything_before_the_conversation_is(self) -> None:
        view, messages = a_view([a_user()]), [a_user()]
        routes = [
            a_renderer().render(view).route,
            a_renderer(placement=Placement.SEED).render(view).route,
            a_renderer("anthropic-prefix-bound").render(view).route,
            a_renderer(parameters={"temperature": 0}).render(view).route,
            Renderer(PROFILES["anthropic"], model="model-2").render(view).route,
            a_renderer().render(a_view(messages, system="Mind.")).route,
            a_renderer().render(a_view(messages, tools=[a_tool()])).route,
        ]
        assert len(set(routes)) == len(routes)

    def test_is_the_same_for_every_request_of_a_window(self) -> None:
        renderer = a_renderer("gemini", placement=Placement.SEED)
        one = renderer.render(a_view([a_user()]))
        other = renderer.render(a_view([a_user(), an_answer(), a_user()], a_reminder()))
        assert one.route == other.route


class TestTheSeed:
    def test_says_that_a_result_carries_the_text_of_a_peer_where_no_user_turn_may_follow_it(self) -> None:
        live = LiveIndex()
        live.add(a_reminder(), Provenance(trust=Trust.PEER, principal="reviewer"))
        live.add(a_reminder("r2"), IN_PROCESS)
        called = {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "name": "run", "args": {}}]}
        result = {"role": "tool", "tool_call_id": "c1", "name": "run", "content": "done", "status": "ok"}
        plan = a_renderer("generic", placement=Placement.SEED).render(a_view([called, result], live=live))
        assert {shown.reminder_id: shown.rendered_role for shown in plan.shown} == {"r1": "tool", "r2": "system"}


def a_tool(name: str = "look") -> dict[str, Any]:
    return {"name": name, "description": "Read a file.", "parameters": {"type": "object"}}


class Interrupted(LiveIndex):
    """Live reminders whose iteration is interrupted."""

    def __iter__(self) -> Iterator[LiveItem]:
        raise KeyboardInterrupt


class TestWhatIsRemembered:
    """A renderer with memory builds the same request as a new one, in any order of requests."""

    @pytest.mark.parametrize(
        "change",
        [
            pytest.param({}, id="nothing"),
            pytest.param({"window": 1}, id="the-window"),
            pytest.param({"system": "Mind."}, id="the-system-text"),
            pytest.param({"tools": [a_tool("run")]}, id="the-tools"),
            pytest.param({"messages": [a_user("Another.")]}, id="the-conversation"),
            pytest.param({"messages": [a_user(), an_answer(), a_user("Another."), an_answer()]}, id="its-last-message"),
        ],
    )
    def test_changes_nothing(self, change: dict[str, Any]) -> None:
        messages = [a_user(), an_answer(), a_user("Go on.")]
        renderer = a_renderer()
        renderer.render(a_view(messages, session_id="s1", tools=[a_tool()]))
        view = a_view(messages, a_reminder(), **{"session_id": "s1", "tools": [a_tool()], **change})
        assert renderer.render(view) == a_renderer().render(view)

    @pytest.mark.parametrize("profile", PROFILES)
    def test_an_interrupted_request_leaves_no_trace(self, profile: str) -> None:
        renderer, said = a_renderer(profile), [a_user("Go."), an_answer("Going."), a_user("And now?")]
        live = Interrupted()
        live.add(a_reminder(), IN_PROCESS)
        renderer.render(a_view(said[:1]))
        with pytest.raises(KeyboardInterrupt):
            renderer.render(a_view(said[:2], live=live))
        assert renderer._histories == {}
        assert renderer.render(a_view(said)).request.body == a_renderer(profile).render(a_view(said)).request.body

    def test_changes_nothing_where_the_ledger_has_more_about_what_was_written(self) -> None:
        messages = [a_user(), an_answer(), a_user("Go on.")]
        view = a_view(messages, session_id="s1")
        renderer = a_renderer()
        route = renderer.render(view).route
        view.ledger.join(route, [Fragment(anchor=1, form=Form.TEXT, role="user", scope=Lifetime.KEPT, text="Kept.")], 1)
        assert b"Kept." in renderer.render(view).request.body
        assert renderer.render(view) == a_renderer().render(view)

    def test_is_taken_from_a_copy_of_the_conversation_too(self) -> None:
        renderer = a_renderer()
        messages = [a_user()]
        renderer.render(a_view(messages, session_id="s1"))
        longer = a_view((), session_id="s1", messages=(a_user(), an_answer(), a_user()))
        assert renderer.render(longer) == a_renderer().render(longer)

    def test_is_not_mixed_up_where_there_is_no_session(self) -> None:
        renderer = a_renderer()
        renderer.render(a_view([a_user("Mine."), an_answer(), a_user("Go on.")]))
        other = renderer.render(a_view([a_user("Yours."), an_answer(), a_user("Go on.")]))
        assert b"Mine." not in other.request.body

    def test_is_limited_to_a_number_of_sessions(self) -> None:
        renderer = a_renderer()
        for number in range(MAX_SESSIONS + 5):
            renderer.render(a_view([a_user()], session_id=f"s{number}"))
            renderer.render(a_view([a_user()], session_id="s0"))
        assert len(renderer._histories) == MAX_SESSIONS
        assert "s0" in renderer._histories
        assert "s1" not in renderer._histories


class TestAutomaticCaching:
    def test_is_asked_for_in_one_place(self) -> None:
        plan = rendered("anthropic-automatic", [a_user()], a_reminder(ttl_turns=2), system="Mind.")
        body = json.loads(plan.request.body)
        assert body.pop("cache_control") == {"type": "ephemeral"}
        assert "cache_control" not in json.dumps(body)
        assert NOT_AUTOMATIC not in plan.advice

    @pytest.mark.parametrize(("calls", "is_asked"), [(9, True), (10, False)])
    def test_is_given_up_where_a_turn_adds_too_many_blocks(self, *, calls: int, is_asked: bool) -> None:
        names = [f"c{number}" for number in range(calls)]
        plan = rendered("anthropic-automatic", [a_user(), an_answer("", *names), *map(a_result, names)])
        assert (b"cache_control" in plan.request.body) is is_asked
        assert (NOT_AUTOMATIC in plan.advice) is not is_asked

    def test_is_given_up_where_reminders_make_them_too_many(self) -> None:
        names = [f"c{number}" for number in range(9)]
        messages = [a_user(), an_answer("", *names), *map(a_result, names)]
        one, other = (a_reminder(name, body=name) for name in ("r1", "r2"))
        assert b"cache_control" in rendered("anthropic-automatic", messages, one).request.body
        plan = rendered("anthropic-automatic", messages, one, other)
        assert b"cache_control" not in plan.request.body
        assert NOT_AUTOMATIC in plan.advice

    def test_is_given_up_where_text_does_not_stay(self) -> None:
        again = (Fragment(anchor=1, form=Form.TEXT, role="user", scope=Lifetime.VOLATILE, text="Passing."),)
        plan = rendered("anthropic-automatic", [a_user()], again=again)
        assert b"cache_control" not in plan.request.body
        assert NOT_AUTOMATIC in plan.advice


def test_the_parts_of_a_request_tell_what_is_old_and_what_is_new() -> None:
    messages = [a_user("Old."), an_answer("New."), a_user("Newer.")]
    plan = rendered("anthropic", messages, a_reminder("r1", body="Kept."), a_reminder("r2", ttl_turns=1))
    runs: dict[PartKind, bytes] = {}
    for part in plan.request.parts:
        runs[part.kind] = runs.get(part.kind, b"") + plan.request.body[part.start : part.end]
    assert b"Old." in runs[PartKind.STABLE]
    assert b"New." in runs[PartKind.NEW]
    assert b"Newer." in runs[PartKind.NEW]
    assert b"Kept." in runs[PartKind.KEPT]
    assert b"The build is red." in runs[PartKind.VOLATILE]
    assert runs[PartKind.CLOSING] == b"]}]}"
    assert b"The build is red." not in plan.request.stable
    assert b"Kept." in plan.request.stable


class TestThoughts:
    """Some models accept a thinking block only after exactly the prefix it was written for."""

    THOUGHT: ClassVar[dict[str, str]] = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    HIDDEN: ClassVar[dict[str, str]] = {"type": "redacted_thinking", "data": "c2Vj"}

    def messages(self) -> list[dict[str, Any]]:
        said = {"type": "text", "text": "Done."}
        answer = an_answer(native={"anthropic": [self.THOUGHT, self.HIDDEN, said]})
        return [a_user(), answer, a_user("Go on.")]

    def thoughts(self, plan: Plan) -> list[dict[str, str]]:
        (reply,) = [message for message in json.loads(plan.request.body)["messages"] if message["role"] == "assistant"]
        assert reply["content"][-1]["text"] == "Done."
        return [{**block} for block in reply["content"][:-1]]

    def test_are_sent_back_inside_the_window_they_were_thought_in(self) -> None:
        renderer = a_renderer("anthropic-prefix-bound")
        view = a_view(self.messages())
        view.ledger.join(renderer.render(view).route, [], 1)
        assert self.thoughts(renderer.render(view)) == [self.THOUGHT, self.HIDDEN]
        assert renderer.render(view) == a_renderer("anthropic-prefix-bound").render(view)

    @pytest.mark.parametrize(
        "ledger",
        [
            pytest.param(Ledger(), id="a-window-without-an-answer"),
            pytest.param(Ledger(route="another", since=1), id="a-window-of-another-route"),
        ],
    )
    def test_are_left_out_in_a_window_that_begins_behind_them(self, ledger: Ledger) -> None:
        view = a_view(self.messages(), ledger=ledger)
        assert self.thoughts(a_renderer("anthropic-prefix-bound").render(view)) == []
        assert self.thoughts(a_renderer("anthropic").render(view)) == [self.THOUGHT, self.HIDDEN]

    def test_are_left_out_where_the_front_of_each_request_is_another(self) -> None:
        renderer = a_renderer("anthropic-prefix-bound", placement=Placement.SEED)
        view = a_view(self.messages())
        view.ledger.join(renderer.render(view).route, [], 1)
        assert self.thoughts(renderer.render(view)) == []

    def test_alone_leave_the_words_of_a_reply(self) -> None:
        messages = [a_user(), an_answer(native={"anthropic": [self.THOUGHT]}), a_user("Go on.")]
        assert self.thoughts(a_renderer("anthropic-prefix-bound").render(a_view(messages))) == []

    def test_are_left_out_by_a_renderer_that_remembers_them(self) -> None:
        renderer = a_renderer("anthropic-prefix-bound")
        view = a_view(self.messages(), session_id="s1")
        view.ledger.join(renderer.render(view).route, [], 1)
        renderer.render(view)
        view.ledger.clear()
        assert self.thoughts(renderer.render(view)) == []


# Repeated requests.


FOLDING = a_profile(CLAUDE, user_text_resets_reasoning=True, fold_into_tool_result=True)
MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "Begin."},
    {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "name": "run", "args": {}}]},
    {"role": "tool", "tool_call_id": "c1", "name": "run", "status": "ok", "content": "x = 1"},
]


def test_a_result_with_text_in_it_that_does_not_stay_is_not_marked() -> None:
    passing = Fragment(
        anchor=len(MESSAGES), form=Form.RESULT, role="user", scope=Lifetime.VOLATILE, text="note", reminders=("r",)
    )
    view = RequestView(turn=2, system="", messages=MESSAGES, tools=(), live=LiveIndex(), again=(passing,))
    body = json.loads(Renderer(FOLDING, model="claude", placement=Placement.TAIL).render(view).request.body)
    (result,) = body["messages"][-1]["content"]
    assert [block["text"] for block in result["content"]] == ["x = 1", "note"]
    assert "cache_control" not in result
    assert "cache_control" in json.dumps(body["messages"][:-1])
