"""What a body should rather not say."""

import re
from collections.abc import Iterator
from typing import Final

from sideband.lint.found import Problem
from sideband.lint.literals import Entry, Scalar, Unknown
from sideband.render.shapes import neutralise

SECRECY: Final = "SIDEBAND-101"
VOLATILE: Final = "SIDEBAND-102"
FRAMING: Final = "SIDEBAND-103"

_NEVER: Final = r"(?:(?:do|must|should|shall|may|can)\s+not|cannot|(?:do|must|should|ca)n['\u2019]t|never|without)"
_TELL: Final = (
    r"(?:tell|telling|mention|mentioning|reveal|revealing|disclose|disclosing|inform|informing|notify|notifying"
    r"|let|letting|say|saying|show|showing|share|sharing|admit|admitting|acknowledge|acknowledging)"
)
_PERSON: Final = r"(?:the\s+)?(?:end[\s-]?)?(?:users?|humans?|customers?)\b"
_SECRECY: Final = re.compile(
    # Never mention this to the user; don't let the user know; without telling the user.
    rf"\b{_NEVER}\s+(?:ever\s+)?{_TELL}\b[^.;!?]{{0,60}}?\b{_PERSON}"
    # Do not mention this reminder.
    rf"|\b{_NEVER}\s+(?:ever\s+)?{_TELL}\s+(?:this|these|the)\s+(?:system\s+)?(?:reminder|message|notice|note|instruction)s?\b"
    # Keep this hidden from the user; hide it from the user.
    rf"|\b(?:keep|hide|conceal|withhold)\b[^.;!?]{{0,60}}?\bfrom\s+{_PERSON}"
    r"|\bkeep\s+(?:this|it)\s+(?:a\s+)?secret\b",
    re.IGNORECASE,
)

_VOLATILE: Final = re.compile(
    r"(?<!\d)\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}"  # a date with a time
    r"|(?<![\w:.])\d{1,2}:\d{2}:\d{2}(?![\w:])"  # a time with seconds
    r"|(?<![\w:.])\d{1,2}:\d{2}\s?(?:[ap]\.?m\b|UTC\b|GMT\b)"  # a time of day that says so
    r"|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"  # a UUID
    r"|(?<![\w.-])1[6-9]\d{8}(?:\d{3})?(?![\w-])",  # seconds or milliseconds since 1970
    re.IGNORECASE,
)
# By the last names of a call, because the module may have been imported under any name.
_VOLATILE_CALLS: Final = re.compile(
    r"(?:^|\.)(?:datetime\.(?:now|utcnow|today)|date\.today|time\.(?:time|monotonic|perf_counter|strftime|ctime|asctime)"
    r"|time_ns|utcnow|monotonic|monotonic_ns|perf_counter|perf_counter_ns|uuid[1-8]"
    r"|token_(?:hex|urlsafe|bytes)|random\.\w+)$"
)

_PREFIX: Final = re.compile(r"^[ \t]*system reminder:", re.IGNORECASE | re.MULTILINE)
_SHOWN: Final = 24


def body_problems(body: Entry) -> Iterator[Problem]:
    """Advice about what is written of a body."""
    match body.value:
        case Scalar(value=str() as text):
            calls: tuple[str, ...] = ()
        case Unknown(text=text, calls=calls):
            pass
        case _:
            return
    key = str(body.key)
    secret = _SECRECY.search(text)
    if secret:
        message = f"the body asks for secrecy: {_quoted(secret)}; state the fact instead"
        yield Problem(SECRECY, body.at, message, key)
    volatile = _VOLATILE.search(text)
    call = next((name for name in calls if _VOLATILE_CALLS.search(name)), None)
    if volatile or call:
        what = _quoted(volatile) if volatile else f"{call}()"
        yield Problem(VOLATILE, body.at, f"the body holds a value that is never the same twice: {what}", key)
    frame = _frame(text)
    if frame:
        message = f"the body brings its own frame, {frame!a}; the renderer puts the right one around it"
        yield Problem(FRAMING, body.at, message, key)


def _frame(text: str) -> str:
    """The beginning of a frame in the text; empty where there is none."""
    for index, (written, defused) in enumerate(zip(text, neutralise(text), strict=False)):
        if written != defused:
            return text[index : index + _SHOWN]
    prefix = _PREFIX.search(text)
    return prefix.group().strip() if prefix else ""


def _quoted(match: re.Match[str]) -> str:
    return ascii(" ".join(match.group().split()))
