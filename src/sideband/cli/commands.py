"""The commands: where each lives, and its line in the overview."""

from typing import Final

COMMANDS: Final = {
    "rehearse": ("sideband.cli.rehearse:rehearse", "watch reminders live and die in a rehearsed session"),
    "explain": ("sideband.cli.explain:explain", "explain a diagnostic code, or list them all"),
    "lint": ("sideband.cli.lint:lint", "find mistaken reminders in Python, JSON and TOML files"),
    "schema": ("sideband.cli.schema:schema", "print or write the JSON Schemas and TypeScript of every wire shape"),
    "profiles": ("sideband.cli.profiles:profiles", "show what is known of models, and what one of them gets"),
    "doctor": ("sideband.cli.doctor:doctor", "check this installation: versions, extras, limits in force"),
}
