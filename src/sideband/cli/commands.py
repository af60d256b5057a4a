"""The commands: the function of each, and its line in the overview."""

from typing import Final

COMMANDS: Final = {
    "demo": ("sideband.cli.demo:demo", "demonstrate the lifecycle of reminders in a scripted session"),
    "explain": ("sideband.cli.explain:explain", "explain a diagnostic code, or list them all"),
    "lint": ("sideband.cli.lint:lint", "find mistakes in reminders in Python, JSON and TOML files"),
    "schema": (
        "sideband.cli.schema:schema",
        "print or write the JSON Schemas and TypeScript types of all protocol messages",
    ),
    "render": (
        "sideband.cli.render:render",
        "show the exact request that a session sent or a model would get, part by part",
    ),
    "profiles": (
        "sideband.cli.profiles:profiles",
        "show the profiles of models, and how reminders are placed for each",
    ),
    "events": ("sideband.cli.events:events", "show, follow or export the events of a store"),
    "sessions": ("sideband.cli.sessions:sessions", "list the sessions of a store"),
    "doctor": ("sideband.cli.doctor:doctor", "check this installation, or with --verify a store"),
}
