"""TypeScript declarations that correspond to JSON Schemas."""

import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from sideband.protocols.artifacts.jsonschema import Schema

WIDTH: Final = 100
INDENT: Final = "  "
_PLAIN: Final[Mapping[str, str]] = MappingProxyType(
    {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
)
_IDENTIFIER: Final = re.compile(r"[A-Za-z_$][\w$]*", re.ASCII)


def module(definitions: Mapping[str, Schema], *, comment: str) -> str:
    """A TypeScript module that exports every definition; `comment` is its first line."""
    blocks = [f"// {comment}", *(declaration(name, schema) for name, schema in definitions.items())]
    return "\n\n".join(blocks) + "\n"


def declaration(name: str, schema: Schema) -> str:
    """An interface for an object with known properties, or else a type alias."""
    if "properties" in schema:
        body = f"export interface {name} {type_of(schema)}"
    else:
        type_ = type_of(schema)
        space = "" if type_.startswith("\n") else " "
        body = f"export type {name} ={space}{type_};"
    return "\n".join([*_comment(schema), body])


def type_of(schema: Schema) -> str:
    """The TypeScript type of the values that `schema` accepts."""
    match schema:
        case {"$ref": str(reference)}:
            return reference.rpartition("/")[2]
        case {"const": value}:
            return _literal(value)
        case {"enum": list(values)}:
            return _union(_literal(value) for value in values)
        case {"properties": dict(properties)}:
            return _object(properties, schema)
        case {"anyOf": list(alternatives)}:
            return _union(type_of(alternative) for alternative in alternatives)
        case {"type": list(names)}:
            return _union(type_of(schema | {"type": name}) for name in names)
        case {"type": "array"}:
            return _array(type_of(schema.get("items", {})))
        case {"type": "object"}:
            return f"Record<string, {type_of(schema.get('additionalProperties', {}))}>"
        case {"type": str(name)}:
            return _PLAIN[name]
        case _:
            return "unknown"


def _literal(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _union(alternatives: Iterable[str]) -> str:
    parts = tuple(alternatives)
    line = " | ".join(parts)
    if len(line) <= WIDTH or "\n" in line:
        return line
    return "".join(f"\n{INDENT}| {part}" for part in parts)


def _array(item: str) -> str:
    return f"{item}[]" if _IDENTIFIER.fullmatch(item) else f"Array<{item}>"


def _object(properties: Mapping[str, Schema], schema: Schema) -> str:
    lines = [line for name in properties for line in _property(name, schema)]
    if schema.get("additionalProperties") is True:
        lines.append("[key: string]: unknown;")
    inner = textwrap.indent("\n".join(lines), INDENT)
    return f"{{\n{inner}\n}}"


def _property(name: str, schema: Schema) -> Iterator[str]:
    entry = schema["properties"][name]
    key = name if _IDENTIFIER.fullmatch(name) else _literal(name)
    mark = "" if name in schema.get("required", ()) else "?"
    yield from _comment(entry)
    type_ = type_of(entry)
    space = "" if type_.startswith("\n") else " "
    yield f"{key}{mark}:{space}{type_};"


def _comment(schema: Schema) -> Iterator[str]:
    paragraphs = [schema["description"]] if "description" in schema else []
    if "default" in schema:
        paragraphs.append(f"@defaultValue `{_literal(schema['default'])}`")
    text = "\n\n".join(paragraphs).replace("*/", "*\\/")
    if not text:
        return
    lines = [wrapped for line in text.split("\n") for wrapped in textwrap.wrap(line, WIDTH) or [""]]
    if len(lines) == 1:
        yield f"/** {lines[0]} */"
        return
    yield "/**"
    for line in lines:
        yield f" * {line}".rstrip()
    yield " */"
