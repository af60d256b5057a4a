"""The blocks that the proxy adds to prompts and steers, and their removal from what an agent replays.

Each block carries the session's nonce. A reminder has a frame that the escapers know, so its text can neither end the
frame nor imitate the user. A message of the user has its words between two marks. In a replay the
reminders disappear and the user's words stay, also where the agent has joined several blocks into one text.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import Raw

from sideband.protocols.acp.methods import member
from sideband.protocols.jsonrpc import encode
from sideband.render.escape import Frame, Lead, attribute
from sideband.render.shapes import NOTICES, escaper
from sideband.runtime.handover import Given, GivenReminder

# The kinds of content that an agent must advertise, by the name of its capability.
_CAPABILITIES: Final = {"image": "image", "audio": "audio", "resource": "embeddedContext"}
EVERY_KIND: Final = frozenset(_CAPABILITIES.values())

_decode_object: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_list: Final = msgspec.json.Decoder(list[Raw]).decode
_decode_text: Final = msgspec.json.Decoder(str).decode

# A prompt that begins like this is a command of the agent, which text in front of it would disable.
_COMMAND: Final = re.compile(r"\s*/[\w:.-]+(?:\s|$)")


# What the agent gets.


def prompt_blocks(given: Sequence[Given], nonce: str, *, kinds: Collection[str] = EVERY_KIND) -> list[dict[str, Any]]:
    """The blocks in front of a prompt. `kinds` are the prompt capabilities of the agent."""
    return [block for item in given for block in _blocks(item, nonce, kinds, marked=True)]


def steering_blocks(given: Given, nonce: str, *, kinds: Collection[str] = EVERY_KIND) -> list[dict[str, Any]]:
    """The prompt of `_session/steering`. A message of the user is as the user wrote it."""
    return [*_blocks(given, nonce, kinds, marked=False)]


def _blocks(item: Given, nonce: str, kinds: Collection[str], *, marked: bool) -> Iterator[dict[str, Any]]:
    if isinstance(item, GivenReminder):
        yield {"type": "text", "text": reminder_text(item, nonce)}
        return
    for block in item.content:
        needed = _CAPABILITIES.get(str(block.get("type")))
        if block.get("type") == "text" and marked:
            yield block | {"text": f"{Lead.USER} [{nonce}]:\n{block['text']}\n[{nonce}]"}
        elif needed is None or needed in kinds:
            yield block
        else:
            # The agent would refuse the whole prompt, and the next one, and so on.
            yield {"type": "text", "text": f"[The user sent content of type {block['type']}, which you cannot read.]"}


def reminder_text(given: GivenReminder, nonce: str) -> str:
    """A reminder as an element with the nonce; it says from whom it is, and for how many turns if for more than one."""
    trust = given.provenance.trust
    frame = NOTICES.get(trust)
    # Claude disarms a `system-reminder` in what a user says, because only its own host may write one.
    name = Frame.HOST_REMINDER if frame is None else frame
    sender = "" if frame is None else f' from="{attribute(given.provenance.principal or "unknown")}"'
    lasting = "" if given.turns is None or given.turns == 1 else f' turns="{given.turns}"'
    return f'<{name}{sender}{lasting} mark="{nonce}">\n{escaper(trust)(given.reminder.body)}\n</{name}>'


def takes_blocks(prompt: object) -> bool:
    """Whether blocks can be put in front of this prompt: it is a list, and no command of the agent."""
    if not isinstance(prompt, list):
        return False
    text = member(prompt[0], "text") if prompt else None
    return not (isinstance(text, str) and _COMMAND.match(text))


def with_blocks(frame: bytes, blocks: list[dict[str, Any]]) -> bytes:
    """The frame of a prompt with blocks in front; everything in it that was there stays as it was."""
    message = _decode_object(frame)
    params = _decode_object(message["params"])
    prompt = bytes(params["prompt"]).strip()
    rest = prompt[1:].lstrip()
    joint = b"" if rest[:1] == b"]" else b","
    params["prompt"] = Raw(encode(blocks)[:-1] + joint + rest)
    message["params"] = Raw(encode(params))
    return encode(message)


# What the editor gets.


def without_blocks(frame: bytes, nonces: Iterable[str]) -> bytes | None:
    """An update of the agent without our blocks; None if it had nothing else. Everything else stays as it was."""
    try:
        message = _decode_object(frame)
        params = _decode_object(message["params"])
        update = _decode_object(params["update"])
        is_list = bytes(update["content"]).lstrip()[:1] == b"["
        blocks = _decode_list(update["content"]) if is_list else [update["content"]]
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError):
        return frame
    left = [_block_without_marks(block, nonces) for block in blocks]
    if left == blocks:
        return frame
    content = [block for block in left if block is not None]
    if not content:
        return None
    update["content"] = Raw(encode(content)) if is_list else content[0]
    params["update"] = Raw(encode(update))
    message["params"] = Raw(encode(params))
    return encode(message)


def _block_without_marks(block: Raw, nonces: Iterable[str]) -> Raw | None:
    """A block of content without our marks, None if nothing is left of it; the same object if it had none."""
    try:
        content = _decode_object(block)
        text = _decode_text(content["text"])
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError):
        return block
    left = text
    for nonce in nonces:
        left = without_marks(left, nonce)
    if left == text:
        return block
    return Raw(encode(content | {"text": Raw(encode(left))})) if left else None


def without_marks(text: str, nonce: str) -> str:
    """A text without the reminders in it, and without the marks around the words of the user."""
    if nonce not in text:
        return text
    reminder, words = _openings(nonce)
    text = "".join(_outside(text, reminder, lambda found: f"\n</{found[1]}>", keeps_inside=False))
    return "".join(_outside(text, words, lambda _found: f"\n[{nonce}]", keeps_inside=True))


def _outside(
    text: str, opening: re.Pattern[str], closing_of: Callable[[re.Match[str]], str], *, keeps_inside: bool
) -> Iterator[str]:
    """The parts of a text that are outside of the marks, and if wanted those inside. A mark that nothing ends is text.

    A pattern for both marks would search the whole rest of the text for each opening mark that nothing ends.
    """
    at = 0
    unended: set[str] = set()
    for found in opening.finditer(text):
        closing = closing_of(found)
        if found.start() < at or closing in unended:
            continue
        end = text.find(closing, found.end())
        if end == -1:
            unended.add(closing)
            continue
        yield text[at : found.start()]
        at = end + len(closing)
        # Some agents join the blocks of a prompt with a space, so one after a block belongs to it.
        at += text.startswith(" ", at)
        if keeps_inside:
            yield text[found.end() : end]
            yield "" if at == len(text) else "\n\n"
    yield text[at:]


@cache
def _openings(nonce: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    names = "|".join(frame.value for frame in (Frame.HOST_REMINDER, *NOTICES.values()))
    mark = re.escape(nonce)
    reminder = rf'<({names})(?: [a-z]+="[^"\n]*")* mark="{mark}">\n'
    return re.compile(reminder), re.compile(rf"{Lead.USER} \[{mark}\]:\n")
