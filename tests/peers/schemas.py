"""Checks what an agent has sent against the JSON Schemas that the TypeScript SDK ships, and against our own.

The schemas of the SDK accept words and fields that they do not know. Here they are closed: an unknown discriminator, an
unknown word of an enumeration and an unknown field are mistakes, unless they belong to the extensions listed below.
"""

import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012, Schema

from sideband.protocols.artifacts import artifacts

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ROOT / "build" / "peers" / "node_modules"
SDK: Final = PACKAGES / "@agentclientprotocol" / "sdk"

Frame: TypeAlias = dict[str, Any]
_Json: TypeAlias = dict[str, Any]

# The branches by which the schemas accept what they do not know.
_OPEN: Final = frozenset({"other", "unknown"})

# Everybody may add fields here: the `_meta` of a request is repeated in the updates that follow from it.
_FREE: Final = frozenset({"_meta", "sideband"})

_UPDATES: Final = ("ReminderEmitted", "ReminderDeduped", "ReminderExpired")
_OUR_UPDATES: Final = [{"$ref": f"urn:sideband:acp:session_update#/$defs/{name}"} for name in _UPDATES]
_OUR_CODES: Final = [{"const": -32010}, {"const": -32022}]
# The capabilities at the places of the proposals, which version 1 alone has.
_OUR_CAPABILITIES: Final = {
    "reminders": {"$ref": "urn:sideband:acp:capabilities#/$defs/ReminderCapability"},
    "session": {"$ref": "urn:sideband:acp:capabilities#/$defs/SessionCapabilities"},
}
_OUR_RESPONSES: Final[Mapping[str, str]] = {
    "inject_reminder": "inject_reminder#/$defs/SessionInjectReminderResponse",
    "remind": "inject_reminder#/$defs/SessionInjectReminderResponse",
    "revoke_reminder": "revoke_reminder#/$defs/SessionRevokeReminderResponse",
    "replace_reminder": "replace_reminder#/$defs/SessionReplaceReminderResponse",
    "clear_reminders": "clear_reminders#/$defs/SessionClearRemindersResponse",
    "pending_injections": "pending_injections#/$defs/SessionPendingInjectionsResponse",
    "inject": "inject#/$defs/SessionInjectResponse",
    "revoke_inject": "revoke_inject#/$defs/SessionRevokeInjectResponse",
    "replace_inject": "replace_inject#/$defs/SessionReplaceInjectResponse",
}
_STEERING: Final = "steering#/$defs/SessionSteeringResponse"
# What version 2 defines as the data of these errors.
_ERROR_DATA: Final = {
    -32022: "UnsupportedProtocolVersionErrorData",
    "unknown_session": "SessionNotFoundErrorData",
}


class Sent(NamedTuple):
    """A frame of a conversation, and which side has sent it."""

    by_agent: bool
    frame: Frame


class Dialect:
    """One version of the protocol: which definition belongs to which frame of an agent."""

    def __init__(self, version: int) -> None:
        self.version = version
        document = json.loads((SDK / "schema" / f"v{version}" / "schema.json").read_text("utf-8"))
        definitions: dict[str, _Json] = document["$defs"]
        self._methods = {
            (definition["x-side"], definition["x-method"], _role(name)): name
            for name, definition in definitions.items()
            if "x-method" in definition
        }
        self.update_names = _update_names(definitions["SessionUpdate"])
        """The discriminators of `session/update`, without ours."""
        _extend(definitions, version)
        document["$defs"] = {name: _closed(definition, definitions) for name, definition in definitions.items()}
        document["$id"] = self._address = f"urn:acp:{version}"
        self._registry: Registry[Schema] = Registry().with_resources(
            (schema["$id"], DRAFT202012.create_resource(schema)) for schema in (document, *_our_schemas())
        )

    @functools.cache  # noqa: B019 - there are two dialects, which live as long as the tests
    def _validator(self, reference: str) -> Draft202012Validator:
        return Draft202012Validator(_value({"$ref": reference}), registry=self._registry)

    def _definition(self, side: str, method: str, role: str) -> str | None:
        name = self._methods.get((side, method, role))
        return None if name is None else f"{self._address}#/$defs/{name}"

    # Frames.

    def mistakes(self, frame: Frame, *, answers: str | None = None) -> list[str]:
        """What is wrong with a frame of an agent; `answers` is the method of the request that it answers."""
        if frame.get("jsonrpc") != "2.0":
            return [f"jsonrpc is {frame.get('jsonrpc')!r}"]
        if "method" in frame:
            return self._mistakes_of_call(frame)
        if frame.keys() - {"jsonrpc", "id", "result", "error"}:
            return [f"a response with the members {sorted(frame)}"]
        if ("result" in frame) == ("error" in frame):
            return ["a response must have either a result or an error"]
        if "error" in frame:
            return self._mistakes_of_error(frame["error"])
        if answers is None:
            return [f"a result for the id {frame.get('id')!r}, which no request has"]
        reference = self._definition("agent", answers, "Response") or _our_response(answers)
        if reference is None:
            return [f"a result for {answers}, which has none"]
        return self._check(reference, frame["result"], f"result of {answers}")

    def _mistakes_of_call(self, frame: Frame) -> list[str]:
        method = frame["method"]
        is_request = "id" in frame
        if frame.keys() - {"jsonrpc", "id", "method", "params"}:
            return [f"{method}: a call with the members {sorted(frame)}"]
        role = "Request" if is_request else "Notification"
        reference = self._definition("client", method, role) or self._definition("protocol", method, role)
        if reference is None:
            return [f"{method}: version {self.version} has no such {role.lower()}"]
        mistakes = self._check(reference, frame.get("params"), method)
        carried = _carried(frame.get("params"))
        if carried is not None:
            mistakes += self._check(
                "urn:sideband:acp:session_update", frame["params"], f"{method} with an update of ours"
            )
        return mistakes

    def _mistakes_of_error(self, error: _Json) -> list[str]:
        mistakes = self._check(f"{self._address}#/$defs/Error", error, "error")
        data = error.get("data")
        if data is not None and "reason" in data:
            mistakes += self._check("urn:sideband:acp:error", data, "error data")
        shape = _ERROR_DATA.get((data or {}).get("reason", error["code"]))
        if self.version > 1 and shape is not None:
            # Members of ours are welcome here, so the definition is not closed.
            wanted = Draft202012Validator({"$ref": f"{self._address}#/$defs/{shape}"}, registry=self._registry)
            mistakes += [f"error data: {one.message}" for one in wanted.iter_errors(data)]
        return mistakes

    def _check(self, reference: str, value: object, where: str) -> list[str]:
        errors = list(_leaves(self._validator(reference).iter_errors(value)))
        return [
            f"{where}: {'/'.join(map(str, error.absolute_path)) or 'itself'}: {error.message[:400]}"
            for error in errors
            if not _is_consequence(error, errors)
        ]


@functools.cache
def dialect(version: int) -> Dialect:
    return Dialect(version)


def mistakes_in(conversation: Iterable[Sent]) -> list[str]:
    """What is wrong with the frames that the agent has sent, each with the frame.

    The version is the one that the agent names in its response to `initialize`.
    """
    spoken = dialect(1)
    capabilities: _Json = {}
    asked: dict[str, str] = {}
    known: set[object] = set()
    found: list[str] = []
    for by_agent, frame in conversation:
        if not by_agent:
            known.add(str((frame.get("params") or {}).get("sessionId")))
            if "method" in frame and "id" in frame:
                asked[json.dumps(frame["id"])] = frame["method"]
            if frame.get("method") == "initialize":
                capabilities = frame["params"].get("clientCapabilities") or {}
            continue
        answers = None if "method" in frame else asked.get(json.dumps(frame.get("id")))
        if answers == "initialize" and "result" in frame:
            spoken = dialect(frame["result"]["protocolVersion"])
        shown = json.dumps(frame)[:2_000]
        mistakes = spoken.mistakes(frame, answers=answers)
        if answers == "session/new" and "result" in frame:
            known.add(frame["result"]["sessionId"])
        if frame.get("method") == "session/update" and frame["params"]["sessionId"] not in known:
            mistakes.append("session/update: the client does not know this session yet")
        if spoken.version == 1:
            mistakes += _uninvited(frame, capabilities)
        found += [f"{mistake}\n    in {shown}" for mistake in mistakes]
    return found


def _uninvited(frame: Frame, capabilities: _Json) -> list[str]:
    """The updates that a client of version 1 gets only if its capabilities say that it reads them."""
    name = frame["params"]["update"].get("sessionUpdate", "") if frame.get("method") == "session/update" else ""
    session = capabilities.get("session") or {}
    emit = capabilities.get("_meta", {}).get("sideband", {}).get("reminders", {}).get("emit")
    wanted = {"reminder": emit, "compaction": session.get("compaction"), "notice": session.get("notices")}
    word = name.partition("_")[0]
    return [f"session/update: the client has not asked for {name}"] if word in wanted and wanted[word] is None else []


# The schemas.


def _role(name: str) -> str:
    return next(role for role in ("Request", "Response", "Notification") if name.endswith(role))


def _update_names(union: _Json) -> list[str]:
    names = [one["properties"]["sessionUpdate"].get("const") for one in union.get("oneOf") or union["anyOf"]]
    return [name for name in names if name is not None]


def _our_response(method: str) -> str | None:
    if method == "_session/steering":
        return f"urn:sideband:acp:{_STEERING}"
    name = method.removeprefix("_sideband/").removeprefix("session/")
    return f"urn:sideband:acp:{_OUR_RESPONSES[name]}" if name in _OUR_RESPONSES else None


def _our_schemas() -> Iterator[_Json]:
    for path, content in artifacts().items():
        if not path.startswith("acp/") or not path.endswith(".json"):
            continue
        schema = json.loads(content)
        definitions = schema.get("$defs", {})
        closed: _Json = _closed(schema, definitions)
        closed["$defs"] = {name: _closed(definition, definitions) for name, definition in definitions.items()}
        yield closed


def _extend(definitions: dict[str, _Json], version: int) -> None:
    """Add our extensions to the definitions of the protocol."""
    union = definitions["SessionUpdate"]
    union["anyOf"] = [*(union.pop("oneOf", None) or union["anyOf"]), *_OUR_UPDATES]
    definitions["ErrorCode"]["anyOf"] += _OUR_CODES
    definitions["Error"]["properties"]["data"] = {}
    if version == 1:
        definitions["AgentCapabilities"]["properties"] |= _OUR_CAPABILITIES


def _closed(schema: Any, definitions: Mapping[str, _Json]) -> Any:  # noqa: ANN401 - any JSON value
    """The schema without the branches that accept what they do not know; values have no further fields."""
    if not isinstance(schema, dict):
        return schema
    closed = dict(schema)
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            branches = [one for one in schema[word] if one.get("title", "").lower() not in _OPEN]
            closed[word] = [_closed(one, definitions) for one in branches]
    if "properties" in schema:
        closed["properties"] = {
            name: one if name in _FREE else _value(_closed(one, definitions), definitions)
            for name, one in schema["properties"].items()
        }
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            closed[word] = _value(_closed(schema[word], definitions), definitions)
    return closed


def _value(schema: _Json, definitions: Mapping[str, _Json] | None = None) -> _Json:
    """A schema at a place where a whole value stands: fields that no branch describes are refused."""
    if definitions is not None and not _describes_fields(schema, definitions, frozenset()):
        return schema
    return {"allOf": [schema], "unevaluatedProperties": False}


def _describes_fields(schema: _Json, definitions: Mapping[str, _Json], visited: frozenset[str]) -> bool:
    if "properties" in schema:
        return True
    reference = schema.get("$ref", "")
    if reference.startswith("urn:"):
        return True
    name = reference.removeprefix("#/$defs/")
    if name and name not in visited:
        return _describes_fields(definitions[name], definitions, visited | {name})
    return any(
        _describes_fields(branch, definitions, visited)
        for word in ("anyOf", "oneOf", "allOf")
        for branch in schema.get(word, ())
    )


def _carried(params: object) -> object:
    """The reminder update inside a `session_info_update`."""
    match params:
        case {"update": {"sessionUpdate": "session_info_update", "_meta": {"sideband": {"update": carried}}}}:
            return carried
        case _:
            return None


def _leaves(errors: Iterable[Any]) -> Iterator[Any]:
    """The errors that say most: of a union, those of the branch with the discriminator of the value."""
    for error in errors:
        branches: dict[int, list[Any]] = {}
        for inner in error.context or ():
            branches.setdefault(inner.schema_path[0], []).append(inner)
        fitting = [inner for inner in branches.values() if not any(one.validator in ("const", "type") for one in inner)]
        if len(fitting) == 1:
            yield from _leaves(fitting[0])
        else:
            yield error


def _is_consequence(error: Any, errors: Iterable[Any]) -> bool:  # noqa: ANN401 - the library has no types
    """Whether all fields of a value are refused only because of a mistake in or below it."""
    if error.validator != "unevaluatedProperties":
        return False
    path = list(error.absolute_path)
    return any(
        list(other.absolute_path)[: len(path)] == path
        and (len(other.absolute_path) > len(path) or other.validator != error.validator)
        for other in errors
    )
