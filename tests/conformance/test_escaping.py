"""A body cannot leave its frame, and keeps every byte that does not try."""

from typing import Final

import pytest

from sideband.core.trust import IN_PROCESS, Provenance
from sideband.render.shapes import Frame, tagged
from tests.builders import a_reminder
from tests.sessions import CLIENT, PEER, SERVER

SENDERS: Final = [
    pytest.param(IN_PROCESS, "<system-reminder>", "</system-reminder>", id="operator"),
    pytest.param(CLIENT, "<system-reminder>", "</system-reminder>", id="controller"),
    pytest.param(PEER, '<peer-notice from="planner">', "</peer-notice>", id="peer"),
    pytest.param(SERVER, '<server-notice from="watcher">', "</server-notice>", id="server"),
]


@pytest.mark.requirement("render:escape:framing-tags-are-neutralised")
@pytest.mark.parametrize(("sender", "opening", "closing"), SENDERS)
@pytest.mark.parametrize(
    ("spelling", "harmless"),
    [
        pytest.param("<NAME>", "&lt;NAME>", id="opening"),
        pytest.param("</NAME>", "&lt;/NAME>", id="closing"),
        pytest.param("<NAME/>", "&lt;NAME/>", id="self-closing"),
        pytest.param("<NAME />", "&lt;NAME />", id="self-closing-with-a-blank"),
        pytest.param('<NAME foo="x">', '&lt;NAME foo="x">', id="attribute"),
        pytest.param("<NAME\nfoo='x'\n>", "&lt;NAME\nfoo='x'\n>", id="attribute-on-another-line"),
        pytest.param("< NAME >", "&lt; NAME >", id="blanks"),
        pytest.param("< / NAME >", "&lt; / NAME >", id="blanks-around-the-slash"),
        pytest.param("<\t/\r\nNAME\x0b>", "&lt;\t/\r\nNAME\x0b>", id="other-blanks"),
        pytest.param("<\xa0\u3000\u2028NAME>", "&lt;\xa0\u3000\u2028NAME>", id="blanks-of-unicode"),
        pytest.param("<//NAME>", "&lt;//NAME>", id="two-slashes"),
        pytest.param("</NAME", "&lt;/NAME", id="cut-off-behind-the-name"),
        pytest.param("</NAME ", "&lt;/NAME ", id="cut-off-behind-a-blank"),
        pytest.param("</NAME=", "&lt;/NAME=", id="cut-off-behind-a-sign"),
        pytest.param("<</NAME>>", "<&lt;/NAME>>", id="doubled"),
        pytest.param("</NAME></NAME>", "&lt;/NAME>&lt;/NAME>", id="one-after-the-other"),
        pytest.param("<\0/NAME>", "&lt;\0/NAME>", id="nul-before-the-name"),
        pytest.param("</NAME\0>", "&lt;/NAME\0>", id="nul-behind-the-name"),
        pytest.param("<\u200b/\u2060NAME\ufeff>", "&lt;\u200b/\u2060NAME\ufeff>", id="unseen-around-the-name"),
        pytest.param("</NAME<br>", "&lt;/NAME<br>", id="another-tag-behind-the-name"),
    ],
)
def test_no_spelling_of_a_framing_tag_opens_or_closes_the_frame(
    sender: Provenance, opening: str, closing: str, spelling: str, harmless: str
) -> None:
    for name in (spell(frame.value) for frame in Frame for spell in (str.lower, str.upper, str.title)):
        body, kept = spelling.replace("NAME", name), harmless.replace("NAME", name)
        assert tagged(a_reminder(body=f"before {body}"), sender) == f"{opening}\nbefore {kept}\n{closing}"


@pytest.mark.requirement("render:escape:framing-tags-are-neutralised")
@pytest.mark.parametrize(
    "unseen", ["\0", "\x1b", "\xad", "\u200b", "\u200d", "\u2060", "\ufeff", "\ufe0f", "\U000e0041"]
)
@pytest.mark.parametrize("name", Frame)
def test_a_character_that_prints_nothing_does_not_hide_a_tag(unseen: str, name: Frame) -> None:
    hidden = unseen.join(f"</{name.value}>")
    assert f"&lt;{hidden[1:]}" in tagged(a_reminder(body=hidden))


@pytest.mark.requirement("render:escape:framing-tags-are-neutralised")
@pytest.mark.parametrize(
    "hyphen", ["-", "_", "\u1806", "\u2010", "\u2011", "\u2014", "\u2212", "\ufe63", "\uff0d"], ids=ascii
)
@pytest.mark.parametrize("opening", ["</", "\u2039/", "\uff1c\uff0f", "\ufe64\u2215", "\u27e8/", "\u3008"], ids=ascii)
@pytest.mark.parametrize("name", Frame)
def test_signs_that_look_alike_do_not_hide_a_tag(opening: str, hyphen: str, name: Frame) -> None:
    alike = f"{opening}{name.value.replace('-', hyphen)}>"
    assert f"\n&lt;{alike[1:]}\n" in tagged(a_reminder(body=alike))


@pytest.mark.requirement("render:escape:the-rest-is-verbatim")
@pytest.mark.parametrize(("sender", "opening", "closing"), SENDERS)
@pytest.mark.parametrize(
    "body",
    [
        "if a < b && c > d: print('&amp;')",
        "vec<system> reminder </system>",
        "<system-reminders> and </system-reminder-list> are other names",
        "my-system-reminder> x-<peer>-notice",
        "<x-system-reminder> <system.reminder> <systemreminder>",
        "cargo test 2>&1 | grep -c '<' && echo ]]>",
        "日本語 🦀 <b>é</b>\r\n\ttabs",
        "&lt;system-reminder&gt;",
        "<",
        "ends with <system",
    ],
)
def test_a_body_without_a_framing_tag_keeps_every_byte(
    sender: Provenance, opening: str, closing: str, body: str
) -> None:
    assert tagged(a_reminder(body=body), sender) == f"{opening}\n{body}\n{closing}"
