"""The registry of providers, and the choice of those that a loop evaluates."""

from typing import Any

import pytest

from sideband.core.errors import InvalidOption, TooManyProviders, UnknownOption
from sideband.core.hookevents import CANONICAL_PROVIDERS, PROVIDER_EVENTS
from sideband.providers.context import ProviderContext
from sideband.providers.registry import CANONICAL, Registry
from sideband.providers.settings import config_for

DEFAULT = list(CANONICAL_PROVIDERS)


def quiet(_ctx: ProviderContext) -> None:
    """A provider that never says anything."""


def a_registry(*ids: str) -> Registry:
    registry = Registry()
    for name in ids:
        registry.register(id=name, subscribes_to=["session_idle"], evaluate=quiet)
    return registry


def enabled(registry: Registry, reminders: object = None) -> list[str]:
    return [provider.id for provider in registry.enabled({"reminders": reminders})]


def test_the_canonical_providers_are_those_of_the_vocabulary_in_its_order() -> None:
    assert [provider.id for provider in CANONICAL] == DEFAULT
    assert all(provider.canonical for provider in CANONICAL)


def test_every_canonical_provider_subscribes_to_events_that_exist() -> None:
    assert {event for provider in CANONICAL for event in provider.subscribes_to} <= set(PROVIDER_EVENTS)


class TestRegistering:
    def test_a_registered_provider_follows_the_canonical_ones(self) -> None:
        registry = a_registry("mine", "yours")
        assert [provider.id for provider in registry.providers] == [*DEFAULT, "mine", "yours"]
        assert not registry.providers[-1].canonical

    def test_registering_an_id_again_replaces_it_and_moves_it_last(self) -> None:
        registry = a_registry("mine", "yours")
        replacement = registry.register(id="mine", subscribes_to=["post_turn"], evaluate=quiet)
        assert [provider.id for provider in registry.providers][-2:] == ["yours", "mine"]
        assert registry.providers[-1] is replacement

    def test_a_canonical_one_gives_way_to_a_registered_one_of_its_name_until_that_is_cleared(self) -> None:
        registry = a_registry("idle_nudge")
        assert [provider.id for provider in registry.providers].count("idle_nudge") == 1
        assert registry.providers[-1].id == "idle_nudge"
        registry.clear()
        assert registry.providers == CANONICAL

    def test_clearing_leaves_the_canonical_ones(self) -> None:
        registry = a_registry("mine")
        registry.clear()
        assert registry.providers == CANONICAL

    def test_registries_know_nothing_of_each_other(self) -> None:
        a_registry("mine")
        assert Registry().providers == CANONICAL

    def test_a_resumed_worker_may_be_subscribed_to(self) -> None:
        provider = Registry().register(id="mine", subscribes_to=("worker_resumed", "worker_resumed"), evaluate=quiet)
        assert [event.value for event in provider.subscribes_to] == ["worker_resumed"]

    @pytest.mark.parametrize("event", ["SessionIdle", "worker_spawned", "nonsense", 3])
    def test_an_unknown_event_is_refused_and_nothing_is_registered(self, event: Any) -> None:  # noqa: ANN401 - any wrong value
        registry = Registry()
        with pytest.raises(UnknownOption, match="HARN-RMD-001"):
            registry.register(id="mine", subscribes_to=["session_idle", event], evaluate=quiet)
        assert registry.providers == CANONICAL

    @pytest.mark.parametrize(
        ("changes", "field"),
        [
            pytest.param({"id": ""}, "id", id="an-empty-id"),
            pytest.param({"id": "  "}, "id", id="a-blank-id"),
            pytest.param({"id": "-mine"}, "id", id="an-id-that-would-switch-itself-off"),
            pytest.param({"id": "x" * 129}, "id", id="a-long-id"),
            pytest.param({"id": "a\x00b"}, "id", id="an-id-with-a-control-character"),
            pytest.param({"id": 3}, "id", id="an-id-that-is-a-number"),
            pytest.param({"subscribes_to": []}, "subscribes_to", id="no-events"),
            pytest.param({"subscribes_to": "session_idle"}, "subscribes_to", id="an-event-instead-of-a-list"),
            pytest.param({"subscribes_to": {"session_idle"}}, "subscribes_to", id="events-without-an-order"),
            pytest.param({"evaluate": "quiet"}, "evaluate", id="a-name-instead-of-a-function"),
        ],
    )
    def test_a_provider_that_could_not_work_is_refused(self, changes: dict[str, Any], field: str) -> None:
        fields: dict[str, Any] = {"id": "mine", "subscribes_to": ["session_idle"], "evaluate": quiet}
        with pytest.raises(InvalidOption, match="HARN-RMD-001") as refused:
            Registry().register(**(fields | changes))
        assert refused.value.field == field


class TestEnabling:
    def test_all_are_enabled_by_default(self) -> None:
        assert enabled(a_registry("mine")) == [*DEFAULT, "mine"]
        assert [provider.id for provider in Registry().enabled({})] == DEFAULT

    @pytest.mark.parametrize("reminders", [False, {"enabled": False}, {"enabled": False, "providers": ["mine"]}])
    def test_all_may_be_turned_off(self, reminders: object) -> None:
        assert enabled(a_registry("mine"), reminders) == []

    def test_a_minus_sign_turns_one_off(self) -> None:
        assert enabled(a_registry("mine"), {"providers": ["-token_pressure", "-mine"]}) == DEFAULT[1:]

    def test_a_plain_id_adds_and_takes_nothing_away(self) -> None:
        assert enabled(Registry(), {"providers": ["token_pressure"]}) == DEFAULT

    def test_switches_are_thrown_from_left_to_right(self) -> None:
        assert enabled(Registry(), {"providers": ["-idle_nudge", "idle_nudge"]}) == DEFAULT
        assert "idle_nudge" not in enabled(Registry(), {"providers": ["idle_nudge", "-idle_nudge"]})

    def test_eight_beside_the_canonical_ones_may_be_enabled(self) -> None:
        registry = a_registry(*(f"p{number}" for number in range(8)))
        assert len(enabled(registry)) == 16

    def test_nine_are_too_many(self) -> None:
        registry = a_registry(*(f"p{number}" for number in range(9)))
        with pytest.raises(TooManyProviders, match="HARN-RMD-007"):
            enabled(registry)
        assert len(enabled(registry, {"providers": ["-p0"]})) == 16
        assert enabled(registry, reminders=False) == []

    def test_too_many_ids_are_refused_before_the_unknown_ones_among_them(self) -> None:
        with pytest.raises(TooManyProviders):
            enabled(Registry(), {"providers": [f"p{number}" for number in range(9)]})

    def test_an_unusable_option_is_refused(self) -> None:
        with pytest.raises(InvalidOption):
            enabled(Registry(), "off")


def test_the_settings_of_a_provider_are_found_by_its_id() -> None:
    assert config_for({"reminders": {"config": {"mine": {"x": 1}}}}, "mine") == {"x": 1}
