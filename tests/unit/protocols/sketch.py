"""The schema that the MCP proposal sketches, and values on both sides of every bound that it draws."""

from collections.abc import Mapping
from typing import Any, Final

from jsonschema import Draft202012Validator


def a_notification(reminder: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/reminder", "params": {"reminder": reminder}}


SKETCH: Final = Draft202012Validator(
    {
        "type": "object",
        "required": ["jsonrpc", "method", "params"],
        "properties": {
            "jsonrpc": {"const": "2.0"},
            "method": {"const": "notifications/reminder"},
            "params": {
                "type": "object",
                "required": ["reminder"],
                "properties": {
                    "_meta": {"type": "object"},
                    "reminder": {
                        "type": "object",
                        "required": ["id", "body"],
                        "properties": {
                            "id": {"type": "string"},
                            "body": {"type": "string", "minLength": 1},
                            "tags": {"type": "array", "items": {"type": "string"}},
                            "dedupeKey": {"type": "string"},
                            "ttlTurns": {"type": "integer", "minimum": 1},
                            "preserveOnCompact": {"type": "boolean"},
                            "propagate": {"enum": ["all", "session", "none"]},
                            "roleHint": {"enum": ["system", "developer", "user_block", "ephemeral_cache"]},
                            "firedAtTurn": {"type": ["integer", "null"]},
                        },
                    },
                },
            },
        },
    }
)


# Values on both sides of every bound that the sketch draws.
TELLING: Final[Mapping[str, tuple[object, ...]]] = {
    "id": ("r-1", "", "a b", "x" * 500, 7, None),
    "body": ("x", "", " ", ["x"], None),
    "tags": ([], ["a"], [""], ["a", "a"], ["a"] * 100, ["a", 1], [None], "a", {}, None),
    "dedupeKey": ("k", "", "k" * 1000, 1, None),
    "ttlTurns": (1, 2.0, 10**9, 0, -1, 1.5, "2", True, None),
    "preserveOnCompact": (True, False, 0, "no", None),
    "propagate": ("all", "session", "none", "everywhere", "", None),
    "roleHint": ("system", "developer", "user_block", "ephemeral_cache", "user", None),
    "firedAtTurn": (None, 0, -1, 2.0, 10**30, 0.5, "4", False),
    "mode": ("finish_step", "later", 5),
    "source": ("me", {}),
    "_meta": ({}, "x"),
}
