"""Requests: what the prompt cache does with their parts."""

from typing import Final

import pytest

from sideband.inspect.request import Break, Share, share
from sideband.render.layout import Part, PartKind
from sideband.render.profiles import Cache, Profile, Wire
from sideband.render.renderer import Renderer
from sideband.runtime.profiles import load_profiles
from tests.unit.render.conversations import a_user, a_view


def a_profile(cache: Cache = Cache.EXPLICIT, least: int = 0, *, kv_prefix: bool = False) -> Profile:
    return Profile(transport="x", wire=Wire.ANTHROPIC, cache=cache, cache_minimum_tokens=least, kv_prefix=kv_prefix)


PARTS: Final = (
    Part(PartKind.HEAD, 0, 400),
    Part(PartKind.MARKER, 400, 500),
    Part(PartKind.STABLE, 500, 900),
    Part(PartKind.NEW, 900, 980),
    Part(PartKind.KEPT, 980, 1_020),
    Part(PartKind.VOLATILE, 1_020, 1_060),
    Part(PartKind.CLOSING, 1_060, 1_064),
)
FIRST: Final = tuple(part for part in PARTS if part.kind is not PartKind.STABLE)


@pytest.mark.parametrize(
    ("profile", "parts", "broken", "expected"),
    [
        pytest.param(
            a_profile(), PARTS, Break.ROUTE, Share(0, 230, 11, Break.ROUTE.value), id="nothing-on-another-route"
        ),
        pytest.param(a_profile(), PARTS, Break.COMPACTION, Share(100, 130, 11), id="the-head-after-a-compaction"),
        pytest.param(
            a_profile(), FIRST, Break.COMPACTION, Share(100, 30, 11), id="also-where-nothing-else-was-answered"
        ),
        pytest.param(
            a_profile(least=101),
            PARTS,
            Break.COMPACTION,
            Share(0, 230, 11, "the unchanged part is shorter than 101 tokens, the minimum that this model caches"),
            id="unless-the-head-is-too-short",
        ),
        pytest.param(
            a_profile(Cache.IMPLICIT),
            PARTS,
            Break.COMPACTION,
            Share(100, 0, 141),
            id="with-the-markers-of-the-provider",
        ),
        pytest.param(
            a_profile(Cache.NONE),
            PARTS,
            Break.ROUTE,
            Share(0, 0, 241, "this route has no prompt cache"),
            id="where-there-is-a-cache-at-all",
        ),
    ],
)
def test_what_the_cache_gives_back_to_the_first_request_of_a_window(
    profile: Profile, parts: tuple[Part, ...], broken: Break, expected: Share
) -> None:
    assert share(profile, parts, b"", broken=broken) == expected


@pytest.mark.parametrize(
    ("profile", "parts", "unchanged", "expected"),
    [
        pytest.param(a_profile(), PARTS, None, Share(200, 30, 11), id="markers-of-ours"),
        pytest.param(a_profile(least=200), PARTS, None, Share(200, 30, 11), id="just-long-enough"),
        pytest.param(
            a_profile(least=201),
            PARTS,
            None,
            Share(0, 230, 11, "the unchanged part is shorter than 201 tokens, the minimum that this model caches"),
            id="the-old-part-is-too-short",
        ),
        pytest.param(
            a_profile(least=231),
            PARTS,
            None,
            Share(0, 0, 241, "the unchanged part is shorter than 231 tokens, the minimum that this model caches"),
            id="all-of-it-is-too-short",
        ),
        pytest.param(
            a_profile(), FIRST, None, Share(0, 130, 11, "no earlier request was answered"), id="first-request"
        ),
        pytest.param(
            a_profile(),
            PARTS,
            399,
            Share(0, 230, 11, "the request changes before the first cache breakpoint"),
            id="changed-in-the-head",
        ),
        pytest.param(a_profile(), PARTS, 600, Share(100, 130, 11), id="changed-after-the-head"),
        pytest.param(a_profile(Cache.IMPLICIT), PARTS, 100, Share(25, 0, 216), id="cut-at-any-byte"),
        pytest.param(a_profile(), FIRST, 600, Share(0, 130, 11, "no earlier request was answered"), id="nothing-old"),
        pytest.param(
            a_profile(Cache.IMPLICIT),
            PARTS,
            0,
            Share(0, 0, 241, "the request changes before the first cache breakpoint"),
            id="at-once",
        ),
        pytest.param(a_profile(Cache.IMPLICIT), PARTS, None, Share(200, 0, 41), id="markers-of-theirs"),
        pytest.param(a_profile(Cache.NONE, kv_prefix=True), PARTS, None, Share(200, 0, 41), id="local-server"),
        pytest.param(
            a_profile(Cache.NONE), PARTS, None, Share(0, 0, 241, "this route has no prompt cache"), id="no-cache"
        ),
    ],
)
def test_what_the_cache_gives_back(
    profile: Profile, parts: tuple[Part, ...], unchanged: int | None, expected: Share
) -> None:
    found = share(profile, parts, b"", unchanged=unchanged)
    assert found == expected
    assert found.tokens == expected.read + expected.written + expected.plain
    assert found.cost == 0.1 * expected.read + 1.25 * expected.written + expected.plain


@pytest.mark.parametrize(
    "model", ["anthropic:claude-opus-5", "openai:gpt-6", "openai-chat:gpt-6", "google:gemini-3.8-flash"]
)
def test_an_image_is_not_counted_as_text(model: str) -> None:
    small, large = (
        Renderer(load_profiles().of(model), model="model-1").render(a_view([a_user([an_image(size)])]))
        for size in (8, 1_000_000)
    )
    profile = load_profiles().of(model)
    counted = [share(profile, plan.request.parts, plan.request.body).tokens for plan in (small, large)]
    assert 0 < counted[1] - counted[0] <= 1_600


def an_image(size: int) -> dict[str, str]:
    return {"type": "image", "media_type": "image/png", "data": "A" * size}
