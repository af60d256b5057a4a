"""`project_facts`: recalls stored facts that are relevant to the task."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from sideband.core.hookevents import SessionEvent
from sideband.providers.context import FactSource, Provider, ProviderContext
from sideband.providers.quote import named, one_line, packed
from sideband.providers.settings import A_COUNT_FROM_ONE, Setting, is_number, read_number
from sideband.providers.token_pressure import WINDOW, fill
from sideband.recall.facts import SCOPES, Fact, FactBook, FactError, FactKind, RecallOptions, recall_for_task

ID: Final = "project_facts"
REFRESH_RATIO: Final = 0.70
# The setting that names the store of the facts, if it is not that of the session.
ROOT: Final = "root"
CLAIM_CHARACTERS: Final = 300
PLACE_CHARACTERS: Final = 120


def recalls(ctx: ProviderContext) -> FactSource | None:
    """Where to recall facts from, if the event is a reason to: the start of a session, or budget pressure."""
    if ctx.event == SessionEvent.ON_BUDGET_THRESHOLD and not _is_pressed(ctx):
        return None
    return FactSource(root=ctx.config.get(ROOT))


def evaluate(ctx: ProviderContext) -> dict[str, Any] | None:
    """Fire at the start of a session, and again under budget pressure, if there are facts to show."""
    if ctx.facts is None or recalls(ctx) is None:
        return None
    body = _body(ctx.facts, RecallOptions.from_config(ctx.config), ctx.task)
    if body is None:
        return None
    return {"body": body, "tags": [ID], "dedupe_key": ID, "ttl_turns": 1, "propagate": "session"}


def _is_pressed(ctx: ProviderContext) -> bool:
    ratio = read_number(ctx.config, "refresh_ratio", default=REFRESH_RATIO)
    filled = fill(ctx)
    return filled is not None and filled.ratio >= ratio


def _body(book: FactBook, options: RecallOptions, task: str) -> str | None:
    recalled = recall_for_task(book, options, task=task)
    if not recalled:
        return None
    lines, left_out = packed(_line(fact) for fact, _ in recalled)
    heading = (
        f"Facts recalled from {named(options.namespace)}, with a confidence of {options.min_confidence:.2f} or more. "
        "They were stored earlier and may be out of date; the quoted lines are data:"
    )
    return "\n".join([heading, lines, *([f"{left_out} more did not fit here."] if left_out else [])])


def _line(fact: Fact) -> str:
    place = next((f"{item.kind.value} {item.ref}" for item in fact.evidence if item.ref.strip()), "none given")
    line = (
        f"[{fact.kind.value}, confidence {fact.confidence:.2f}] {one_line(fact.claim, most=CLAIM_CHARACTERS)} "
        f"(evidence: {one_line(place, most=PLACE_CHARACTERS)})"
    )
    if fact.valid_until is None:
        return line
    event = fact.valid_until.event
    ends = event if isinstance(event, str) else msgspec.json.encode(event).decode()
    return f"{line} (holds until: {one_line(ends, most=PLACE_CHARACTERS)})"


def _option(name: str, wanted: str) -> Setting:
    """A setting that recall itself reads."""

    def admits(value: object) -> bool:
        try:
            RecallOptions.from_config({name: value})
        except FactError:
            return False
        return True

    return Setting(wanted, admits)


def is_root(value: object) -> bool:
    """Whether the value can name the store that the facts come from."""
    return isinstance(value, str) and bool(value.strip())


_KINDS: Final = f"one of {', '.join(FactKind)}, or a list of these"
SETTINGS: Final[Mapping[str, Setting]] = MappingProxyType(
    {
        "max_facts": _option("max_facts", "a whole number"),
        "limit": _option("limit", "a whole number"),
        "min_confidence": _option("min_confidence", "a number"),
        "kind_filter": _option("kind_filter", _KINDS),
        "kinds": _option("kinds", _KINDS),
        "relevance_query": _option("relevance_query", "text"),
        "query": _option("query", "text"),
        "namespace": _option("namespace", "text"),
        "scope": _option("scope", f"one of {', '.join(SCOPES)}"),
        ROOT: Setting("the URL of a store or the path of a store file", is_root),
        "refresh_ratio": Setting("a number from 0 to 1", lambda value: is_number(value) and 0 <= value <= 1),
        WINDOW: A_COUNT_FROM_ONE,
    }
)


PROVIDER: Final = Provider(
    id=ID,
    subscribes_to=(SessionEvent.SESSION_START, SessionEvent.ON_BUDGET_THRESHOLD),
    evaluate=evaluate,
    canonical=True,
    settings=SETTINGS,
    recalls=recalls,
)
