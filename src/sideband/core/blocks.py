"""The blocks of a user message: text, images, documents, audio, and resources that a client attaches.

An image, a document or audio is `{"type": "image", "media_type": "image/png", "data": BASE64}` or has a `url` instead of
`data`. The spelling of ACP and MCP, `mimeType`, is read too. A block is stored as it was given.
"""

import re
from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from sideband.core.errors import InvalidOption, shown


class BlockKind(StrEnum):
    """What a block is; `resource` and `resource_link` are those of ACP and MCP."""

    TEXT = "text"
    IMAGE = "image"
    DOCUMENT = "document"
    AUDIO = "audio"
    RESOURCE = "resource"
    RESOURCE_LINK = "resource_link"


class Media(NamedTuple):
    """An image, a document, audio, or a resource of another type: `data` is base64 ("": it is at `url`).

    `media_type` is in its usual spelling ("": only the provider will know it, from the URL).
    """

    kind: BlockKind
    media_type: str
    data: str = ""
    url: str = ""
    title: str = ""

    @property
    def size(self) -> int:
        """The number of bytes of the decoded data."""
        return len(self.data) * 3 // 4 - self.data.count("=", -2)


class UnreadableBlock(ValueError):
    """A block of a known type that lacks something; `field` is what is missing or wrong."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


# For error messages.
_NAMES: Final[Mapping[BlockKind, str]] = MappingProxyType(
    {BlockKind.IMAGE: "an image", BlockKind.DOCUMENT: "a document", BlockKind.AUDIO: "audio"}
)
_EXAMPLES: Final[Mapping[BlockKind, str]] = MappingProxyType(
    {BlockKind.IMAGE: "image/png", BlockKind.DOCUMENT: "application/pdf", BlockKind.AUDIO: "audio/wav"}
)
_USUAL_SPELLINGS: Final[Mapping[str, str]] = MappingProxyType(
    {"image/jpg": "image/jpeg", "audio/mpeg": "audio/mp3", "audio/x-wav": "audio/wav", "audio/wave": "audio/wav"}
)
_MEDIA_TYPE: Final = re.compile(r"[a-z]+/[a-z0-9][a-z0-9.+-]*")
_URL: Final = re.compile(r"https?://[^\s/][^\s]*", re.IGNORECASE)


def usual_media_type(media_type: str) -> str:
    """A media type in lower case, without parameters, and in its usual spelling."""
    plain = media_type.partition(";")[0].strip().lower()
    return _USUAL_SPELLINGS.get(plain, plain)


def kind_of_media(media_type: str) -> BlockKind | None:
    """The kind of block for a media type; None if there is none."""
    if media_type == "application/pdf":
        return BlockKind.DOCUMENT
    family = media_type.partition("/")[0]
    return BlockKind(family) if family in ("image", "audio") and _MEDIA_TYPE.fullmatch(media_type) else None


# Reading.


def media_in(block: Mapping[str, Any]) -> Media | None:
    """The image, document or audio in a block, or the data of a resource without text; None if it is text or a link.

    `UnreadableBlock` if something is missing. Whether the data is base64 is checked by `check_block`, once.
    """
    match block.get("type"):
        case BlockKind.IMAGE | BlockKind.DOCUMENT | BlockKind.AUDIO as kind:
            return _media(BlockKind(kind), block)
        case BlockKind.RESOURCE if resource_text(block) is None and _resource(block).get("blob") is not None:
            inner = _resource(block)
            media_type = _media_type(inner) or "application/octet-stream"
            kind = kind_of_media(media_type) or BlockKind.RESOURCE
            return Media(kind, media_type, _data(inner, "blob"), title=_title(inner, "uri"))
        case _:
            return None


def resource_text(block: Mapping[str, Any]) -> str | None:
    """The text of a resource that a client embeds in a message; None if the block is something else."""
    if block.get("type") != BlockKind.RESOURCE:
        return None
    text = _resource(block).get("text")
    return text if isinstance(text, str) else None


def _resource(block: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = block.get("resource")
    if not isinstance(inner, Mapping):
        raise UnreadableBlock("resource", f"must be an object with a uri, and text or blob, not {shown(inner)}")
    return inner


def _media(kind: BlockKind, block: Mapping[str, Any]) -> Media:
    media_type, title = _media_type(block), _title(block, "title") or _title(block, "name")
    if media_type and kind_of_media(media_type) is not kind:
        raise UnreadableBlock("media_type", f"must be that of {_for_example(kind)}, not {shown(media_type)}")
    url = block.get("url")
    if url is None:
        data = _data(block, "data")
        if not media_type:
            raise UnreadableBlock("media_type", f"is missing: data needs one, that of {_for_example(kind)}")
        return Media(kind, media_type, data, title=title)
    if block.get("data") is not None:
        raise UnreadableBlock("url", "and data exclude each other: leave one of them out")
    if not isinstance(url, str) or not _URL.fullmatch(url):
        raise UnreadableBlock("url", "must be an address that starts with https:// or http://; put base64 into data")
    return Media(kind, media_type, url=url, title=title)


def _for_example(kind: BlockKind) -> str:
    return f"{_NAMES[kind]}, like {_EXAMPLES[kind]!r}"


def _media_type(block: Mapping[str, Any]) -> str:
    given = [value for name in ("media_type", "mimeType") if (value := block.get(name)) is not None]
    for value in given:
        if not isinstance(value, str) or not _MEDIA_TYPE.fullmatch(usual_media_type(value)):
            raise UnreadableBlock("media_type", f"must be a media type like 'image/png', not {shown(value)}")
    types = {usual_media_type(value) for value in given}
    if len(types) > 1:
        raise UnreadableBlock("media_type", "and mimeType are different: leave one of them out")
    return types.pop() if types else ""


def _data(block: Mapping[str, Any], field: str) -> str:
    data = block.get(field)
    if data is None:
        raise UnreadableBlock(field, "is missing: it holds the content in base64; a block with a url has none")
    if not isinstance(data, str) or not data:
        raise UnreadableBlock(field, "must be a string of base64 that is not empty")
    return data


def _title(block: Mapping[str, Any], field: str) -> str:
    title = block.get(field)
    if not isinstance(title, str | None):
        raise UnreadableBlock(field, f"must be a string, not {shown(title)}")
    return " ".join((title or "").split())


# Checking what a sender gives.


def check_block(block: Mapping[str, Any], place: int) -> None:
    """Raise `InvalidOption` unless a request can be made from the block; `place` is its index in the content."""
    where = f"content[{place}]"
    kind = block.get("type", BlockKind.TEXT if "text" in block or not block else None)
    kinds = [known.value for known in BlockKind]
    if kind not in kinds:
        near = get_close_matches(kind, kinds, n=1) if isinstance(kind, str) else []
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise InvalidOption(
            f"{where}.type must be one of {', '.join(map(repr, kinds))}, not {shown(kind)}{hint}", field="content"
        )
    try:
        _check_kind(kind, block)
    except UnreadableBlock as fault:
        raise InvalidOption(f"{where}.{fault.field} {fault}", field="content") from None


def _check_kind(kind: str, block: Mapping[str, Any]) -> None:
    if kind == BlockKind.TEXT and not isinstance(block.get("text", ""), str):
        raise UnreadableBlock("text", f"must be a string, not {shown(block['text'])}")
    if kind == BlockKind.RESOURCE_LINK and not (isinstance(uri := block.get("uri"), str) and uri.strip()):
        raise UnreadableBlock("uri", f"must be a string that is not blank, not {shown(uri)}")
    media = media_in(block)
    if media is None:
        if kind == BlockKind.RESOURCE and resource_text(block) is None:
            raise UnreadableBlock("resource", "must have text, or blob with the content in base64")
        return
    if media.data:
        try:
            a2b_base64(media.data, strict_mode=True)
        except (Base64Error, ValueError):
            raise UnreadableBlock(
                "resource.blob" if kind == BlockKind.RESOURCE else "data",
                "is not base64: encode the bytes with base64.b64encode, without line breaks and without 'data:' before it",
            ) from None


# Estimates. No provider counts the bytes of an image as text.

_BYTES_PER_TOKEN: Final = 4
_IMAGE_TOKENS: Final = 1_600
_PAGE_TOKENS: Final = 2_000
_PAGE_BYTES: Final = 50_000
_AUDIO_BYTES_PER_TOKEN: Final = 500


def estimated_tokens(content: str | Sequence[Mapping[str, Any]]) -> int:
    """Estimate the number of tokens of a message: a token for four bytes of text, and a typical size for media."""
    if isinstance(content, str):
        size = len(content) if content.isascii() else len(content.encode(errors="replace"))
        return -(-size // _BYTES_PER_TOKEN)
    return sum(map(_block_tokens, content))


def _block_tokens(block: Mapping[str, Any]) -> int:
    try:
        media = media_in(block)
        text = resource_text(block)
    except UnreadableBlock:
        return 0
    match media:
        case None:
            return estimated_tokens(str(block.get("text", "")) if text is None else text)
        case Media(kind=BlockKind.DOCUMENT):
            return _PAGE_TOKENS * (1 + media.size // _PAGE_BYTES)
        case Media(kind=BlockKind.AUDIO):
            return 1 + media.size // _AUDIO_BYTES_PER_TOKEN
        case _:
            return _IMAGE_TOKENS
