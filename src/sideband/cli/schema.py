"""`sideband schema`: print, write or check the schemas of the protocol messages."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

OK: Final = 0
FAILED: Final = 1
MISUSED: Final = 2


def schema(name: str | None = None, /, *, out: Path | None = None, check: bool = False) -> int:
    """Print, write or check the JSON Schemas and TypeScript types of all messages over ACP, A2A and MCP.

    Without arguments, list the artifacts with a description of each.

    Args:
        name: The artifact to print, such as `mcp/reminder` or `acp/types.ts`; the name of a protocol
            lists its artifacts.
        out: A directory to write all artifacts to. Generated files that are no longer an artifact are removed; other
            files are never changed.
        check: Write nothing. Fail if a file in the directory differs from what would be written, and name it.

    Returns:
        The exit status: 0; 1 if a check or a write failed; 2 if the arguments contradict each other.
    """
    from sideband.protocols.artifacts import artifacts, summaries  # noqa: PLC0415 - commands import what they need

    if name is not None and (out is not None or check):
        return _fail("give either the name of an artifact or --out DIRECTORY, not both", MISUSED)
    if out is not None:
        try:
            return _compare(artifacts(), out) if check else _write(artifacts(), out)
        except OSError as error:
            return _fail(f"{error.filename}: {error.strerror}", FAILED)
    if check:
        return _fail("--check needs a directory: --out DIRECTORY --check", MISUSED)
    about = summaries()
    if name is None:
        _list(about)
        print("\nPrint one with: sideband schema NAME. Write all with: sideband schema --out DIRECTORY.")
        return OK
    own = {path: summary for path, summary in about.items() if path.startswith(f"{name}/")}
    if own:
        _list(own)
        return OK
    return _print(artifacts(), name)


def _list(about: Mapping[str, str]) -> None:
    width = max(map(len, about))
    for path, summary in about.items():
        print(f"{path:<{width}}  {summary.replace('`', '')}")


def _print(texts: Mapping[str, str], name: str) -> int:
    from sideband.core.errors import nearest  # noqa: PLC0415 - needed only after a mistake

    text = texts.get(name, texts.get(f"{name}.schema.json"))
    if text is None:
        near = nearest(name, (path.removesuffix(".schema.json") for path in texts))
        hint = f"did you mean {near!r}?" if near else "`sideband schema` lists them"
        return _fail(f"there is no artifact {name!r}; {hint}", MISUSED)
    sys.stdout.write(text)
    return OK


def _write(texts: Mapping[str, str], out: Path) -> int:
    stale = list(_stale(texts, out))
    changed = [path for path in texts if not _holds(out / path, texts[path])]
    foreign = [path for path in changed if (out / path).exists() and not _is_ours(out / path)]
    if foreign:
        return _fail(f"not overwritten, because these files were not generated: {_names(out, foreign)}", FAILED)
    for path in changed:
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        (out / path).write_text(texts[path], encoding="utf-8", newline="\n")
    for path in stale:
        (out / path).unlink()
    unchanged = len(texts) - len(changed)
    print(f"{len(texts)} artifacts in {out}: {len(changed)} written, {unchanged} unchanged, {len(stale)} removed")
    return OK


def _compare(texts: Mapping[str, str], out: Path) -> int:
    findings = [
        f"{'differs' if (out / path).exists() else 'missing'}: {out / path}"
        for path, text in texts.items()
        if not _holds(out / path, text)
    ]
    findings += [f"stale: {out / path}" for path in _stale(texts, out)]
    for finding in findings:
        print(finding)
    if findings:
        return _fail(f"{len(findings)} files are out of date; update them with: sideband schema --out {out}", FAILED)
    print(f"{len(texts)} artifacts in {out} are up to date")
    return OK


def _stale(texts: Mapping[str, str], out: Path) -> Iterator[str]:
    """The generated files in the directory and one level below that are no longer an artifact."""
    for pattern in ("*.md", "*/*.ts", "*/*.schema.json"):
        for file in sorted(out.glob(pattern)):
            path = file.relative_to(out).as_posix()
            if path not in texts and _is_ours(file):
                yield path


def _is_ours(file: Path) -> bool:
    from sideband.protocols.artifacts import MARKER  # noqa: PLC0415 - commands import what they need

    return file.is_file() and MARKER.encode() in file.read_bytes()


def _holds(file: Path, text: str) -> bool:
    return file.is_file() and file.read_bytes() == text.encode()


def _names(out: Path, paths: Iterable[str]) -> str:
    return ", ".join(str(out / path) for path in paths)


def _fail(message: str, status: int) -> int:
    print(f"error: {message}", file=sys.stderr)
    return status
