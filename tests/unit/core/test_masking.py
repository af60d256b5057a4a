"""Masking of secrets in published events."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.events import Queued, QueuedReminder
from sideband.core.masking import MASK, MAX_DEPTH, mask, mask_text
from sideband.core.seams import Mode
from sideband.core.topic import Correlation, publish
from sideband.core.trust import IN_PROCESS
from tests.builders import a_reminder

# Put together here, so that no scanner takes this file for a leak.
SECRETS = [
    "sk-" + "a1B2" * 6,
    "ghp_" + "a1B2" * 8,
    "github_pat_" + "a1B2" * 8,
    "xoxb-" + "1234567890",
    "AKIA" + "ABCDEFGH12345678",
    "AIza" + "a1B2" * 9,
    "eyJ" + "a1B2c3D4" + "." + "a1B2c3D4" + "." + "sig",
    "eyJ" + "a1B2" * 1_000 + "." + "a1B2c3D4" + "." + "sig",
    "glpat-" + "a1B2-" * 4,
    "hf_" + "aBcDeFgHiJ" * 3 + "aBcD",
    "npm_" + "a1B2" * 9,
    "gsk_" + "a1B2" * 13,
    "xai-" + "a1B2" * 20,
    "pplx-" + "a1B2" * 12,
    "r8_" + "a1B2" * 9,
    "lin_api_" + "a1B2" * 10,
    "dckr_pat_" + "a1B2_" * 5,
    "pypi-" + "AgEIcHlwaS5vcmc" + "a1-B" * 10,
    "dop_v1_" + "a1b2" * 16,
    "shpat_" + "a1b2" * 8,
    "SG." + "a1B2-" * 4 + "." + "a1B2_" * 8,
    "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_is_masked_wherever_it_stands(secret: str) -> None:
    assert mask_text(f"the key {secret} was used") == f"the key {MASK} was used"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("password=hunter22 now", f"password={MASK} now"),
        ('{"api_key": "abcdef"}', '{"api_key": "' + MASK + '"}'),
        ("TOKEN: abcdef", f"TOKEN: {MASK}"),
        ("postgresql://me:hunter2@host:5432/db", f"postgresql://me:{MASK}@host:5432/db"),
        ("redis://:p@ss:w0rd@host/0 is up", f"redis://:{MASK}@host/0 is up"),
        ('"https://me:h@host","https://you:i@host"', f'"https://me:{MASK}@host","https://you:{MASK}@host"'),
        ("Authorization: Bearer abcdefghijklmnop", f"Authorization: Bearer {MASK}"),
    ],
)
def test_what_is_called_a_secret_is_masked(text: str, masked: str) -> None:
    assert mask_text(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "src/auth.py changed",
        "token_pressure",
        "the secret of it",
        "sk-short",
        "build:status",
        "hf_hub_download(repo_id, filename)",
        "hf_" + "transformersmodelingoutputsandmore",
        "npm_config_cache and npm_lifecycle_event",
        "npm_" + "NODEPACKAGEMANAGERCONFIGURATIONFILE",
        "xai-sdk-python, pypi-publish and gsk_client",
        "dckr_pat_" + "is-what-the-name-begins-with",
        "glpat-" + "is-what-the-name-begins-with",
        "http://localhost:8080/path?who=me@example.org",
        "http://localhost:3000?email=me@example.org",
        "http://localhost:3000#me@example.org",
        "http://localhost?at=12:30&who=me@example.org",
        "see http://host:80 and write to me@example.org",
        '{"at":"http://host:80","mail":"me@example.org"}',
        "git@example.org:me/it.git, ssh://git@example.org:22/me/it.git",
        "std::vector<int>://x",
    ],
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert mask_text(text) == text


def test_a_structure_is_masked_all_through() -> None:
    assert mask({"a": ["x", SECRETS[0]], "password": "p", "token": "", "n": 1, "deep": {"api_key": 3}}) == {
        "a": ["x", MASK],
        "password": MASK,
        "token": "",
        "n": 1,
        "deep": {"api_key": 3},
    }


def test_what_is_nested_too_deeply_is_masked_whole() -> None:
    nested: object = SECRETS[0]
    for _ in range(MAX_DEPTH + 3):
        nested = [nested]
    assert SECRETS[0] not in str(mask(nested))
    assert mask([1], depth=1) == [1]


@given(st.text(), st.sampled_from(SECRETS), st.text())
def test_no_secret_survives_between_any_texts(before: str, secret: str, after: str) -> None:
    assert secret not in mask_text(f"{before} {secret} {after}")


@pytest.mark.parametrize(
    "piece",
    [
        "eyJ-",
        "eyJa.",
        "eyJaaaaaaaa.",
        "://a:",
        "://a:b@",
        "glpat-",
        "dckr_pat_",
        "hf_a",
        "SG.",
        "token=",
        "-----BEGIN A",
    ],
)
def test_a_long_text_that_only_begins_like_secrets_is_gone_through_in_one_go(piece: str) -> None:
    # With a pattern that looks to the end from every beginning, this would take many minutes.
    assert len(mask_text(piece * 100_000)) > 0


def test_the_topic_shows_no_secret_of_a_key_or_a_tag() -> None:
    reminder = a_reminder(dedupe_key=f"deploy:{SECRETS[1]}", tags=(SECRETS[0],))
    item = QueuedReminder(reminder=reminder, mode=Mode.FINISH_STEP, provenance=IN_PROCESS)
    published = publish(Queued(item=item), Correlation())
    assert published is not None
    assert SECRETS[0] not in str(published.payload)
    assert SECRETS[1] not in str(published.payload)
