"""The lines in which verifiers report a failure."""

import re
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.providers.verifiers import SHAPES, TEXT_BYTES, plain, scan
from tests.unit.providers.contexts import CUES, FIXTURES, recorded

CARGO_CHECK: Final = [
    "cargo: error[E0425]: cannot find value `discount` in this scope (src/lib.rs:3:34)",
    "cargo: error[E0308]: mismatched types (src/lib.rs:7:5)",
]
CARGO_TEST: Final = [
    "cargo: test tests::an_empty_cart_costs_nothing ... FAILED",
    "cargo: test tests::the_total_is_the_sum ... FAILED",
]
ESLINT: Final = [
    "eslint: /repo/es/cart.js:1:5 error 'total' is assigned a value but never used no-unused-vars",
    "eslint: /repo/es/cart.js:2:9 error 'unused' is assigned a value but never used no-unused-vars",
    "eslint: /repo/es/cart.js:3:10 error 'sum' is not defined no-undef",
]
GO_TEST: Final = ["go: FAIL: TestTotal", "go: FAIL: TestTotal/an_empty_cart"]
JEST: Final = ["npm test: FAIL ./cart.test.js > the total is the sum"]
RUFF: Final = [
    "ruff: F401 [*] `os` imported but unused (app.py:1:8)",
    "ruff: F821 Undefined name `widht` (app.py:5:12)",
]
PYTEST_COUNT: Final = "pytest: 2 failed, 1 passed, 1 error"
PYTEST_NAMES: Final = [
    "test_cart.py::test_a_discount_lowers_the_total",
    "test_cart.py::test_parse",
    "test_cart.py::test_stored",
]

FAILING: Final[dict[str, list[str]]] = {
    "cargo_check_failing": CARGO_CHECK,
    "cargo_check_failing_coloured": CARGO_CHECK,
    "cargo_check_failing_short": [
        "cargo: error[E0425]: cannot find value `discount` in this scope: not found in this scope (src/lib.rs:3:34)",
        "cargo: error[E0308]: mismatched types: expected `String`, found `&str` (src/lib.rs:7:5)",
    ],
    "cargo_test_failing": CARGO_TEST,
    "cargo_test_failing_coloured": CARGO_TEST,
    "eslint_failing": [*ESLINT, "eslint: /repo/es/syntax.js:1:7 error Parsing error: Unexpected token ="],
    "eslint_failing_coloured": ESLINT,
    "go_test_build_failing": [
        'go: imported and not used: "os" (./cart.go:3:8)',
        "go: undefined: sum (./cart.go:6:9)",
    ],
    "go_test_failing": GO_TEST,
    "go_test_failing_verbose": GO_TEST,
    "go_test_panic": ["go: FAIL: TestTotal - panic: runtime error: index out of range [3] with length 0 [recovered]"],
    "go_vet_failing": ["go: undeclared name: sum (./cart.go:6:9)"],
    "mypy_failing": [
        'mypy: error: Returning Any from function declared to return "int" [no-any-return] (app.py:5)',
        'mypy: error: Name "widht" is not defined; did you mean "width"? [name-defined] (app.py:5)',
        'mypy: error: Incompatible return value type (got "int", expected "str") [return-value] (app.py:9)',
    ],
    "mypy_failing_coloured": [
        'mypy: error: Returning Any from function declared to return "int" (app.py:5:5)',
        'mypy: error: Name "widht" is not defined; did you mean "width"? (app.py:5:12)',
        'mypy: error: Incompatible return value type (got "int", expected "str") (app.py:9:12)',
    ],
    "mypy_syntax_error": [
        "mypy: error: Expected a parameter or the end of the parameter list [syntax] (broken.py:1)",
        "mypy: error: Expected `)`, found newline [syntax] (broken.py:1)",
    ],
    "node_undefined_name": ["node: ReferenceError: widht is not defined"],
    "npm_test_jest_failing": JEST,
    "npm_test_jest_failing_coloured": JEST,
    "npm_test_mocha_failing": ["npm test: sums"],
    "npm_test_node_failing": ["npm test: not ok 1 - the total is the sum"],
    "npm_test_node_spec_failing": ["npm test: the total is the sum"],
    "npm_test_vitest_failing": ["npm test: FAIL cart.test.js > the total is the sum"],
    "npm_test_workspaces_failing": ["npm test: the total is the sum"],
    "pytest_collection_errors": [
        "pytest: ERROR test_import.py - ModuleNotFoundError: No module named 'cart'",
        "pytest: ERROR test_syntax.py - SyntaxError: invalid syntax",
    ],
    "pytest_failing": [
        "pytest: FAILED test_cart.py::test_a_discount_lowers_the_total - assert 35 == 25",
        "pytest: FAILED test_cart.py::test_parse - ValueError: invalid literal for int() with ...",
        "pytest: ERROR test_cart.py::test_stored - RuntimeError: no database",
    ],
    "pytest_failing_coloured": [
        "pytest: FAILED test_cart.py::test_a_discount_lowers_the_total - assert 35 == 25",
        "pytest: FAILED test_cart.py::test_parse - ValueError: invalid literal for int() with base 10: 'x'",
        "pytest: ERROR test_cart.py::test_stored - RuntimeError: no database",
    ],
    "pytest_failing_parallel": [
        f"pytest: {word} {name}" for word, name in zip(("FAILED", "FAILED", "ERROR"), PYTEST_NAMES, strict=True)
    ],
    "pytest_failing_quiet": [PYTEST_COUNT],
    "pytest_failing_verbose": [
        f"pytest: {name} {word}" for word, name in zip(("FAILED", "FAILED", "ERROR"), PYTEST_NAMES, strict=True)
    ],
    "python_name_error": [
        "python: NameError: name 'widht' is not defined. Did you mean: 'width'? (/repo/lint/undefined.py:2)"
    ],
    "python_syntax_error": ["python: SyntaxError: invalid syntax (/repo/lint/broken.py:1)"],
    "ruff_failing": RUFF,
    "ruff_failing_coloured": RUFF,
    "ruff_failing_concise": [
        *RUFF,
        "ruff: invalid-syntax: Expected a parameter or the end of the parameter list (broken.py:1:12)",
        "ruff: invalid-syntax: Expected `)`, found newline (broken.py:1:13)",
    ],
    "ruff_statistics": ["ruff: F821 [ ] undefined-name", "ruff: F401 [*] unused-import"],
    "tsc_configuration_error": ["tsc: error TS6053: File 'missing.ts' not found."],
    "tsc_failing": [
        "tsc: error TS2322: Type 'string' is not assignable to type 'number'. (cart.ts(2,3))",
        "tsc: error TS2552: Cannot find name 'totl'. Did you mean 'total'? (cart.ts(5,30))",
    ],
    "tsc_failing_coloured": [
        "tsc: error TS2322: Type 'string' is not assignable to type 'number'. (cart.ts:2:3)",
        "tsc: error TS2552: Cannot find name 'totl'. Did you mean 'total'? (cart.ts:5:30)",
    ],
    "tsc_syntax_error": [
        "tsc: error TS1109: Expression expected. (broken.ts(1,20))",
        "tsc: error TS1005: ')' expected. (broken.ts(2,1))",
    ],
    "unittest_failing": [
        "unittest: ERROR: test_stored (test_cart.CartTest.test_stored)",
        "unittest: FAIL: test_total (test_cart.CartTest.test_total)",
    ],
}
NOT_FAILING: Final = (
    "cargo_check_warnings",
    "cargo_test_passing",
    "cargo_test_passing_coloured",
    "eslint_warnings",
    "go_test_passing",
    "mypy_notes",
    "mypy_passing",
    "npm_test_jest_passing",
    "npm_test_node_passing",
    "npm_test_vitest_passing",
    "pytest_passing",
    "pytest_passing_coloured",
    "ruff_passing",
    "ruff_style",
    "source_with_error_words",
    "unittest_passing",
)


def found(text: str, *, include_warnings: bool = False) -> list[str]:
    """What is reported, with the white space between the columns of a tool collapsed."""
    reports = scan(text, include_warnings=include_warnings)
    return [f"{report.source}: {' '.join(report.summary.split())}" for report in reports]


@pytest.mark.parametrize("name", FAILING)
def test_a_failing_run_is_read(name: str) -> None:
    assert sorted(found(recorded(name))) == sorted(FAILING[name])


@pytest.mark.parametrize("name", NOT_FAILING)
def test_a_run_without_failures_says_nothing(name: str) -> None:
    assert found(recorded(name)) == []


def test_every_recorded_run_is_in_one_of_the_tables() -> None:
    assert sorted([*FAILING, *NOT_FAILING]) == sorted(path.stem for path in FIXTURES.glob("*.txt"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cargo_check_warnings", ["cargo: warning: unused variable: `error` (src/lib.rs:2:9)"]),
        ("eslint_warnings", ["eslint: /repo/es/warn.js:1:33 warning Expected '===' and instead saw '==' eqeqeq"]),
        (
            "ruff_style",
            [
                "ruff: I001 [*] Import block is un-sorted or un-formatted (style.py:1:1)",
                "ruff: W291 [*] Trailing whitespace (style.py:3:6)",
            ],
        ),
    ],
)
def test_warnings_and_matters_of_style_are_reported_on_demand(name: str, expected: list[str]) -> None:
    assert found(recorded(name), include_warnings=True) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "error[HARN-LNT-066]: the result is discarded\n  --> src/main.harn:3:1",
            ["harn lint: error[HARN-LNT-066]: the result is discarded (src/main.harn:3:1)"],
            id="harn-lint",
        ),
        pytest.param(
            "error: could not compile `cart` (lib)", ["cargo: error: could not compile `cart` (lib)"], id="cargo-tail"
        ),
        pytest.param(
            "test result: FAILED. 0 passed; 1 failed; 0 ignored; finished in 0.24s",
            ["cargo: test result: FAILED. 0 passed; 1 failed"],
            id="cargo-count-without-its-duration",
        ),
        pytest.param("0 passed; 1 failed", ["test run: 0 passed; 1 failed"], id="a-bare-count"),
        pytest.param("  1 failed", ["test run: 1 failed"], id="a-count-of-failures-alone"),
        pytest.param("3 passing\n  2 failing", ["npm test: 2 failing"], id="mocha-tail"),
        pytest.param(
            "npm ERR! Test failed.  See above for more details.",
            ["npm test: Test failed. See above for more details."],
            id="npm-6",
        ),
        pytest.param(
            "Tests:       1 failed, 1 passed, 2 total", ["npm test: Tests: 1 failed, 1 passed, 2 total"], id="jest-tail"
        ),
        pytest.param(
            "✖ 5 problems (4 errors, 1 warning)", ["eslint: 5 problems (4 errors, 1 warning)"], id="eslint-tail"
        ),
        pytest.param("Found 2 errors.", ["ruff: Found 2 errors"], id="ruff-tail"),
        pytest.param(
            "Found 3 errors in 1 file (checked 1 source file)", ["mypy: Found 3 errors in 1 file"], id="mypy-tail"
        ),
        pytest.param("Found 2 errors in 2 files.", ["tsc: Found 2 errors in 2 files"], id="tsc-tail"),
        pytest.param("FAIL\texample.com/cart\t0.002s", ["go: FAIL example.com/cart"], id="go-tail"),
        pytest.param(
            "FAIL\texample.com/cart [build failed]", ["go: FAIL example.com/cart [build failed]"], id="go-build-tail"
        ),
        pytest.param(
            "ERROR conftest.py - ImportError: x", ["pytest: ERROR conftest.py - ImportError: x"], id="pytest-setup"
        ),
        pytest.param("FAILED docs/use.md::use.md", ["pytest: FAILED docs/use.md::use.md"], id="pytest-on-documents"),
        pytest.param("FAILED (failures=1)", ["unittest: FAILED (failures=1)"], id="unittest-tail"),
        pytest.param(
            "FAILED test_x.py::test_y - assert <X object at 0x7f1234567890> == 3",
            ["pytest: FAILED test_x.py::test_y - assert <X object at 0x…> == 3"],
            id="addresses-differ-from-run-to-run",
        ),
        pytest.param(
            "C:\\repo\\app.py:3:4: error: Bad  [misc]",
            ["mypy: error: Bad [misc] (C:\\repo\\app.py:3:4)"],
            id="a-drive-letter",
        ),
        pytest.param(
            "app/(group)/page.tsx(3,5): error TS1: x",
            ["tsc: error TS1: x (app/(group)/page.tsx(3,5))"],
            id="brackets-in-a-path",
        ),
    ],
)
def test_a_failure_line_alone_is_enough(text: str, expected: list[str]) -> None:
    assert found(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "error[E0308]: mismatched types\n --> src/lib.rs:7:5\nerror: aborting due to 1 previous error\n"
            "error: could not compile `cart` (lib) due to 1 previous error",
            ["cargo: error[E0308]: mismatched types (src/lib.rs:7:5)"],
            id="cargo-error-and-its-summary",
        ),
        pytest.param(
            "test result: FAILED. 0 passed; 1 failed\nerror: test failed, to rerun pass `--lib`",
            ["cargo: test result: FAILED. 0 passed; 1 failed"],
            id="cargo-two-summaries",
        ),
        pytest.param(
            "E   NameError: name 'x' is not defined\nFAILED test_x.py::test_y - NameError: name 'x' is not d...",
            ["pytest: FAILED test_x.py::test_y - NameError: name 'x' is not d..."],
            id="pytest-failure-and-its-exception",
        ),
        pytest.param(
            "test_x.py::test_y FAILED [100%]\nFAILED test_x.py::test_y - assert 1 == 2\n==== 1 failed in 0.1s ====",
            ["pytest: FAILED test_x.py::test_y - assert 1 == 2"],
            id="pytest-progress-failure-and-count",
        ),
        pytest.param(
            "--- FAIL: TestTotal (0.00s)\n    --- FAIL: TestTotal/empty (0.00s)\n        cart_test.go:9: 4\nFAIL",
            ["go: FAIL: TestTotal/empty"],
            id="go-test-that-fails-by-its-subtest",
        ),
        pytest.param(
            "FAIL ./a.test.js\n  ✕ sums\nFAIL ./b.test.js\n  ✕ sums\nFAIL ./broken.test.js\n"
            "  ● Test suite failed to run\nSummary of all failing tests\nFAIL ./a.test.js\n"
            "Test Suites: 3 failed, 3 total\nTests:       2 failed, 2 total",
            [
                "npm test: FAIL ./a.test.js > sums",
                "npm test: FAIL ./b.test.js > sums",
                "npm test: FAIL ./broken.test.js",
            ],
            id="jest-files-and-tests",
        ),
        pytest.param(
            "Test Suites: 1 failed, 1 total\nTests:       1 failed, 2 total",
            ["npm test: Test Suites: 1 failed, 1 total"],
            id="jest-two-counts",
        ),
        pytest.param(
            "FAILED test_x.py::test_y\n1 failed, 2 passed",
            ["pytest: FAILED test_x.py::test_y"],
            id="a-failure-and-the-bare-count-of-its-runner",
        ),
        pytest.param(
            "src/app.ts(2,3): error TS2322: x\nFound 1 error in src/app.ts:2\nFound 1 error in the same file",
            ["tsc: error TS2322: x (src/app.ts(2,3))"],
            id="tsc-error-and-its-count",
        ),
    ],
)
def test_a_failure_that_is_reported_in_several_lines_is_found_once(text: str, expected: list[str]) -> None:
    assert found(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("error: something went wrong", id="an-error-without-a-place"),
        pytest.param("error[E0308]: printed by a test\nand nothing below", id="a-code-without-a-place"),
        pytest.param("error: nothing follows", id="an-error-at-the-end"),
        pytest.param("error: odd\n  --> notes.txt:1:2", id="a-place-that-no-compiler-reads"),
        pytest.param("ERROR my_crate::server: connection reset", id="a-log-line-of-a-program"),
        pytest.param("localhost:8080: error: connection refused", id="a-port"),
        pytest.param("example.com:443: error: refused", id="a-host-and-a-port"),
        pytest.param("2024-01-01 12:00:00: error: x", id="a-log-line"),
        pytest.param("no parse error, 0 failed, 12 passed", id="words"),
        pytest.param("12 passed; 0 failed", id="none-failed"),
        pytest.param("test result: ok. 5 passed; 0 failed; 0 ignored", id="a-passing-count"),
        pytest.param("5 passed, 10 failed over in the last year", id="a-sentence"),
        pytest.param("===== 3 passed, 0 errors in 0.12s =====", id="no-errors"),
        pytest.param("Tests: 0 failed, 3 passed, 3 total", id="jest-none-failed"),
        pytest.param("# fail 0", id="node-none-failed"),
        pytest.param("Found 0 errors. Watching for file changes.", id="tsc-watching"),
        pytest.param("✖ 1 problem (0 errors, 1 warning)", id="eslint-only-warnings"),
        pytest.param("test tests::reports_FAILED ... ok", id="a-name"),
        pytest.param("PASSED test_x.py::test_FAILED", id="a-passing-name"),
        pytest.param("not ok 3 - later # SKIP no database", id="tap-skipped"),
        pytest.param("  3:1  error  but no file above", id="eslint-without-a-file"),
        pytest.param("not a file\n  3:1  error  something", id="eslint-below-a-sentence"),
        pytest.param("ERROR: all is well (really)", id="unittest-without-a-rule"),
        pytest.param("NameError: name 'x' is not defined", id="a-name-error-without-a-frame"),
        pytest.param("ReferenceError: x is not defined", id="a-reference-error-without-a-stack"),
        pytest.param("panic: no need\nreally", id="a-panic-without-a-goroutine"),
        pytest.param("  ✕ crossed out\n    1) first", id="companions-without-a-failure"),
        pytest.param("E   SyntaxError: quoted", id="an-exception-line-without-a-failure"),
        pytest.param("F821 is the code for this", id="a-code-without-an-arrow"),
    ],
)
def test_a_text_that_only_looks_like_a_failure_is_no_finding(text: str) -> None:
    assert found(text) == []


def test_a_failure_in_the_last_line_of_a_very_long_output_is_found() -> None:
    assert found("all is well\n" * 50_000 + "FAILED test_x.py::test_y") == ["pytest: FAILED test_x.py::test_y"]


@given(st.text(max_size=400).filter(lambda text: not CUES.search(text)))
def test_a_text_without_any_word_for_failure_says_nothing(text: str) -> None:
    assert scan(text, include_warnings=True) == ()


PIECES: Final = st.sampled_from(
    [
        "error",
        "FAILED",
        ":",
        " ",
        "1",
        "a.py",
        "(",
        ")",
        "::",
        " ... ",
        "FAIL",
        "\t",
        "✖ ",
        "-->",
        "0 failed",
        ",",
        "#",
        "\x1b[",
    ]
)


@given(line=st.lists(PIECES, max_size=30).map("".join), times=st.integers(1, 3), include_warnings=st.booleans())
def test_no_text_raises_or_takes_long(line: str, times: int, *, include_warnings: bool) -> None:
    reports = scan(f"{line}\n" * times, include_warnings=include_warnings)
    assert all(report.source and report.summary for report in reports)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("\x1b[" * 500_000, id="half-sequences"),
        pytest.param("\x1b[" + "1" * 1_000_000, id="an-endless-sequence"),
        pytest.param("\x1b]" * 500_000, id="half-titles"),
        pytest.param("test " + "a ... " * 200_000, id="a-test-that-never-ends"),
        pytest.param(("a(1,1" * 200 + "\n") * 1_000, id="brackets"),
        pytest.param(("1 passed;" * 100 + "\n") * 1_000, id="counts"),
        pytest.param("  1:1  error  x\n" * 60_000, id="problems-without-a-file"),
        pytest.param("NameError: x\n" * 60_000, id="exceptions-without-a-frame"),
        pytest.param("\n" * 1_000_000, id="empty-lines"),
    ],
)
def test_hostile_text_is_read_in_a_moment(text: str) -> None:
    """Were it not linear in the length of the text, this would not end."""
    assert scan(text) == ()


def test_no_shape_is_without_a_name_for_what_it_reports() -> None:
    assert all("what" in re.compile(shape.line).groupindex for shape in SHAPES)


ESCAPES = (
    "\x1b[0m",
    "\x1b[1;31m",
    "\x1b[38;2;1;2;3m",
    "\x1b(B",
    "\x1b[2K",
    "\x1b]0;title\x07",
    "\x1b]8;;http://x\x1b\\",
)


@pytest.mark.parametrize("escape", ESCAPES)
def test_an_escape_sequence_leaves_no_trace(escape: str) -> None:
    assert plain(f"a{escape}b") == "ab"


def test_an_unfinished_title_ends_with_its_line() -> None:
    assert plain("a\x1b]0;title\nFAILED") == "a\nFAILED"


def test_every_line_end_is_the_same_one() -> None:
    assert plain("a\r\nb\rc\n") == "a\nb\nc\n"


def test_escape_sequences_take_no_room() -> None:
    text = "\x1b[31mx\x1b[0m" * 20_000
    assert len(text) > TEXT_BYTES
    assert plain(text) == "x" * 20_000


def test_of_a_long_text_the_beginning_and_the_end_are_kept() -> None:
    text = "first\n" + "middle 行\n" * 20_000 + "last"
    kept = plain(text)
    assert kept.startswith("first\nmiddle 行\n")
    assert kept.endswith("middle 行\nlast")
    assert set(kept.split("\n")) == {"first", "middle 行", "last"}
    assert len(kept.encode()) <= TEXT_BYTES


def test_an_unpaired_surrogate_does_not_raise() -> None:
    assert plain("a\ud800b") == "a\ud800b"
    assert plain("\ud800\n" * TEXT_BYTES).startswith("?\n")


@given(st.lists(st.sampled_from([*ESCAPES, "a", "\n", "é", "\x1b", "\x9b", "["]), max_size=40).map("".join))
def test_nothing_of_a_whole_sequence_is_left(text: str) -> None:
    kept = plain(text)
    assert not any(escape in kept for escape in ESCAPES)
    assert kept.count("é") <= text.count("é")
