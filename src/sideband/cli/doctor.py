"""`sideband doctor`: check the installation or a store."""

import platform
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata, util
from types import MappingProxyType
from typing import Any, Final

from sideband.cli.target import Flag, JsonOption, StoreOption, ToOption, address
from sideband.inspect.report import CheckResult, printable, printable_json

# The modules of each extra; the extra is installed if all of them can be imported.
EXTRAS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "a2a": ("a2a",),
        "mcp": ("mcp",),
        "serve": ("starlette", "uvicorn", "sse_starlette", "websockets"),
        "models": ("anthropic", "openai", "google.genai"),
        "postgres": ("psycopg",),
        "watch": ("watchfiles", "pathspec"),
    }
)
# Headings that say more than the name of the group.
HEADINGS: Final[Mapping[str, str]] = MappingProxyType(
    {"limits": "limits (defaults; change them with open_store(..., limits=Limits(...)))"}
)
LIBRARIES: Final = ("msgspec", "cyclopts", "rich", "apsw")
# In earlier versions two connections that reset the write-ahead log at the same time can corrupt the file.
SAFE_SQLITE: Final = (3, 51, 3)
SUPPORTED_PYTHON: Final = (3, 11)


def doctor(
    *,
    verify: Flag = False,
    store: StoreOption = None,
    to: ToOption = None,
    json: JsonOption = False,
) -> int:
    """Check this installation: versions, the SQLite in use, installed extras, and the default limits.

    Exits with 1 if there is a problem. A missing extra is not a problem; it is listed with the command that installs
    it. With `--verify` a store is checked instead: every row of the journal, gaps in its sequence, leases, and every
    session, which is rebuilt from its first event and compared with its stored state. Nothing is changed.

    Parameters
    ----------
    verify
        Check a store, with all its sessions or only the one that `--to` names.
    """
    from sideband.cli.app import REFUSALS, refuse  # noqa: PLC0415 - commands import what they need

    if not verify and (store is not None or to is not None):
        return refuse("--store and --to need --verify, which checks a store")
    try:
        results = _store(to, store) if verify else _installation()
    except REFUSALS as error:
        return refuse(error)
    if json:
        _print_json(results)
    else:
        _print_table(results)
    return 1 if any(result.problem for result in results) else 0


def _installation() -> list[CheckResult]:
    return [*_versions(), *_sqlite(), *_extras(), *_limits()]


def _store(to: str | None, store: str | None) -> list[CheckResult]:
    from sideband.inspect.verify import verified  # noqa: PLC0415 - commands import what they need

    return verified(*address(to, store))


def _versions() -> Iterator[CheckResult]:
    from sideband import __version__  # noqa: PLC0415 - commands import what they need

    yield CheckResult("versions", "sideband", __version__)
    old = None if sys.version_info >= SUPPORTED_PYTHON else "sideband needs Python 3.11 or newer"
    yield CheckResult("versions", "python", platform.python_version(), old)
    for library in LIBRARIES:
        try:
            yield CheckResult("versions", library, metadata.version(library))
        except metadata.PackageNotFoundError:
            yield CheckResult("versions", library, "not installed", "sideband needs this library; reinstall sideband")


def _sqlite() -> Iterator[CheckResult]:
    if util.find_spec("apsw") is None:
        return
    import apsw  # noqa: PLC0415 - the SQLite library that opens stores

    version = apsw.sqlite_lib_version()
    yield CheckResult("sqlite", "SQLite (through apsw)", version, _wal_problem(version))
    yield CheckResult(
        "sqlite", "write-ahead log", "safe for concurrent resets" if not _wal_problem(version) else "unsafe"
    )


def _wal_problem(version: str) -> str | None:
    if tuple(int(part) for part in version.split(".")) >= SAFE_SQLITE:
        return None
    return "this SQLite can corrupt a database in WAL mode; upgrade apsw to 3.51.3 or newer"


def _extras() -> Iterator[CheckResult]:
    for extra, modules in EXTRAS.items():
        missing = [module for module in modules if not _importable(module)]
        state = "installed" if not missing else f"missing; pip install 'sideband[{extra}]'"
        yield CheckResult("extras", extra, state)


def _importable(module: str) -> bool:
    try:
        return util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _limits() -> Iterator[CheckResult]:
    from sideband.core.limits import DEFAULT_LIMITS, Rate  # noqa: PLC0415 - commands import what they need

    for name in DEFAULT_LIMITS.__struct_fields__:
        value = getattr(DEFAULT_LIMITS, name)
        if not isinstance(value, Mapping):
            yield CheckResult("limits", name, value)
            continue
        for trust, limit in value.items():
            plain = {"per_second": limit.per_second, "burst": limit.burst} if isinstance(limit, Rate) else limit
            yield CheckResult("limits", f"{name}[{trust.name.lower()}]", plain)


def _print_json(results: list[CheckResult]) -> None:

    report: dict[str, dict[str, Any]] = {}
    for result in results:
        report.setdefault(result.group, {})[result.name] = result.value
    problems = [{"name": result.name, "problem": result.problem} for result in results if result.problem]
    print(printable_json({**report, "problems": problems}, indent=2))


def _shown(value: str | int | dict[str, float]) -> str:
    match value:
        case str():
            return value
        case int():
            return f"{value:,}"
        case dict():
            return f"{value['per_second']:g} per second, bursts of {value['burst']}"


def _print_table(results: list[CheckResult]) -> None:
    width = max(len(result.name) for result in results)
    group = None
    for result in results:
        if result.group != group:
            heading = HEADINGS.get(result.group, result.group)
            print(heading if group is None else f"\n{heading}")
            group = result.group
        print(printable(f"  {result.name:<{width}}  {_shown(result.value)}"))
    problems = [result for result in results if result.problem]
    print()
    for result in problems:
        print(printable(f"! {result.name}: {result.problem}"))
    print("No problems found." if not problems else f"{len(problems)} problem{'s' if len(problems) > 1 else ''} found.")
