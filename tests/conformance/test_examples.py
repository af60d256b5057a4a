"""The examples of the documents, each a file in `examples/`: parsed, validated, accepted or run."""

import asyncio
import json
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from sideband import Transcript, transcript_compact
from sideband.core import transcript as pure
from sideband.core.effects import read_effects
from sideband.core.events import QueuedReminder
from sideband.core.parse import parse
from sideband.core.reminder import Propagate, RoleHint, in_name_of
from sideband.core.seams import Mode, Seam
from sideband.core.surfaces import Surface
from sideband.core.trust import Provenance, TrustPolicy
from sideband.recall.facts import FactKind
from tests.programs import ROOT, run_python
from tests.sessions import CLIENT, PEER, SERVER, Session
from tests.unit.protocols.examples import without_session
from tests.unit.protocols.schemas import validator

EXAMPLES: Final = ROOT / "examples"


def payload(name: str) -> dict[str, Any]:
    """One of the JSON files."""
    found: dict[str, Any] = json.loads((EXAMPLES / f"{name}.json").read_text(encoding="utf-8"))
    return found


def program(name: str) -> SimpleNamespace:
    """What one of the programs defines; its main part is not run."""
    return SimpleNamespace(**runpy.run_path(str(EXAMPLES / f"{name}.py")))


def printed(name: str) -> list[str]:
    """What one of the programs prints."""
    answer = run_python(str(EXAMPLES / f"{name}.py"))
    assert (answer.returncode, answer.stderr) == (0, "")
    return answer.stdout.splitlines()


def accepted(
    reminder: dict[str, Any], surface: Surface, sender: Provenance, *, policy: TrustPolicy = TrustPolicy.CEILINGS
) -> QueuedReminder:
    """The reminder as it waits in the inbox of a session that has taken it."""
    session = Session()
    draft = parse(reminder, surface)
    if surface is Surface.MCP:
        draft = in_name_of(draft, sender.principal or "")
    session.accept(draft, sender, policy=policy)
    (item,) = session.state.inbox.items()
    assert isinstance(item, QueuedReminder)
    return item


# The guide.


@pytest.mark.requirement("examples:guide:transcript-event")
def test_the_example_event_is_what_is_built_from_its_fields() -> None:
    example = payload("guide/transcript_event")
    event = pure.transcript_reminder_event(example["reminder"], new_id=lambda: example["id"])
    assert event.as_dict() == example


@pytest.mark.requirement("examples:guide:inject-and-clear")
def test_the_pipeline_injects_one_reminder_and_clears_it_by_its_tag() -> None:
    example = program("guide/inject_and_clear")
    before = Transcript(messages=({"role": "user", "content": "Fix the login bug"},))
    warned = example.warn(before)
    assert warned.deduped_count == 0
    (reminder,) = warned.transcript.reminders
    assert reminder.id == warned.reminder_id
    assert (reminder.tags, reminder.dedupe_key, reminder.ttl_turns) == (("token_pressure",), "token_pressure", 3)
    assert (reminder.preserve_on_compact, reminder.propagate) == (True, Propagate.SESSION)
    assert reminder.role_hint is RoleHint.DEVELOPER
    relaxed = example.relax(warned.transcript)
    assert (relaxed.transcript, relaxed.removed_count) == (before, 1)


@pytest.mark.requirement("examples:guide:inject-and-clear")
def test_the_pipeline_example_runs() -> None:
    first, *others = printed("guide/inject_and_clear")
    assert first.endswith("which replaced 0")
    assert others == ["1 reminder beside 1 message", "cleared 1, 0 left"]


@pytest.mark.requirement("examples:guide:hook-return")
def test_what_the_hook_returns_is_one_reminder_effect() -> None:
    returned = program("guide/read_file_hook").after_read_file({"result": {"truncated": True}})
    (draft,), action = read_effects(returned, Surface.HOOK)
    assert action is None
    assert draft.body == returned["reminder"]["body"]
    assert (draft.tags, draft.dedupe_key) == (("truncation",), "read_file:truncated")
    assert (draft.ttl_turns, draft.propagate) == (1, Propagate.NONE)


@pytest.mark.requirement("examples:guide:hook-return")
def test_the_hook_says_nothing_of_a_file_that_was_shown_whole() -> None:
    returned = program("guide/read_file_hook").after_read_file({"result": {"truncated": False}})
    assert read_effects(returned, Surface.HOOK) == ((), None)
    assert printed("guide/read_file_hook")[0] == "truncated: False, reminders: []"


@pytest.mark.requirement("examples:guide:session-remind")
def test_the_example_of_session_remind_is_accepted_as_an_interrupt() -> None:
    notification = payload("payloads/acp/remind")
    assert (notification["method"], "id" in notification) == ("session/remind", False)
    validator("acp/remind").validate(notification["params"])
    item = accepted(without_session(notification["params"]), Surface.ACP_LEGACY, CLIENT)
    assert (item.mode, item.reminder.ttl_turns) == (Mode.INTERRUPT_IMMEDIATE, 2)
    assert (item.reminder.tags, item.reminder.role_hint) == (("workspace",), RoleHint.SYSTEM)
    assert item.provenance.requested == {}


# A2A.


@pytest.mark.requirement("examples:a2a:inject-request")
def test_the_example_request_of_a2a_is_accepted() -> None:
    request = payload("payloads/a2a/inject_reminder")
    validator("a2a/inject_reminder").validate(request["params"])
    asked = request["params"]["reminder"]
    item = accepted(asked, Surface.A2A, PEER)
    assert item.id == asked["id"]
    assert item.reminder.body == asked["body"]
    assert item.provenance.claims == {"source": asked["source"], "fired_at_turn": asked["firedAtTurn"]}


@pytest.mark.requirement("examples:a2a:inject-request")
def test_the_example_request_of_a2a_gets_all_that_it_asks_for_where_that_is_allowed() -> None:
    asked = payload("payloads/a2a/inject_reminder")["params"]["reminder"]
    item = accepted(asked, Surface.A2A, PEER, policy=TrustPolicy.SEED)
    assert item.mode.value == asked["mode"]
    assert (item.reminder.ttl_turns, item.reminder.preserve_on_compact) == (2, True)
    assert (item.reminder.propagate.value, item.reminder.role_hint.value) == (asked["propagate"], asked["roleHint"])


@pytest.mark.parametrize(
    ("name", "at", "document", "shape"),
    [
        pytest.param(
            "a2a/inject_reminder.response",
            ("result",),
            "a2a/inject_reminder",
            "InjectReminderResult",
            marks=pytest.mark.requirement("examples:a2a:inject-response"),
        ),
        pytest.param(
            "a2a/reminder_emitted",
            (),
            "a2a/notifications",
            None,
            marks=pytest.mark.requirement("examples:a2a:reminder-emitted"),
        ),
        pytest.param(
            "a2a/agent_card",
            ("capabilities", "reminders"),
            "a2a/agent_card",
            "ExtensionParams",
            marks=pytest.mark.requirement("examples:a2a:card"),
        ),
        pytest.param(
            "mcp/server_capabilities",
            ("capabilities",),
            "mcp/server_capabilities",
            None,
            marks=pytest.mark.requirement("examples:mcp:capability"),
        ),
    ],
    ids=lambda value: value.replace("/", "-") if isinstance(value, str) else "",
)
def test_an_example_is_valid_under_its_schema_and_stops_being_so_when_a_field_is_missing(
    name: str, at: tuple[str, ...], document: str, shape: str | None
) -> None:
    found = payload(f"payloads/{name}")
    for step in at:
        found = found[step]
    decide = validator(document, shape)
    decide.validate(found)
    # Down to where the required fields are.
    inner = found.get("params", found.get("reminders", found))
    del inner[next(iter(inner))]
    assert not decide.is_valid(found)


# MCP.


@pytest.mark.requirement("examples:mcp:notification")
def test_the_example_notification_of_mcp_is_accepted_with_its_null_turn() -> None:
    notification = payload("payloads/mcp/reminder")
    validator("mcp/reminder").validate(notification)
    sent = notification["params"]["reminder"]
    assert sent["firedAtTurn"] is None
    item = accepted(sent, Surface.MCP, SERVER)
    assert item.id == f"{SERVER.principal}:{sent['id']}"
    assert (item.reminder.body, item.reminder.ttl_turns) == (sent["body"], 2)
    assert item.provenance.claims == {}


# The cookbook.


@pytest.mark.requirement("examples:cookbook:memory-derived-reminder")
def test_a_reminder_from_memory_lives_four_turns_outlives_compaction_and_reaches_every_descendant() -> None:
    recipe = program("recipes/memory_derived_reminder")
    transcript = recipe.caution(Transcript(messages=({"role": "user", "content": "x"},)))
    assert recipe.turns_shown(transcript) == 4
    compacted = transcript_compact(transcript, strategy="keep_last", keep_last=0).transcript
    assert (compacted.messages, [reminder.ttl_turns for reminder in compacted.reminders]) == ((), [3])
    generations = ("child", "grandchild", "great-grandchild")
    assert recipe.descendants_told(transcript, generations) == [*generations]


@pytest.mark.requirement("examples:cookbook:memory-derived-reminder")
def test_the_recipe_of_a_reminder_from_memory_runs() -> None:
    assert printed("recipes/memory_derived_reminder") == [
        "shown for 4 turns",
        "after a compaction: 0 messages, 1 reminder",
        "inherited by worker, helper, helper of the helper",
    ]


@pytest.mark.requirement("examples:cookbook:clear-when-resolved")
def test_only_the_reminder_of_the_condition_that_has_gone_is_cleared() -> None:
    recipe = program("recipes/clear_when_resolved")
    told = recipe.tell(Transcript())
    workspace, build = told.reminders
    assert recipe.resolve(told, workspace.dedupe_key).reminders == (build,)
    assert recipe.resolve(told, build.dedupe_key).reminders == (workspace,)
    assert recipe.resolve(told, "something else") == told


@pytest.mark.requirement("examples:cookbook:clear-when-resolved")
def test_the_recipe_of_clearing_by_key_runs() -> None:
    assert printed("recipes/clear_when_resolved") == [
        "pending: ['workspace-change', 'build:status']",
        "after the rebase: ['build:status']",
        "cleared again: 0",
    ]


@pytest.mark.requirement("examples:cookbook:idle-workspace-nudge")
def test_the_nudge_of_a_host_is_accepted_for_one_turn_of_this_session() -> None:
    notification = program("recipes/idle_workspace_nudge").frame()
    assert notification["method"] == "session/remind"
    validator("acp/remind").validate(notification["params"])
    item = accepted(without_session(notification["params"]), Surface.ACP_LEGACY, CLIENT)
    assert item.mode is Mode.FINISH_STEP
    assert (item.reminder.ttl_turns, item.reminder.propagate) == (1, Propagate.NONE)


@pytest.mark.requirement("examples:cookbook:idle-workspace-nudge")
def test_the_recipe_of_a_nudge_runs() -> None:
    body, terms, seams = printed("recipes/idle_workspace_nudge")
    assert body == payload("payloads/acp/remind.recipe")["params"]["body"]
    assert terms == "finish_step, TTL 1, propagate none"
    assert seams.removeprefix("delivered at ").split(", ") == [
        Seam.ITERATION_START,
        Seam.POST_TOOL_DISPATCH,
        Seam.ITERATION_END,
    ]


@pytest.mark.requirement("examples:cookbook:custom-compactor")
def test_a_custom_compactor_sees_the_survivors_and_returns_the_messages_unchanged() -> None:
    recipe = program("recipes/custom_compactor")
    compactor, transcript = recipe.Compactor(), recipe.a_transcript()
    compacted = transcript_compact(transcript, strategy="custom", custom_compactor=compactor)
    assert [reminder.ttl_turns for reminder in transcript.reminders] == [3, 1, 5]
    assert compactor.bodies == [reminder.body for reminder in transcript.reminders if reminder.ttl_turns != 1]
    assert compacted.transcript.messages == transcript.messages


@pytest.mark.requirement("examples:cookbook:custom-compactor")
def test_the_recipe_of_a_custom_compactor_runs() -> None:
    assert printed("recipes/custom_compactor") == [
        "still to be said: The build is red.",
        "still to be said: Tests need the database.",
        "messages unchanged: True",
    ]


# The cookbook, in a running agent.


@pytest.mark.requirement("examples:cookbook:token-pressure")
def test_the_agent_is_warned_at_the_thresholds_of_the_window_that_was_set() -> None:
    recipe = program("recipes/token_pressure")
    told = asyncio.run(recipe.warnings(1_000, (699, 700, 850, 950)))
    assert [None if warning is None else warning.body[1:4] for warning in told] == [None, "70%", "85%", "95%"]


@pytest.mark.requirement("examples:cookbook:token-pressure")
def test_the_recipe_of_token_pressure_runs() -> None:
    lines = printed("recipes/token_pressure")
    assert lines[0] == " 60,000 tokens: nothing to say"
    assert [line[:21] for line in lines[1::2]] == [
        " 89,600 tokens: [70%]",
        "108,800 tokens: [85%]",
        "121,600 tokens: [95%]",
    ]
    assert [line.rpartition(" ")[2] for line in lines[2::2]] == ["False", "False", "True"]


@pytest.mark.requirement("examples:cookbook:project-facts")
def test_the_facts_that_pass_the_filters_are_told_at_the_start_of_a_session(tmp_path: Path) -> None:
    recipe = program("recipes/project_facts")
    url = f"sqlite:///{tmp_path / 'sideband.db'}"
    facts = asyncio.run(recipe.learn(url))
    told = "\n".join(asyncio.run(recipe.told(url)))
    assert {fact.claim for fact in facts if fact.claim in told} == {
        fact.claim for fact in facts if fact.confidence >= 0.6 and fact.kind in {FactKind.DECISION, FactKind.CONSTRAINT}
    }
    assert asyncio.run(recipe.told(f"sqlite:///{tmp_path / 'empty.db'}")) == []


@pytest.mark.requirement("examples:cookbook:project-facts")
def test_the_recipe_of_project_facts_runs() -> None:
    first, *shown = printed("recipes/project_facts")
    assert first == "4 facts stored"
    assert [line[:12] for line in shown if line.startswith("> ")] == ["> [decision,", "> [constrain"]


@pytest.mark.requirement("examples:cookbook:file-changed-hook")
def test_the_hook_leaves_one_reminder_for_each_file_however_often_it_changed(tmp_path: Path) -> None:
    _, before, twice, again = asyncio.run(program("recipes/file_changed_hook").requests(tmp_path))
    assert before == ()
    for reminders in (twice, again):
        assert sorted(name for reminder in reminders for name in ("app.py", "auth.py") if name in reminder) == [
            "app.py",
            "auth.py",
        ]


@pytest.mark.requirement("examples:cookbook:file-changed-hook")
def test_the_recipe_of_a_file_changed_hook_runs() -> None:
    counts = [line for line in printed("recipes/file_changed_hook") if line.startswith("request")]
    assert counts == [f"request {number}: {count} reminders" for number, count in enumerate((0, 0, 2, 2), 1)]


@pytest.mark.requirement("examples:cookbook:ephemeral-cache")
@pytest.mark.parametrize(
    ("route", "cached"),
    [pytest.param("CACHING", True, id="with-a-cache"), pytest.param("NOT_CACHING", False, id="without")],
)
def test_the_policy_is_one_block_for_one_turn_marked_where_there_is_a_cache(route: str, *, cached: bool) -> None:
    recipe = program("recipes/ephemeral_cache")
    bodies, advised = asyncio.run(recipe.requests(getattr(recipe, route), ("one", "two", "three")))
    first, *later = [[block for block in blocks_of(body) if "policy excerpt" in block["text"]] for body in bodies]
    (block,) = first
    marker = {"cache_control": {"type": "ephemeral"}} if cached else {}
    text = "<system-reminder>\nLarge policy excerpt applies for this turn only.\n</system-reminder>"
    assert block == {"type": "text", "text": text, **marker}
    assert (later, advised) == ([[], []], [])


def blocks_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The blocks of its first message, which is the user's."""
    blocks: list[dict[str, Any]] = body["messages"][0]["content"]
    return blocks


@pytest.mark.requirement("examples:cookbook:ephemeral-cache")
def test_a_route_without_such_blocks_tells_the_policy_all_the_same_and_its_sender_that_it_does() -> None:
    recipe = program("recipes/ephemeral_cache")
    (first, then), advised = asyncio.run(recipe.requests(recipe.ANY_CHAT_MODEL, ("one", "two")))
    assert ["policy excerpt" in str(body) for body in (first, then)] == [True, False]
    assert "cache_control" not in str(first)
    assert advised == ["HARN-RMD-003"]


@pytest.mark.requirement("examples:cookbook:ephemeral-cache")
def test_the_recipe_of_an_ephemeral_cache_runs() -> None:
    assert printed("recipes/ephemeral_cache") == [
        "caching: a block to be cached, then gone; advised of: nothing",
        "not caching: a block, then gone; advised of: nothing",
        "any chat model: text, then gone; advised of: HARN-RMD-003",
    ]


@pytest.mark.requirement("examples:guide:provider")
@pytest.mark.parametrize(("config", "count"), [({}, 1), ({"enabled": True}, 1), ({"enabled": False}, 0)])
def test_the_provider_speaks_when_the_session_is_idle_unless_its_config_turns_it_off(
    config: dict[str, Any], count: int
) -> None:
    reminders = asyncio.run(program("guide/workspace_guard").after_idling(config))
    assert len(reminders) == count
    assert all("may have changed while this session was idle" in reminder for reminder in reminders)


@pytest.mark.requirement("examples:guide:provider")
def test_the_example_of_a_provider_runs() -> None:
    lines = printed("guide/workspace_guard")
    assert [line for line in lines if line.startswith("enabled")] == [
        "enabled: True, reminders: 1",
        "enabled: False, reminders: 0",
    ]
