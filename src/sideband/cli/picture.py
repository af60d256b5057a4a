"""A request as `sideband render` prints it."""

from collections.abc import Iterator, Mapping
from textwrap import shorten
from typing import Final, NamedTuple

import msgspec
from rich.console import Console
from rich.text import Text

from sideband.cli.saved import Outcome, Saved
from sideband.cli.shot import Shot
from sideband.render.layout import Part

# What became of a request that was sent.
ENDS: Final[Mapping[Outcome, str]] = {
    Outcome.ANSWERED: "was answered",
    Outcome.VOID: "came to nothing",
    Outcome.OPEN: "is not answered yet",
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


class Picture(NamedTuple):
    """What is printed; `saved` None: the request is of a file."""

    model: str
    shot: Shot
    saved: Saved | None = None


def print_json(picture: Picture) -> None:
    """For programs."""
    shot, saved = picture.shot, picture.saved
    rendered, used = shot.rendered, shot.share
    about = {} if saved is None else {"session": saved.session_id, "outcome": saved.outcome, "as_sent": saved.exact}
    document = {
        **about,
        "model": picture.model,
        "wire": shot.profile.wire,
        "placement": shot.placement,
        "turn": shot.turn,
        "betas": rendered.betas,
        "reminders": [fate._asdict() for fate in shot.fates],
        "advice": [entry._asdict() for entry in rendered.advice],
        "tokens": {"total": used.tokens, "read": used.read, "written": used.written, "plain": used.plain},
        "cached_share": used.read / used.tokens,
        "not_cached_because": used.why_none,
        "relative_cost": shot.relative,
        "parts": [part._asdict() for part in shot.parts],
        "body": rendered.body.decode(),
    }
    print(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())


def print_text(picture: Picture) -> None:
    """For people: in colours where there are any, else with a label before each part."""
    console, shot = Console(highlight=False), picture.shot
    for line in (*_heading(picture), *_reminders(shot)):
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


def _print_colours(console: Console, shot: Shot) -> None:
    console.print(Text.assemble("  ", *((f" {name} ", style) for name, style in STYLES.items())))
    body = Text.assemble(*((text, STYLES[part.kind]) for part, text in _texts(shot)))
    console.print(body, soft_wrap=True)


def _texts(shot: Shot) -> Iterator[tuple[Part, str]]:
    body = shot.rendered.body
    return ((part, _printable(body[part.start : part.end].decode())) for part in shot.parts if part.start < part.end)


def _heading(picture: Picture) -> Iterator[str]:
    shot, saved = picture.shot, picture.saved
    yield f"{picture.model}: wire {shot.profile.wire.value}, placement {shot.placement.value}"
    yield f"turn {shot.turn}, betas: {', '.join(shot.rendered.betas) or 'none'}"
    if saved is not None:
        yield f"session {saved.session_id}: {_how(saved)}"
        if not saved.has_head:
            yield "What its system text and tools were is not on record; they are left out."


def _how(saved: Saved) -> str:
    """How the request comes to be, beside the one that was sent."""
    if saved.outcome is Outcome.COMING:
        return "the request that would come next, without what the user, hooks and providers add to it"
    if saved.exact:
        return f"as it was sent; it {ENDS[saved.outcome]}"
    if saved.making.is_own:
        return "not to the byte what was sent, since this version of Sideband builds it otherwise"
    if saved.since is None:
        return "as it had been, if the whole session had run so"
    return f"as it had been, if the session had run so from turn {saved.since} on; what was before is no longer kept"


def _reminders(shot: Shot) -> Iterator[str]:
    yield ""
    yield "Reminders" if shot.fates else "No reminders"
    for fate in shot.fates:
        where = f"{fate.state} as {fate.role}, {fate.scope}" if fate.role else fate.state
        yield f"  {fate.number}  {where}: {shorten(fate.body, 60)}{f' ({fate.why})' if fate.why else ''}"
    for code, message in shot.rendered.advice:
        yield f"  {code}: {message}"


def _costs(shot: Shot) -> Iterator[str]:
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
