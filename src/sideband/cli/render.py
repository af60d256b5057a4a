"""`sideband render`: show the exact request that a model got or would get, with every part labelled."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple

from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

from sideband.cli.app import OK, REFUSALS, refuse
from sideband.cli.target import Flag, Integer, JsonOption, StoreOption, ToOption, address
from sideband.core.errors import InvalidOption
from sideband.core.ledger import RequestHead
from sideband.inspect.report import escaped_json, printable, printable_json, shortened
from sideband.inspect.request import ExplainedRequest, explain_request
from sideband.inspect.saved import TYPICAL_MODELS, Making, RequestOutcome, Saved, chosen_making, saved_request
from sideband.inspect.scene import SceneError, read_scene
from sideband.inspect.sessions import inspect_store
from sideband.render.layout import Part
from sideband.render.profiles import Placement, ProfileError, Wire
from sideband.runtime.profiles import full_name
from sideband.runtime.requests import renderer_of

OUTCOMES: Final[Mapping[RequestOutcome, str]] = {
    RequestOutcome.ANSWERED: "was answered",
    RequestOutcome.VOID: "failed without an answer",
    RequestOutcome.OPEN: "has not been answered yet",
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
    file: str | None = None,
    /,
    *,
    to: ToOption = None,
    store: StoreOption = None,
    turn: Integer = None,
    coming: Annotated[Flag, Parameter(name="--next")] = False,
    model: str | None = None,
    placement: Literal["tail", "native", "seed"] | None = None,
    wire: Literal["anthropic", "openai_chat", "openai_responses", "gemini", "generic"] | None = None,
    profiles: Path | None = None,
    json: JsonOption = False,
) -> int:
    """Show the exact request that a model got or would get, from a saved session or from a file.

    For a session this is the last request that was sent, byte for byte, even while another process runs the session; the
    store is only read. With another `--model` or `--placement` it is the request that would have been sent if the whole
    session, or all of it that is kept, had run with these settings. Bodies are shown in full, and secrets are not masked.

    A file is JSON with `messages` and optionally `system`, `tools`, `reminders`, `turn` and `model`. A reminder has the
    fields of `inject_reminder` and may name its sender: `"trust": "server", "from": "build-watcher"`.

    Every part of the body is labelled: the head; what an earlier request already contained (stable); what is new;
    reminders that stay (kept), that are only in this request (volatile), or that the provider clears by itself
    (clearing); and cache markers. Reminders that were left out and an estimate of what is read from the prompt cache
    follow. Exits with 2 if something cannot be read.

    Parameters
    ----------
    file
        A file with a request, instead of a session.
    turn
        Show the request of this turn instead of the last one.
    coming
        Show the request that the session would send next, including what is in its inbox. What the user, hooks and
        providers would add is not known.
    model
        Written `transport:model`, like `anthropic:claude-opus-5-5`. The default is the model of the session, or the
        one that the file names.
    placement
        Where reminders are placed. The default is the session's placement, or that of the model's profile.
    wire
        Instead of a model: use a typical model of this wire.
    profiles
        A TOML file with your own profile rows, as for `sideband profiles`.
    """
    choice = _ModelChoice(model, wire, placement, profiles)
    wanted = _RequestChoice(to, store, turn, coming)
    if file is not None and "://" in file:
        return refuse("a store is named with --store: sideband render --store STORE_URL")
    if (contradiction := _contradiction(file, choice, wanted)) is not None:
        return refuse(contradiction)
    try:
        output = _of_session(choice, wanted) if file is None else _of_file(Path(file), choice)
    except (SceneError, ProfileError, *REFUSALS) as error:
        return refuse(error)
    if json:
        _print_json(output)
    else:
        _print_text(output)
    return OK


class _ModelChoice(NamedTuple):
    """The options that choose the model and the placement."""

    model: str | None
    wire: str | None
    placement: str | None
    profiles: Path | None

    @property
    def named(self) -> str | None:
        if self.wire is not None:
            return TYPICAL_MODELS[Wire(self.wire)]
        return None if self.model is None else full_name(self.model)

    def placed(self) -> Placement | None:
        return None if self.placement is None else Placement(self.placement)


class _RequestChoice(NamedTuple):
    """The options that choose a request of a store."""

    to: str | None = None
    store: str | None = None
    turn: int | None = None
    coming: bool = False


class RenderOutput(NamedTuple):
    """What is printed; `saved=None` if the request comes from a file."""

    model: str
    explained: ExplainedRequest
    saved: Saved | None = None


def _contradiction(file: str | None, choice: _ModelChoice, wanted: _RequestChoice) -> str | None:
    """The error message for options that cannot be combined; None if there is no conflict."""
    if choice.model is not None and choice.wire is not None:
        return "a model determines its wire; use --model or --wire, not both"
    if wanted.turn is not None and wanted.coming:
        return "use --turn for a request that was sent or --next for the next one, not both"
    if wanted != _RequestChoice() and file is not None:
        return f"{file} is a file; --to, --store, --turn and --next are about a session of a store"
    return None


def _of_file(path: Path, choice: _ModelChoice) -> RenderOutput:
    scene = read_scene(path)
    named = choice.named or scene.document.model
    if named is None:
        raise SceneError("the file names no model; choose one with --model transport:model, or with --wire")
    named = full_name(named)
    renderer = renderer_of(named, placement=choice.placed(), profiles=choice.profiles)
    return RenderOutput(named, explain_request(scene.subject(renderer), renderer))


def _of_session(choice: _ModelChoice, wanted: _RequestChoice) -> RenderOutput:
    def make(head: RequestHead | None) -> Making:
        if head is None and choice.named is None:
            raise InvalidOption(
                "the session has no recorded model; choose one with --model transport:model, or with --wire",
                field="model",
            )
        return chosen_making(head, model=choice.named, placement=choice.placed(), profiles=choice.profiles)

    store_url, session = address(wanted.to, wanted.store)
    with inspect_store(store_url) as store:
        saved = saved_request(store, make, session=session, turn=wanted.turn, coming=wanted.coming)
    return RenderOutput(saved.making.model, explain_request(saved.subject, saved.making.renderer), saved)


# Output.


def _print_json(output: RenderOutput) -> None:
    explained, saved = output.explained, output.saved
    plan, used = explained.plan, explained.share
    about = {} if saved is None else {"session": saved.session_id, "outcome": saved.outcome, "as_sent": saved.exact}
    document = {
        **about,
        "model": output.model,
        "wire": explained.profile.wire,
        "placement": explained.placement,
        "turn": explained.turn,
        "betas": plan.request.betas,
        "reminders": [outcome._asdict() for outcome in explained.outcomes],
        "advice": [entry._asdict() for entry in plan.advice],
        "tokens": {"total": used.tokens, "read": used.read, "written": used.written, "plain": used.plain},
        "cached_share": used.read / used.tokens,
        "not_cached_because": used.why_none,
        "relative_cost": explained.relative,
        "parts": [part._asdict() for part in explained.parts],
        "body": plan.request.body.decode(),
    }
    print(printable_json(document, indent=2))


def _print_text(output: RenderOutput) -> None:
    """Print the parts of the body in colours, or with a label before each part if there are no colours."""
    console, explained = Console(highlight=False), output.explained
    for line in (*_heading(output), *_reminders(explained)):
        console.out(printable(line), highlight=False)
    size = len(explained.plan.request.body)
    console.out(f"\nBody, {size:,} bytes", highlight=False)
    if console.is_terminal and not console.no_color:
        _print_colours(console, explained)
    else:
        width = max(map(len, STYLES))
        for part, text in _texts(explained):
            console.out(f"  {part.kind.value:<{width}}  {text}", highlight=False)
    for line in _costs(explained):
        console.out(line, highlight=False)


def _print_colours(console: Console, explained: ExplainedRequest) -> None:
    console.print(Text.assemble("  ", *((f" {name} ", style) for name, style in STYLES.items())))
    body = Text.assemble(*((text, STYLES[part.kind]) for part, text in _texts(explained)))
    console.print(body, soft_wrap=True)


def _texts(explained: ExplainedRequest) -> Iterator[tuple[Part, str]]:
    body = explained.plan.request.body
    return (
        (part, escaped_json(body[part.start : part.end].decode())) for part in explained.parts if part.start < part.end
    )


def _heading(output: RenderOutput) -> Iterator[str]:
    explained, saved = output.explained, output.saved
    yield f"{output.model}: wire {explained.profile.wire.value}, placement {explained.placement.value}"
    yield f"turn {explained.turn}, betas: {', '.join(explained.plan.request.betas) or 'none'}"
    if saved is not None:
        yield f"session {saved.session_id}: {_how(saved)}"
        if not saved.has_head:
            yield "Its system text and tools were not recorded, so they are missing below."


def _how(saved: Saved) -> str:
    """How the request differs from the one that was sent."""
    if saved.outcome is RequestOutcome.COMING:
        return "the next request, without what the user, hooks and providers would add to it"
    if saved.exact:
        return f"exactly as it was sent; it {OUTCOMES[saved.outcome]}"
    if saved.making.is_own:
        return "not exactly as it was sent, because this version of Sideband builds it differently"
    if saved.since is None:
        return "as it would have been sent if the whole session had run with these settings"
    return f"as it would have been sent if the session had run with these settings since turn {saved.since}; earlier turns are pruned"


def _reminders(explained: ExplainedRequest) -> Iterator[str]:
    yield ""
    yield "Reminders" if explained.outcomes else "No reminders"
    for outcome in explained.outcomes:
        where = f"{outcome.state} as {outcome.role}, {outcome.scope}" if outcome.role else outcome.state
        yield f"  {outcome.number}  {where}: {shortened(outcome.body, 60)}{f' ({outcome.why})' if outcome.why else ''}"
    for code, message in explained.plan.advice:
        yield f"  {code}: {message}"


def _costs(explained: ExplainedRequest) -> Iterator[str]:
    used, what = explained.share, "work" if explained.profile.kv_prefix else "cost"
    yield ""
    yield (
        f"About {used.tokens:,.0f} tokens: {used.read:,.0f} read from the cache ({used.read / used.tokens:.0%}), "
        f"{used.written:,.0f} written to it, {used.plain:,.0f} neither read nor written."
    )
    if used.why_none is not None:
        yield f"Nothing is read from the cache: {used.why_none}."
    yield f"Relative {what}: {explained.relative:.3f} times that of the same request without reminders."
