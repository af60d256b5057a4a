"""The generated schemas: valid, described, as checked in, and what the example payloads fit."""

import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from jsonschema import Draft202012Validator

from sideband.core.errors import ReminderError
from sideband.core.parse import parse
from sideband.core.surfaces import Surface
from sideband.protocols.artifacts import MARKER, README, artifacts, summaries
from sideband.protocols.artifacts.documents import DOCUMENTS
from tests.programs import run_python
from tests.unit.protocols.examples import EXAMPLES, REMINDERS, Example, within, without_session
from tests.unit.protocols.schemas import SCHEMAS, validator

CHECKED_IN: Final = Path(__file__).parents[3] / "spec" / "protocol-artifacts"


def subschemas(node: object) -> Iterator[dict[str, Any]]:
    match node:
        case dict():
            yield node
            for value in node.values():
                yield from subschemas(value)
        case list():
            for value in node:
                yield from subschemas(value)
        case _:
            pass


# The documents.


@pytest.mark.parametrize("path", SCHEMAS)
def test_a_schema_is_valid_json_schema(path: str) -> None:
    assert SCHEMAS[path]["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(SCHEMAS[path])


@pytest.mark.parametrize("path", SCHEMAS)
def test_a_schema_refers_to_nothing_but_its_own_definitions_and_uses_them_all(path: str) -> None:
    schema = SCHEMAS[path]
    (document,) = (document for document in DOCUMENTS if document.path == path)
    referred = {found["$ref"] for found in subschemas(schema) if isinstance(found.get("$ref"), str)}
    named = {f"#/$defs/{shape.__name__}" for shape in (*document.root, *document.others)}
    defined = {f"#/$defs/{name}" for name in schema.get("$defs", {})}
    assert referred <= defined
    assert defined <= referred | named


@pytest.mark.parametrize("path", SCHEMAS)
def test_a_schema_says_what_each_of_its_shapes_is(path: str) -> None:
    schema = SCHEMAS[path]
    assert schema["$id"] == f"urn:sideband:{path.removesuffix('.schema.json').replace('/', ':')}"
    for name, found in [(schema["title"], schema), *schema.get("$defs", {}).items()]:
        assert found["title"] == name
        assert re.fullmatch(r"\S.*[.?]", found["description"], re.DOTALL)
        assert "\n " not in found["description"]


def test_two_schemas_of_a_protocol_agree_on_every_shape_they_share() -> None:
    seen: dict[tuple[str, str], object] = {}
    for document in DOCUMENTS:
        schema = SCHEMAS[document.path]
        root = {keyword: value for keyword, value in schema.items() if not keyword.startswith("$")}
        for name, found in [(schema["title"], root), *schema.get("$defs", {}).items()]:
            assert seen.setdefault((document.protocol, name), found) == found


def test_no_schema_mentions_openapi_or_null_defaults() -> None:
    found = [each for schema in SCHEMAS.values() for each in subschemas(schema)]
    assert not [each for each in found if "discriminator" in each or each.get("default", ...) is None]


def test_every_artifact_has_a_summary_and_the_list_names_it() -> None:
    texts = artifacts()
    assert list(summaries()) == list(texts)
    linked = re.findall(r"\]\((.*?)\)", texts[README])
    assert linked == [path for path in texts if path != README]


def test_every_artifact_is_marked_as_generated() -> None:
    assert [path for path, text in artifacts().items() if MARKER not in text] == []


def test_every_artifact_ends_in_one_line_break_and_has_no_space_before_any() -> None:
    for text in artifacts().values():
        assert text.endswith("\n")
        assert not text.endswith("\n\n")
        assert re.search(r"[ \t]$", text, re.MULTILINE) is None


@pytest.mark.parametrize("seed", ["1", "2"])
def test_another_process_generates_the_same_bytes(seed: str) -> None:
    script = (
        "import json, sys; from sideband.protocols.artifacts import artifacts; "
        "sys.stdout.write(json.dumps(list(artifacts().items())))"
    )
    answer = run_python("-c", script, env={"PYTHONHASHSEED": seed})
    assert [tuple(pair) for pair in json.loads(answer.stdout)] == list(artifacts().items())


def test_what_is_checked_in_is_what_is_generated() -> None:
    files = {path.relative_to(CHECKED_IN).as_posix(): path for path in CHECKED_IN.rglob("*") if path.is_file()}
    assert {name: path.read_text(encoding="utf-8") for name, path in files.items()} == artifacts()


# The examples.


def test_every_schema_has_an_example() -> None:
    assert {f"{example.document}.schema.json" for example in EXAMPLES} == SCHEMAS.keys()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example.id}-{example.shape.__name__}")
def test_an_example_fits_its_schema(example: Example) -> None:
    validator(example.document, example.shape.__name__).validate(example.payload())


@pytest.mark.parametrize("example", REMINDERS, ids=lambda example: example.id)
def test_an_example_of_a_request_fits_the_schema_as_a_whole(example: Example) -> None:
    validator(example.document).validate(example.payload())


Mutation = Callable[[dict[str, Any]], object]
EVERYWHERE: Final[dict[str, Mutation]] = {
    "no-body": lambda reminder: reminder.pop("body"),
    "an-empty-body": lambda reminder: reminder.update(body=""),
    "a-body-that-is-no-text": lambda reminder: reminder.update(body=7),
    "an-unknown-propagate": lambda reminder: reminder.update(propagate="everywhere"),
    "tags-that-are-no-list": lambda reminder: reminder.update(tags="workspace"),
    "a-tag-that-is-no-text": lambda reminder: reminder.update(tags=[1]),
}
CAMEL: Final[dict[str, Mutation]] = {
    "an-unknown-role-hint": lambda reminder: reminder.update(roleHint="loud"),
    "a-ttl-of-nothing": lambda reminder: reminder.update(ttlTurns=0),
    "a-ttl-of-half-a-turn": lambda reminder: reminder.update(ttlTurns=0.5),
    "a-ttl-that-is-a-truth-value": lambda reminder: reminder.update(ttlTurns=True),
    "a-truth-value-as-text": lambda reminder: reminder.update(preserveOnCompact="yes"),
}
SNAKE: Final[dict[str, Mutation]] = {
    "an-unknown-role-hint": lambda reminder: reminder.update(role_hint="loud"),
    "a-ttl-of-nothing": lambda reminder: reminder.update(ttl_turns=0),
    "a-truth-value-as-text": lambda reminder: reminder.update(preserve_on_compact="yes"),
}
BRIDGES: Final[dict[str, Mutation]] = {"an-unknown-mode": lambda reminder: reminder.update(mode="later")}
CLOSED: Final[dict[str, Mutation]] = {
    "a-word-misspelt": lambda reminder: reminder.update(dedupKey="x"),
    "content-instead-of-a-body": lambda reminder: reminder.update(content=reminder.pop("body")),
}
MUTATIONS: Final[Mapping[Surface, Mapping[str, Mutation]]] = {
    Surface.ACP: EVERYWHERE | CAMEL | BRIDGES | CLOSED,
    Surface.ACP_LEGACY: EVERYWHERE | SNAKE | BRIDGES,
    Surface.A2A: {
        **EVERYWHERE,
        **CAMEL,
        **BRIDGES,
        **CLOSED,
        "an-id-with-a-space": lambda reminder: reminder.update(id="r 1"),
        "a-source-that-is-no-text": lambda reminder: reminder.update(source=["x"]),
    },
    Surface.A2A_METADATA: EVERYWHERE | CAMEL | BRIDGES | CLOSED,
    Surface.MCP: {
        **EVERYWHERE,
        **CAMEL,
        "no-id": lambda reminder: reminder.pop("id"),
        "a-turn-as-text": lambda reminder: reminder.update(firedAtTurn="4"),
    },
}


@pytest.mark.parametrize(
    ("example", "mutation"),
    [
        pytest.param(example, mutation, id=f"{example.id}-{name}")
        for example in REMINDERS
        if example.surface is not None
        for name, mutation in MUTATIONS[example.surface].items()
    ],
)
def test_a_spoilt_example_is_refused_by_schema_and_parser_alike(example: Example, mutation: Mutation) -> None:
    payload = copy.deepcopy(example.payload())
    reminder = within(payload, example.reminder)
    mutation(reminder)
    assert not validator(example.document).is_valid(payload)
    assert example.surface is not None
    with pytest.raises(ReminderError):
        parse(without_session(reminder), example.surface)


@pytest.mark.parametrize(
    ("document", "definition", "payload"),
    [
        pytest.param("acp/clear_reminders", None, {"sessionId": "s"}, id="to-clear-without-saying-what"),
        pytest.param("a2a/clear_reminders", None, {"taskId": "t"}, id="to-clear-without-saying-what-on-a2a"),
        pytest.param(
            "acp/capabilities", "InjectCapability", {"modes": ["queue", "steer"]}, id="to-steer-without-saying-how"
        ),
        pytest.param("acp/capabilities", "InjectCapability", {"modes": []}, id="to-inject-in-no-mode"),
        pytest.param(
            "acp/inject", None, {"sessionId": "s", "mode": "steer", "content": [{"text": "x"}]}, id="a-block-of-no-type"
        ),
        pytest.param("acp/inject", None, {"sessionId": "s", "mode": "now", "content": []}, id="an-unknown-inject-mode"),
        pytest.param("acp/steering", None, {"sessionId": "s", "prompt": []}, id="to-steer-with-nothing"),
        pytest.param(
            "acp/session_update",
            "ReminderExpired",
            {"sessionUpdate": "reminder_expired", "reminderId": "r", "phase": "tired"},
            id="an-end-of-no-known-kind",
        ),
        pytest.param("acp/inject_reminder", "SessionInjectReminderResponse", {"reminderId": "r"}, id="no-count"),
        pytest.param(
            "a2a/inject_reminder",
            "InjectReminderResult",
            {"reminderId": "r", "dedupedCount": 0, "acceptedAt": "2026-10-02 08:15"},
            id="a-time-that-is-not-utc",
        ),
        pytest.param(
            "mcp/subscriptions_listen", None, {"notifications": {"reminders": False}}, id="to-listen-to-nothing"
        ),
        pytest.param("acp/error", None, {"reason": "bad_mood"}, id="an-unknown-reason"),
    ],
)
def test_a_schema_refuses(document: str, definition: str | None, payload: object) -> None:
    assert not validator(document, definition).is_valid(payload)


@pytest.mark.parametrize("end", ["ttl_expired", "cleared", "compacted_out"])
def test_acp_and_a2a_know_the_same_ends(end: str) -> None:
    update = {"sessionUpdate": "reminder_expired", "reminderId": "r", "phase": end}
    assert validator("acp/session_update", "ReminderExpired").is_valid(update)
    params = {"taskId": "t", "reminder": {"id": "r"}, "phase": end, "metadata": {}}
    assert validator("a2a/notifications", "ReminderExpiredParams").is_valid(params)
