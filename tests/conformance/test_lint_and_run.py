"""One mistake, one code: what `lint` reports of a program is what the program is refused with when it runs."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import PurePath
from textwrap import dedent, indent
from typing import Any, Final

import pytest

import sideband as sb
from sideband.core.errors import ReminderError
from sideband.core.surfaces import Surface
from sideband.core.trust import Provenance, Trust
from sideband.lint.check import check_source
from sideband.runtime.producer import Producer
from sideband.runtime.store import Store
from tests.agents import AnAgent

CODE: Final = re.compile(r"(?:HARN-RMD|SIDEBAND)-\d{3}")
PROVIDER: Final = """
register_reminder_provider(id="guard", subscribes_to=["session_start"], evaluate=lambda ctx: {})
await agent_loop("Go on.", session=session, model=model)
"""
HOOK: Final = """
register_session_hook("{}", lambda ctx: {})
await agent_loop("Go on.", session=session, model=model)
"""
LOOP: Final = 'await agent_loop("Go on.", session=session, model=model, reminders={})'
PEER: Final = """
producer = Producer(session, who, surface=Surface.A2A)
await producer.remind({})
"""


@pytest.fixture(autouse=True)
def _hooks_and_providers_of_this_test() -> Iterator[None]:
    yield
    sb.clear_hooks()
    sb.clear_reminder_providers()


def codes_of_lint(program: str) -> list[str]:
    return [finding.code for finding in check_source(program.encode(), PurePath("agent.py"))]


def codes_at_run_time(program: str) -> list[str]:
    """The code with which the program is refused, or those of the problems of its loop."""
    agent = AnAgent()
    names: dict[str, Any] = {
        **{name: getattr(sb, name) for name in sb.__all__},
        "Producer": Producer,
        "Surface": Surface,
        "model": agent.model,
        "session": agent.session,
        "store": Store(agent.recorded),
        "transcript": sb.Transcript(),
        "who": Provenance(trust=Trust.PEER, principal="planner", via="a2a"),
    }
    exec(f"async def main():\n{indent(program.replace('await agent_loop', 'return await agent_loop'), '    ')}", names)  # noqa: S102 - a row of the table
    try:
        result = asyncio.run(names["main"]())
    except ReminderError as error:
        return [error.code]
    return [code for problem in result.problems for code in CODE.findall(problem.message)[:1]]


@pytest.mark.requirement("lint:code:same-as-at-run-time")
@pytest.mark.parametrize(
    ("program", "code"),
    [
        pytest.param('inject_reminder(transcript, body=" ", ttl_turns=1)', "HARN-RMD-001", id="a-blank-body"),
        pytest.param(
            'inject_reminder(transcript, body="x", ttl_turns=1, ttl=1)', "HARN-RMD-001", id="an-unknown-option"
        ),
        pytest.param('inject_reminder(transcript, body="x", ttl_turns=1, propagate="up")', "HARN-RMD-005", id="reach"),
        pytest.param("clear_reminders(transcript)", "HARN-RMD-001", id="a-clear-without-a-selector"),
        pytest.param('await session.remind("x", ttl_turns=0)', "HARN-RMD-001", id="a-ttl-of-nothing"),
        pytest.param('await session.remind("x", ttl_turns=1, mode="later")', "SIDEBAND-201", id="an-unknown-mode"),
        pytest.param('await session.remind("x" * 9000, ttl_turns=1)', "SIDEBAND-106", id="a-large-body"),
        pytest.param('await session.replace_reminder("r", "")', "HARN-RMD-001", id="a-blank-replacement"),
        pytest.param(PEER.format('{"body": "x", "ttlTurns": "2"}'), "HARN-RMD-002", id="a-wrong-type-of-a-peer"),
        pytest.param(PEER.format('{"body": "x", "ttl_turns": 2}'), "HARN-RMD-001", id="a-wrong-case-of-a-peer"),
        pytest.param(PEER.format('{"body": "x", "ttlTurns": 2, "mode": "now"}'), "SIDEBAND-201", id="mode-of-a-peer"),
        pytest.param(PROVIDER.format('{"body": "", "ttl_turns": 1}'), "HARN-RMD-006", id="a-blank-body-of-a-provider"),
        pytest.param(PROVIDER.format('{"body": "x", "colour": 1, "ttl_turns": 1}'), "HARN-RMD-001", id="beside-a-body"),
        pytest.param(PROVIDER.format('{"foo": 1}'), "HARN-RMD-006", id="another-mapping-of-a-provider"),
        pytest.param(PROVIDER.format("{}"), "HARN-RMD-006", id="an-empty-mapping-of-a-provider"),
        pytest.param(PROVIDER.format('{"effects": []}'), "HARN-RMD-006", id="the-form-of-a-hook"),
        pytest.param(
            PROVIDER.format('{"reminder": {"body": "x", "ttl_turns": 1}, "foo": 1}'), "HARN-RMD-006", id="foo"
        ),
        pytest.param(
            PROVIDER.format('{"reminder": {"body": "x", "ttl_turns": 1}, "then": {"deny": "no"}}'),
            "HARN-RMD-006",
            id="an-action-of-a-provider",
        ),
        pytest.param(
            PROVIDER.format('[{"reminder": {"body": "x", "ttl_turns": 1}, "foo": 1}]'),
            "HARN-RMD-006",
            id="beside-a-reminder-in-a-list",
        ),
        pytest.param(PROVIDER.format('"x"'), "HARN-RMD-006", id="text-of-a-provider"),
        pytest.param(PROVIDER.format("3"), "HARN-RMD-006", id="a-number-of-a-provider"),
        pytest.param(PROVIDER.format("[3]"), "HARN-RMD-006", id="an-item-of-a-provider"),
        pytest.param(
            'register_reminder_provider(id="guard", subscribes_to=["on_tuesday"], evaluate=print)',
            "HARN-RMD-001",
            id="an-unknown-event-of-a-provider",
        ),
        pytest.param(
            HOOK.format("post_turn", '{"reminder": {"body": 7, "ttl_turns": 1}}'),
            "HARN-RMD-001",
            id="a-wrong-body-of-a-hook",
        ),
        pytest.param(
            HOOK.format("post_turn", '{"reminder": {"body": "x", "ttl_turns": 1}, "foo": 1}'),
            "HARN-RMD-001",
            id="beside-a-reminder-of-a-hook",
        ),
        pytest.param(
            HOOK.format("post_turn", '{"reminder": {"body": "x", "ttl_turns": 1}, "then": None}'), None, id="then"
        ),
        pytest.param(HOOK.format("post_turn", "[7]"), "HARN-RMD-001", id="an-item-of-a-hook"),
        pytest.param(HOOK.format("post_turn", '{"effects": 7}'), "HARN-RMD-001", id="effects-that-are-no-list"),
        pytest.param(HOOK.format("post_turn", '"x"'), "SIDEBAND-108", id="text-of-a-hook"),
        pytest.param(HOOK.format("post_turn", '{"foo": 1}'), "SIDEBAND-108", id="another-mapping-of-a-hook"),
        pytest.param('register_session_hook("post_trun", print)', "HARN-RMD-001", id="an-unknown-event-of-a-hook"),
        pytest.param(LOOP.format('"off"'), "HARN-RMD-001", id="reminders-of-a-wrong-type"),
        pytest.param(LOOP.format('["-idle_nudge"]'), "HARN-RMD-001", id="a-list-of-reminders"),
        pytest.param(LOOP.format('{"provider": []}'), "HARN-RMD-001", id="an-unknown-option-of-reminders"),
        pytest.param(LOOP.format('{"enabled": "no"}'), "HARN-RMD-001", id="enabled-of-a-wrong-type"),
        pytest.param(LOOP.format('{"providers": "idle_nudge"}'), "HARN-RMD-001", id="providers-of-a-wrong-type"),
        pytest.param(LOOP.format('{"providers": [3]}'), "HARN-RMD-001", id="an-id-of-a-wrong-type"),
        pytest.param(LOOP.format('{"providers": ["-idle_nugde"]}'), "HARN-RMD-001", id="a-misspelt-id"),
        pytest.param(LOOP.format('{"providers": ["-tok"]}'), "HARN-RMD-001", id="nothing-to-turn-off"),
        pytest.param(
            LOOP.format('{"config": {"token_pressure": {"context_window": 0}}}'),
            "HARN-RMD-001",
            id="a-window-of-nothing",
        ),
        pytest.param(
            'async with session.chat(model=model, reminders={"foo": 1}): pass', "HARN-RMD-001", id="reminders-of-a-chat"
        ),
        pytest.param(
            'await find_worker(store, session.id, model=model, reminders={"foo": 1})',
            "HARN-RMD-001",
            id="reminders-of-a-worker-that-is-found",
        ),
        pytest.param(LOOP.format('{"config": []}'), "HARN-RMD-001", id="config-of-a-wrong-type"),
        pytest.param(LOOP.format('{"config": {"idle_nugde": {}}}'), "HARN-RMD-001", id="a-misspelt-id-in-config"),
        pytest.param(LOOP.format('{"config": {"idle_nudge": 90}}'), "HARN-RMD-001", id="settings-of-a-wrong-type"),
        pytest.param(LOOP.format('{"config": {"idle_nudge": {"secs": 9}}}'), "HARN-RMD-001", id="an-unknown-setting"),
        pytest.param(LOOP.format('{"config": {"idle_nudge": {"seconds": "9"}}}'), "HARN-RMD-001", id="a-wrong-setting"),
        pytest.param(LOOP.format(f'{{"providers": {list("abcdefghi")}}}'), "HARN-RMD-007", id="too-many-providers"),
        pytest.param(LOOP.format('{"config": {"idle_nudge": {"seconds": 9}}}'), None, id="right-options"),
        pytest.param(HOOK.format("post_turn", "None"), None, id="a-silent-hook"),
        pytest.param(PROVIDER.format("None"), None, id="a-silent-provider"),
    ],
)
def test_a_mistake_has_the_same_code_in_lint_and_when_it_runs(program: str, code: str | None) -> None:
    program = dedent(program).strip()
    assert codes_of_lint(program) == codes_at_run_time(program) == ([] if code is None else [code])


@pytest.mark.requirement("lint:code:ineffective-hook")
def test_a_hook_that_returns_something_without_effect_is_advised() -> None:
    program = dedent(
        """
        def after_edit(event):
            if event.path:
                return "Run the tests."
            return {"deny": "no"} if event.kind else count


        register_session_hook("file_edited", after_edit)
        """
    )
    (finding,) = check_source(program.encode(), PurePath("hooks.py"))
    assert (finding.code, finding.severity, finding.line) == ("SIDEBAND-108", "advice", 4)
    assert finding.message.startswith("'Run the tests.' is ignored: a hook returns None, a reminder,")


@pytest.mark.requirement("lint:options:of-a-loop")
def test_a_provider_to_turn_off_may_be_registered_in_a_file_that_is_not_checked() -> None:
    program = 'agent_loop(task, reminders={"providers": ["weather", "-news"]})'
    (finding,) = check_source(program.encode(), PurePath("agent.py"))
    assert (finding.code, finding.severity) == ("HARN-RMD-001", "advice")
    assert finding.message.startswith(
        "reminders.providers names 'news', but no provider has this id; the providers are"
    )
    program = f'register_reminder_provider(id="news", subscribes_to=["session_idle"], evaluate=read)\n{program}'
    assert check_source(program.encode(), PurePath("agent.py")) == ()


@pytest.mark.requirement("lint:options:of-a-loop")
@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        pytest.param(
            """
            agent_loop(task, model=model, reminders={
                "provders": ["-idle_nudge"],
                "providers": ["grounded_reviw", *more],
                "config": {
                    "project_facts": {"max_fact": 3, "min_confidence": "high", "query": query},
                    "mine": {"anything": 1},
                },
            })
            """,
            "agent.py",
            [
                (3, "did you mean 'providers'?"),
                (4, "did you mean 'grounded_review'?"),
                (6, "did you mean 'max_facts'?"),
                (6, "min_confidence must be a number, not 'high'"),
            ],
            id="a-call",
        ),
        pytest.param(
            """
            register_reminder_provider(id="disk_guard", subscribes_to=["session_idle"], evaluate=guard)
            register_reminder_provider(id="idle_nudge", subscribes_to=["session_idle"], evaluate=guard)
            options = {"reminders": {"providers": ["disk_gard"], "config": {"idle_nudge": {"mine": 1}}}}
            """,
            "agent.py",
            [(4, "did you mean 'disk_guard'?")],
            id="a-dict-beside-registered-providers",
        ),
        pytest.param(
            """
            [reminders]
            providers = ["-token_presure"]
            colour = "red"

            [reminders.config.grounded_review]
            max_finding = 3
            text_scan = "no"
            """,
            "sideband.toml",
            [
                (3, "did you mean 'token_pressure'?"),
                (4, "the options are enabled, providers, config"),
                (7, "did you mean 'max_findings'?"),
                (8, "must be true or false, not 'no'"),
            ],
            id="toml",
        ),
        pytest.param(
            """
            {"enabled": "yes",
             "config": {"idle_nudge": {"second": 9}}}
            """,
            "loop.json",
            [(2, "reminders.enabled must be true or false"), (3, "did you mean 'seconds'?")],
            id="json",
        ),
        pytest.param('calendar(reminders={"enabled": 1, "interval": 5})', "agent.py", [], id="another-program"),
        pytest.param('{"reminders": {"enabled": 1, "interval": 5}}', "app.json", [], id="the-file-of-another-program"),
        pytest.param('agent_loop(task, reminders={"providers": ["weather"]})', "agent.py", [], id="an-id-of-elsewhere"),
        pytest.param('client.chat(reminders={"every": 5})', "agent.py", [], id="a-chat-of-another-program"),
        pytest.param("agent_loop(task, reminders=options)", "agent.py", [], id="known-only-at-run-time"),
        pytest.param(
            'agent_loop(task, reminders={"enabled": on, "providers": [name], "config": {"idle_nudge": mine}})',
            "agent.py",
            [],
            id="parts-known-only-at-run-time",
        ),
    ],
)
def test_the_reminders_of_a_loop_are_checked(text: str, name: str, expected: list[tuple[int, str]]) -> None:
    findings = check_source(dedent(text).encode(), PurePath(name))
    assert [(finding.code, finding.line) for finding in findings] == [("HARN-RMD-001", line) for line, _ in expected]
    for finding, (_, words) in zip(findings, expected, strict=True):
        assert words in finding.message
