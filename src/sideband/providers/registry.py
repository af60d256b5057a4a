"""The canonical and registered providers, and the choice of those that a loop evaluates."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from sideband.core.errors import InvalidOption, shown
from sideband.core.hookevents import read_provider_event, refuse_too_many_providers
from sideband.core.parse import HOSTILE
from sideband.providers import (
    grounded_review,
    idle_nudge,
    post_compact_recap,
    project_facts,
    resume_continuity,
    token_pressure,
    tool_output_truncated,
    workspace_anchor,
)
from sideband.providers.context import Evaluate, Provider
from sideband.providers.settings import NOTHING, check_ids, check_settings, read_options

# The only list of canonical providers; all of them are enabled by default.
CANONICAL: Final = (
    token_pressure.PROVIDER,
    idle_nudge.PROVIDER,
    tool_output_truncated.PROVIDER,
    post_compact_recap.PROVIDER,
    resume_continuity.PROVIDER,
    project_facts.PROVIDER,
    workspace_anchor.PROVIDER,
    grounded_review.PROVIDER,
)
MAX_ID: Final = 128


class Registry:
    """The canonical providers, followed by the registered ones, the newest last."""

    def __init__(self, registered: Iterable[Provider] = ()) -> None:
        self._registered = {provider.id: provider for provider in registered}

    def register(self, *, id: str, subscribes_to: Sequence[str], evaluate: Evaluate) -> Provider:
        """Add a provider; it replaces one of the same id, a canonical one until `clear`."""
        provider = Provider(
            id=_read_id(id), subscribes_to=_read_events(subscribes_to), evaluate=_read_function(evaluate)
        )
        self._registered.pop(provider.id, None)
        self._registered[provider.id] = provider
        return provider

    def clear(self) -> None:
        """Remove the registered providers."""
        self._registered.clear()

    @property
    def registered(self) -> tuple[str, ...]:
        """The ids of the registered providers, including those that replace a canonical one."""
        return tuple(self._registered)

    @property
    def providers(self) -> tuple[Provider, ...]:
        canonical = (provider for provider in CANONICAL if provider.id not in self._registered)
        return (*canonical, *self._registered.values())

    def enabled(self, options: Mapping[str, Any]) -> tuple[Provider, ...]:
        """The providers that a loop with these options evaluates.

        Raises `TooManyProviders` beyond the limit, and `UnknownOption` or `InvalidOption` for what does not exist or has
        a wrong value. The settings of registered providers are not checked.
        """
        wanted = read_options(options)
        ids = dict.fromkeys(provider.id for provider in self.providers)
        for switch in wanted.switches:
            if switch.startswith("-"):
                ids.pop(switch[1:], None)
            else:
                ids[switch] = None
        if wanted.enabled:
            refuse_too_many_providers(ids)
        check_ids(wanted, tuple(provider.id for provider in self.providers))
        for provider in self.providers:
            if provider.settings is not None:
                check_settings(provider.id, wanted.config.get(provider.id, NOTHING), provider.settings)
        if not wanted.enabled:
            return ()
        return tuple(provider for provider in self.providers if provider.id in ids)


def _read_id(value: object) -> str:
    given = value.strip() if isinstance(value, str) else ""
    if not given or given.startswith("-") or len(given) > MAX_ID or HOSTILE.search(given):
        raise InvalidOption(
            f"id must be a name of at most {MAX_ID} characters that does not begin with a minus sign, "
            f"not {shown(value)}",
            field="id",
            value=value,
        )
    return given


def _read_events(value: object) -> tuple[Any, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        raise InvalidOption(
            f"subscribes_to must be a list of events, not {shown(value)}", field="subscribes_to", value=value
        )
    return tuple(dict.fromkeys(map(read_provider_event, value)))


def _read_function(value: object) -> Evaluate:
    if not callable(value):
        raise InvalidOption(f"evaluate must be a function, not {shown(value)}", field="evaluate", value=value)
    return value
