"""The request that a model would get for a transcript, without a session and without sending it."""

import os
from collections.abc import Sequence
from typing import Any

import msgspec

from sideband.core.errors import InvalidOption, shown
from sideband.core.transcript import Transcript, live_index
from sideband.loop.turn import described, make_plan
from sideband.ports import Model
from sideband.render.profiles import Placement, PlacementWord, read_placement, split_model
from sideband.render.renderer import Rendered, Renderer
from sideband.render.view import RequestView, system_text
from sideband.runtime.models import TRANSPORTS, read_model
from sideband.runtime.profiles import full_name, load_profiles
from sideband.runtime.records import read_message
from sideband.tools.function import ToolLike, read_tools


def renderer_of(
    model: str, *, placement: Placement | None = None, profiles: str | os.PathLike[str] | None = None
) -> Renderer:
    """What builds the requests of the model that a string names; it needs neither a key nor the model's SDK."""
    named = full_name(model)
    return Renderer(load_profiles(profiles).of(named), model=split_model(named)[1], placement=placement)


def render_request(
    transcript: Transcript,
    *,
    model: str | Model,
    system: str = "",
    system_prompt_parts: Sequence[str] = (),
    system_appendix: str = "",
    system_suffix: str = "",
    tools: Sequence[ToolLike] = (),
    placement: PlacementWord | None = None,
) -> dict[str, Any]:
    """The body of the request that the model would get for this transcript, with its live reminders.

    Nothing is sent, no turn is counted, and a `model` that is named by a string needs no key. The other options are those
    of `agent_loop`. A session sends the same body, on some wires with its own `prompt_cache_key`.
    """
    if not isinstance(transcript, Transcript):
        raise InvalidOption(
            f"transcript must be a Transcript, not {shown(transcript)}", field="transcript", value=transcript
        )
    messages = [read_message(place, message) for place, message in enumerate(transcript.messages)]
    text = system_text(parts=system_prompt_parts, system=system, appendix=system_appendix, suffix=system_suffix)
    view = RequestView(
        turn=1,
        system=text.before,
        system_after=text.after,
        messages=messages,
        tools=described(read_tools(tools)),
        live=live_index(transcript),
    )
    request = _rendered(model, view, placement)
    if not isinstance(request, Rendered):
        raise InvalidOption(
            f"{shown(model)} builds no request that can be shown; name a model, such as {TRANSPORTS['anthropic']!r}",
            field="model",
            value=model,
        )
    body: dict[str, Any] = msgspec.json.decode(request.body)
    return body


def _rendered(model: str | Model, view: RequestView, placement: PlacementWord | None) -> object:
    if isinstance(model, str):
        transport = model.partition(":")[0]
        if transport in TRANSPORTS and transport != "scripted" and full_name(model) != f"{transport}:":
            return renderer_of(model, placement=read_placement(placement)).render(view).request
    # An object, or a string that is refused.
    return make_plan(read_model(model, placement=placement), view).request
