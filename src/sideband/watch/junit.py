"""Reads reports of test runners in JUnit's XML format; documents that declare types or entities are refused."""

from collections.abc import Mapping
from typing import Final, NamedTuple
from xml.parsers import expat

MAX_REPORT_BYTES: Final = 32 * 1024 * 1024
# Of the text of a failure only the beginning is kept.
_TEXT_CHARACTERS: Final = 1_000
_ROOTS: Final = frozenset({"testsuites", "testsuite"})
_FAILURES: Final = frozenset({"failure", "error"})


class BrokenReport(Exception):
    """A report is not JUnit XML."""


class ReportedCase(NamedTuple):
    """One test of a report; `file` is empty if the report does not name it. `failure=None` if the test did not fail."""

    file: str
    classname: str
    name: str
    failure: str | None


def read_junit(data: bytes) -> tuple[ReportedCase, ...]:
    """The tests of a report; `BrokenReport` if it is not one."""
    reader = _Reader()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = reader.refuse
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    try:
        parser.Parse(data, True)  # noqa: FBT003 - the method takes no keyword
    except expat.ExpatError as error:
        # The reason last: `unclosed token: line 1` looks like a secret with a name, and would be masked.
        place = f"line {error.lineno}, column {error.offset}"
        raise BrokenReport(f"it is not valid XML ({place}: {expat.ErrorString(error.code)})") from None
    except (LookupError, ValueError) as error:
        raise BrokenReport(f"it is not valid XML in an encoding that can be read ({error})") from None
    return tuple(reader.cases)


class _Reader:
    def __init__(self) -> None:
        self.cases: list[ReportedCase] = []
        self._depth = 0
        self._suites: list[str] = []
        self._case: ReportedCase | None = None
        self._text: str | None = None

    def refuse(self, *_: object) -> None:
        raise BrokenReport("it has a document type declaration")

    def start(self, element: str, attributes: Mapping[str, str]) -> None:
        if not self._depth and element not in _ROOTS:
            raise BrokenReport(f"its root is <{element[:40]}>, not <testsuites>")
        self._depth += 1
        if element == "testsuite":
            self._suites.append(attributes.get("file", ""))
        elif element == "testcase":
            file = attributes.get("file") or next(filter(None, reversed(self._suites)), "")
            self._case = ReportedCase(file, attributes.get("classname", ""), attributes.get("name", ""), None)
        elif element in _FAILURES and self._case is not None:
            self._text = ""
            if self._case.failure is None:
                self._case = self._case._replace(failure=_first_line(attributes.get("message", "")))

    def text(self, text: str) -> None:
        if self._text is not None:
            self._text += text[: max(0, _TEXT_CHARACTERS - len(self._text))]

    def end(self, element: str) -> None:
        self._depth -= 1
        if element == "testsuite":
            self._suites.pop()
        elif element == "testcase" and self._case is not None:
            self.cases.append(self._case)
            self._case = None
        elif element in _FAILURES and self._text is not None:
            if self._case is not None and not self._case.failure:
                self._case = self._case._replace(failure=_first_line(self._text))
            self._text = None


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
