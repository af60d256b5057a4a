"""How JSON Schemas become TypeScript."""

import re
from typing import Any, Final

import pytest

from sideband.protocols.artifacts import artifacts
from sideband.protocols.artifacts.typescript import declaration, module, type_of
from tests.unit.protocols.schemas import SCHEMAS

TYPES: Final = {path: text for path, text in artifacts().items() if path.endswith(".ts")}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param({}, "unknown", id="anything"),
        pytest.param({"type": "string", "minLength": 1}, "string", id="text"),
        pytest.param({"type": "integer"}, "number", id="whole-numbers-are-numbers"),
        pytest.param({"type": "boolean"}, "boolean", id="truth-values"),
        pytest.param({"type": ["string", "null"]}, "string | null", id="what-may-be-null"),
        pytest.param({"const": "2.0"}, '"2.0"', id="a-constant"),
        pytest.param({"const": True}, "true", id="a-constant-truth"),
        pytest.param({"enum": ["a", 'b"']}, '"a" | "b\\""', id="words"),
        pytest.param({"$ref": "#/$defs/Mode", "description": "x"}, "Mode", id="a-reference"),
        pytest.param({"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}, "A | null", id="alternatives"),
        pytest.param({"type": "array"}, "unknown[]", id="a-list-of-anything"),
        pytest.param({"type": "array", "items": {"$ref": "#/$defs/A"}}, "A[]", id="a-list"),
        pytest.param({"type": "array", "items": {"enum": ["a", "b"]}}, 'Array<"a" | "b">', id="a-list-of-alternatives"),
        pytest.param({"type": ["array", "null"], "items": {"type": "string"}}, "string[] | null", id="a-list-or-null"),
        pytest.param({"type": "object"}, "Record<string, unknown>", id="an-object-of-anything"),
        pytest.param(
            {"type": "object", "additionalProperties": {"type": "string"}}, "Record<string, string>", id="a-map"
        ),
        pytest.param(
            {"properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": True},
            "{\n  a: string;\n  [key: string]: unknown;\n}",
            id="an-object-with-more-in-it",
        ),
        pytest.param(
            {"properties": {"@type": {"type": "string"}, "_meta": {"type": "object"}}, "required": ["_meta"]},
            '{\n  "@type"?: string;\n  _meta: Record<string, unknown>;\n}',
            id="names-that-need-quotes-get-them",
        ),
        pytest.param(
            {"properties": {"a": {}}, "anyOf": [{"required": ["a"]}]},
            "{\n  a?: unknown;\n}",
            id="conditions-on-an-object-are-not-types",
        ),
    ],
)
def test_a_schema_as_a_type(schema: dict[str, Any], expected: str) -> None:
    assert type_of(schema) == expected


def test_many_alternatives_stand_below_each_other() -> None:
    words = ["x" * 30, "y" * 30, "z" * 30]
    lines = "".join(f'\n  | "{word}"' for word in words)
    assert declaration("Word", {"enum": words}) == f"export type Word ={lines};"
    nested = "".join(f'\n    | "{word}"' for word in words)
    assert declaration("Said", {"properties": {"word": {"enum": words}}}) == (
        f"export interface Said {{\n  word?:{nested};\n}}"
    )


def test_an_interface_comments_itself_and_its_properties() -> None:
    schema = {
        "description": "Said twice.",
        "properties": {
            "mode": {"$ref": "#/$defs/Mode", "default": "finish_step"},
            "tags": {"description": "Labels.", "type": "array", "items": {"type": "string"}, "default": []},
        },
        "required": ["tags"],
    }
    expected = """\
/** Said twice. */
export interface Said {
  /** @defaultValue `"finish_step"` */
  mode?: Mode;
  /**
   * Labels.
   *
   * @defaultValue `[]`
   */
  tags: string[];
}"""
    assert declaration("Said", schema) == expected


def test_long_comments_are_wrapped_and_cannot_end_early() -> None:
    text = declaration("Said", {"description": "word " * 30 + "*/ alert()", "type": "string"})
    assert text.count("*/") == 1
    assert max(map(len, text.splitlines())) <= 104


def test_a_module_declares_each_shape_once_after_its_first_line() -> None:
    text = module({"A": {"type": "string"}, "B": {"$ref": "#/$defs/A"}}, comment="By hand.")
    assert text == "// By hand.\n\nexport type A = string;\n\nexport type B = A;\n"


@pytest.mark.parametrize("path", TYPES)
def test_the_types_of_a_protocol_are_complete(path: str) -> None:
    text = TYPES[path]
    protocol = path.partition("/")[0]
    declared = re.findall(r"^export (?:interface|type) (\w+)", text, re.MULTILINE)
    schemas = [schema for name, schema in SCHEMAS.items() if name.startswith(f"{protocol}/")]
    shapes = {schema["title"] for schema in schemas} | {name for schema in schemas for name in schema.get("$defs", {})}
    assert len(declared) == len(set(declared))
    assert set(declared) == shapes


@pytest.mark.parametrize("path", TYPES)
def test_the_types_of_a_protocol_use_no_name_that_is_not_declared(path: str) -> None:
    code = re.sub(r'/\*.*?\*/|//.*?$|"(?:[^"\\]|\\.)*"', "", TYPES[path], flags=re.DOTALL | re.MULTILINE)
    names = set(re.findall(r"\b[A-Z]\w*", code))
    declared = set(re.findall(r"^export (?:interface|type) (\w+)", code, re.MULTILINE))
    assert names - declared <= {"Array", "Record"}
    for opening, closing in ("{}", "<>", "[]"):
        assert code.count(opening) == code.count(closing)
