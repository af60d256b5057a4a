"""One pass over the providers that subscribe to an event: what each returned, or how it failed."""

from collections.abc import Awaitable, Coroutine, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from sideband.core.draft import Draft
from sideband.core.effects import read_effects
from sideband.core.errors import MalformedProviderResult, ReminderError, shown
from sideband.core.events import ProviderEvaluated
from sideband.core.surfaces import Surface
from sideband.providers.context import Provider, ProviderContext

BUDGET_BYTES: Final = 16 * 1024
OVER_BUDGET: Final = "budget"


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one provider: the event to note first, then the reminders to inject."""

    provider_id: str
    drafts: tuple[Draft, ...] = ()
    event: ProviderEvaluated


def evaluate_one(provider: Provider, ctx: ProviderContext) -> Evaluation:
    """Call one provider that needs no waiting for; whatever it raises is part of the evaluation."""
    try:
        returned = provider.evaluate(ctx)
        return silent(provider.id, ctx.event) if returned is None else read_result(provider.id, ctx.event, returned)
    except ReminderError as error:
        return failure(provider.id, ctx.event, str(error))
    except Exception as error:  # noqa: BLE001 - whatever somebody else's code raises concerns nobody but its provider
        return failure(provider.id, ctx.event, f"the provider raised {shown(error)}")


def read_result(provider_id: str, event: str, returned: object) -> Evaluation:
    """What a provider returned, read; an awaitable has to be awaited before."""
    try:
        drafts = read_effects(_at_hand(returned), Surface.PROVIDER).reminders
    except ReminderError as error:
        return failure(provider_id, event, str(error))
    return _evaluation(provider_id, event, drafts)


# By far the most evaluations come to nothing, and those of one provider on one event are all alike.
@lru_cache(maxsize=256)
def silent(provider_id: str, event: str) -> Evaluation:
    """The evaluation of a provider that has nothing to say."""
    return _evaluation(provider_id, event, ())


def failure(provider_id: str, event: str, error: str) -> Evaluation:
    """The evaluation of a provider that failed."""
    told = ProviderEvaluated(provider_id=provider_id, event_name=str(event), fired=False, error=error)
    return Evaluation(provider_id=provider_id, event=told)


def within_budget(evaluations: Sequence[Evaluation], *, budget_bytes: int = BUDGET_BYTES) -> tuple[Evaluation, ...]:
    """The evaluations of one pass with the reminders that fit, the first come first; each that does not is reported."""
    left = budget_bytes
    fitting: list[Evaluation] = []
    for evaluation in evaluations:
        if not evaluation.drafts:
            fitting.append(evaluation)
            continue
        kept: list[Draft] = []
        for draft in evaluation.drafts:
            size = len(draft.body.encode())
            if size <= left:
                left -= size
                kept.append(draft)
        event = evaluation.event
        whole = len(kept) == len(evaluation.drafts)
        fitting.append(
            evaluation if whole else _evaluation(event.provider_id, event.event_name, tuple(kept), OVER_BUDGET)
        )
    return tuple(fitting)


def _evaluation(provider_id: str, event: str, drafts: tuple[Draft, ...], skipped: str | None = None) -> Evaluation:
    told = ProviderEvaluated(provider_id=provider_id, event_name=str(event), fired=bool(drafts), skipped=skipped)
    return Evaluation(provider_id=provider_id, drafts=drafts, event=told)


def _at_hand(returned: object) -> object:
    if not isinstance(returned, Awaitable):
        return returned
    if isinstance(returned, Coroutine):
        # It will never run; without this the interpreter complains that nobody awaited it.
        returned.close()
    raise MalformedProviderResult(
        f"a provider that has to be awaited cannot be evaluated here: {shown(returned)}", value=returned
    )
