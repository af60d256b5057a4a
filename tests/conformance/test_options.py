"""The options of the public functions."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Never, Unpack, get_origin, get_type_hints

import pytest

import sideband as sb
from sideband.models.scripted import ScriptedModel
from sideband.runtime.agents import agent_loop
from sideband.runtime.options import AgentOptions
from tests.agents import awaited
from tests.loopback import a_loopback, over_sockets
from tests.service_replies import anthropic_events, anthropic_stream

PUBLIC_CLASSES = [sb.Session, sb.Store, sb.Producer, sb.Runner, sb.EventLog]
PUBLIC = [
    *(getattr(sb, name) for name in sb.__all__ if inspect.isfunction(getattr(sb, name))),
    *(
        method
        for kind in PUBLIC_CLASSES
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_") or name == "__init__"
    ),
]


@pytest.mark.requirement("options:signature:every-parameter-is-typed")
@pytest.mark.parametrize("function", PUBLIC, ids=lambda function: function.__qualname__)
def test_every_parameter_has_a_name_and_a_type(function: Callable[..., Any]) -> None:
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "self":
            continue
        assert parameter.annotation not in (parameter.empty, Any), parameter
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            # Names that a type checker knows, or no name at all.
            assert get_origin(parameter.annotation) is Unpack or parameter.annotation is Never, parameter


@pytest.mark.requirement("options:signature:one-list-for-all-runs")
def test_the_options_of_agent_loop_are_those_of_every_run() -> None:
    hints = get_type_hints(agent_loop)
    del hints["task"], hints["session"], hints["return"]
    assert hints == get_type_hints(AgentOptions)


@pytest.mark.requirement("options:run:wrong-value-is-refused-at-the-start")
@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("max_turns", "3", "max_turns must be a whole number of at least 0 or None, not '3'"),
        ("max_turns", -1, "max_turns must be a whole number of at least 0 or None, not -1"),
        ("max_tokens", 1.5, "max_tokens must be a whole number of at least 0 or None, not 1.5"),
        ("wake_seconds", 0, "wake_seconds must be a number above 0 or None, not 0"),
        ("model_seconds", -5, "model_seconds must be a number above 0, not -5"),
        ("tool_seconds", None, "tool_seconds must be a number above 0, not None"),
        ("hook_seconds", "5", "hook_seconds must be a number above 0, not '5'"),
        ("system", None, "system must be a text, not None"),
        ("name", 7, "name must be a text, not 7"),
        ("system_prompt_parts", "one text", "system_prompt_parts must be a list of texts, not 'one text'"),
        ("system_prompt_parts", [1], r"system_prompt_parts must be a list of texts, not \[1\]"),
        ("daemon", "yes", "daemon must be True or False, not 'yes'"),
        ("queue_after_cancel", "drop", "queue_after_cancel must be 'hold' or 'deliver', not 'drop'"),
        ("placement", "head", "placement must be 'seed', 'tail', 'native' or None, not 'head'"),
        ("base_url", 8080, "base_url must be a text, not a value of the type int"),
        ("hooks", 3, r"hooks must be Hooks\(\)"),
        (
            "providers",
            ["-x"],
            r"providers must be a Registry of providers; the option that turns providers on and off is",
        ),
        ("closing", 3, "closing must be a mapping from statuses"),
        ("facts", 3, "facts must be a FactBook or None, not 3"),
        ("anchor", "x", "anchor must be a WorkspaceAnchor or None, not 'x'"),
        ("on_text", 3, "on_text must be a function or None, not 3"),
        ("on_restart", 3, "on_restart must be a function or None, not 3"),
        ("clock", 3, r"clock must be an object with monotonic\(\), now_ms\(\) and sleep\(\), or None, not 3"),
        ("compactor", "shorten", "compactor must be 'summarize', 'keep_last', a function or an object"),
    ],
)
@awaited
async def test_a_wrong_value_is_refused_before_the_run_begins(option: str, value: object, message: str) -> None:
    session = await sb.open_store().session("s")
    wrong: Any = {option: value}
    with pytest.raises(sb.ReminderError, match=message) as refused:
        await sb.agent_loop("Fix it", session=session, **{"model": "scripted:Done.", **wrong})
    assert (refused.value.code, refused.value.field) == ("HARN-RMD-001", option)
    assert not (await session.transcript()).messages
    assert not await session.waiting()


@pytest.mark.requirement("options:run:wrong-value-is-refused-at-the-start")
@awaited
async def test_a_context_window_that_none_can_be_is_refused() -> None:
    reminders: Any = {"config": {"token_pressure": {"context_window": -5}}}
    with pytest.raises(sb.ReminderError, match=r"context_window.* -5"):
        await sb.agent_loop("Fix it", model="scripted:", reminders=reminders)


@pytest.mark.requirement("options:run:wrong-value-is-refused-at-the-start")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"system": 3}, "system must be a text, not 3"),
        ({"system_prompt_parts": "abc"}, "system_prompt_parts must be a list of texts, not 'abc'"),
        ({"on_text": 3}, "on_text must be a function or None, not 3"),
        ({"prompt": " "}, "content is blank"),
    ],
)
@awaited
async def test_a_single_call_checks_what_a_run_checks(given: dict[str, Any], message: str) -> None:
    model = ScriptedModel()
    with pytest.raises(sb.ReminderError, match=message):
        await sb.llm_call(**{"prompt": "Hi.", "model": model, **given})
    assert model.requests == []


@pytest.mark.requirement("options:run:unknown-name-is-refused")
@awaited
async def test_an_unknown_option_is_refused_with_the_nearest_name() -> None:
    wrong: Any = {"max_turn": 3}
    with pytest.raises(TypeError, match="a run has no option 'max_turn'; did you mean 'max_turns'"):
        await sb.agent_run("Fix it", model="scripted:", **wrong)


@pytest.mark.requirement("options:session:name-is-not-a-session")
@pytest.mark.parametrize("call", [sb.agent_loop, sb.llm_call])
@awaited
async def test_the_name_of_a_session_is_refused(call: Callable[..., Coroutine[Any, Any, object]]) -> None:
    with pytest.raises(sb.ReminderError, match=r"get it with `await store.session\('fix-login'\)`"):
        await call("Fix it", session="fix-login", model="scripted:")
    with pytest.raises(sb.ReminderError, match=r"session must be a Session, not <.*Store.*; get it with `await store"):
        await call("Fix it", session=sb.open_store(), model="scripted:")


@pytest.mark.requirement("options:session:name-is-not-a-session")
def test_a_runner_needs_a_session() -> None:
    name: Any = "abc"
    with pytest.raises(sb.ReminderError, match="session must be a Session, not 'abc'"):
        sb.Runner(name, model="scripted:")


@pytest.mark.requirement("options:session:belongs-to-one-event-loop")
@pytest.mark.parametrize("kind", ["memory:", "sqlite:///{}/sessions.db"])
def test_a_session_belongs_to_one_event_loop(kind: str, tmp_path: Path) -> None:
    store = sb.open_store(kind.format(tmp_path))
    refusals: list[str] = []

    async def refused(*calls: Coroutine[Any, Any, object]) -> None:
        for call in calls:
            with pytest.raises(sb.ReminderError) as error:
                await call
            refusals.append(str(error.value))

    async def begun() -> sb.Session:
        session = await store.session("s")
        await asyncio.to_thread(
            asyncio.run,
            refused(
                session.remind("from another thread"),
                session.transcript(),
                session.view(),
                sb.agent_loop("Fix it", session=session, model="scripted:"),
                store.session("other"),
            ),
        )
        await session.remind("from this thread")
        return session

    session = asyncio.run(begun())
    assert len(refusals) == 5
    assert all("asyncio.run_coroutine_threadsafe()" in refusal for refusal in refusals)
    if kind == "memory:":
        assert [item.reminder.body for item in asyncio.run(session.pending())] == ["from this thread"]
    else:
        asyncio.run(refused(session.remind("later"), store.session("s")))
        assert all("open it again in this one" in refusal for refusal in refusals[5:])


@pytest.mark.requirement("options:model:address-and-key")
@over_sockets
async def test_the_given_address_and_key_are_used() -> None:
    async with a_loopback(
        anthropic_stream(*anthropic_events("One.")), anthropic_stream(*anthropic_events("Two."))
    ) as service:
        where: Any = {"model": "anthropic:claude-opus-5", "base_url": service.url, "api_key": "key-of-the-test"}
        assert (await sb.agent_loop("Fix it", **where)).text == "One."
        assert (await sb.llm_call("Fix it", **where)).text == "Two."
        assert [request.headers["authorization"] for request in service.requests] == ["Bearer key-of-the-test"] * 2


@pytest.mark.requirement("options:model:placement")
@over_sockets
async def test_the_given_placement_is_used() -> None:
    async with a_loopback(*(anthropic_stream(*anthropic_events("Done.")) for _ in range(2))) as service:
        for placement in (None, "seed"):
            session = await sb.open_store().session()
            await session.remind("the build is red", role_hint="system")
            await sb.agent_loop(
                "Fix it",
                session=session,
                model="anthropic:claude-sonnet-4-5",
                placement=placement,
                base_url=service.url,
                api_key="key",
            )
        tail, seed = (request.json for request in service.requests)
        assert "the build is red" in str(tail["messages"])
        assert "the build is red" in str(seed["system"])
        assert "the build is red" not in str(tail.get("system")) + str(seed["messages"])


@pytest.mark.requirement("options:model:object-has-its-own")
@awaited
async def test_a_model_object_has_its_own_settings() -> None:
    for wrong in ({"placement": "tail"}, {"base_url": "http://127.0.0.1:1"}, {"api_key": "k"}):
        given: Any = wrong
        with pytest.raises(sb.ReminderError, match="pass it to the model object instead"):
            await sb.llm_call("Fix it", model=ScriptedModel(), **given)
    for model in ("scripted:", "local:"):
        with pytest.raises(sb.ReminderError, match=r"model has no api_key; leave it out"):
            await sb.llm_call("Fix it", model=model, api_key="k")


@pytest.mark.requirement("options:task:blocks-of-content")
@awaited
async def test_a_task_may_be_blocks() -> None:
    blocks = [{"type": "text", "text": "Fix it"}, {"type": "text", "text": "today"}]
    model = ScriptedModel()
    await sb.agent_loop(blocks, model=model)
    await sb.llm_call(blocks, model=model)
    session = await sb.open_store().session()
    await sb.llm_call(blocks, model=model, session=session)
    assert [[*request.messages[0]["content"]] for request in model.requests] == [blocks] * 3
    with pytest.raises(sb.ReminderError, match="content is blank"):
        await sb.llm_call([{"type": "text", "text": " "}], model=model, session=session)
