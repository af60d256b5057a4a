"""`sideband render`: the exact request that a model would get, with every part of it named."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Parameter

if TYPE_CHECKING:
    from rich.console import Console

    from sideband.cli.scene import Scene
    from sideband.cli.shot import Shot
    from sideband.render.layout import Part

OK: Final = 0
FAILED: Final = 2

# Whom a wire is shown for when nobody says which model.
MODELS: Final[Mapping[str, str]] = {
    "anthropic": "anthropic:claude-opus-5-5",
    "openai_chat": "openai-chat:gpt-6-sol",
    "openai_responses": "openai:gpt-6-sol",
    "gemini": "google:gemini-4-argon",
    "generic": "openai-compatible:any",
}
STYLES: Final[Mapping[str, str]] = {
    "head": "dim",
    "stable": "default",
    "new": "green",
    "kept": "bold black on cyan",
    "volatile": "bold black on yellow",
    "clearing": "bold black on magenta",
    "marker": "bold red",
    "closing": "dim",
}


def render(
    file: Path,
    *,
    model: str | None = None,
    placement: Literal["tail", "native", "seed"] | None = None,
    wire: Literal["anthropic", "openai_chat", "openai_responses", "gemini", "generic"] | None = None,
    profiles: Path | None = None,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Show the exact request that a model would get: `sideband render examples/render/tool_loop.json --wire gemini`.

    The file is JSON with `messages`, and if you like `system`, `tools`, `reminders`, `turn` and `model`. A reminder has
    the fields of `inject_reminder`, and may say who sends it: `"trust": "server", "from": "build-watcher"`.

    Every part of the body is named: the head and the part that an earlier request had already (stable), what is new,
    reminders that stay (kept), that are in this request only (volatile) or that the provider clears by itself
    (clearing), and cache markers. Then comes what was left out, and about how much the prompt cache gives back. Exits
    with 2 when something cannot be read.

    Parameters
    ----------
    file
        The request.
    model
        Written `transport:model`, like `anthropic:claude-opus-5-5`; otherwise the one that the file names.
    placement
        Where reminders stand; otherwise as the profile of the model has it.
    wire
        Instead of a model: show a typical one of this wire.
    profiles
        A TOML file of your own profile rows, as for `sideband profiles`.
    json
        Print one JSON object; its `parts` are byte offsets into `body`.
    """
    from sideband.cli.scene import SceneError, read_scene  # noqa: PLC0415 - commands import what they need
    from sideband.cli.shot import shoot  # noqa: PLC0415 - the same
    from sideband.render.profile import Placement  # noqa: PLC0415 - the same
    from sideband.render.profiles import ProfileError  # noqa: PLC0415 - the same
    from sideband.runtime.profiles import load_profiles  # noqa: PLC0415 - the same

    try:
        scene = read_scene(file)
        named = _named(scene, model, wire)
        profile = load_profiles(profiles).of(named)
    except (SceneError, ProfileError) as error:
        print(f"error: {_printable(str(error))}", file=sys.stderr)
        return FAILED
    shot = shoot(scene, named, profile, None if placement is None else Placement(placement))
    if json:
        _print_json(shot)
    else:
        _print(shot)
    return OK


def _named(scene: "Scene", model: str | None, wire: str | None) -> str:
    from sideband.cli.scene import SceneError  # noqa: PLC0415 - commands import what they need

    if model is not None and wire is not None:
        raise SceneError("a model has its wire; say --model or --wire, not both")
    chosen = model or (MODELS[wire] if wire else scene.document.model)
    if chosen is None:
        raise SceneError("the file names no model; say for which: --model transport:model, or --wire")
    return chosen


# Printing.


def _print_json(shot: "Shot") -> None:
    import msgspec  # noqa: PLC0415 - commands import what they need

    rendered, used = shot.rendered, shot.share
    document = {
        "model": shot.model,
        "wire": shot.profile.wire,
        "placement": shot.placement,
        "turn": shot.scene.document.turn,
        "betas": rendered.betas,
        "reminders": [fate._asdict() for fate in shot.fates],
        "advice": [entry._asdict() for entry in rendered.advice],
        "tokens": {"total": used.tokens, "read": used.read, "written": used.written, "plain": used.plain},
        "cached_share": used.read / used.tokens,
        "relative_cost": shot.relative,
        "parts": [part._asdict() for part in shot.parts],
        "body": rendered.body.decode(),
    }
    print(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())


def _print(shot: "Shot") -> None:
    from rich.console import Console  # noqa: PLC0415 - commands import what they need

    console = Console(highlight=False)
    for line in (*_heading(shot), *_reminders(shot)):
        console.out(_printable(line), highlight=False)
    size = len(shot.rendered.body)
    console.out(f"\nBody, {size:,} bytes", highlight=False)
    if console.is_terminal and not console.no_color:
        _print_colours(console, shot)
    else:
        width = max(map(len, STYLES))
        for part, text in _texts(shot):
            console.out(f"  {part.kind.value:<{width}}  {text}", highlight=False)
    for line in _costs(shot):
        console.out(line, highlight=False)


def _print_colours(console: "Console", shot: "Shot") -> None:
    from rich.text import Text  # noqa: PLC0415 - commands import what they need

    console.print(Text.assemble("  ", *((f" {name} ", style) for name, style in STYLES.items())))
    body = Text.assemble(*((text, STYLES[part.kind]) for part, text in _texts(shot)))
    console.print(body, soft_wrap=True)


def _texts(shot: "Shot") -> "Iterator[tuple[Part, str]]":
    body = shot.rendered.body
    return ((part, _printable(body[part.start : part.end].decode())) for part in shot.parts if part.start < part.end)


def _heading(shot: "Shot") -> Iterator[str]:
    yield f"{shot.model}: wire {shot.profile.wire.value}, placement {shot.placement.value}"
    yield f"turn {shot.scene.document.turn}, betas: {', '.join(shot.rendered.betas) or 'none'}"


def _reminders(shot: "Shot") -> Iterator[str]:
    from textwrap import shorten  # noqa: PLC0415 - commands import what they need

    yield ""
    yield "Reminders" if shot.fates else "No reminders"
    for fate in shot.fates:
        where = f"{fate.state} as {fate.role}, {fate.scope}" if fate.role else fate.state
        yield f"  {fate.number}  {where}: {shorten(fate.body, 60)}{f' ({fate.why})' if fate.why else ''}"
    for code, message in shot.rendered.advice:
        yield f"  {code}: {message}"


def _costs(shot: "Shot") -> Iterator[str]:
    used, what = shot.share, "work" if shot.profile.kv_prefix else "cost"
    yield ""
    yield (
        f"About {used.tokens:,.0f} tokens: {used.read:,.0f} from the cache ({used.read / used.tokens:.0%}), "
        f"{used.written:,.0f} written to it, {used.plain:,.0f} neither."
    )
    if used.why_none is not None:
        yield f"Nothing is from the cache: {used.why_none}."
    yield f"{shot.relative:.3f} times the {what} of the same request without reminders."


def _printable(text: str) -> str:
    """The text with what a terminal would act on spelled out, as JSON spells it."""
    return "".join(char if char.isprintable() else _spelled(char) for char in text)


def _spelled(char: str) -> str:
    units = char.encode("utf-16-be").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))
