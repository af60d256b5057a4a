"""The diagnostics: what each code means, and that there is one table of them."""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import PurePath
from pkgutil import walk_packages
from typing import Any, Final

import msgspec
import pytest

import sideband
from sideband.cli.explain import explain
from sideband.core.accept import Selector
from sideband.core.diagnostics import AT_RUN_TIME, DIAGNOSTICS, diagnostic
from sideband.core.effects import read_effects
from sideband.core.error_codes import FACTS, RAISED
from sideband.core.errors import ReminderError, StoreError
from sideband.core.explanation import Diagnostic, Severity
from sideband.core.hookevents import CANONICAL_PROVIDERS, read_hook_event, refuse_too_many_providers
from sideband.core.parse import parse, parse_json
from sideband.core.surfaces import RULES, Surface
from sideband.lint.check import check_source
from sideband.protocols.a2a.client import PeerFailed
from sideband.protocols.acp.client import AgentFailed
from sideband.recall.facts import FactCode, FactError
from tests.programs import ROOT, run_sideband

FAMILY: Final = tuple(f"HARN-RMD-00{number}" for number in range(1, 9))
ONLY_RUNNING: Final = (*AT_RUN_TIME, *FACTS, *RAISED)
WARNINGS: Final = ("HARN-RMD-003", "HARN-RMD-004")
BRIDGES: Final = (
    Surface.ACP,
    Surface.ACP_LEGACY,
    Surface.A2A,
    Surface.A2A_METADATA,
    Surface.HTTP,
    Surface.MCP,
)


def a_payload(surface: Surface, **fields: object) -> dict[str, object]:
    """A reminder with only what this surface demands, and `fields`."""
    demanded = {"id": "r-1", "body": "x"} if RULES[surface].wants_id else {"body": "x"}
    return {**demanded, **fields}


def code_of(act: Callable[[], object]) -> str | None:
    """The code with which something is refused."""
    with pytest.raises(ReminderError) as refused:
        act()
    assert str(refused.value).startswith(f"{refused.value.code}: ")
    return refused.value.code


# What each code means.


@pytest.mark.parametrize(
    ("code", "act"),
    [
        pytest.param(
            "HARN-RMD-001",
            lambda: parse({"body": "x", "mood": "good"}, Surface.PIPELINE),
            id="an-option-that-does-not-exist",
            marks=pytest.mark.requirement("diagnostics:code:001"),
        ),
        pytest.param(
            "HARN-RMD-001",
            lambda: parse({"body": "x", "ttl_turns": "2"}, Surface.SESSION),
            id="an-option-of-the-wrong-type",
            marks=pytest.mark.requirement("diagnostics:code:001"),
        ),
        pytest.param(
            "HARN-RMD-001",
            lambda: read_effects({"reminder": {"body": " "}}, Surface.HOOK),
            id="a-blank-body-from-a-hook",
            marks=pytest.mark.requirement("diagnostics:code:001"),
        ),
        pytest.param(
            "HARN-RMD-001",
            Selector,
            id="a-clear-without-a-selector",
            marks=pytest.mark.requirement("diagnostics:code:001"),
        ),
        pytest.param(
            "HARN-RMD-001",
            lambda: read_hook_event("session_started"),
            id="an-event-that-does-not-exist",
            marks=pytest.mark.requirement("diagnostics:code:001"),
        ),
        pytest.param(
            "HARN-RMD-002",
            lambda: parse({"content": "x"}, Surface.ACP),
            id="content-instead-of-a-body",
            marks=pytest.mark.requirement("diagnostics:code:002"),
        ),
        pytest.param(
            "HARN-RMD-002",
            lambda: parse_json('{"body": "x", "body": "y"}', Surface.A2A),
            id="a-key-that-comes-twice",
            marks=pytest.mark.requirement("diagnostics:code:002"),
        ),
        pytest.param(
            "HARN-RMD-002",
            lambda: parse({"body": "x"}, Surface.MCP),
            id="no-id-from-a-server",
            marks=pytest.mark.requirement("diagnostics:code:002"),
        ),
        pytest.param(
            "HARN-RMD-006",
            lambda: read_effects({"body": "x", "ttl_turns": 0}, Surface.PROVIDER),
            id="a-ttl-of-nothing-from-a-provider",
            marks=pytest.mark.requirement("diagnostics:code:006"),
        ),
        pytest.param(
            "HARN-RMD-006",
            lambda: read_effects([None], Surface.PROVIDER),
            id="an-entry-that-is-no-reminder-from-a-provider",
            marks=pytest.mark.requirement("diagnostics:code:006"),
        ),
        pytest.param(
            "HARN-RMD-007",
            lambda: refuse_too_many_providers([*CANONICAL_PROVIDERS, *"abcdefghi"]),
            id="nine-providers-beside-the-canonical-ones",
            marks=pytest.mark.requirement("diagnostics:code:007"),
        ),
        pytest.param(
            "HARN-RMD-008",
            lambda: read_effects({"reminder": {"body": "x"}}, Surface.HOOK, event="worker_completed"),
            id="a-reminder-for-the-end-of-a-worker",
            marks=pytest.mark.requirement("diagnostics:code:008"),
        ),
    ],
)
def test_a_mistake_is_refused_with_its_code(code: str, act: Callable[[], object]) -> None:
    assert code_of(act) == code
    assert DIAGNOSTICS[code].severity is Severity.ERROR


@pytest.mark.parametrize(
    ("code", "surfaces", "field"),
    [
        pytest.param(
            "HARN-RMD-001",
            (Surface.PIPELINE, Surface.SESSION, Surface.HOOK),
            {"tags": "ci"},
            id="a-wrong-value-in-process",
            marks=pytest.mark.requirement("diagnostics:code:001"),
        ),
        pytest.param(
            "HARN-RMD-001",
            tuple(surface for surface in Surface if surface is not Surface.MCP),
            {"mood": "good"},
            id="an-unknown-option-anywhere",
            marks=pytest.mark.requirement("diagnostics:code:001"),
        ),
        pytest.param(
            "HARN-RMD-002",
            BRIDGES,
            {"tags": "ci"},
            id="a-wrong-value-over-a-bridge",
            marks=pytest.mark.requirement("diagnostics:code:002"),
        ),
        pytest.param(
            "HARN-RMD-005",
            tuple(Surface),
            {"propagate": "far"},
            id="an-unknown-propagate-anywhere",
            marks=pytest.mark.requirement("diagnostics:code:005"),
        ),
        pytest.param(
            "HARN-RMD-006",
            (Surface.PROVIDER,),
            {"tags": "ci"},
            id="a-wrong-value-from-a-provider",
            marks=pytest.mark.requirement("diagnostics:code:006"),
        ),
    ],
)
def test_the_same_mistake_has_the_same_code_on_every_such_surface(
    code: str, surfaces: tuple[Surface, ...], field: dict[str, Any]
) -> None:
    refused = {surface: code_of(partial(parse, a_payload(surface, **field), surface)) for surface in surfaces}
    assert refused == dict.fromkeys(surfaces, code)


@pytest.mark.parametrize(
    ("code", "spec", "model"),
    [
        pytest.param(
            "HARN-RMD-003",
            {"body": "x", "ttl_turns": 1, "role_hint": "user_block"},
            "openai:gpt-5.6",
            marks=pytest.mark.requirement("diagnostics:code:003"),
        ),
        pytest.param("HARN-RMD-004", {"body": "x"}, None, marks=pytest.mark.requirement("diagnostics:code:004")),
    ],
)
def test_a_doubtful_reminder_is_accepted_and_warned_of(code: str, spec: dict[str, Any], model: str | None) -> None:
    assert parse(spec, Surface.SESSION).body == "x"
    document = msgspec.json.encode({"reminder": spec})
    assert [finding.code for finding in check_source(document, PurePath("spec.json"), model=model)] == [code]
    assert DIAGNOSTICS[code].severity is Severity.WARNING


# The table.


@pytest.mark.requirement("diagnostics:table:title-cause-remedy-example")
@pytest.mark.parametrize("entry", DIAGNOSTICS.values(), ids=lambda entry: entry.code)
def test_an_entry_says_what_it_is_why_it_is_one_and_how_to_mend_it(entry: Diagnostic) -> None:
    assert all(text.strip() for text in (entry.title, entry.cause, entry.remedy))
    name = PurePath("example").with_suffix({"python": ".py", "json": ".json", "toml": ".toml"}[entry.example.language])
    wrong, right = (check_source(text.encode(), name) for text in (entry.example.wrong, entry.example.right))
    # What only a running program can tell is no mistake in a file.
    assert {finding.code for finding in wrong} == (set() if entry in ONLY_RUNNING else {entry.code})
    assert right == ()


@pytest.mark.requirement("diagnostics:table:title-cause-remedy-example")
def test_the_family_has_its_eight_codes() -> None:
    assert tuple(code for code in DIAGNOSTICS if code.startswith("HARN-RMD-")) == FAMILY


@pytest.mark.requirement("diagnostics:table:own-codes")
def test_every_code_outside_the_families_is_our_own() -> None:
    others = [code for code in DIAGNOSTICS if code not in FAMILY and not code.startswith("HARN-FACT-")]
    assert others == [code for code in others if code.startswith("SIDEBAND-")]
    assert others


def error_classes() -> list[type[Exception]]:
    """Every exception class of the package."""
    for module in walk_packages(sideband.__path__, "sideband."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    found: list[type[Exception]] = []
    pending: list[type[Exception]] = [Exception]
    while pending:
        kinds = pending.pop().__subclasses__()
        pending += kinds
        found += [kind for kind in kinds if kind.__module__.startswith("sideband.") and kind not in found]
    return found


# Carries the code that another program has sent.
FOREIGN: Final = {"RpcError"}

# These never reach a caller of the package: they end a call inside it, or become another error, a reported problem or
# the output of a command.
INTERNAL: Final = {
    "ApiRefusal",
    "ClientGone",
    "NoModel",
    "ServerLost",
    "CommandError",
    "CommitSeparately",
    "BrokenReport",
    "ChildNotStarted",
    "ConnectionLost",
    "Disconnected",
    "Halted",
    "NotJson",
    "NotReadable",
    "OutOfTime",
    "PeerRefusal",
    "Refused",
    "ScheduleError",
    "SceneError",
    "Stopped",
    "UnexpectedExit",
    "UnknownDiagnostic",
    "UnknownRoute",
    "UnknownSnapshot",
    "UnreadableBlock",
    "UnreadableSession",
    "UnreadableSource",
    "UserCodeFailed",
    "_Again",
    "_RefusedAnswer",
    "_Unserved",
}


@pytest.mark.requirement("diagnostics:table:every-error-has-a-code")
def test_every_error_has_a_code_that_explain_knows() -> None:
    families = {ReminderError, StoreError, FactError, AgentFailed, PeerFailed}
    public = [
        kind
        for kind in error_classes()
        if kind not in families and not {base.__name__ for base in kind.__mro__} & (INTERNAL | FOREIGN)
    ]
    assert len(public) > 30
    for kind in public:
        code = getattr(kind, "code", None)
        assert code in DIAGNOSTICS, kind
        # A store refines an error of the core, and keeps its name.
        named = next(base for base in kind.__mro__ if "code" in vars(base))
        assert diagnostic(named.__name__).code == code
        reason = getattr(kind, "reason", None)
        assert reason is None or diagnostic(reason).code == code


@pytest.mark.requirement("diagnostics:table:every-error-has-a-code")
@pytest.mark.parametrize("code", FactCode)
def test_every_code_of_a_fact_is_explained(code: FactCode) -> None:
    assert diagnostic(code).code == code


@pytest.mark.requirement("diagnostics:table:warnings-are-never-raised")
def test_two_codes_are_warnings_and_no_error_carries_them() -> None:
    assert tuple(code for code, entry in DIAGNOSTICS.items() if entry.severity is Severity.WARNING) == WARNINGS
    raised = {code for kind in error_classes() if (code := getattr(kind, "code", None))}
    assert {code for code in raised if code in FAMILY} == {*FAMILY} - {*WARNINGS}


@pytest.mark.requirement("diagnostics:table:one-for-all-uses")
@pytest.mark.parametrize("entry", DIAGNOSTICS.values(), ids=lambda entry: entry.code)
def test_explain_prints_title_and_remedy_of_the_table(entry: Diagnostic, capsys: pytest.CaptureFixture[str]) -> None:
    explain(entry.code)
    printed = " ".join(capsys.readouterr().out.split())
    assert entry.title in printed
    assert entry.remedy in printed


@pytest.mark.requirement("diagnostics:table:one-for-all-uses")
def test_lint_reports_with_titles_and_remedies_of_the_table() -> None:
    log = msgspec.json.decode(run_sideband("lint", "--format", "sarif", "examples/lint").stdout)
    rules = log["runs"][0]["tool"]["driver"]["rules"]
    assert {rule["id"]: (rule["shortDescription"]["text"], rule["help"]["text"]) for rule in rules} == {
        code: (entry.title, entry.remedy) for code, entry in DIAGNOSTICS.items()
    }


@pytest.mark.requirement("diagnostics:table:one-for-all-uses")
def test_the_documentation_has_titles_and_remedies_of_the_table() -> None:
    page = " ".join((ROOT / "docs" / "diagnostics.md").read_text(encoding="utf-8").split())
    for code, entry in DIAGNOSTICS.items():
        assert f"### {code} **{entry.title}**" in page
        assert f"**Remedy.** {entry.remedy}" in page
