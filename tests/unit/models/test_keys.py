"""Without a key there is no model, and who has none is told where to put it."""

import pytest

from sideband.models.keys import need_key
from sideband.ports import ModelError


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ACME_KEY", "ACME_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def test_a_missing_key_is_one_sentence_that_names_the_variable() -> None:
    with pytest.raises(ModelError) as refused:
        need_key("Acme", None, "ACME_KEY", "ACME_TOKEN")
    assert str(refused.value) == "Acme needs a key: set the environment variable ACME_KEY"
    assert not refused.value.retryable


def test_an_empty_variable_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_KEY", "")
    with pytest.raises(ModelError):
        need_key("Acme", None, "ACME_KEY")


@pytest.mark.parametrize("variable", ["ACME_KEY", "ACME_TOKEN"])
def test_any_of_the_variables_will_do(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "secret")
    need_key("Acme", None, "ACME_KEY", "ACME_TOKEN")


def test_a_key_that_is_given_needs_no_variable() -> None:
    need_key("Acme", "secret", "ACME_KEY")


@pytest.mark.parametrize("given", ["", "  "])
def test_a_blank_key_that_is_given_is_none_whatever_is_in_the_environment(
    given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME_KEY", "secret")
    with pytest.raises(ModelError, match="Acme needs a key"):
        need_key("Acme", given, "ACME_KEY")


@pytest.mark.parametrize("key", ["secret\n", " secret", "sec\x1bret", "“secret”", "sécret"])
def test_a_key_that_could_not_be_sent_is_refused_and_not_quoted(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_KEY", "fine")
    monkeypatch.setenv("ACME_TOKEN", key)
    expected = "the key for Acme holds a line break, a quotation mark or the like: "
    with pytest.raises(ModelError) as refused:
        need_key("Acme", None, "ACME_KEY", "ACME_TOKEN")
    assert str(refused.value) == f"{expected}set the environment variable ACME_TOKEN again"
    with pytest.raises(ModelError) as refused:
        need_key("Acme", key, "ACME_KEY")
    assert str(refused.value) == f"{expected}give another"
