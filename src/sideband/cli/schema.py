"""`sideband schema`: the published description of the wire shapes, shown, written or checked."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

OK: Final = 0
FAILED: Final = 1
MISUSED: Final = 2


def schema(name: str | None = None, /, *, out: Path | None = None, check: bool = False) -> int:
    """Show, write or check the JSON Schemas and TypeScript types of everything that travels over ACP, A2A and MCP.

    Without arguments the artifacts are listed, each with what it describes.

    Args:
        name: The artifact to print, such as `mcp/reminder` or `acp/types.ts`; the name of a protocol lists its own.
        out: A directory to write all of them to. Artifacts that are there and no longer exist are removed; files that
            were not generated are never touched.
        check: Write nothing. Fail if the files in the directory are not what would be written, and name those.

    Returns:
        The exit status: 0, 1 when a check or a write failed, 2 when the arguments make no sense together.
    """
    from sideband.protocols.artifacts import artifacts, summaries  # noqa: PLC0415 - `sideband --help` does without

    if name is not None and (out is not None or check):
        return _fail("give either the name of one artifact or a directory for all of them", MISUSED)
    if out is not None:
        try:
            return _compare(artifacts(), out) if check else _write(artifacts(), out)
        except OSError as error:
            return _fail(f"{error.filename}: {error.strerror}", FAILED)
    if check:
        return _fail("--check needs the directory to look at: --out DIRECTORY --check", MISUSED)
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
    import difflib  # noqa: PLC0415 - only after a mistake

    text = texts.get(name, texts.get(f"{name}.schema.json"))
    if text is None:
        near = difflib.get_close_matches(name, [path.removesuffix(".schema.json") for path in texts])
        hint = f"did you mean {' or '.join(near)}?" if near else "`sideband schema` lists them"
        return _fail(f"there is no artifact {name!r}; {hint}", MISUSED)
    sys.stdout.write(text)
    return OK


def _write(texts: Mapping[str, str], out: Path) -> int:
    stale = list(_stale(texts, out))
    changed = [path for path in texts if not _holds(out / path, texts[path])]
    foreign = [path for path in changed if (out / path).exists() and not _is_ours(out / path)]
    if foreign:
        return _fail(f"not overwritten, because not generated: {_names(out, foreign)}", FAILED)
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
        return _fail(f"not as generated: {len(findings)}; mend with: sideband schema --out {out}", FAILED)
    print(f"{len(texts)} artifacts in {out} are up to date")
    return OK


def _stale(texts: Mapping[str, str], out: Path) -> Iterator[str]:
    """The generated files that are no artifact any more, where artifacts are: in the directory and one below."""
    for pattern in ("*.md", "*/*.ts", "*/*.schema.json"):
        for file in sorted(out.glob(pattern)):
            path = file.relative_to(out).as_posix()
            if path not in texts and _is_ours(file):
                yield path


def _is_ours(file: Path) -> bool:
    from sideband.protocols.artifacts import MARKER  # noqa: PLC0415 - `sideband --help` does without

    return file.is_file() and MARKER.encode() in file.read_bytes()


def _holds(file: Path, text: str) -> bool:
    return file.is_file() and file.read_bytes() == text.encode()


def _names(out: Path, paths: Iterable[str]) -> str:
    return ", ".join(str(out / path) for path in paths)


def _fail(message: str, status: int) -> int:
    print(f"error: {message}", file=sys.stderr)
    return status
