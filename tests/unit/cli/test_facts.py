"""`sideband facts`: what people are shown of the facts of a store, and which are refused."""

from pathlib import Path

import pytest

from sideband.cli.facts import add, list_facts, remove
from sideband.runtime.home import user_file

Captured = pytest.CaptureFixture[str]


def test_people_get_a_table(tmp_path: Path, capsys: Captured) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    assert add("decision", "Ship\x1b on Fridays.", store=url) == 2
    assert add("decision", "Ship on Fridays, " * 20, store=url, confidence=0.25) == 0
    fact = capsys.readouterr().out.removeprefix("added ").strip()
    assert add("decision", "Ship on Fridays, " * 20, store=url, confidence=0.75) == 0
    assert capsys.readouterr().out == f"refreshed {fact}\n"
    assert list_facts(store=url) == 0
    heading, row, total = capsys.readouterr().out.splitlines()
    assert heading.split() == ["id", "kind", "confidence", "namespace", "claim"]
    assert row.split()[:5] == [fact, "decision", "0.75", "project/facts", "Ship"]
    assert row.endswith(" ...")
    assert total == "1 fact"
    assert remove(fact, store=url, namespace="user/facts") == 1
    assert capsys.readouterr().err == f"error: there is no fact {fact}; `sideband facts` lists those that there are\n"
    assert remove(fact, store=url) == 0
    assert list_facts(store=url) == 0
    assert capsys.readouterr().out == f"removed {fact}\n0 facts\n"


@pytest.mark.parametrize(
    ("fact", "said", "code"),
    [
        (("rumour", "x", 1.0), "kind must be one of", "HARN-FACT-002"),
        (("claim", " ", 1.0), "claim must", "HARN-FACT-003"),
        (("claim", "x", 3.0), "confidence must be a number from 0 to 1", "HARN-FACT-004"),
    ],
)
def test_a_wrong_fact_is_refused_with_its_code(
    fact: tuple[str, str, float], said: str, code: str, tmp_path: Path, capsys: Captured
) -> None:
    kind, claim, confidence = fact
    assert add(kind, claim, confidence=confidence, store=f"sqlite:///{tmp_path / 'store.db'}") == 2
    complaint, explained = capsys.readouterr().err.splitlines()
    assert complaint.startswith(f"error: {said}")
    assert explained == f"code: {code}; for the cause and the remedy: sideband explain {code}"


def test_a_session_stands_for_its_store(tmp_path: Path, capsys: Captured) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    assert add("decision", "Ship on Fridays.", to="beta", store=url) == 0
    capsys.readouterr()
    for to, store in (("beta", url), (f"{url}#beta", None)):
        assert list_facts(to=to, store=store) == 0
        assert "Ship on Fridays." in capsys.readouterr().out


@pytest.mark.parametrize(("url", "said"), [("m.db", "write 'sqlite:///m.db'"), ("memory:", "only in its own process")])
def test_a_fact_is_not_added_to_a_store_that_no_command_reads(url: str, said: str, capsys: Captured) -> None:
    assert add("decision", "Ship on Fridays.", store=url) == 2
    assert said in capsys.readouterr().err


def test_the_first_fact_makes_the_users_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.delenv("SIDEBAND_STORE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert list_facts() == 2
    assert "you have no store yet" in capsys.readouterr().err
    assert not user_file().exists()
    assert add("observation", "The tests take a minute.") == 0
    assert user_file().exists()
    assert list_facts(json=True) == 0
    assert "The tests take a minute." in capsys.readouterr().out
