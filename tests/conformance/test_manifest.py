"""The manifest is sound, every built rule has a test, every conformance test has a rule, and the pages say the same."""

import re
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from tests.conformance import pages
from tests.conformance.entry import DOCUMENTS, Source
from tests.conformance.proofs import Proof, proofs, scan
from tests.conformance.requirements import AREAS, BUILT, BY_ID, REQUIREMENTS, WAITING

WELL_FORMED: Final = re.compile(r"[a-z0-9]+:[a-z0-9]+(?:[-_][a-z0-9]+)*:[a-z0-9]+(?:[-_][a-z0-9]+)*")
END_OF_SENTENCE: Final = re.compile(r"[.!?](?:\s|$)")


def test_every_id_is_well_formed() -> None:
    assert [rule.id for rule in REQUIREMENTS if not WELL_FORMED.fullmatch(rule.id)] == []


def test_no_id_is_used_twice() -> None:
    counts = Counter(rule.id for rule in REQUIREMENTS)
    assert [identifier for identifier, count in counts.items() if count > 1] == []


def test_no_two_rules_have_the_same_text() -> None:
    counts = Counter(rule.text for rule in REQUIREMENTS)
    assert [text for text, count in counts.items() if count > 1] == []


def test_every_text_is_one_sentence() -> None:
    assert [
        rule.id
        for rule in REQUIREMENTS
        if [found.end() for found in END_OF_SENTENCE.finditer(rule.text)] != [len(rule.text)]
    ] == []


def test_every_area_has_a_heading_and_every_heading_an_area() -> None:
    assert {rule.area for rule in REQUIREMENTS} == AREAS.keys()


def test_every_source_names_a_known_document() -> None:
    assert {source.partition(":")[0] for source in Source} == DOCUMENTS.keys()


def test_every_source_is_used() -> None:
    assert set(Source) - {rule.source for rule in REQUIREMENTS} == set()


def test_only_waiting_rules_name_the_part_they_wait_for() -> None:
    assert [rule.id for rule in BUILT if rule.deferred is not None] == []
    assert [rule.id for rule in WAITING if rule.deferred is None] == []


def test_every_divergence_gives_its_reason_in_a_sentence() -> None:
    assert [
        rule.id for rule in REQUIREMENTS if rule.divergence is not None and not END_OF_SENTENCE.search(rule.divergence)
    ] == []


def test_every_divergence_names_the_document_it_departs_from() -> None:
    assert [rule.id for rule in REQUIREMENTS if rule.divergence is not None and rule.source is Source.OURS] == []


def test_every_built_rule_is_proven_by_a_test() -> None:
    proven = {identifier for proof in proofs() for identifier in proof.ids}
    missing = [rule.id for rule in BUILT if rule.id not in proven]
    _expect_none("rules without a test", missing)


def test_every_conformance_test_says_what_it_proves() -> None:
    unmarked = [proof.test for proof in proofs() if not proof.ids]
    _expect_none("tests without a requirement marker", unmarked)


def test_no_test_proves_an_unknown_rule() -> None:
    unknown = [f"{name} in {proof.test}" for proof in proofs() for name in proof.ids if name not in BY_ID]
    _expect_none("ids that are not in the manifest", unknown)


def test_no_test_proves_a_rule_that_still_waits() -> None:
    waiting = {rule.id for rule in WAITING}
    early = [f"{name} in {proof.test}" for proof in proofs() for name in proof.ids if name in waiting]
    _expect_none("waiting rules that have a test", early)


@pytest.mark.parametrize("page", pages.PAGES)
def test_the_page_is_current(page: str) -> None:
    assert page not in pages.outdated(), f"docs/{page} is out of date; run python -m tests.conformance.pages"


def test_a_missing_page_and_a_changed_page_are_out_of_date(tmp_path: Path) -> None:
    pages.write(tmp_path)
    assert pages.outdated(tmp_path) == ()
    (tmp_path / "requirements.md").unlink()
    (tmp_path / "divergences.md").write_text("something else\n", encoding="utf-8")
    assert pages.outdated(tmp_path) == ("requirements.md", "divergences.md")


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        pytest.param("def test_x(): ...", (), id="no-marker"),
        pytest.param("@pytest.mark.requirement('a', 'b')\ndef test_x(): ...", ("a", "b"), id="several-ids"),
        pytest.param("@pytest.mark.requirement('a')\nasync def test_x(): ...", ("a",), id="coroutine"),
        pytest.param(
            "@pytest.mark.parametrize('n', [pytest.param(1, marks=pytest.mark.requirement('a'))])\ndef test_x(n): ...",
            ("a",),
            id="row-of-a-table",
        ),
        pytest.param("@pytest.mark.requirement(NAME)\ndef test_x(): ...", ("NAME",), id="not-a-literal"),
        pytest.param("@pytest.mark.skip('a')\ndef test_x(): ...", (), id="another-marker"),
    ],
)
def test_the_scan_reads_the_markers_of_a_test(text: str, ids: tuple[str, ...]) -> None:
    assert list(scan(text, "test_file.py")) == [Proof(test="test_file.py::test_x", ids=ids)]


def test_the_scan_reads_classes_and_skips_what_is_no_test() -> None:
    text = "@pytest.mark.requirement('a')\nclass TestIt:\n    def test_x(self): ...\n    def a_reminder(self): ...\n"
    assert list(scan(text, "test_file.py")) == [Proof(test="test_file.py::TestIt::test_x", ids=("a",))]


def _expect_none(what: str, names: list[str]) -> None:
    # The list is the whole message: a traceback would hide the names to act on.
    if names:
        pytest.fail("\n".join((f"{len(names)} {what}:", *names)), pytrace=False)
