"""Images, documents, audio and resources in a user message."""

import base64
from typing import Any

import pytest

from sideband.core.blocks import (
    BlockKind,
    Media,
    UnreadableBlock,
    check_block,
    estimated_tokens,
    kind_of_media,
    media_in,
    resource_text,
    usual_media_type,
)
from sideband.core.errors import InvalidOption

Block = dict[str, Any]

DATA = base64.b64encode(b"twelve bytes").decode()
URL = "https://example.com/a"
MISSING_TYPE = "content[3].media_type is missing: data needs one, that of "
EXPECTED_URL = "content[3].url must be an address that starts with https:// or http://; put base64 into data"
EXPECTED_DATA = (
    "is not base64: encode the bytes with base64.b64encode, without line breaks and without 'data:' before it"
)


def an_image(**fields: object) -> Block:
    block: Block = {"type": "image", "media_type": "image/png", "data": DATA} | fields
    return {name: value for name, value in block.items() if value != "-"}


def embedded(**fields: object) -> Block:
    return {"type": "resource", "resource": {"uri": "file:///a", **fields}}


@pytest.mark.requirement("inbox:content:forms")
@pytest.mark.parametrize(
    ("block", "media"),
    [
        pytest.param(an_image(), Media(BlockKind.IMAGE, "image/png", DATA), id="an-image"),
        pytest.param(
            {"type": "image", "mimeType": "image/jpg", "data": DATA},
            Media(BlockKind.IMAGE, "image/jpeg", DATA),
            id="an-image-of-acp",
        ),
        pytest.param(
            an_image(media_type="IMAGE/PNG", mimeType="image/png; q=1", uri="file:///a.png"),
            Media(BlockKind.IMAGE, "image/png", DATA),
            id="one-type-in-two-spellings",
        ),
        pytest.param({"type": "image", "url": URL}, Media(BlockKind.IMAGE, "", url=URL), id="an-image-at-a-url"),
        pytest.param(
            an_image(data=None, url=URL), Media(BlockKind.IMAGE, "image/png", url=URL), id="a-url-and-its-type"
        ),
        pytest.param(
            {"type": "document", "media_type": "application/pdf", "data": DATA, "title": " My\n report "},
            Media(BlockKind.DOCUMENT, "application/pdf", DATA, title="My report"),
            id="a-document-with-a-title",
        ),
        pytest.param(
            {"type": "document", "url": URL, "name": "a.pdf"},
            Media(BlockKind.DOCUMENT, "", url=URL, title="a.pdf"),
            id="a-document-with-a-name",
        ),
        pytest.param(
            {"type": "audio", "mimeType": "audio/mpeg", "data": DATA},
            Media(BlockKind.AUDIO, "audio/mp3", DATA),
            id="audio",
        ),
        pytest.param(
            embedded(mimeType="application/pdf", blob=DATA),
            Media(BlockKind.DOCUMENT, "application/pdf", DATA, title="file:///a"),
            id="a-resource-that-is-a-document",
        ),
        pytest.param(
            embedded(blob=DATA),
            Media(BlockKind.RESOURCE, "application/octet-stream", DATA, title="file:///a"),
            id="a-resource-of-an-unknown-type",
        ),
        pytest.param(embedded(text="x = 1", blob=None), None, id="a-resource-with-a-blob-of-null"),
        pytest.param(embedded(text="x = 1", blob=DATA), None, id="a-resource-with-text-and-data"),
        pytest.param({"type": "text", "text": "Go."}, None, id="text"),
        pytest.param({"text": "Go."}, None, id="text-without-a-type"),
        pytest.param(embedded(text="x = 1"), None, id="a-resource-that-is-text"),
        pytest.param({"type": "resource_link", "uri": "file:///a", "name": "a"}, None, id="a-link"),
    ],
)
def test_what_a_block_holds(block: Block, media: Media | None) -> None:
    check_block(block, 0)
    assert media_in(block) == media


@pytest.mark.requirement("inbox:content:refused")
@pytest.mark.parametrize(
    ("block", "told"),
    [
        pytest.param(
            {"type": "imgae", "data": DATA},
            "content[3].type must be one of 'text', 'image', 'document', 'audio', 'resource', 'resource_link', "
            "not 'imgae'; did you mean 'image'?",
            id="a-misspelt-type",
        ),
        pytest.param({"type": "video"}, "'resource_link', not 'video'", id="an-unknown-type"),
        pytest.param({"type": 5}, "'resource_link', not 5", id="a-type-that-is-no-word"),
        pytest.param({"data": DATA}, "'resource_link', not None", id="no-type"),
        pytest.param({"type": "text", "text": 5}, "content[3].text must be a string, not 5", id="a-text"),
        pytest.param(an_image(media_type="-"), f"{MISSING_TYPE}an image, like 'image/png'", id="no-media-type"),
        pytest.param({"type": "audio", "data": DATA}, f"{MISSING_TYPE}audio, like 'audio/wav'", id="no-audio-type"),
        pytest.param(
            an_image(media_type="png"),
            "content[3].media_type must be a media type like 'image/png', not 'png'",
            id="png",
        ),
        pytest.param(an_image(media_type=5), "a media type like 'image/png', not 5", id="a-type-that-is-a-number"),
        pytest.param(
            an_image(media_type="application/pdf"),
            "content[3].media_type must be that of an image, like 'image/png', not 'application/pdf'",
            id="a-pdf-as-an-image",
        ),
        pytest.param(
            {"type": "document", "media_type": "text/plain", "data": DATA},
            "content[3].media_type must be that of a document, like 'application/pdf', not 'text/plain'",
            id="a-text-as-a-document",
        ),
        pytest.param(
            an_image(mimeType="image/gif"),
            "content[3].media_type and mimeType are different: leave one of them out",
            id="two-types",
        ),
        pytest.param(an_image(data=None), "content[3].data is missing: it holds the content in base64", id="no-data"),
        pytest.param(an_image(data=""), "content[3].data must be a string of base64 that is not empty", id="empty"),
        pytest.param(an_image(data=["AA=="]), "content[3].data must be a string of base64", id="data-in-a-list"),
        pytest.param(an_image(data="not base64!"), f"content[3].data {EXPECTED_DATA}", id="not-base64"),
        pytest.param(an_image(data="AAA"), f"content[3].data {EXPECTED_DATA}", id="cut-base64"),
        pytest.param(an_image(data="日本語"), f"content[3].data {EXPECTED_DATA}", id="not-ascii"),
        pytest.param(
            an_image(data=f"data:image/png;base64,{DATA}"), f"content[3].data {EXPECTED_DATA}", id="a-data-url"
        ),
        pytest.param(
            an_image(url=URL), "content[3].url and data exclude each other: leave one of them out", id="url-and-data"
        ),
        pytest.param({"type": "image", "url": "cat.png"}, EXPECTED_URL, id="a-file-name"),
        pytest.param({"type": "image", "url": f"data:image/png;base64,{DATA}"}, EXPECTED_URL, id="data-as-a-url"),
        pytest.param({"type": "image", "url": 5}, EXPECTED_URL, id="a-url-that-is-a-number"),
        pytest.param(an_image(title=5), "content[3].title must be a string, not 5", id="a-title"),
        pytest.param({"type": "resource"}, "content[3].resource must be an object with a uri", id="no-resource"),
        pytest.param(embedded(), "content[3].resource must have text, or blob", id="an-empty-resource"),
        pytest.param(embedded(text=5), "content[3].resource must have text, or blob", id="a-resource-without-text"),
        pytest.param(embedded(blob="?"), f"content[3].resource.blob {EXPECTED_DATA}", id="a-resource-not-base64"),
        pytest.param({"type": "resource_link", "uri": " "}, "content[3].uri must be a string that is not", id="a-link"),
    ],
)
def test_a_block_that_no_request_can_hold_is_refused(block: Block, told: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        check_block(block, 3)
    assert told in str(refused.value)
    assert refused.value.field == "content"
    assert DATA not in str(refused.value)


def test_a_resource_that_is_none_is_not_text() -> None:
    with pytest.raises(UnreadableBlock):
        resource_text({"type": "resource", "resource": 3})
    assert resource_text({"type": "image"}) is None


@pytest.mark.parametrize(
    ("media_type", "kind"),
    [
        ("image/svg+xml", BlockKind.IMAGE),
        ("audio/x-m4a", BlockKind.AUDIO),
        ("application/pdf", BlockKind.DOCUMENT),
        ("application/zip", None),
        ("image/", None),
        ("image", None),
        ("", None),
    ],
)
def test_a_media_type_is_that_of_one_kind_of_block(media_type: str, kind: BlockKind | None) -> None:
    assert kind_of_media(media_type) is kind


def test_a_media_type_has_one_spelling() -> None:
    assert usual_media_type(" Audio/X-WAV; codecs=1") == "audio/wav"


@pytest.mark.parametrize(("data", "size"), [("", 0), ("AA==", 1), ("AAA=", 2), ("AAAA", 3), (DATA, 12)])
def test_the_size_of_a_block_is_that_of_its_bytes(data: str, size: int) -> None:
    assert Media(BlockKind.IMAGE, "image/png", data).size == size


@pytest.mark.parametrize(
    ("content", "tokens"),
    [
        pytest.param("", 0, id="nothing"),
        pytest.param("ä" * 5, 3, id="text-by-its-bytes"),
        pytest.param([{"text": "x" * 8}, {"type": "text", "text": "y" * 4}], 3, id="blocks-of-text"),
        pytest.param([embedded(text="x" * 40)], 10, id="a-resource-by-its-text"),
        pytest.param([an_image(data="A" * 4_000_000)], 1_600, id="an-image-whatever-its-bytes"),
        pytest.param([{"type": "image", "url": URL}], 1_600, id="an-image-at-a-url"),
        pytest.param(
            [{"type": "document", "media_type": "application/pdf", "data": "A" * 100_000}],
            4_000,
            id="a-document-by-pages",
        ),
        pytest.param([{"type": "audio", "mimeType": "audio/wav", "data": "A" * 4_000}], 7, id="audio-by-its-length"),
        pytest.param([{"type": "image"}], 0, id="what-cannot-be-read"),
        pytest.param([{"type": "resource_link", "uri": URL}], 0, id="a-link"),
    ],
)
def test_tokens_are_estimated_from_what_a_model_reads(content: Any, tokens: int) -> None:  # noqa: ANN401 - text or blocks
    assert estimated_tokens(content) == tokens
