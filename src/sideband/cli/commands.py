"""The commands: where each lives, and its line in the overview."""

from typing import Final

COMMANDS: Final = {
    "rehearse": ("sideband.cli.rehearse:rehearse", "watch reminders live and die in a rehearsed session"),
    "explain": ("sideband.cli.explain:explain", "explain a diagnostic code, or list them all"),
    "lint": ("sideband.cli.lint:lint", "find mistaken reminders in Python, JSON and TOML files"),
    "schema": ("sideband.cli.schema:schema", "print or write the JSON Schemas and TypeScript of every wire shape"),
    "render": (
        "sideband.cli.render:render",
        "show the exact request that a session sent or a model would get, part by part",
    ),
    "profiles": ("sideband.cli.profiles:profiles", "show what is known of models, and what one of them gets"),
    "events": ("sideband.cli.events:events", "show, follow or export what happened in a store"),
    "sessions": ("sideband.cli.sessions:sessions", "list the sessions of a store"),
    "doctor": ("sideband.cli.doctor:doctor", "check this installation, or with --verify a store"),
}
