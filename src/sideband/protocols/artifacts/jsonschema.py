"""JSON Schema 2020-12 from the structs of the wire shapes."""

import inspect
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
from msgspec import inspect as shapes

from sideband.protocols.artifacts.documents import Document
from sideband.protocols.wire import Outbound

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Any]


def schema_of(document: Document, *, comment: str) -> Schema:
    """The content of a document's schema file; `comment` becomes its `$comment`."""
    definitions = definitions_of((*document.root, *document.others))
    head: Schema = {
        "$schema": DIALECT,
        "$id": f"urn:sideband:{document.protocol}:{document.surface}",
        "$comment": comment,
    }
    match document.root:
        case (only,):
            root = definitions.pop(only.__name__)
        case several:
            root = {
                "title": document.title,
                "description": f"{document.summary}.",
                "anyOf": [{"$ref": _reference(alternative.__name__)} for alternative in several],
            }
    return head | root | ({"$defs": definitions} if definitions else {})


def definitions_of(types: Iterable[type[msgspec.Struct]]) -> dict[str, Schema]:
    """The schema of every named type within `types`, by name."""
    types = tuple(types)
    _, components = msgspec.json.schema_components(types, ref_template=_reference("{name}"))
    structs = {struct.__name__: struct for struct in _structs(shapes.multi_type_info(types))}
    return {
        name: _object(_tidied(schema), structs[name]) if name in structs else _tidied(schema)
        for name, schema in sorted(components.items())
    }


def _reference(name: str) -> str:
    return f"#/$defs/{name}"


def _structs(types: Iterable[shapes.Type]) -> Iterator[type[msgspec.Struct]]:
    for type_ in types:
        match type_:
            case shapes.StructType(cls=struct, fields=fields):
                yield struct
                yield from _structs(field.type for field in fields)
            case (
                shapes.Metadata(type=inner) | shapes.CollectionType(item_type=inner) | shapes.DictType(value_type=inner)
            ):
                yield from _structs((inner,))
            case shapes.UnionType(types=inner_types):
                yield from _structs(inner_types)
            case _:
                pass


def _object(schema: Schema, struct: type[msgspec.Struct]) -> Schema:
    """The schema of a struct, completed with what only its class defines."""
    properties: dict[str, Schema] = schema["properties"]
    if issubclass(struct, Outbound):
        properties = {
            name: _without_null(entry) if entry.get("default", ...) is None else entry
            for name, entry in properties.items()
        }
    required = schema.pop("required")
    schema["properties"] = {
        name: {key: value for key, value in properties[name].items() if (key, value) != ("default", None)}
        for name in (*required, *(name for name in properties if name not in required))
    }
    if required:
        schema["required"] = required
    extra: Schema = dict(getattr(struct, "schema", {}))
    return schema | extra


def _tidied(schema: Schema) -> Schema:
    """The same schema in a shorter form that does not depend on the version of Python."""
    tidy: Schema = {}
    for keyword, value in schema.items():
        match keyword, value:
            case "discriminator", _:
                pass  # a keyword of OpenAPI; the constants of the alternatives are enough
            case "description", str(text):
                tidy[keyword] = _reflowed(text)
            case "enum", [only]:
                tidy["const"] = only
            case "properties", dict(properties):
                tidy[keyword] = {name: _tidied(entry) for name, entry in properties.items()}
            case "anyOf", list(alternatives):
                tidy[keyword] = [_tidied(alternative) for alternative in alternatives]
            case (("items" | "additionalProperties"), dict(inner)):
                tidy[keyword] = _tidied(inner)
            case _:
                tidy[keyword] = value
    return _folded(tidy)


def _folded(schema: Schema) -> Schema:
    """Turn `anyOf` a plain type and null into a list of two types."""
    match schema.get("anyOf"):
        case [{"type": str(name)} as plain, {"type": "null"}] if "enum" not in plain:
            return _instead(schema, plain | {"type": [name, "null"]})
        case _:
            return schema


def _without_null(schema: Schema) -> Schema:
    match schema:
        case {"type": [name, "null"]}:
            return schema | {"type": name}
        case {"anyOf": [only, {"type": "null"}]}:
            return _instead(schema, only)
        case {"anyOf": alternatives}:
            return schema | {"anyOf": [entry for entry in alternatives if entry != {"type": "null"}]}
        case _:
            return schema


def _instead(schema: Schema, alternative: Schema) -> Schema:
    """`schema` with `anyOf` replaced by one alternative."""
    return alternative | {keyword: value for keyword, value in schema.items() if keyword != "anyOf"}


def _reflowed(text: str) -> str:
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(text))
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
