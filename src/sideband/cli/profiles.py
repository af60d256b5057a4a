"""`sideband profiles`: what is known of models, and what one of them gets."""

from collections.abc import Iterable, Iterator
from itertools import chain, groupby, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

if TYPE_CHECKING:
    from sideband.render.profile import Profile
    from sideband.render.profiles import Explanation, Profiles, Row

OK: Final = 0
STRICTEST: Final = "strictest template"
WIDTH: Final = 100
INDENT: Final = 5


def profiles(
    model: str | None = None,
    *,
    file: Path | None = None,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Show what is known of models: where reminders may stand in a request, and what the prompt cache does.

    Without a model, list the rows of the table. With one, say what it gets, which row each value comes from, and
    where its reminders stand as a result.

    Parameters
    ----------
    model
        Written `transport:model`, like `anthropic:claude-opus-5`, or `local:`.
    file
        A TOML file of your own rows, which win over the built-in ones; otherwise the one that `$SIDEBAND_PROFILES`
        names.
    json
        Print JSON instead of a table.
    """
    from sideband.cli.refusing import refuse  # noqa: PLC0415 - commands import what they need
    from sideband.lint.report import printable  # noqa: PLC0415 - the same
    from sideband.render.profiles import ProfileError  # noqa: PLC0415 - the same
    from sideband.runtime.profiles import full_name, load_profiles  # noqa: PLC0415 - the same

    try:
        table = load_profiles(file)
        found = None if model is None else table.explain(full_name(model))
    except ProfileError as error:
        return refuse(error)
    if json:
        _print_json([*map(_row_json, _grouped(table.rows))] if found is None else _explained_json(found))
    else:
        lines = _listing(table.rows) if found is None else _explained(found, table)
        print("\n".join(map(printable, lines)))
    return OK


def placement(profile: "Profile") -> tuple[str, str]:
    """Where the reminders of such a model stand unless somebody says otherwise, and why."""
    from sideband.render.planning import default_placement  # noqa: PLC0415 - commands import what they need
    from sideband.render.profile import Placement  # noqa: PLC0415 - the same

    chosen = default_placement(profile)
    if profile.placement is not None:
        return chosen.value, "a row says so"
    if chosen is Placement.NATIVE:
        return (
            chosen.value,
            "its thinking is bound to what was sent before, and the provider's own slot is heeded and clears itself",
        )
    if profile.prefix_bound_thinking:
        return (
            chosen.value,
            "its thinking is bound to what was sent before, and no slot is known to be heeded and to clear itself",
        )
    return chosen.value, "the end of the request, where the prompt cache loses nothing"


def _grouped(rows: "Iterable[Row]") -> "Iterator[list[Row]]":
    """The rows as their file has them: one that names several transports or models is one."""
    for _, group in groupby(rows, key=lambda row: (row.origin, row.number)):
        yield [*group]


def _each(names: Iterable[str]) -> list[str]:
    return [*dict.fromkeys(names)]


def _row_json(rows: "list[Row]") -> dict[str, Any]:
    first = rows[0]
    return {
        "file": first.origin,
        "row": first.number,
        "transports": _each(row.transport for row in rows),
        "models": _each(row.model for row in rows),
        "states": dict(first.states),
        "source": first.source,
        "verified": first.verified,
    }


def _explained_json(found: "Explanation") -> dict[str, Any]:
    chosen, why = placement(found.profile)
    return {
        "transport": found.transport,
        "model": found.model,
        "known_transport": found.known,
        "placement": chosen,
        "because": why,
        "fields": {
            field: {
                "value": value,
                "file": row and row.origin,
                "row": row and row.number,
                "beginning": row and row.model,
                "source": row and row.source,
                "verified": row and row.verified,
            }
            for field, value, row in found.stated
        },
    }


def _print_json(document: object) -> None:
    import msgspec  # noqa: PLC0415 - commands import what they need

    print(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())


def _listing(rows: "Iterable[Row]") -> Iterator[str]:
    """Each file with its rows; a row is whom it is about, and what it states."""
    from textwrap import wrap  # noqa: PLC0415 - commands import what they need

    for origin, of_file in groupby(rows, key=lambda row: row.origin):
        yield from (origin, "")
        for group in _grouped(of_file):
            first = group[0]
            whom = f"{', '.join(_each(row.transport for row in group))}: {', '.join(_each(map(_beginning, group)))}"
            states = ", ".join(f"{field}={_shown(value)}" for field, value in first.states.items())
            lines = (f"{whom}{_verified(first)}", states)
            indented = (line for text in lines for line in wrap(text, WIDTH - INDENT, break_on_hyphens=False))
            numbers = chain((str(first.number),), repeat(""))
            yield from (f"{number:>{INDENT - 2}}  {line}" for number, line in zip(numbers, indented, strict=False))
            yield ""
    yield "What a model gets of them: sideband profiles TRANSPORT:MODEL"


def _explained(found: "Explanation", table: "Profiles") -> Iterator[str]:
    chosen, why = placement(found.profile)
    yield f"{found.transport}:{found.model}"
    yield ""
    if not found.known:
        yield f"No row is about the transport {found.transport!r}: the strictest chat template is assumed."
        yield f"Rows are about {', '.join(table.transports)}."
    elif not any(row.model for row in found.rows):
        yield "No row names this model: it gets what holds for every model of its transport."
    yield f"Reminders are placed by {chosen}: {why}."
    yield ""
    named = [(field, _shown(value), STRICTEST if row is None else _label(row)) for field, value, row in found.stated]
    fields, values, _ = ([*map(len, column)] for column in zip(*named, strict=True))
    for field, value, label in named:
        yield f"  {field:<{max(fields)}}  {value:<{max(values)}}  {label}"
    yield ""
    yield "Rows that hold for it; later ones win"
    for row in found.rows:
        source = f"; {row.source}" if row.source else ""
        yield f"  {_label(row)}: {row.transport}, {_beginning(row)}{_verified(row)}{source}"
    if not found.rows:
        yield "  none"


def _label(row: "Row") -> str:
    return f"{row.origin} row {row.number}"


def _beginning(row: "Row") -> str:
    return f"{row.model}…" if row.model else "every model"


def _verified(row: "Row") -> str:
    return f", verified {row.verified}" if row.verified else ""


def _shown(value: object) -> str:
    match value:
        case None:
            return "unset"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case tuple():
            return "|".join(value) or "none"
        case _:
            return str(value)
