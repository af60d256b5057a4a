"""The requests of a saved session as JSON: a row for each turn, one request in full, and one request for several models."""

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from typing import Final

import msgspec

from sideband.core.errors import InvalidOption, UnknownSession, shown
from sideband.core.ledger import RequestHead
from sideband.inspect.request import ExplainedRequest, explain_request
from sideband.inspect.saved import (
    TYPICAL_MODELS,
    Making,
    RequestOutcome,
    Saved,
    chosen_making,
    compared_request,
    request_of,
    saved_requests,
)
from sideband.inspect.sessions import listed
from sideband.render.layout import PartKind
from sideband.render.plan import default_placement
from sideband.render.profiles import Placement, Profile, ProfileError, Wire, read_placement
from sideband.runtime.profiles import full_name, load_profiles
from sideband.store.inspector import Inspector, StoredSession

# Models whose requests differ from those of the typical model of their wire.
_FURTHER_MODELS: Final = ("anthropic:claude-sonnet-4-6", "openai-chat:gpt-4o", full_name("local:"))
# A request is compared with what the typical models of these wires would get.
_COMPARED: Final = (Wire.ANTHROPIC, Wire.OPENAI_RESPONSES, Wire.GEMINI, Wire.GENERIC)


class RequestRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A request of a session, and an estimate of what the prompt cache does with its tokens.

    `exact` if every byte is as it was sent. `share` is the part of the tokens that is read from the cache. `relative` is
    the cost divided by that of the same request without reminders. `broken` says why the cache holds nothing of the
    conversation (None: it does, or this is the first request). `compaction` if the conversation was compacted since the
    last reply.
    """

    turn: int
    model: str
    placement: Placement
    outcome: RequestOutcome
    exact: bool
    tokens: float
    read: float
    written: float
    plain: float
    share: float
    relative: float
    broken: str | None = None
    compaction: bool = False


class RequestPart(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A run of characters in the body of a request."""

    kind: PartKind
    text: str


class RequestReminder(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A reminder that was live when a request was built, as in `ReminderOutcome`, and its sender."""

    id: str
    body: str
    state: str
    role: str = ""
    scope: str = ""
    why: str = ""
    trust: str
    principal: str | None = None
    provider_id: str | None = None


class RequestDocument(RequestRow, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A request in full; the texts of its `parts`, joined, are the body, which has this many `bytes`.

    If `has_head` is false, the system text and the tools were not recorded. `since` is the first turn that was replayed
    if earlier turns are pruned. `why_none` says why nothing is read from the cache (None: something is read).
    """

    has_head: bool
    since: int | None = None
    bytes: int
    betas: tuple[str, ...]
    parts: tuple[RequestPart, ...]
    reminders: tuple[RequestReminder, ...]
    why_none: str | None = None


class InspectableModel(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A model that requests can be built for, with the placements that make a difference, and its default placement."""

    model: str
    placements: tuple[Placement, ...]
    placement: Placement


def request_rows(store: Inspector, *, session: str, after: int = 0, limit: int = 100) -> list[RequestRow]:
    """The requests of the first turns after `after`, each as the session built it.

    If a void turn's number was used again, its row is the last request of that number. Requests to a model that records
    no profile are built for a typical model, and are not `exact`.
    """
    found = saved_requests(store, _stored(store, session), _making, after=after, limit=limit)
    return [_row(saved, _explained(saved)) for saved in found]


def request_document(
    store: Inspector,
    *,
    session: str,
    turn: int | None,
    coming: bool = False,
    model: str | None = None,
    placement: str | None = None,
    otherwise: str | None = None,
) -> RequestDocument:
    """The request of a turn (None: the last), or the next one, as the session built it or as another model would get it.

    `otherwise` is the model of a session that has sent no request yet.
    """
    placed = read_placement(placement)

    def make(head: RequestHead | None) -> Making:
        wanted = otherwise if model is None and head is None else model
        return _making(head, model=None if wanted is None else full_name(wanted), placement=placed)

    saved = request_of(store, _stored(store, session), make, turn=turn, coming=coming)
    explained = _explained(saved)
    request = explained.plan.request
    return RequestDocument(
        **msgspec.structs.asdict(_row(saved, explained)),
        has_head=saved.has_head,
        since=saved.since,
        bytes=len(request.body),
        betas=request.betas,
        parts=tuple(_parts(explained)),
        reminders=tuple(_reminders(saved, explained)),
        why_none=explained.share.why_none,
    )


def compared_requests(store: Inspector, *, session: str, turn: int) -> list[RequestRow]:
    """The request of a turn as the session built it, with its other placements, and for typical models of other wires.

    Those that would say nothing are left out.
    """
    found = compared_request(store, _stored(store, session), _compared, turn=turn)
    return [_row(saved, _explained(saved)) for saved in found]


def inspectable_models() -> list[InspectableModel]:
    """A typical model of each wire, and models that differ from it; `ProfileError` if the user's rows are invalid."""
    profiles = load_profiles()
    known = {model: profiles.of(model) for model in (*TYPICAL_MODELS.values(), *_FURTHER_MODELS)}
    return [
        InspectableModel(model=model, placements=_placements(profile), placement=default_placement(profile))
        for model, profile in known.items()
    ]


def _stored(store: Inspector, session: str) -> StoredSession:
    for stored in listed(store):
        if stored.session_id == session:
            return stored
    raise UnknownSession(f"there is no session {shown(session)} in {store.place}", field="session", value=session)


# Models and placements.


def _making(head: RequestHead | None, *, model: str | None = None, placement: Placement | None = None) -> Making:
    try:
        return chosen_making(head, model=model, placement=placement)
    except ProfileError as error:
        raise InvalidOption(str(error), field="model", value=model) from error


def _placements(profile: Profile) -> tuple[Placement, ...]:
    """The placements that make a difference: where the provider has no slot of its own, `native` is the same as `tail`."""
    match profile.wire:
        case Wire.ANTHROPIC:
            has_slot = profile.self_clearing is not None
        case Wire.OPENAI_CHAT | Wire.OPENAI_RESPONSES:
            has_slot = profile.developer_role
        case Wire.GEMINI | Wire.GENERIC:
            has_slot = False
    native = (Placement.NATIVE,) if has_slot and profile.heeds_inline else ()
    # A row of the user's may have made a placement the default that makes no difference.
    return tuple(dict.fromkeys((*native, Placement.TAIL, Placement.SEED, default_placement(profile))))


def _compared(head: RequestHead | None) -> list[Making]:
    own = _making(head)
    profile, chosen = own.renderer.profile, own.renderer.placement
    placed = [_making(head, placement=placement) for placement in _placements(profile) if placement is not chosen]
    typical = [_making(head, model=TYPICAL_MODELS[wire]) for wire in _COMPARED if wire is not profile.wire]
    return [own, *placed, *typical]


# What is said of a request.


def _explained(saved: Saved) -> ExplainedRequest:
    return explain_request(saved.subject, saved.making.renderer, saved.making.bare)


def _row(saved: Saved, explained: ExplainedRequest) -> RequestRow:
    used, broken = explained.share, saved.subject.broken
    return RequestRow(
        turn=explained.turn,
        model=saved.making.model,
        placement=explained.placement,
        outcome=saved.outcome,
        exact=saved.exact,
        tokens=used.tokens,
        read=used.read,
        written=used.written,
        plain=used.plain,
        share=used.read / used.tokens,
        relative=explained.relative,
        broken=None if broken is None else broken.value,
        compaction=saved.compacted,
    )


def _parts(explained: ExplainedRequest) -> Iterator[RequestPart]:
    """The parts as texts, adjacent ones of a kind as one. A part never ends inside a character."""
    body = explained.plan.request.body
    parts = (part for part in explained.parts if part.start < part.end)
    for kind, run in groupby(parts, key=attrgetter("kind")):
        yield RequestPart(kind=kind, text="".join(body[part.start : part.end].decode() for part in run))


def _reminders(saved: Saved, explained: ExplainedRequest) -> Iterator[RequestReminder]:
    for told, outcome in zip(saved.subject.told, explained.outcomes, strict=True):
        yield RequestReminder(
            id=outcome.number,
            body=outcome.body,
            state=outcome.state,
            role=outcome.role,
            scope=outcome.scope,
            why=outcome.why,
            trust=told.sender.trust.name.lower(),
            principal=told.sender.principal,
            provider_id=told.sender.provider_id,
        )
