"""`sideband profiles`: the profiles of models, and how reminders are placed for one of them."""

from collections.abc import Iterable, Iterator
from itertools import chain, groupby, repeat
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any, Final

from cyclopts import Parameter

from sideband.cli.app import refuse
from sideband.inspect.report import printable, printable_json
from sideband.render.plan import default_placement
from sideband.render.profiles import Explanation, Placement, Profile, ProfileError, ProfileRow, Profiles
from sideband.runtime.profiles import full_name, load_profiles

OK: Final = 0
STRICTEST: Final = "strictest template"
WIDTH: Final = 100
INDENT: Final = 5
_BOUND: Final = "its thinking is valid only while earlier messages stay unchanged"


def profiles(
    model: str | None = None,
    *,
    file: Path | None = None,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Show the profiles of models: where reminders may be placed in a request, and how the prompt cache works.

    Without a model, list the rows of the table. With a model, show its profile, the row that each value comes from,
    and where its reminders are placed as a result.

    Parameters
    ----------
    model
        Written `transport:model`, like `anthropic:claude-opus-5`, or `local:`.
    file
        A TOML file with your own rows, which override the built-in ones. The default is the file that
        `$SIDEBAND_PROFILES` names, if it is set.
    json
        Print JSON instead of a table.
    """
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


def placement(profile: Profile) -> tuple[str, str]:
    """The default placement for a model of this profile, and the reason for it."""
    chosen = default_placement(profile)
    if profile.placement is not None:
        return chosen.value, "a row of the table sets it"
    if chosen is Placement.NATIVE:
        return (
            chosen.value,
            f"{_BOUND}, and the model obeys inline system entries, which the provider removes by itself",
        )
    if profile.prefix_bound_thinking:
        return (
            chosen.value,
            f"{_BOUND}, and no inline entry is known that the model obeys and the provider removes",
        )
    return chosen.value, "at the end of the request, reminders keep the prompt cache intact"


def _grouped(rows: Iterable[ProfileRow]) -> Iterator[list[ProfileRow]]:
    """Group rows as they are in the file, where one row may name several transports and models."""
    for _, group in groupby(rows, key=lambda row: (row.origin, row.number)):
        yield [*group]


def _each(names: Iterable[str]) -> list[str]:
    return [*dict.fromkeys(names)]


def _row_json(rows: list[ProfileRow]) -> dict[str, Any]:
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


def _explained_json(found: Explanation) -> dict[str, Any]:
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
    print(printable_json(document, indent=2))


def _listing(rows: Iterable[ProfileRow]) -> Iterator[str]:
    """List each file with its rows: the models of each row, and the values that it sets."""
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
    yield "To see the profile of one model: sideband profiles TRANSPORT:MODEL"


def _explained(found: Explanation, table: Profiles) -> Iterator[str]:
    chosen, why = placement(found.profile)
    yield f"{found.transport}:{found.model}"
    yield ""
    if not found.known:
        yield f"No row is for the transport {found.transport!r}, so the strictest chat template is assumed."
        yield f"There are rows for {', '.join(table.transports)}."
    elif not any(row.model for row in found.rows):
        yield "No row names this model, so only the rows for every model of its transport apply."
    yield f"Placement of reminders is {chosen}: {why}."
    yield ""
    named = [(field, _shown(value), STRICTEST if row is None else _label(row)) for field, value, row in found.stated]
    fields, values, _ = ([*map(len, column)] for column in zip(*named, strict=True))
    for field, value, label in named:
        yield f"  {field:<{max(fields)}}  {value:<{max(values)}}  {label}"
    yield ""
    yield "Rows that apply; later rows override earlier ones"
    for row in found.rows:
        source = f"; {row.source}" if row.source else ""
        yield f"  {_label(row)}: {row.transport}, {_beginning(row)}{_verified(row)}{source}"
    if not found.rows:
        yield "  none"


def _label(row: ProfileRow) -> str:
    return f"{row.origin} row {row.number}"


def _beginning(row: ProfileRow) -> str:
    return f"{row.model}…" if row.model else "every model"


def _verified(row: ProfileRow) -> str:
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
