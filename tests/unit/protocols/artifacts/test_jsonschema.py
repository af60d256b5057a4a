"""How structs become JSON Schemas."""

from typing import Any

from sideband.protocols.artifacts.documents import Document
from sideband.protocols.artifacts.jsonschema import definitions_of, schema_of
from sideband.protocols.wire import Inbound, Outbound


class Heard(Inbound, frozen=True, kw_only=True):
    """Something a peer sends.

    In two
    paragraphs.
    """

    word: str | None = None
    must: int


class Said(Outbound, frozen=True, kw_only=True):
    """Something we send."""

    word: str | None = None
    either: int | str | None = None
    heard: Heard | None = None
    by_name: dict[str, Heard] | None = None
    anything: Any = None


class Empty(Outbound, frozen=True, kw_only=True):
    """Nothing at all."""


def test_a_peer_may_write_null_for_what_it_leaves_out() -> None:
    assert definitions_of([Heard])["Heard"]["properties"]["word"] == {"type": ["string", "null"]}


def test_we_never_send_null() -> None:
    assert definitions_of([Said])["Said"]["properties"] == {
        "word": {"type": "string"},
        "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "heard": {"$ref": "#/$defs/Heard"},
        "byName": {"type": "object", "additionalProperties": {"$ref": "#/$defs/Heard"}},
        "anything": {},
    }


def test_shapes_within_shapes_are_defined_too() -> None:
    assert list(definitions_of([Said])) == ["Heard", "Said"]


def test_what_is_required_comes_first() -> None:
    heard = definitions_of([Heard])["Heard"]
    assert list(heard["properties"]) == ["must", "word"]
    assert heard["required"] == ["must"]


def test_nothing_required_is_not_mentioned() -> None:
    assert "required" not in definitions_of([Empty])["Empty"]


def test_a_description_keeps_its_paragraphs_and_no_other_breaks() -> None:
    assert definitions_of([Heard])["Heard"]["description"] == "Something a peer sends.\n\nIn two paragraphs."


def test_a_document_of_several_roots_is_any_of_them() -> None:
    document = Document(protocol="p", surface="s", summary="Words", root=(Heard, Said), name="Word")
    schema = schema_of(document, comment="by hand")
    assert schema["title"] == "Word"
    assert schema["description"] == "Words."
    assert schema["anyOf"] == [{"$ref": "#/$defs/Heard"}, {"$ref": "#/$defs/Said"}]


def test_a_document_without_further_shapes_has_no_definitions() -> None:
    document = Document(protocol="p", surface="s", summary="Words", root=(Empty,))
    assert "$defs" not in schema_of(document, comment="by hand")
