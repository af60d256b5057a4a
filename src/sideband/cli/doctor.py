"""`sideband doctor`."""

import platform
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata, util
from types import MappingProxyType
from typing import Any, Final, NamedTuple

# What each extra brings, by the module that proves it is there.
EXTRAS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "acp": ("acp",),
        "a2a": ("a2a",),
        "mcp": ("mcp",),
        "serve": ("starlette", "uvicorn", "sse_starlette"),
        "models": ("anthropic", "openai", "google.genai"),
        "postgres": ("psycopg",),
        "watch": ("watchfiles",),
    }
)
# Where the name of a group alone could be misread.
HEADINGS: Final[Mapping[str, str]] = MappingProxyType(
    {"limits": "limits (the defaults; open_store takes others as limits=Limits(...))"}
)
LIBRARIES: Final = ("msgspec", "cyclopts", "rich", "apsw")
# Before this version two connections that reset the write-ahead log at once could corrupt the file.
SAFE_SQLITE: Final = (3, 51, 3)
SUPPORTED_PYTHON: Final = (3, 11)


class Finding(NamedTuple):
    """One line of the report; `problem` says what to do (None: all is well)."""

    group: str
    name: str
    value: str | int | dict[str, float]
    problem: str | None = None


def doctor(*, verify: str | None = None, session: str | None = None, json: bool = False) -> int:
    """Check this installation: versions, the SQLite in use, which extras are there, and the default limits.

    Exits with 1 when something needs attention. A missing extra does not: it is named with the command that
    installs it. With `--verify` a store is checked instead: every session is rebuilt from its first event and compared
    with what a process would go on with, and every row, every gap and every lease is looked at. Nothing is changed.

    Parameters
    ----------
    verify
        Check the store of this address: `sqlite:///sideband.db` or `postgresql://host/name`.
    session
        Rebuild only this session of it.
    json
        Print one JSON object instead of a table.
    """
    from sideband.cli.refusing import REFUSALS, refuse  # noqa: PLC0415 - commands import what they need

    try:
        findings = _installation(session) if verify is None else _store(verify, session)
    except REFUSALS as error:
        return refuse(error)
    if json:
        _print_json(findings)
    else:
        _print_table(findings)
    return 1 if any(finding.problem for finding in findings) else 0


def _installation(session: str | None) -> list[Finding]:
    from sideband.core.errors import InvalidOption  # noqa: PLC0415 - commands import what they need

    if session is not None:
        raise InvalidOption("--session is one of a store; name the store with --verify", field="session", value=session)
    return [*_versions(), *_sqlite(), *_extras(), *_limits()]


def _store(store_url: str, session: str | None) -> list[Finding]:
    from sideband.cli.verifying import verified  # noqa: PLC0415 - commands import what they need

    return verified(store_url, session)


def _versions() -> Iterator[Finding]:
    from sideband import __version__  # noqa: PLC0415 - commands import what they need

    yield Finding("versions", "sideband", __version__)
    old = None if sys.version_info >= SUPPORTED_PYTHON else "sideband needs Python 3.11 or newer"
    yield Finding("versions", "python", platform.python_version(), old)
    for library in LIBRARIES:
        try:
            yield Finding("versions", library, metadata.version(library))
        except metadata.PackageNotFoundError:
            yield Finding("versions", library, "not installed", "reinstall sideband: it needs this library")


def _sqlite() -> Iterator[Finding]:
    if util.find_spec("apsw") is None:
        return
    import apsw  # noqa: PLC0415 - the one SQLite that may open a store

    version = apsw.sqlite_lib_version()
    yield Finding("sqlite", "SQLite (through apsw)", version, _wal_problem(version))
    yield Finding("sqlite", "write-ahead log", "safe for concurrent resets" if not _wal_problem(version) else "unsafe")


def _wal_problem(version: str) -> str | None:
    if tuple(int(part) for part in version.split(".")) >= SAFE_SQLITE:
        return None
    return "this SQLite can corrupt a database in WAL mode; upgrade apsw to 3.51.3 or newer"


def _extras() -> Iterator[Finding]:
    for extra, modules in EXTRAS.items():
        missing = [module for module in modules if not _importable(module)]
        state = "installed" if not missing else f"missing; pip install 'sideband[{extra}]'"
        yield Finding("extras", extra, state)


def _importable(module: str) -> bool:
    try:
        return util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _limits() -> Iterator[Finding]:
    from sideband.core.limits import DEFAULT_LIMITS, Rate  # noqa: PLC0415 - commands import what they need

    for name in DEFAULT_LIMITS.__struct_fields__:
        value = getattr(DEFAULT_LIMITS, name)
        if not isinstance(value, Mapping):
            yield Finding("limits", name, value)
            continue
        for trust, limit in value.items():
            plain = {"per_second": limit.per_second, "burst": limit.burst} if isinstance(limit, Rate) else limit
            yield Finding("limits", f"{name}[{trust.name.lower()}]", plain)


def _print_json(findings: list[Finding]) -> None:
    import msgspec  # noqa: PLC0415 - commands import what they need

    report: dict[str, dict[str, Any]] = {}
    for finding in findings:
        report.setdefault(finding.group, {})[finding.name] = finding.value
    problems = [{"name": finding.name, "problem": finding.problem} for finding in findings if finding.problem]
    print(msgspec.json.format(msgspec.json.encode({**report, "problems": problems}), indent=2).decode())


def _shown(value: str | int | dict[str, float]) -> str:
    match value:
        case str():
            return value
        case int():
            return f"{value:,}"
        case dict():
            return f"{value['per_second']:g} per second, bursts of {value['burst']}"


def _print_table(findings: list[Finding]) -> None:
    from sideband.lint.report import printable  # noqa: PLC0415 - commands import what they need

    width = max(len(finding.name) for finding in findings)
    group = None
    for finding in findings:
        if finding.group != group:
            heading = HEADINGS.get(finding.group, finding.group)
            print(heading if group is None else f"\n{heading}")
            group = finding.group
        print(printable(f"  {finding.name:<{width}}  {_shown(finding.value)}"))
    problems = [finding for finding in findings if finding.problem]
    print()
    for finding in problems:
        print(printable(f"! {finding.name}: {finding.problem}"))
    print("Everything is in order." if not problems else f"{len(problems)} to attend to.")
