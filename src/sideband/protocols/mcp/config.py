"""The servers that a host connects to, in the `mcpServers` format that other MCP hosts use too.

```json
{"mcpServers": {
  "tests": {"command": "sideband", "args": ["mcp", "watch-tests", "--", "pytest", "-q"],
            "reminders": {"grant": {"ttl_turns": 5}}},
  "docs": {"url": "https://example.org/mcp", "headers": {"Authorization": "Bearer ${DOCS_TOKEN}"}}
}}
```

`${NAME}` and `${NAME:-default}` stand for variables of the environment. Keys that only other hosts know are ignored.
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec

from sideband.core.errors import InvalidOption, InvalidReminder, shown, suggestion
from sideband.core.parse import read_object
from sideband.core.trust import Grant, GrantField, Trust, TrustPolicy

SERVERS: Final = "mcpServers"
MAX_FILE_BYTES: Final = 1024 * 1024

_LONGEST_NAME: Final = 64
_NAME: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{_LONGEST_NAME}}}")
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e]*")
_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]")
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
# The words of `type` in the files of other hosts. The HTTP transport with two endpoints is not supported.
_STDIO_TYPES: Final = frozenset({"stdio", "local"})
_HTTP_TYPES: Final = frozenset({"http", "streamable-http", "streamableHttp", "remote"})
_OLD_TYPES: Final = frozenset({"sse", "ws"})


class RemindersConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How far the reminders of one server are trusted.

    With `enabled=False` they are dropped. `grants` raise single ceilings; `trust` as `seed` lifts all of them.
    """

    enabled: bool = True
    trust: TrustPolicy = TrustPolicy.CEILINGS
    grants: tuple[Grant, ...] = ()


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One server: a command that is started, or the address of an HTTP server.

    `cwd=None` is the working directory of this process. `seconds` is the time limit of a tool call (None: that of the
    run). `idempotent` names the tools that may be called again if it is not known whether they ran.
    """

    name: str
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    cwd: Path | None = None
    url: str | None = None
    headers: Mapping[str, str] = {}
    seconds: float | None = None
    idempotent: frozenset[str] = frozenset()
    reminders: RemindersConfig = RemindersConfig()

    @property
    def is_local(self) -> bool:
        return self.url is None

    def __repr__(self) -> str:
        """Without `env` and `headers`, which may hold secrets."""
        return f"ServerConfig(name={self.name!r}, {f'url={self.url!r}' if self.url else f'command={self.command!r}'})"


def read_config_file(path: str | Path) -> tuple[ServerConfig, ...]:
    """The servers of a file; relative folders in it are relative to the file. `InvalidOption` names what is wrong."""
    file = Path(path)
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise InvalidOption(f"{file} has more than {MAX_FILE_BYTES:,} bytes", field=str(file))
        text = file.read_bytes()
    except OSError as error:
        raise InvalidOption(f"{file} cannot be read: {error.strerror or error}", field=str(file)) from None
    try:
        config = read_object(text, max_bytes=MAX_FILE_BYTES)
    except InvalidReminder as error:
        what = str(error).removeprefix(f"{error.code}: ")
        raise InvalidOption(f"{file} is not a JSON object: {what}", field=str(file)) from None
    return read_config(config, folder=file.parent)


def read_config(config: Mapping[str, Any], *, folder: Path | None = None) -> tuple[ServerConfig, ...]:
    """The servers of a configuration; those that are `disabled` are left out.

    `config` has the servers by name under `mcpServers`. Relative folders in it are relative to `folder`.
    """
    servers = config.get(SERVERS)
    if not isinstance(servers, Mapping):
        raise InvalidOption(
            f'the configuration must have the servers by name: {{"{SERVERS}": {{"NAME": {{"command": "..."}}}}}}',
            field=SERVERS,
            value=servers,
        )
    return tuple(
        read_server(name, entry, folder=folder)
        for name, entry in servers.items()
        if not (isinstance(entry, Mapping) and entry.get("disabled") is True)
    )


def read_given(servers: object) -> tuple[ServerConfig, ...]:
    """The servers that a client gives with a session, as ACP writes them: a list of objects with a `name`.

    The names are made for people, so characters that a name of ours cannot have are replaced. Variables are not.
    """
    if not isinstance(servers, Sequence) or isinstance(servers, str):
        raise InvalidOption(f"{SERVERS} must be a list, not {shown(servers)}", field=SERVERS, value=servers)
    read = []
    for index, entry in enumerate(servers):
        name = entry.get("name") if isinstance(entry, Mapping) else None
        if not isinstance(name, str) or not name:
            raise InvalidOption(
                f"{SERVERS}[{index}] must be an object with a name, not {shown(entry)}",
                field=f"{SERVERS}[{index}]",
                value=entry,
            )
        read.append(read_server(_OTHER.sub("_", name)[:_LONGEST_NAME], entry, expands=False))
    return servers_of(read)


def read_server(name: str, entry: object, *, folder: Path | None = None, expands: bool = True) -> ServerConfig:
    """One server of a configuration; with `expands`, variables in it are replaced."""
    place = f"{SERVERS}.{name}"
    if _NAME.fullmatch(str(name)) is None:
        raise InvalidOption(
            f"the name of a server must have 1 to 64 letters, digits, _ or - of ASCII, not {shown(name)}",
            field=SERVERS,
            value=name,
        )
    if not isinstance(entry, Mapping):
        raise InvalidOption(f"{place} must be an object, not {shown(entry)}", field=place, value=entry)
    read = _Reader(entry, place, expands=expands)
    url, command = _endpoint(read)
    headers = read.texts("headers")
    for header, value in headers.items():
        if _HEADER.fullmatch(f"{header}:{value}") is None:
            raise InvalidOption(
                f"{place}.headers: {shown(header)} and its value must be printable ASCII on one line",
                field=f"{place}.headers",
            )
    cwd = read.text("cwd")
    where = None if cwd is None else Path(cwd).expanduser()
    if where is not None and folder is not None:
        where = folder / where
    return ServerConfig(
        name=name,
        command=command,
        env=read.texts("env"),
        cwd=where,
        url=url,
        headers=headers,
        seconds=_seconds(read),
        idempotent=frozenset(read.strings("idempotent")),
        reminders=_reminders(name, entry.get("reminders"), f"{place}.reminders"),
    )


def _endpoint(read: "_Reader") -> tuple[str | None, tuple[str, ...]]:
    """The address or the command, of which there must be one."""
    kind = read.text("type") or read.text("transport")
    if kind in _OLD_TYPES:
        raise InvalidOption(
            f"{read.place}: the transport {kind!r} is not supported; use a server with a command or with Streamable HTTP",
            field=f"{read.place}.type",
            value=kind,
        )
    if kind is not None and kind not in _STDIO_TYPES | _HTTP_TYPES:
        raise InvalidOption(
            f"{read.place}.type must be 'stdio' or 'http', not {shown(kind)}", field=f"{read.place}.type", value=kind
        )
    url = next(filter(None, map(read.text, ("url", "httpUrl", "serverUrl"))), None)
    command = read.text("command")
    if (url is None) == (command is None) or (command is None and kind in _STDIO_TYPES):
        raise InvalidOption(
            f"{read.place} must have either 'command' (a program, with 'args') or 'url' (an HTTP server)",
            field=read.place,
        )
    if url is not None and not re.match(r"https?://[^/]", url):
        raise InvalidOption(
            f"{read.place}.url must begin with http:// or https://, not {shown(url)}",
            field=f"{read.place}.url",
            value=url,
        )
    return url, () if command is None else (command, *read.strings("args"))


def _seconds(read: "_Reader") -> float | None:
    # Other hosts write milliseconds under `timeout`.
    value = read.entry.get("timeout")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise InvalidOption(
            f"{read.place}.timeout must be a number of milliseconds above 0, not {shown(value)}",
            field=f"{read.place}.timeout",
            value=value,
        )
    return value / 1000


class _Reader:
    """Reads the members of one server, and names them in errors."""

    def __init__(self, entry: Mapping[str, Any], place: str, *, expands: bool) -> None:
        self.entry = entry
        self.place = place
        self._expands = expands

    def text(self, name: str) -> str | None:
        value = self.entry.get(name)
        if value is None or value == "":
            return None
        return self._expanded(value, f"{self.place}.{name}")

    def strings(self, name: str) -> tuple[str, ...]:
        value = self.entry.get(name)
        place = f"{self.place}.{name}"
        if value is None:
            return ()
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise InvalidOption(f"{place} must be a list of strings, not {shown(value)}", field=place, value=value)
        return tuple(self._expanded(one, f"{place}[{index}]") for index, one in enumerate(value))

    def texts(self, name: str) -> Mapping[str, str]:
        """An object of strings; ACP writes it as a list of objects with `name` and `value`."""
        value = self.entry.get(name)
        place = f"{self.place}.{name}"
        if value is None:
            return {}
        if isinstance(value, list) and all(isinstance(one, Mapping) for one in value):
            value = {one.get("name"): one.get("value") for one in value}
        # The values may be secrets, so errors do not repeat them.
        if not isinstance(value, Mapping) or not all(isinstance(key, str) and key for key in value):
            raise InvalidOption(f"{place} must be an object of strings", field=place)
        if wrong := [key for key, one in value.items() if not isinstance(one, str)]:
            raise InvalidOption(f"{place}.{wrong[0]} must be a string", field=f"{place}.{wrong[0]}")
        return {key: self._expanded(one, f"{place}.{key}") for key, one in value.items()}

    def _expanded(self, value: object, place: str) -> str:
        if not isinstance(value, str):
            raise InvalidOption(f"{place} must be a string, not {shown(value)}", field=place, value=value)

        def replaced(found: re.Match[str]) -> str:
            name, default = found.groups()
            known = os.environ.get(name) or default
            if known is None:
                raise InvalidOption(
                    f"{place} uses the variable {name}, which is not set; set it, or write ${{{name}:-default}}",
                    field=place,
                )
            return known

        return _VARIABLE.sub(replaced, value) if self._expands else value


# Reminders.

_KEYS: Final = ("enabled", "trust", "grant")


def _reminders(server: str, given: object, place: str) -> RemindersConfig:
    if given is None:
        return RemindersConfig()
    if isinstance(given, bool):
        return RemindersConfig(enabled=given)
    if not isinstance(given, Mapping):
        raise InvalidOption(f"{place} must be true, false or an object, not {shown(given)}", field=place, value=given)
    for key in given:
        if key not in _KEYS:
            raise InvalidOption(
                f"{place} has no key {shown(key)}; {suggestion(str(key), _KEYS, kind='keys')}",
                field=f"{place}.{key}",
                value=key,
            )
    enabled = given.get("enabled", True)
    if not isinstance(enabled, bool):
        raise InvalidOption(
            f"{place}.enabled must be true or false, not {shown(enabled)}", field=f"{place}.enabled", value=enabled
        )
    trust = given.get("trust", TrustPolicy.CEILINGS)
    if trust not in tuple(TrustPolicy):
        raise InvalidOption(
            f"{place}.trust must be 'ceilings' or 'seed', not {shown(trust)}", field=f"{place}.trust", value=trust
        )
    granted = given.get("grant", {})
    if not isinstance(granted, Mapping):
        fields = ", ".join(field.value for field in GrantField)
        raise InvalidOption(
            f"{place}.grant must be an object with {fields}, not {shown(granted)}", field=f"{place}.grant"
        )
    grants = tuple(
        Grant(trust=Trust.SERVER, principal=server, field=_GRANTED.get(field, field), value=value)
        for field, value in granted.items()
    )
    return RemindersConfig(enabled=enabled, trust=TrustPolicy(trust), grants=grants)


# Both spellings, because the fields of a reminder are in camelCase on MCP.
_GRANTED: Final[Mapping[str, Any]] = MappingProxyType(
    {"roleHint": "role_hint", "preserveOnCompact": "preserve_on_compact", "ttlTurns": "ttl_turns"}
)

ConfigSource = Mapping[str, Any] | str | Path | Sequence[ServerConfig]


def servers_of(source: ConfigSource) -> tuple[ServerConfig, ...]:
    """The servers of a file, of its content, or of a list; two servers must not have the same name."""
    servers: tuple[ServerConfig, ...]
    match source:
        case str() | Path():
            servers = read_config_file(source)
        case Mapping():
            servers = read_config(source)
        case _:
            servers = tuple(source)
    names = [server.name for server in servers]
    for name in names:
        if names.count(name) > 1:
            raise InvalidOption(f"two servers have the name {shown(name)}", field=SERVERS, value=name)
    return servers
