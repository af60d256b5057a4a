"""`sideband render`: the exact request that a model got or would get, with every part of it named."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple

from cyclopts import Parameter

if TYPE_CHECKING:
    from sideband.cli.picture import Picture
    from sideband.core.ledger import RequestHead
    from sideband.render.profile import Placement
    from sideband.render.renderer import Renderer

OK: Final = 0
EXAMPLE_STORE: Final = "sqlite:///sideband.db"

# Whom a wire is shown for when nobody says which model.
MODELS: Final[Mapping[str, str]] = {
    "anthropic": "anthropic:claude-opus-5-5",
    "openai_chat": "openai-chat:gpt-6-sol",
    "openai_responses": "openai:gpt-6-sol",
    "gemini": "google:gemini-4-argon",
    "generic": "openai-compatible:any",
}


def render(
    source: str,
    /,
    *,
    session: str | None = None,
    turn: int | None = None,
    coming: Annotated[bool, Parameter(name="--next", negative=())] = False,
    model: str | None = None,
    placement: Literal["tail", "native", "seed"] | None = None,
    wire: Literal["anthropic", "openai_chat", "openai_responses", "gemini", "generic"] | None = None,
    profiles: Path | None = None,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Show the exact request that a model got or would get, of a saved session or of a small file.

    Of a session, `sideband render sqlite:///sideband.db --session fix-login`, it is the last request that was sent, to
    the byte, also while another process runs the session; the store is only read. For another `--model` or
    `--placement` it is the request as it had been if the whole session had run so, or all of it that is still kept.
    Bodies are shown whole: nothing is masked.

    A file, `sideband render examples/render/tool_loop.json --wire gemini`, is JSON with `messages`, and if you like
    `system`, `tools`, `reminders`, `turn` and `model`. A reminder has the fields of `inject_reminder`, and may say who
    sends it: `"trust": "server", "from": "build-watcher"`.

    Every part of the body is named: the head and the part that an earlier request had already (stable), what is new,
    reminders that stay (kept), that are in this request only (volatile) or that the provider clears by itself
    (clearing), and cache markers. Then comes what was left out, and about how much the prompt cache gives back. Exits
    with 2 when something cannot be read.

    Parameters
    ----------
    source
        Where the store is, `sqlite:///sideband.db` or `postgresql://host/name`; or a file with a request.
    session
        Which session of the store; may be left out where there is only one.
    turn
        The request of this turn, instead of the last one.
    coming
        The request that the session would send next, with what waits in its inbox. What the user, hooks and providers
        would add is not known.
    model
        Written `transport:model`, like `anthropic:claude-opus-5-5`; otherwise the session's own, or the one that the
        file names.
    placement
        Where reminders stand; otherwise as the session has it, or the profile of the model.
    wire
        Instead of a model: show a typical one of this wire.
    profiles
        A TOML file of your own profile rows, as for `sideband profiles`.
    json
        Print one JSON object; its `parts` are byte offsets into `body`.
    """
    from sideband.cli.picture import print_json, print_text  # noqa: PLC0415 - commands import what they need
    from sideband.cli.refusing import REFUSALS, refuse  # noqa: PLC0415 - the same
    from sideband.cli.scene import SceneError  # noqa: PLC0415 - the same
    from sideband.render.profiles import ProfileError  # noqa: PLC0415 - the same

    choice = _Choice(model, wire, placement, profiles)
    wanted = _Wanted(session, turn, coming)
    if (contradiction := _contradiction(source, choice, wanted)) is not None:
        return refuse(contradiction)
    try:
        picture = _of_session(source, choice, wanted) if _is_store(source) else _of_file(Path(source), choice)
    except (SceneError, ProfileError, *REFUSALS) as error:
        return refuse(error)
    if json:
        print_json(picture)
    else:
        print_text(picture)
    return OK


class _Choice(NamedTuple):
    """For whom a request is to be shown, as far as somebody has said so."""

    model: str | None
    wire: str | None
    placement: str | None
    profiles: Path | None

    @property
    def named(self) -> str | None:
        from sideband.runtime.profiles import full_name  # noqa: PLC0415 - commands import what they need

        if self.wire is not None:
            return MODELS[self.wire]
        return None if self.model is None else full_name(self.model)

    def placed(self) -> "Placement | None":
        from sideband.render.profile import Placement  # noqa: PLC0415 - commands import what they need

        return None if self.placement is None else Placement(self.placement)

    def renderer(self, named: str) -> "Renderer":
        from sideband.render.profiles import split_model  # noqa: PLC0415 - commands import what they need
        from sideband.render.renderer import Renderer  # noqa: PLC0415 - the same
        from sideband.runtime.profiles import load_profiles  # noqa: PLC0415 - the same

        profile = load_profiles(self.profiles).of(named)
        return Renderer(profile, model=split_model(named)[1], placement=self.placed())


class _Wanted(NamedTuple):
    """Which request of a store."""

    session: str | None = None
    turn: int | None = None
    coming: bool = False


def _is_store(source: str) -> bool:
    return "://" in source or source == "memory:"


def _contradiction(source: str, choice: _Choice, wanted: _Wanted) -> str | None:
    """What was said that cannot be meant together."""
    if choice.model is not None and choice.wire is not None:
        return "a model has its wire; say --model or --wire, not both"
    if wanted.turn is not None and wanted.coming:
        return "the next request is of no turn that was; say --turn or --next, not both"
    if wanted != _Wanted() and not _is_store(source):
        return f"{source} is a file; --session, --turn and --next are for stores, like {EXAMPLE_STORE}"
    return None


def _of_file(path: Path, choice: _Choice) -> "Picture":
    from sideband.cli.picture import Picture  # noqa: PLC0415 - commands import what they need
    from sideband.cli.scene import SceneError, read_scene  # noqa: PLC0415 - the same
    from sideband.cli.shot import shoot  # noqa: PLC0415 - the same
    from sideband.runtime.profiles import full_name  # noqa: PLC0415 - the same

    scene = read_scene(path)
    named = choice.named or scene.document.model
    if named is None:
        raise SceneError("the file names no model; say for which: --model transport:model, or --wire")
    named = full_name(named)
    renderer = choice.renderer(named)
    return Picture(named, shoot(scene.subject(renderer), renderer))


def _of_session(store_url: str, choice: _Choice, wanted: _Wanted) -> "Picture":
    from sideband.cli.picture import Picture  # noqa: PLC0415 - commands import what they need
    from sideband.cli.saved import Making, recorded_making, saved_request  # noqa: PLC0415 - the same
    from sideband.cli.shot import shoot  # noqa: PLC0415 - the same
    from sideband.core.errors import InvalidOption  # noqa: PLC0415 - the same
    from sideband.runtime.inspecting import inspect_store  # noqa: PLC0415 - the same

    def make(head: "RequestHead | None") -> Making:
        if head is not None and choice.named in (None, head.model):
            recorded = recorded_making(head, choice.placed()) if choice.profiles is None else None
            return recorded or Making(head.model, choice.renderer(head.model))
        if choice.named is None:
            raise InvalidOption(
                "for which model its requests were made is not on record; say which: --model transport:model, or --wire",
                field="model",
            )
        return Making(choice.named, choice.renderer(choice.named))

    with inspect_store(store_url) as store:
        saved = saved_request(store, make, **wanted._asdict())
    return Picture(saved.making.model, shoot(saved.subject, saved.making.renderer), saved)
