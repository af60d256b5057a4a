"""The published description of the wire shapes: complete, valid, as generated, and never narrower than the parser."""

import inspect
import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from sideband.core.errors import ReminderError
from sideband.core.parse import parse
from sideband.core.surfaces import RULES, Surface, spelled
from sideband.protocols.a2a import messages as a2a
from sideband.protocols.acp import messages as acp
from sideband.protocols.mcp import messages as mcp
from tests.programs import ROOT, run_sideband
from tests.unit.protocols.payloads import json_values, payloads
from tests.unit.protocols.schemas import SCHEMAS, validator
from tests.unit.protocols.sketch import SKETCH, TELLING, a_notification

CHECKED_IN: Final = ROOT / "spec" / "protocol-artifacts"
MODULES: Final[Mapping[str, tuple[ModuleType, ...]]] = {
    "acp": (acp,),
    "a2a": (a2a,),
    "mcp": (mcp,),
}


def shapes(protocol: str) -> set[str]:
    """The names of the structs that travel over a protocol."""
    return {
        name
        for module in MODULES[protocol]
        for name, found in inspect.getmembers(module, inspect.isclass)
        if issubclass(found, msgspec.Struct) and found.__module__ == module.__name__ and not name.startswith("_")
    }


def published(protocol: str) -> dict[str, dict[str, Any]]:
    """What the schemas of a protocol define, by name."""
    found: dict[str, dict[str, Any]] = {}
    for path, schema in SCHEMAS.items():
        if path.startswith(f"{protocol}/"):
            found |= {schema["title"]: schema, **schema.get("$defs", {})}
    return found


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


# Complete and valid.


@pytest.mark.requirement("artifacts:schema:every-shape")
@pytest.mark.parametrize("protocol", MODULES)
def test_every_shape_of_a_protocol_has_a_schema(protocol: str) -> None:
    assert shapes(protocol) - published(protocol).keys() == set()
    assert shapes(protocol)


@pytest.mark.requirement("artifacts:schema:every-shape")
@pytest.mark.parametrize("path", SCHEMAS)
def test_a_schema_is_valid_under_draft_2020_12(path: str) -> None:
    assert SCHEMAS[path]["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(SCHEMAS[path])


def interfaces(protocol: str) -> Iterator[tuple[str, dict[str, bool]]]:
    """Each interface in the TypeScript of a protocol: its fields, and whether each must be there."""
    text = (CHECKED_IN / protocol / "types.ts").read_text(encoding="utf-8")
    for name, body in re.findall(r"^export interface (\w+) \{\n(.*?)^\}$", text, re.MULTILINE | re.DOTALL):
        # Two blanks deep are the fields of the interface itself, deeper ones belong to a type inside.
        named = re.findall(r'^  "?([@\w]+)"?(\??):', body, re.MULTILINE)
        yield name, {field: mark != "?" for field, mark in named}


@pytest.mark.requirement("artifacts:typescript:every-shape")
@pytest.mark.parametrize("protocol", MODULES)
def test_every_shape_of_a_protocol_is_declared_with_its_fields(protocol: str) -> None:
    expected = {
        name: {field: field in schema.get("required", ()) for field in schema["properties"]}
        for name, schema in published(protocol).items()
        if "properties" in schema
    }
    assert dict(interfaces(protocol)) == expected
    assert shapes(protocol) <= expected.keys()


@pytest.mark.requirement("artifacts:typescript:every-shape")
@pytest.mark.parametrize("protocol", MODULES)
def test_every_vocabulary_of_a_protocol_is_declared_with_its_words(protocol: str) -> None:
    text = (CHECKED_IN / protocol / "types.ts").read_text(encoding="utf-8")
    vocabularies = {name: schema["enum"] for name, schema in published(protocol).items() if "enum" in schema}
    for name, words in vocabularies.items():
        (declared,) = re.findall(rf"^export type {name} =([^;]*);", text, re.MULTILINE)
        assert sorted(re.findall(r'"(\w+)"', declared)) == sorted(words)
    assert vocabularies


# Where they are.


@pytest.mark.requirement("artifacts:folder:protocol-artifacts")
def test_make_writes_the_artifacts_into_their_folder(tmp_path: Path) -> None:
    # A make that runs these tests would otherwise hand its own flags to the one inside.
    environment = {name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MAKELEVEL"}}
    recipe = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", "gen-protocol-artifacts"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    program, *arguments = shlex.split(recipe.stdout.splitlines()[-1])
    assert Path(program).name == "sideband"
    assert run_sideband(*arguments, cwd=tmp_path).returncode == 0
    assert contents(tmp_path / "spec" / "protocol-artifacts") == contents(CHECKED_IN)


@pytest.mark.requirement("artifacts:drift:checked")
def test_generating_again_changes_nothing_that_is_checked_in() -> None:
    answer = run_sideband("schema", "--out", str(CHECKED_IN), "--check")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "up to date" in answer.stdout


# Never narrower than the parser.


def in_its_place(surface: Surface, reminder: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The schema that describes a surface, and the message in which a reminder comes over it."""
    match surface:
        case Surface.ACP:
            return "acp/inject_reminder", {"sessionId": "s", **reminder}
        case Surface.ACP_LEGACY:
            return "acp/remind", reminder
        case Surface.A2A:
            return "a2a/inject_reminder", {"taskId": "t", "reminder": reminder}
        case Surface.A2A_METADATA:
            return "a2a/send_metadata", {"harn": {"reminder": reminder}}
        case _:
            return "mcp/reminder", a_notification(reminder)


def is_accepted(reminder: dict[str, Any], surface: Surface) -> bool:
    try:
        parse(reminder, surface)
    except ReminderError:
        return False
    return True


def is_bounded(reminder: dict[str, Any], surface: Surface) -> bool:
    """Whether the schema accepts the reminder, unless the parser refuses it."""
    document, message = in_its_place(surface, reminder)
    return validator(document).is_valid(message) or not is_accepted(reminder, surface)


WIRES: Final = (Surface.ACP, Surface.ACP_LEGACY, Surface.A2A, Surface.A2A_METADATA, Surface.MCP)


@pytest.mark.requirement("artifacts:schema:outer-bound")
@pytest.mark.parametrize("surface", WIRES)
@given(data=st.data())
def test_what_the_parser_accepts_its_schema_accepts(surface: Surface, data: st.DataObject) -> None:
    reminder = data.draw(payloads(surface, may_be_null=surface is not Surface.MCP))
    assert is_bounded(reminder, surface)


@pytest.mark.requirement("artifacts:schema:outer-bound")
@pytest.mark.parametrize("surface", WIRES)
def test_at_each_edge_of_a_field_the_schema_is_not_the_stricter_one(surface: Surface) -> None:
    rules = RULES[surface]
    values = [value for values in TELLING.values() for value in values]
    base = {"id": "r-1", "body": "x"} if "id" in rules.fields else {"body": "x"}
    tried = [
        {**base, spelled(field, rules.case): value}
        for field in rules.fields
        for value in values
        if value is not None or surface is not Surface.MCP
    ]
    assert [reminder for reminder in tried if not is_bounded(reminder, surface)] == []
    assert sum(is_accepted(reminder, surface) for reminder in tried) > len(rules.fields)


@pytest.mark.requirement("artifacts:schema:outer-bound")
@pytest.mark.parametrize("field", ["tags", "dedupeKey", "ttlTurns", "preserveOnCompact", "propagate", "roleHint"])
def test_only_a_null_on_mcp_is_read_though_its_schema_does_not_know_it(field: str) -> None:
    reminder = {"id": "r-1", "body": "x", field: None}
    assert is_accepted(reminder, Surface.MCP)
    assert not validator("mcp/reminder").is_valid(a_notification(reminder))


# The schema of the MCP proposal.


@pytest.mark.requirement("artifacts:mcp:equals-the-sketch")
@pytest.mark.parametrize("field", TELLING)
def test_each_bound_of_the_notification_is_where_the_sketch_draws_it(field: str) -> None:
    decide = validator("mcp/reminder")
    tried = [a_notification({"id": "r-1", "body": "x", field: value}) for value in TELLING[field]]
    assert [decide.is_valid(each) for each in tried] == [SKETCH.is_valid(each) for each in tried]


ANY_REMINDER: Final = st.fixed_dictionaries(
    {}, optional={field: st.sampled_from(values) | json_values for field, values in TELLING.items()}
)
ANY_PARAMS: Final = st.fixed_dictionaries({}, optional={"reminder": ANY_REMINDER | json_values, "_meta": json_values})
ANY_NOTIFICATION: Final = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | json_values,
        "method": st.sampled_from(["notifications/reminder", "notifications/message"]),
        "params": ANY_PARAMS | json_values,
    },
)


@pytest.mark.requirement("artifacts:mcp:equals-the-sketch")
@given(ANY_REMINDER.map(a_notification) | ANY_NOTIFICATION | json_values)
def test_the_schema_and_the_sketch_decide_alike(message: object) -> None:
    assert validator("mcp/reminder").is_valid(message) == SKETCH.is_valid(message)
