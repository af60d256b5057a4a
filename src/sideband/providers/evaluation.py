"""Evaluation of the providers that subscribe to an event: what each returned, or how it failed."""

from collections.abc import Awaitable, Coroutine, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from sideband.core.effects import read_effects
from sideband.core.errors import MalformedProviderResult, ReminderError, shown
from sideband.core.events import ProviderEvaluated
from sideband.core.reminder import Draft
from sideband.core.surfaces import Surface
from sideband.providers.context import Provider, ProviderContext

BUDGET_BYTES: Final = 16 * 1024
OVER_BUDGET: Final = "budget"


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one provider: the event to record first, then the reminders to inject."""

    provider_id: str
    drafts: tuple[Draft, ...] = ()
    event: ProviderEvaluated


def evaluate_one(provider: Provider, ctx: ProviderContext) -> Evaluation:
    """Call one synchronous provider; an exception it raises becomes part of the evaluation."""
    try:
        returned = provider.evaluate(ctx)
        return silent(provider.id, ctx.event) if returned is None else read_result(provider.id, ctx.event, returned)
    except ReminderError as error:
        return failure(provider.id, ctx.event, str(error))
    except Exception as error:  # noqa: BLE001 - an error in user code must affect only its own provider
        return failure(provider.id, ctx.event, f"the provider raised {shown(error)}")


def read_result(provider_id: str, event: str, returned: object) -> Evaluation:
    """Parse what a provider returned; the caller must have awaited an awaitable before."""
    try:
        drafts = read_effects(_not_awaitable(returned), Surface.PROVIDER).reminders
    except ReminderError as error:
        return failure(provider_id, event, str(error))
    return _evaluation(provider_id, event, drafts)


# Most evaluations yield nothing, and those of one provider for one event are equal.
@lru_cache(maxsize=256)
def silent(provider_id: str, event: str) -> Evaluation:
    """The evaluation of a provider that returned None."""
    return _evaluation(provider_id, event, ())


def failure(provider_id: str, event: str, error: str) -> Evaluation:
    """The evaluation of a provider that failed."""
    evaluated = ProviderEvaluated(provider_id=provider_id, event_name=str(event), fired=False, error=error)
    return Evaluation(provider_id=provider_id, event=evaluated)


def within_budget(evaluations: Sequence[Evaluation], *, budget_bytes: int = BUDGET_BYTES) -> tuple[Evaluation, ...]:
    """Keep the reminders of one event that fit into the budget, in order; evaluations that lose some say so."""
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
    evaluated = ProviderEvaluated(provider_id=provider_id, event_name=str(event), fired=bool(drafts), skipped=skipped)
    return Evaluation(provider_id=provider_id, drafts=drafts, event=evaluated)


def _not_awaitable(returned: object) -> object:
    if not isinstance(returned, Awaitable):
        return returned
    if isinstance(returned, Coroutine):
        # Closing avoids the warning about a coroutine that was never awaited.
        returned.close()
    raise MalformedProviderResult(
        f"a provider that has to be awaited cannot be evaluated here: {shown(returned)}", value=returned
    )
