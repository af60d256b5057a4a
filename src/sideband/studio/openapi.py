"""The OpenAPI document, made from the table of operations."""

import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec

from sideband import __version__
from sideband.studio.auth import COOKIE
from sideband.studio.operations import Operation
from sideband.studio.shapes import ApiError

VERSION: Final = "3.1.0"
_REF: Final = "#/components/schemas/{name}"
_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_ABOUT: Final = (
    "The HTTP API of `sideband serve`. Programs send the operator's token as a bearer token; browsers exchange the "
    "one-time link for a cookie. A refused request has changed nothing, and its answer says why."
)
# The answers that every operation may give: what is wrong with a request, who sends it, or how the server is doing.
_REFUSED: Final = (400, 401, 403, 404, 405, 408, 409, 410, 413, 415, 421, 429, 500, 503)


def openapi(operations: Iterable[Operation]) -> dict[str, Any]:
    """The document that describes these operations."""
    listed = [*operations]
    shapes = [shape for each in listed for shape in (each.body, each.answer) if shape is not None]
    _, schemas = msgspec.json.schema_components([*shapes, ApiError], ref_template=_REF)
    paths: dict[str, dict[str, Any]] = {}
    for operation in listed:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": VERSION,
        "info": {"title": "Sideband", "version": __version__, "description": _ABOUT},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": f"{COOKIE}_PORT"},
            },
        },
    }


def _operation(operation: Operation) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": _name(operation),
        "summary": operation.summary,
        "parameters": [*_path_parameters(operation.path), *_query_parameters(operation)],
        "responses": _responses(operation),
        "security": [] if operation.is_open else [{"token": []}, {"cookie": []}],
    }
    if operation.body is not None:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": _schema(operation.body)}}}
    return found


def _name(operation: Operation) -> str:
    """For example `getSessionsIdTimeline`."""
    words = re.findall(r"\w+", operation.path.removeprefix("/api"))
    return operation.method.lower() + "".join(word[0].upper() + word[1:] for word in words)


def _path_parameters(path: str) -> list[dict[str, Any]]:
    schema = {"type": "string", "minLength": 1}
    return [{"name": name, "in": "path", "required": True, "schema": schema} for name in _PARAMETER.findall(path)]


def _query_parameters(operation: Operation) -> list[dict[str, Any]]:
    if operation.query is None:
        return []
    (_, components) = msgspec.json.schema_components([operation.query], ref_template=_REF)
    schema = components[operation.query.__name__]
    return [_query_parameter(name, given) for name, given in schema["properties"].items()]


def _query_parameter(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """A parameter that may be absent, and is never null."""
    alternatives = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    kept = {key: value for key, value in schema.items() if key not in ("anyOf", "description")}
    found: dict[str, Any] = {"name": name, "in": "query", "required": False}
    plain = {**(alternatives[0] if alternatives else {}), **kept}
    if plain.get("default", "") is None:
        del plain["default"]
    about = plain.pop("description", None) or schema.get("description")
    return {**found, **({"description": about} if about else {}), "schema": plain}


def _responses(operation: Operation) -> dict[str, Any]:
    refused = {
        str(status): {
            "description": HTTPStatus(status).phrase,
            "content": {"application/json": {"schema": _schema(ApiError)}},
        }
        for status in _REFUSED
    }
    content: dict[str, Any] = {}
    if operation.answer is not None:
        content["application/json"] = {"schema": _schema(operation.answer)}
    if operation.streams:
        content["text/event-stream"] = {"schema": {"type": "string", "description": operation.events}}
    answered: dict[str, Any] = {"description": HTTPStatus(operation.status).phrase}
    return {str(operation.status): {**answered, **({"content": content} if content else {})}, **refused}


def _schema(shape: Any) -> dict[str, Any]:  # noqa: ANN401 - any type that msgspec knows
    (schema,), _ = msgspec.json.schema_components([shape], ref_template=_REF)
    return schema
